//! The elements that an access may touch, as intervals.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp};

use super::owner::Sum;
use crate::expr::{Expr, ExprId};
use crate::program::{Local, LocalKind, Operator, UProgram};

/// Intervals of an access's offsets modulo some period each, and of the offsets themselves.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    intervals: Vec<(Option<i64>, Interval)>,
}

/// Values from the first to the last.
type Interval = (i64, i64);

impl Reach {
    /// The reach of an access at this offset.
    pub fn of(program: &UProgram, op: &Operator, offset: ExprId) -> Reach {
        let Some(sum) = Sum::of(program, op, offset) else {
            return Reach::default();
        };
        let constants = sum
            .moving
            .values()
            .filter_map(|factor| factor.as_constant());
        let mut periods: Vec<i64> = constants.map(i64::saturating_abs).collect();
        periods.retain(|period| *period > 1);
        periods.sort_unstable();
        periods.dedup();
        let moduli = periods.into_iter().map(Some).chain([None]);
        let interval = |modulus| Some((modulus, within(program, op, &sum, modulus)?));
        let intervals = moduli.filter_map(interval).collect();
        Reach { intervals }
    }

    /// True if provably no element is touched by both.
    pub fn misses(&self, other: &Reach) -> bool {
        self.intervals.iter().any(|(modulus, (first, last))| {
            let mut alike = other.intervals.iter().filter(|own| own.0 == *modulus);
            alike.any(|(_, (begin, end))| last < begin || end < first)
        })
    }
}

/// The interval of a sum modulo a number, if it does not wrap around there.
fn within(program: &UProgram, op: &Operator, sum: &Sum, modulus: Option<i64>) -> Option<Interval> {
    let still = match modulus {
        Some(modulus) => sum.still.remainder(modulus)?,
        None => sum.still.as_constant()?,
    };
    let (mut first, mut last) = (still, still);
    for (atom, factor) in &sum.moving {
        if modulus.is_some_and(|modulus| factor.remainder(modulus) == Some(0)) {
            continue;
        }
        let factor = factor.as_constant()?;
        let (low, high) = interval(program, op, *atom)?;
        let (a, b) = (low.checked_mul(factor)?, high.checked_mul(factor)?);
        first = first.checked_add(a.min(b))?;
        last = last.checked_add(a.max(b))?;
    }
    let Some(modulus) = modulus else {
        return Some((first, last));
    };
    let begin = first.rem_euclid(modulus);
    let end = begin.checked_add(last.checked_sub(first)?)?;
    (end < modulus).then_some((begin, end))
}

/// The interval of an index's values.
fn interval(program: &UProgram, op: &Operator, index: ExprId) -> Option<Interval> {
    let pool = &program.pool;
    let of = |e| interval(program, op, e);
    match pool[index] {
        Expr::Num(DType::I64, bits) => Some((bits as i64, bits as i64)),
        Expr::Local(local) => below(pool.as_int(size_of(program, op, local)?)?),
        Expr::Index(_, size) => below(pool.as_int(size)?),
        Expr::Binary(op, DType::I64, a, b) => {
            let by = || pool.as_int(b).filter(|by| *by > 0);
            match op {
                BinaryOp::Add | BinaryOp::Sub => {
                    let ((low, high), (from, to)) = (of(a)?, of(b)?);
                    let (from, to) = match op {
                        BinaryOp::Add => (from, to),
                        _ => (to.checked_neg()?, from.checked_neg()?),
                    };
                    Some((low.checked_add(from)?, high.checked_add(to)?))
                }
                BinaryOp::Mul => {
                    let ((low, high), by) = (of(a)?, by()?);
                    Some((low.checked_mul(by)?, high.checked_mul(by)?))
                }
                // Rounded down or towards zero.
                BinaryOp::Div => {
                    let ((low, high), by) = (of(a)?, by()?);
                    Some((low.div_euclid(by), high / by))
                }
                BinaryOp::Mod => below(by()?),
                _ => None,
            }
        }
        Expr::Select(DType::I64, cond, a, b) => {
            let (from, to) = bounds(program, cond, a);
            let known = of(a).unwrap_or((i64::MIN, i64::MAX));
            let chosen = (known.0.max(from), known.1.min(to));
            let (low, high) = of(b)?;
            let is_finite = chosen.0 > i64::MIN && chosen.1 < i64::MAX;
            // Never chosen if nothing is in both.
            match chosen.0 <= chosen.1 {
                true => is_finite.then(|| (chosen.0.min(low), chosen.1.max(high))),
                false => Some((low, high)),
            }
        }
        _ => None,
    }
}

/// The indices of so many places.
fn below(size: i64) -> Option<Interval> {
    Some((0, size.checked_sub(1)?.max(0)))
}

/// The size of an axis of an operator.
fn size_of(program: &UProgram, op: &Operator, local: Local) -> Option<ExprId> {
    if program.locals[local].kind != LocalKind::Axis {
        return None;
    }
    let mut axes = op.body.axes().iter().chain(&op.axes);
    axes.find(|axis| axis.0 == local).map(|axis| axis.1)
}

/// The bounds that a condition states of an index.
fn bounds(program: &UProgram, cond: ExprId, index: ExprId) -> Interval {
    let pool = &program.pool;
    match pool[cond] {
        Expr::Binary(BinaryOp::And, DType::Bool, a, b) => {
            let (one, other) = (bounds(program, a, index), bounds(program, b, index));
            (one.0.max(other.0), one.1.min(other.1))
        }
        Expr::Compare(compare, DType::I64, a, b) if a == index => match (compare, pool.as_int(b)) {
            (CompareOp::Ge, Some(least)) => (least, i64::MAX),
            (CompareOp::Lt, Some(end)) => (i64::MIN, end.saturating_sub(1)),
            _ => (i64::MIN, i64::MAX),
        },
        _ => (i64::MIN, i64::MAX),
    }
}
