//! Copies of whole buffers go where the two buffers can be one, and stay where somebody needs both.

use crate::common::{lowered, shape};
use heddle_schedule::coalesce_copies;

/// Statements of the program before and after.
fn shapes(text: &str) -> (String, String) {
    let mut program = lowered(text);
    let before = shape(&program.body);
    coalesce_copies(&mut program);
    (before, shape(&program.body))
}

#[test]
fn branches_compute_where_their_result_goes() {
    let (before, after) = shapes(
        "fn @main(%x: f32[4,64], %w: f32[64,64], %c: bool[], %d: bool[]) -> (%y: f32[4,64]) {
           %y = if %c {
             %z = if %d { yield dot(%x, %w) } else { yield dot(%w, %w) }
             yield %z
           } else { yield dot(%x, %w) }
           return %y
         }"
        .replace("dot(%w, %w)", "neg(%x)")
        .as_str(),
    );
    assert!(before.len() > after.len(), "{before}");
    assert_eq!(after, "[[r|r]|r]");
}

#[test]
fn a_carried_value_that_was_read_before_is_changed_in_place() {
    let text = "fn @main(%x: f32[64,8], %w: f32[8,8]) -> (%y: f32[64,8]) {
           %y = loop %i trip 9 carry (%c: f32[64,8] = neg(%x)) {
             %old = gather(%c, reshape(%i, [1]), axis=0)
             %row = if lt(%i, 4) { yield dot(%old, %w) } else { yield neg(%old) }
             %n = update_slice(%c, %row, concat(reshape(%i, [1]), [0], axis=0))
             continue carry %n
           }
           return %y
         }";
    let (before, after) = shapes(text);
    // Lowering sees that nothing reads the old value afterwards; the copy to the output goes.
    assert!(!before.contains('x'), "{before}");
    assert_eq!(
        (before.as_str(), after.as_str()),
        ("r([r|r]r)r", "r([r|r]r)")
    );
}

/// The next value changes places with another buffer in each iteration of the inner loop.
#[test]
fn a_loop_within_a_loop_begins_with_what_the_outer_one_carries() {
    let text = |next: &str| {
        format!(
            "fn @main(%x: f32[2,8], %w: f32[8,8]) -> (%y: f32[2,8]) {{
           %y = loop %i trip 9 carry (%c: f32[2,8] = neg(%x)) {{
             %n = loop %j trip 3 carry (%h: f32[2,8] = %c) {{
               continue carry tanh(dot(%h, %w))
             }}
             continue carry {next}
           }}
           return %y
         }}"
        )
    };
    let (before, after) = shapes(&text("%n"));
    assert_eq!(
        (before.as_str(), after.as_str()),
        ("r(r(rx)x)r", "r((rx))r")
    );
    // Who reads the old value finds it.
    let (before, after) = shapes(&text("add(%n, %c)"));
    assert!(after.contains("(r(rx)r"), "{before} {after}");
}

#[test]
fn a_carried_value_that_is_read_after_its_change_stays() {
    let text = "fn @main(%x: f32[64,8], %w: f32[8,8]) -> (%y: f32[64,8], %z: f32[64,8]) {
           %y, %z = loop %i trip 9 carry (%c: f32[64,8] = neg(%x), %d: f32[64,8] = exp(%x)) {
             %n = update_slice(%c, dot(gather(%d, reshape(%i, [1]), axis=0), %w), concat(reshape(%i, [1]), [0], axis=0))
             %m = add(%c, %n)
             continue carry %n, %m
           }
           return %y, %z
         }";
    let (before, after) = shapes(text);
    assert_eq!(
        before.matches('x').count(),
        after.matches('x').count(),
        "{before} {after}"
    );
}

/// Rows of instances that go on: the branch computes as many of them as the copy behind it reads, which are not all that the
/// buffers have.
#[test]
fn rows_are_computed_where_they_are_copied_to() {
    let program = |first: &str, second: &str| {
        let text = format!(
            "local %n: i64 size
local %k: i64 variable
local %m: i64 variable
local %r: i64 axis
local %c: i64 axis
size %n = \"n\"
buffer b0: f32[%n * 8] input \"x\"
buffer b1: f32[%n * 8] scratch \"made\"
buffer b2: f32[%n * 8] scratch \"next\"
buffer b3: f32[%n * 8] output \"y\"
input \"x\" b0 [%n, 8]
output \"y\" b3 [%n, 8]
operator op0 \"first\" [%r < {first}, %c < 8] split %r {{
  b1[%r * 8 + %c] = neg(b0[%r * 8 + %c])
}}
operator op1 \"second\" [%r < {second}, %c < 8] split %r {{
  b1[%r * 8 + %c] = exp(b0[%r * 8 + %c])
}}
operator op2 \"copy\" [%r < %m, %c < 8] split %r {{
  b2[%r * 8 + %c] = b1[%r * 8 + %c]
}}
operator op3 \"out\" [%r < %n, %c < 8] split %r {{
  b3[%r * 8 + %c] = neg(b2[%r * 8 + %c])
}}
main {{
  let %k = min(%n, 4)
  if lt(%k, 3) {{
    run op0
    let %m = %k
  }} else {{
    run op1
    let %m = %n
  }}
  run op2
  run op3
}}
"
        );
        let mut program = heddle_uprogram::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        coalesce_copies(&mut program);
        shape(&program.body)
    };
    assert_eq!(program("%k", "%n"), "[r|r]r");
    // One row more than are read, and rows of before the branch.
    assert_eq!(program("%k", "%k"), "[r|r]rr");
    assert_eq!(program("%n", "%n"), "[r|r]rr");
}
