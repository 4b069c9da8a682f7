//! Indices whose quotients and remainders follow from the sizes of axes are written without divisions.

use crate::harness::{Case, drawn};
use heddle_runtime::BuildOptions;

/// A program gives what the interpreter gives, and divides no index.
fn check(text: &str) {
    let (module, inputs) = drawn("indices", text, 1, 1);
    let case = Case::new("indices", module, &inputs).unwrap_or_else(|e| panic!("{text}: {e}"));
    let (_, own) = case.own_text().split_once("op0(").expect("an operator");
    let found = ["heddle_div_i64(", "heddle_mod_i64("].map(|call| own.contains(call));
    assert!(!found.contains(&true), "{text}");
    case.check("indices", &BuildOptions::default(), &[1, 2]);
}

/// Places of a map in one axis, and heads of an attention.
#[test]
fn reshapes_that_join_and_part_axes() {
    for (a, b, c) in [(1, 1, 1), (3, 5, 7), (2, 16, 4), (8, 1, 13)] {
        let (ab, bc, all) = (a * b, b * c, a * b * c);
        for (shape, perm, to) in [
            (format!("{a},{b},{c}"), "[0,2,1]", format!("{a},{bc}")),
            (format!("{a},{b},{c}"), "[2,0,1]", format!("{c},{ab}")),
            (format!("{a},{bc}"), "[1,0]", format!("{bc},{a}")),
            (format!("{all},1"), "[1,0]", format!("{ab},{c}")),
        ] {
            let text = format!(
                "fn @main(%x: f32[{shape}], %z: f32[{to}]) -> (%y: f32[{to}]) {{
  return add(reshape(transpose(%x, perm={perm}), [{to}]), %z)
}}"
            );
            let (module, inputs) = drawn("indices", &text, 1, 1);
            let case =
                Case::new("indices", module, &inputs).unwrap_or_else(|e| panic!("{text}: {e}"));
            case.check("indices", &BuildOptions::default(), &[1, 2]);
        }
    }
}

/// A group's scale, as groups of channels are normalised.
#[test]
fn channels_of_groups() {
    for (groups, channels, size) in [(2, 6, 5), (3, 9, 4), (5, 5, 3)] {
        let of_group = channels / groups * size * size;
        let text = format!(
            "fn @main(%x: f32[1,{channels},{size},{size}], %s: f32[1,{groups},1]) -> (%y: f32[1,{size},{size},{channels}]) {{
  %parts = reshape(%x, [1,{groups},{of_group}])
  %scaled = reshape(mul(%parts, %s), [1,{channels},{size},{size}])
  return transpose(%scaled, perm=[0,2,3,1])
}}"
        );
        // Groups and channels of a group are axes of their own.
        check(&text);
    }
}

/// Sizes that only the run knows, and indices that may be negative, stay right.
#[test]
fn what_is_not_known_stays() {
    let open = "fn @main(%x: f32[n,6,4], %z: f32[n,24]) -> (%y: f32[n,24]) {
  return add(reshape(transpose(%x, perm=[0,2,1]), [-1,24]), %z)
}";
    let negative = "fn @main(%x: i64[40]) -> (%y: i64[40], %m: i64[40]) {
  %down = sub(%x, 20)
  return div(%down, 7), sub(%down, mul(div(%down, 7), 7))
}";
    for text in [open, negative] {
        let (module, inputs) = drawn("indices", text, 1, 1);
        let case = Case::new("indices", module, &inputs).unwrap_or_else(|e| panic!("{text}: {e}"));
        case.check("indices", &BuildOptions::default(), &[1, 2]);
    }
}
