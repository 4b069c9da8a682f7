//! Operators are split so that data stays on its unit, where possible.

mod common;

use common::{lowered, shape};
use heddle_machine::Machine;
use heddle_schedule::{align_splits, place_syncs};

/// Statements of the program without and with aligned splits.
fn shapes(text: &str) -> (String, String) {
    let (mut plain, mut aligned) = (lowered(text), lowered(text));
    align_splits(&mut aligned, &Machine::reference_host(2));
    place_syncs(&mut plain, &Machine::reference_host(2));
    place_syncs(&mut aligned, &Machine::reference_host(2));
    (shape(&plain.body), shape(&aligned.body))
}

#[test]
fn an_lstm_step_needs_one_sync() {
    let (plain, aligned) = shapes(include_str!("programs/lstm.heddle"));
    assert!(plain.matches('s').count() > 1, "{plain}");
    // Each unit owns the same places of all four gates: only the hidden state crosses.
    assert_eq!(aligned.matches('s').count(), 1, "{aligned}");
}

#[test]
fn columns_follow_who_reads_them() {
    // By default both operators are split by rows, so that a sum of columns would read what others
    // wrote.
    let (plain, aligned) = shapes(
        "fn @main(%x: f32[64,64]) -> (%y: f32[64]) {
           %e = exp(%x)
           %y = add(reduce(%e, kind=sum, axes=[0], keep=false), reduce(%e, kind=max, axes=[0], keep=false))
           return %y
         }",
    );
    assert_eq!(plain, "rsrrr");
    assert_eq!(aligned, "rrrr");
}

#[test]
fn attention_by_head_needs_none() {
    let (_, aligned) = shapes(include_str!("programs/attention.heddle"));
    assert_eq!(aligned.matches('s').count(), 0, "{aligned}");
}

#[test]
fn a_last_share_may_be_smaller() {
    // The 3797 columns are split like the parts of the arg-reduction.
    let (_, aligned) = shapes(
        "fn @main(%x: f32[1,32], %w: f32[32,3797]) -> (%y: i64[1]) {
           %y = arg_reduce(dot(%x, %w), kind=max, axis=1)
           return %y
         }",
    );
    assert!(aligned.starts_with("rr"), "{aligned}");
}
