//! Operators that are alike share one function; others do not. That results stay the same is tested
//! with all programs.

use crate::harness::{Case, PROGRAMS, drawn};

#[test]
fn layers_share_a_function() {
    let source = source("layers");
    assert_eq!(defined(&source), 1, "{source}");
    let calls = source.lines().filter(|l| l.trim().starts_with("op0(env"));
    let mut calls: Vec<_> = calls.map(str::trim).collect();
    assert_eq!(calls.len(), 4, "{source}");
    calls.sort_unstable();
    calls.dedup();
    assert_eq!(calls.len(), 4, "each has arguments of its own\n{source}");
    assert!(source.contains("restrict b"), "{source}");
}

#[test]
fn what_differs_is_written_for_itself() {
    // One reads a buffer twice where the other reads two, one stores another type, one has another
    // constant.
    let text = "fn @main(%x: f32[4,4], %y: f32[4,4]) -> (%a: f32[4,4], %b: f32[4,4], %c: f32[4,4], %d: i32[4,4]) {
  return add(%x, %x), add(%x, %y), add(%x, 2.0), cast(%x, to=i32)
}";
    let (module, inputs) = drawn("differ", text, 4, 1);
    let case = Case::new("differ", module, &inputs).expect("it compiles");
    assert_eq!(defined(&case.source.text), 4, "{}", case.source.text);
}

fn source(name: &str) -> String {
    let (_, text) = PROGRAMS.iter().find(|p| p.0 == name).expect("it is there");
    let (module, inputs) = drawn(name, text, 3, 1);
    let case = Case::new(name, module, &inputs).expect("it compiles");
    case.source.text
}

fn defined(source: &str) -> usize {
    source
        .lines()
        .filter(|l| l.starts_with("HEDDLE_OUTLINE void op"))
        .count()
}
