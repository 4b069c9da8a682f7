//! Number of iterations until a counter has passed its limit.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp};

use super::number::Number;
use super::position::{Anchor, Part};
use super::range::{Interval, range_of};
use crate::canonicalize::rewriter::Rewriter;

/// A test that a counter passes until it reaches a limit. The tested value is `start` before the
/// first iteration, plus `step` for each completed one, plus `offset`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub anchor: Anchor,
    pub offset: Interval,
    pub step: Interval,
    /// The numbers that the counter's types hold.
    pub range: Interval,
    /// The test holds while the value is less than the limit, at most the limit, and so on.
    pub relation: CompareOp,
    pub limit: Number,
    /// Both sides are rounded before they are compared.
    pub rounded: bool,
    pub start: Number,
    pub begins: Begins,
}

/// Facts about the test before the first iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// Nothing: the first iteration may take place where the test fails.
    Untested,
    /// It holds.
    Holds,
    /// It is this one of the conditions before the first iteration.
    Is(usize),
}

/// A number of iterations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trips {
    pub number: Number,
    /// The test fails after this iteration and not before; else at the latest then.
    pub exact: bool,
}

/// No run has so many iterations.
const ENDLESS: i128 = 1 << 47;

/// A 64-bit counter with steps up to this takes `ENDLESS` iterations at least to overflow.
pub(super) const MAX_STEP: i128 = 1 << 14;

impl Test {
    /// The counter falls to its limit.
    pub(super) fn falls(&self) -> bool {
        match self.relation {
            CompareOp::Gt | CompareOp::Ge => true,
            CompareOp::Ne => self.step.high.is_some_and(|n| n < 0),
            _ => false,
        }
    }

    /// The test, if the counter moved by one in each iteration.
    pub(super) fn one_step(self) -> Self {
        let step = Interval::from(if self.falls() { -1 } else { 1 });
        Self {
            offset: step,
            step,
            ..self
        }
    }

    /// The test for the negated numbers if the counter falls.
    fn rising(self) -> (Self, bool) {
        let falls = self.falls();
        let negated = Self {
            offset: -self.offset,
            step: -self.step,
            range: -self.range,
            ..self
        };
        (if falls { negated } else { self }, falls)
    }

    /// Number of iterations, with the first one, which nothing precedes.
    pub(super) fn trips(self, cx: &mut Rewriter) -> Option<Trips> {
        let (t, falls) = self.rising();
        let step = t.step.low.filter(|s| (1..=1 << 31).contains(s))?;
        let low = t.offset.low.filter(|n| (-ENDLESS..=ENDLESS).contains(n))?;
        let differs = t.relation == CompareOp::Ne;
        let is_even = t.step.as_one().is_some() && t.offset.as_one().is_some();
        let is_large = !t.start.is_small() && !t.limit.is_small();
        if differs && (!is_even || t.rounded || is_large)
            || !t.start.is_small() && t.begins == Begins::Untested
        {
            return None;
        }
        let last = t.last_limit(falls)?;
        let also = matches!(t.relation, CompareOp::Le | CompareOp::Ge) as i128;
        let past = low - step - also;
        let distance = match (falls, t.limit, t.start) {
            (false, limit, Number::Known(n)) => limit.distance(cx, Number::Known(n + past))?,
            (false, limit, start) => limit.distance(cx, start)?.add(cx, -past)?,
            (true, Number::Known(n), start) => start.distance(cx, Number::Known(n + past))?,
            (true, limit, start) => start.distance(cx, limit)?.add(cx, -past)?,
        };
        let mut exact = is_even && !t.rounded && !is_large;
        let mut number = match differs {
            true => t.met(cx, distance, step)?,
            false => distance.quotient_up(cx, step)?,
        };
        if differs {
            // A counter of a narrow type comes round to the limit.
            exact &= t.is_wide() || matches!(number, Number::Known(_));
        }
        if let Some(last) = last {
            exact &= step == 1 && t.offset == t.step;
            let op = if falls { CompareOp::Ge } else { CompareOp::Le };
            number = number.only_if(cx, t.limit, op, last)?;
        }
        let ends = !matches!(number, Number::Known(n) if n >= ENDLESS);
        ends.then_some(Trips { number, exact })
    }

    /// The counter is one of 64 bits.
    fn is_wide(&self) -> bool {
        range_of(DType::I64).is_some_and(|wide| wide == self.range || wide == -self.range)
    }

    /// The last limit that the rising counter reaches before its type overflows, if the limit may be
    /// beyond. Fails if it is.
    fn last_limit(&self, falls: bool) -> Option<Option<i128>> {
        let most = self.step.high.unwrap_or(ENDLESS);
        let (low, high) = (self.offset.low?, self.offset.high.unwrap_or(ENDLESS));
        let is_number = matches!(self.anchor, Anchor::Carried(_, Part::Number));
        if self.is_wide() && (!is_number || self.start.is_small() && most <= MAX_STEP) {
            return Some(None);
        }
        let also = matches!(self.relation, CompareOp::Le | CompareOp::Ge) as i128;
        let beyond = most + (high - low) + (most - low).max(0) - 1 + also;
        let beyond = if self.relation == CompareOp::Ne {
            0
        } else {
            beyond
        };
        let last = self.range.high? - beyond;
        let limits = match falls {
            true => -self.limit.range(),
            false => self.limit.range(),
        };
        let is_reached = limits.high? <= last;
        let is_known = matches!(self.limit, Number::Known(_));
        match is_reached {
            true => Some(None),
            false => (!is_known && last > 0).then_some(Some(if falls { -last } else { last })),
        }
    }

    /// Iterations until the counter meets the limit: none do if it is past it, or steps over it.
    fn met(&self, cx: &mut Rewriter, distance: Number, step: i128) -> Option<Number> {
        let turns = distance.quotient_up(cx, step)?;
        let least = if self.begins == Begins::Untested {
            step
        } else {
            0
        };
        let met = turns.only_if(cx, distance, CompareOp::Ge, least)?;
        if step == 1 {
            return Some(met);
        }
        let rest = distance.binary(cx, BinaryOp::Mod, Number::Known(step))?;
        met.only_if(cx, rest, CompareOp::Eq, 0)
    }
}
