//! The elements that accesses touch at most: two that have none in common need no synchronisation.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::largest::most;
use crate::linear::Linear;
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Buffer, Operator, UProgram};

/// Ranges of the elements that an access touches, by the strides of its axes: parts of a place, or of the whole array.
///
/// They hold wherever the operator runs, since they are made of constants alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach(SmallVec<[Range; 4]>);

/// Remainders of offsets by a period, or offsets themselves if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    period: Option<i64>,
    first: i64,
    last: i64,
}

impl Reach {
    /// The reach of an access to the elements at this offset.
    pub(crate) fn of(program: &UProgram, op: &Operator, offset: ExprId) -> Self {
        let linear = Linear::of(program, op, offset);
        let strides = linear.terms.iter().filter(|term| term.1.is_some());
        let strides = strides.map(|(stride, _)| stride.constant.saturating_abs());
        let periods: BTreeSet<i64> = strides.filter(|stride| *stride > 1).collect();
        let periods = periods.into_iter().map(Some).chain([None]);
        let range = |period| Range::of(program, op, &linear, period);
        Self(periods.filter_map(range).collect())
    }

    /// True if no element is in both.
    pub(crate) fn is_apart(&self, other: &Self) -> bool {
        let is_apart =
            |a: &Range, b: &Range| a.period == b.period && (a.last < b.first || b.last < a.first);
        let mut own = self.0.iter();
        own.any(|a| other.0.iter().any(|b| is_apart(a, b)))
    }
}

impl Range {
    /// The range of a sum, if terms that are no multiples of the period stay within one.
    fn of(program: &UProgram, op: &Operator, linear: &Linear, period: Option<i64>) -> Option<Self> {
        let (mut first, mut last) = (0i64, 0i64);
        for (factor, atom) in &linear.terms {
            if period.is_some_and(|period| factor.constant % period == 0) {
                continue;
            }
            let factor = factor.as_int()?;
            let most = match atom {
                Some(atom) => factor.checked_mul(most(program, op, *atom)?)?,
                None => factor,
            };
            if atom.is_none() || most < 0 {
                first = first.checked_add(most)?;
            }
            if atom.is_none() || most > 0 {
                last = last.checked_add(most)?;
            }
        }
        if let Some(period) = period {
            let begin = first.rem_euclid(period);
            (first, last) = (begin, begin.checked_add(last.checked_sub(first)?)?);
            if last >= period {
                return None;
            }
        }
        Some(Self {
            period,
            first,
            last,
        })
    }
}

/// The buffers that several operators write: parts of one may be apart.
pub(crate) fn written_often(program: &UProgram) -> BTreeSet<Buffer> {
    let (mut once, mut often) = (BTreeSet::new(), BTreeSet::new());
    for id in program.running() {
        let buffer = program.operators[id].body.store().buffer;
        if !once.insert(buffer) {
            often.insert(buffer);
        }
    }
    often
}
