//! Copies and other maps that transpose go in squares, at any size and for elements of four and eight bytes; the results of convolutions with their
//! channels outermost are transposed, too.

use crate::harness::{Case, drawn};
use heddle_runtime::BuildOptions;

/// A program gives what the interpreter gives, and has a call that begins so, or has none.
fn check(text: &str, call: &str, turns: bool) {
    let (module, inputs) = drawn("turned", text, 1, 1);
    let case = Case::new("turned", module, &inputs).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(case.own_text().contains(call), turns, "{text}");
    case.check("turned", &BuildOptions::default(), &[1, 2]);
}

#[test]
fn copies_of_any_size() {
    for (a, b) in [(4, 64), (5, 7), (17, 65), (67, 131)] {
        for (dtype, bytes) in [("f32", 4), ("i64", 8)] {
            let two = format!(
                "fn @main(%x: {dtype}[{a},{b}]) -> (%y: {dtype}[{b},{a}]) {{
  return transpose(%x, perm=[1,0])
}}"
            );
            check(&two, &format!("heddle_turned_{bytes}("), true);
        }
        // Heads of an attention; an image with its channels innermost, and back.
        for perm in [[0, 2, 1, 3], [0, 2, 3, 1], [0, 3, 1, 2]] {
            let sizes = [2, a, 3, b];
            let list = |dims: [i64; 4]| dims.map(|d| d.to_string()).join(",");
            let text = format!(
                "fn @main(%x: f32[{}]) -> (%y: f32[{}]) {{
  return transpose(%x, perm=[{}])
}}",
                list(sizes),
                list(perm.map(|k| sizes[k as usize])),
                list(perm)
            );
            // Heads stay rows of neighbours.
            check(&text, "heddle_turned_4(", perm != [0, 2, 1, 3]);
        }
    }
}

/// Values that are computed on the way are put down in a block first, by lines of the sources.
#[test]
fn computed_values_of_any_size() {
    for (a, b) in [(4, 64), (5, 7), (17, 65), (67, 131)] {
        for (dtype, bytes) in [("f32", 4), ("f64", 8)] {
            let text = format!(
                "fn @main(%x: {dtype}[3,{a},{b}], %z: {dtype}[3,{a},{b}], %s: {dtype}[{a},1]) -> (%y: {dtype}[3,{b},{a}]) {{
  return transpose(tanh(add(mul(%x, %s), %z)), perm=[0,2,1])
}}"
            );
            check(&text, &format!("heddle_turned_{bytes}("), true);
        }
    }
}

/// Parts that are computed before the loops of a block do not take a name that its store has.
#[test]
fn values_by_a_condition_of_the_image() {
    let text = "fn @main(%x: f32[3,65,65], %m: bool[3,1,1]) -> (%y: f32[3,65,65]) {
  %z = select(%m, tanh(%x), %x)
  return transpose(%z, perm=[0,2,1])
}";
    check(text, "heddle_turned_4(", true);
}

/// Short rows, elements of other sizes, and values that also need an element next to the result's are written element by element.
#[test]
fn other_maps_are_as_they_were() {
    for (x, value, y) in [
        ("f32[3,70]", "transpose(%x, perm=[1,0])", "f32[70,3]"),
        ("bool[70,70]", "transpose(%x, perm=[1,0])", "bool[70,70]"),
        (
            "f32[70,70]",
            "mul(transpose(%x, perm=[1,0]), %x)",
            "f32[70,70]",
        ),
    ] {
        let text = format!("fn @main(%x: {x}) -> (%y: {y}) {{\n  return {value}\n}}");
        check(&text, "heddle_turned", false);
    }
}

#[test]
fn results_of_convolutions() {
    // Maps that are narrower than a tile, as wide, and wider; one line, and parts of lines; with a sum that the epilogue reads.
    for (size, channels, stride) in [(4, 5, 1), (7, 16, 1), (17, 33, 1), (33, 18, 2), (40, 70, 1)] {
        let out = (size - 1) / stride + 1;
        for value in ["%c", "max(add(%c, %r), 0.0)"] {
            let text = format!(
                "fn @main(%x: f32[2,6,{size},{size}], %r: f32[2,{channels},{out},{out}]) -> (%y: f32[2,{channels},{out},{out}], %s: f32[2,{channels},{out},{out}]) {{
  %w = const splat 0.125: f32[{channels},6,3,3]
  %c = conv(%x, %w, [1, 1, 1, 1], strides=[{stride},{stride}], dilations=[1,1], input_dilations=[1,1], groups=1)
  %y = add({value}, 0.5)
  return %y, %r
}}"
            );
            check(&text, "heddle_turned_4(line,", true);
        }
    }
}

/// Fewer columns than half a panel are rows: a row is then the place of an element of a bias, by itself and behind others.
#[test]
fn rows_that_are_places() {
    for (rows, columns) in [(15, 6), (40, 5), (97, 7)] {
        let text = format!(
            "fn @main(%a: f32[{rows},4], %w: f32[4,{columns}], %b: f32[{columns}], %all: f32[{}]) -> (%y: f32[{rows},{columns}]) {{
  %rest = slice(%all, [{columns}], [{}], [1], axes=[0])
  %y = add(dot(%a, %w), add(%b, %rest))
  return %y
}}",
            2 * columns,
            2 * columns
        );
        check(&text, "heddle_turned_4(rows", true);
    }
}

/// A product of channels by places whose result a convolution reads with its channels innermost.
#[test]
fn results_of_products() {
    let conv = |x: &str, w: &str, pad: u8| {
        format!(
            "conv({x}, {w}, [{pad}, {pad}, {pad}, {pad}], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)"
        )
    };
    for (size, channels) in [(5, 7), (8, 16), (13, 33), (20, 97)] {
        let text = format!(
            "fn @main(%x: f32[2,6,{size},{size}]) -> (%y: f32[2,8,{size},{size}]) {{
  %u = const splat 0.125: f32[{channels},6,1,1]
  %w = const splat 0.125: f32[8,{channels},3,3]
  %a = max({}, 0)
  %y = {}
  return %y
}}",
            conv("%x", "%u", 0),
            conv("%a", "%w", 1)
        );
        check(&text, "heddle_turned_4(rows", true);
    }
}
