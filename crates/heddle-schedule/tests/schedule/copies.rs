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
