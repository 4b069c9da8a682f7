//! The stack of calls on a GPU: its first levels are in shared memory, the deeper ones in global memory, and one lane writes it.

use crate::harness::{Case, drawn, grids};

/// Calls one within another, each of which keeps an array, a number and a truth value.
fn calls(depth: usize) -> String {
    format!(
        "fn @main(%x: f32[5], %w: f32[5,5]) -> (%y: f32[5], %n: i64[]) {{
  %y, %n = call @down(%x, %w, const {depth})
  return %y, %n
}}
fn @down(%x: f32[5], %w: f32[5,5], %d: i64[]) -> (%y: f32[5], %n: i64[]) {{
  %last = le(%d, 0)
  %y, %n = if %last {{
    yield %x, %d
  }} else {{
    %h = mul(squeeze(dot(unsqueeze(%x, axes=[0]), %w), axes=[0]), 0.1)
    %odd = eq(mod(%d, 2), 1)
    %inner, %m = call @down(%h, %w, sub(%d, 1))
    %sum = select(%odd, add(%inner, %h), sub(%inner, %h))
    yield %sum, mod(add(mul(%m, 3), %d), 1000003)
  }}
  return %y, %n
}}
"
    )
}

fn case(depth: usize, blocks: usize) -> Case {
    let (module, inputs) = drawn("calls", &calls(depth), 1, 3);
    let case = Case::simulated("calls", module, &inputs, blocks);
    case.unwrap_or_else(|e| panic!("{depth} deep: {e}"))
}

/// Levels of the stack in shared memory.
fn shared_levels(text: &str) -> usize {
    let declared = text.split_once("HEDDLE_SHARED(union heddle_kept, heddle_stack, ");
    let (_, rest) = declared.unwrap_or_else(|| panic!("no stack in shared memory: {text}"));
    let levels = rest.split_once(')').expect("a count").0;
    levels.parse().expect("a count")
}

/// Below, at and beyond the last level in shared memory.
#[test]
fn calls_of_any_depth() {
    let levels = shared_levels(&case(0, 3).source.text);
    // The runs of these tests may nest 250 calls.
    assert!((8..125).contains(&levels), "{levels}");
    for depth in [
        0,
        1,
        7,
        levels - 2,
        levels - 1,
        levels,
        levels + 1,
        2 * levels,
    ] {
        let name = format!("{depth} deep");
        assert!(case(depth, 3).check_grids(&name, &grids(3, 64)), "{name}");
    }
}

/// Its writer is one lane, and a processor has no lanes.
#[test]
fn one_lane_writes() {
    let text = case(3, 3).source.text;
    let saved = text.split("if (heddle_lane == 0) {\n").skip(1);
    let saved = saved
        .filter(|part| part.trim_start().starts_with("top->c"))
        .count();
    assert!(saved >= 2, "{text}");
    let (module, inputs) = drawn("calls", &calls(3), 1, 3);
    let on_cpu = Case::new("calls", module, &inputs).expect("it is compiled");
    assert!(
        !on_cpu.source.text.contains("heddle_level("),
        "{}",
        on_cpu.source.text
    );
}
