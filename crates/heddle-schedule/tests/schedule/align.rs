//! Operators are split so that data stays on its unit, where possible.

use crate::common::{lowered, shape};
use heddle_machine::Machine;
use heddle_schedule::{align_splits, place_syncs};
use heddle_uprogram::program::{Body, Share};

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
    let (plain, aligned) = shapes(include_str!("../programs/lstm.heddle"));
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
    // The sum of both is part of the second reduction.
    assert_eq!(plain, "rsrr");
    assert_eq!(aligned, "rrr");
}

/// Tiles of a convolution go down the columns of the map: units that share each of its rows would read the weights for few places at a
/// time.
#[test]
fn rows_of_a_map_are_not_shared() {
    let mut program = lowered(
        "fn @main(%x: f32[1,32,41,60]) -> (%y: f32[60,1312]) {
           %w = const splat 0.5: f32[32,32,5,5]
           %c = conv(%x, %w, [2, 2, 2, 2], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
           %y = tanh(reshape(transpose(%c, perm=[3,0,1,2]), [60, 1312]))
           return %y
         }",
    );
    let machine = Machine::reference_host(2);
    heddle_schedule::select_kernels(&mut program, &machine);
    align_splits(&mut program, &machine);
    let running = program.running().into_iter();
    let operators: Vec<_> = running.map(|id| &program.operators[id]).collect();
    let is_map = |body: &Body| matches!(body, Body::Contract(c) if c.windows.is_some());
    let op = operators
        .iter()
        .find(|op| is_map(&op.body))
        .expect("a convolution");
    let splits = op.share.splits();
    assert!(
        splits
            .iter()
            .all(|split| split.period == op.axes[split.axis].1)
    );
}

#[test]
fn attention_by_head_needs_none() {
    let (_, aligned) = shapes(include_str!("../programs/attention.heddle"));
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

#[test]
fn rows_that_are_appended_are_all_that_crosses() {
    // Each step appends a row for each head, and reads all rows before it. Only the rows are new to
    // another unit, so the heads are worth sharing, whichever unit appends.
    let mut program = lowered(
        "fn @main(%h: f32[1,8,1,128], %k: f32[]) -> (%y: f32[1,8,1,128]) {
           %none = slice(%h, [0], [0], [1], axes=[2])
           %y, %ks, %vs, %count = loop trip 2000 while true carry (
               %q: f32[1,8,1,128] = %h, %a: f32[1,8,?,128] = %none, %b: f32[1,8,?,128] = %none, %c: f32[] = 0.0) {
             %a2 = concat(%a, tanh(%q), axis=2)
             %b2 = concat(%b, mul(%q, 0.5), axis=2)
             %scores = dot(%q, transpose(%a2, perm=[0,1,3,2]))
             %e = exp(sub(%scores, reduce(%scores, kind=max, axes=[3], keep=true)))
             %p = div(%e, reduce(%e, kind=sum, axes=[3], keep=true))
             continue while lt(%c, %k) carry add(dot(%p, %b2), %h), %a2, %b2, add(%c, 1.0)
           }
           return %y
         }",
    );
    let machine = Machine::reference_host(2);
    heddle_schedule::select_kernels(&mut program, &machine);
    heddle_schedule::schedule(&mut program, &machine);
    let running = program.running().into_iter();
    let sums = running.filter(|id| !program.operators[*id].body.axes().is_empty());
    let shares: Vec<_> = sums.map(|id| program.operators[id].share).collect();
    assert!(!shares.is_empty());
    let is_shared = |share: &Share| matches!(share, Share::Split(_) | Share::Grid(_));
    assert!(shares.iter().all(is_shared), "{shares:?}");
}
