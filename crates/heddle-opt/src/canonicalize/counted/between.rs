//! Tests of two counters: `i < j`, where `i` rises to `j` or `j` falls to `i`.

use heddle_ir::DType;
use heddle_ir::op::CompareOp;

use super::Condition;
use super::number::Number;
use super::position::{Anchor, Part, Position, Scope};
use super::range::{Interval, range_of};
use super::test::{Comparison, begins, start};
use super::trips::{Begins, MAX_STEP, Test};
use crate::canonicalize::rewriter::Rewriter;

/// A carried number that a test reads.
struct Counter {
    anchor: Anchor,
    offset: Interval,
    step: Interval,
    start: Number,
}

/// The test that two counters have a distance: one that rises from 0, by as much as they approach
/// each other, to the distance at first.
pub(super) fn tested_between(
    cx: &mut Rewriter,
    scope: &Scope,
    (relation, low, high): Comparison,
    first: &[Condition],
) -> Option<Test> {
    if !matches!(relation, CompareOp::Lt | CompareOp::Le) {
        return None;
    }
    let a = Counter::of(cx, scope, scope.position(cx, low, Part::Number)?)?;
    let b = Counter::of(cx, scope, scope.position(cx, high, Part::Number)?)?;
    let mut test = Test {
        anchor: a.anchor,
        offset: a.offset + -b.offset,
        step: a.step + -b.step,
        range: range_of(DType::I64)?,
        relation,
        limit: b.start,
        rounded: false,
        start: a.start,
        begins: Begins::Untested,
    };
    if a.offset == a.step && b.offset == b.step {
        test.begins = begins(cx, &test, high, first);
    }
    // Otherwise a counter could overflow before they meet.
    let approach = a.step.low.is_some_and(|n| n >= 0) && b.step.high.is_some_and(|n| n <= 0);
    let is_one_small = a.start.is_small() || b.start.is_small();
    let are_small = a.start.is_small() && b.start.is_small();
    if !are_small && (!approach || test.begins == Begins::Untested) {
        return None;
    }
    // A distance of two large numbers is at least 0, so it does not tell that they are past each
    // other from that they are equal, where only `Le` holds.
    if relation == CompareOp::Le && !is_one_small {
        return None;
    }
    test.limit = b.start.distance(cx, a.start)?;
    test.start = Number::Known(0);
    Some(test)
}

impl Counter {
    /// A counter of 64 bits whose steps are small, or a length.
    fn of(cx: &mut Rewriter, scope: &Scope, at: Position) -> Option<Self> {
        let step = scope.step(cx, at.anchor)?;
        let wide = range_of(DType::I64)?;
        let is_length = matches!(at.anchor, Anchor::Carried(_, Part::Axis(_) | Part::Length));
        let is_short = step.offset.is_within(Interval::new(-MAX_STEP, MAX_STEP));
        let is_wide = at.range.common(step.range) == wide;
        (is_wide && (is_length || is_short)).then_some(())?;
        Some(Self {
            anchor: at.anchor,
            offset: at.offset,
            step: step.offset,
            start: start(cx, scope, at.anchor)?,
        })
    }
}
