//! Decisions are recorded, and replayed without control flow.

use crate::common::{lowered, shape};
use heddle_schedule::{TraceError, record_decisions, replay};

/// A loop that a condition ends, with a branch in it.
const TEXT: &str = "fn @main(%x: f32[n], %k: i64[]) -> (%y: f32[n]) {
   %i, %y = loop while lt(%k, 3) carry (%j = %k, %h: f32[n] = %x) {
     %even = eq(mod(%j, 2), 0)
     %z = if %even { yield tanh(%h) } else { yield exp(%h) }
     %next = add(%j, 1)
     continue while lt(%next, 3) carry %next, %z
   }
   return %y
 }";

#[test]
fn every_decision_is_recorded() {
    let mut program = lowered(TEXT);
    let plain = shape(&program.body);
    assert_eq!(plain, "r([r|r]x)r");
    record_decisions(&mut program);
    // The count is reset, and each decision stores itself and counts.
    assert_eq!(shape(&program.body), "rr(rr[rrr|rrr]x)rrr");
    let names: Vec<_> = program.outputs.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["y", "decisions", "decided"]);
}

#[test]
fn what_was_decided_is_a_straight_line() {
    let program = lowered(TEXT);
    // Two iterations: the first takes the first arm, the second the other.
    let traced = replay(&program, &[1, 1, 1, 0, 0, 99], 5).unwrap();
    assert_eq!(shape(&traced.body), "rrxrxr");
    // No iteration at all.
    let traced = replay(&program, &[0], 1).unwrap();
    assert_eq!(shape(&traced.body), "rr");
}

#[test]
fn what_only_decisions_need_is_gone() {
    let program = lowered(
        "fn @main(%x: f32[1,40], %w: f32[40,40]) -> (%y: f32[1,40]) {
           %go = const splat true: bool[]
           %y = loop while %go carry (%h = %x) {
             %z = dot(%h, %w)
             %small = lt(reduce(%z, kind=max, axes=[0,1]), 1.0)
             continue while %small carry %z
           }
           return %y
         }",
    );
    let runs = |text: String| text.matches('r').count();
    assert_eq!(
        runs(shape(&program.body)),
        4,
        "first value, product, maximum, result"
    );
    let traced = replay(&program, &[1, 1, 0], 3).unwrap();
    assert_eq!(
        runs(shape(&traced.body)),
        4,
        "first value, two products, result"
    );
}

#[test]
fn a_record_that_does_not_fit_is_refused() {
    let program = lowered(TEXT);
    for (decisions, count) in [(&[1, 1][..], 2), (&[0, 0], 2), (&[0], 7), (&[0], -1)] {
        let error = replay(&program, decisions, count).unwrap_err();
        assert_eq!(error, TraceError::Mismatch);
    }
    let error = replay(&program, &[0], 1 << 40).unwrap_err();
    assert_eq!(error, TraceError::TooLong(1 << 40));
}

/// Counts down by recursion.
const DOWN: &str = "fn @main(%n: i64[]) -> (%y: i64[]) {
   %y = call @down(%n)
   return %y
 }
 fn @down(%n: i64[]) -> (%y: i64[]) {
   %y = if le(%n, 0) { yield %n } else { yield add(call @down(sub(%n, 1)), %n) }
   return %y
 }";

#[test]
fn calls_are_replayed() {
    let program = lowered(DOWN);
    assert_eq!(program.procedures.len(), 1);
    let traced = replay(&program, &[0, 0, 1], 3).unwrap();
    assert!(traced.procedures.is_empty() && traced.calls.is_empty());
    let text = shape(&traced.body);
    assert!(!text.contains(['c', '(', '[']), "{text}");
    assert!(!program.body.is_empty());
}

#[test]
fn calls_nest_so_deep() {
    let error = replay(&lowered(DOWN), &[0; 5000], 5000).unwrap_err();
    assert_eq!(error, TraceError::TooDeep);
}
