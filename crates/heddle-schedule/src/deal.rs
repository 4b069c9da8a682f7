//! How an operator deals out the elements of a buffer that it touches.

use crate::linear::{Linear, Monomial, bound};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Operator, Share, Split, UProgram};

/// Which unit touches which element of a buffer. Two accesses that have the same deal touch an element on the same unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Deal {
    /// This unit touches them all.
    One(u32),
    /// Where an element lies says which unit touches it: at place `offset / inner % count`, and places are dealt out as
    /// [`Split`] says.
    Places {
        /// How many elements lie between one place and the next.
        inner: Monomial,
        /// How many places there are.
        count: Monomial,
        /// Of what shares are multiples.
        grain: i64,
        /// Which unit has the first share.
        first: u32,
    },
}

impl Deal {
    /// How the operator deals out the elements at this offset; `None` when where an element lies does not say it.
    pub fn of(program: &UProgram, op: &Operator, offset: ExprId) -> Option<Deal> {
        match op.share {
            Share::One(unit) => Some(Deal::One(unit)),
            Share::Dealt(split) => places(program, op, offset, split),
        }
    }

    /// The split of this axis that deals out the elements at an offset like this, if there is one.
    pub fn split(
        &self,
        program: &mut UProgram,
        op: &Operator,
        offset: ExprId,
        axis: usize,
    ) -> Option<Split> {
        let Deal::Places {
            inner,
            count,
            grain,
            first,
        } = self
        else {
            return None;
        };
        let (local, size) = op.axes[axis];
        let linear = Linear::of(program, op, offset);
        let each = inner.over(linear.factor(program, local)?)?.as_int()?;
        let count = count.times(&Monomial::new(each))?;
        let size = Monomial::of(program, size)?;
        if each < 1 {
            return None;
        }
        // The last place may be smaller than the others.
        let filled = size.as_int().zip(count.as_int());
        let fits = filled.is_some_and(|(size, count)| size <= count && count - size < each);
        if !fits && size.over(&count).is_none() {
            return None;
        }
        let constant = program.pool.int(count.constant);
        let period = count
            .sizes
            .iter()
            .fold(constant, |p, &s| program.pool.product(p, s));
        let period = if fits || size == count {
            op.axes[axis].1
        } else {
            period
        };
        let split = Split {
            axis,
            period,
            grain: grain.checked_mul(each)?,
            first: *first,
        };
        (places(program, op, offset, split).as_ref() == Some(self)).then_some(split)
    }
}

/// The deal by places, if an element's place among `inner * count` says where on the split axis the points lie that touch it.
///
/// An offset is a sum. What is a multiple of `inner * count` does not change the place; what is less than `inner`
/// altogether does not either; what is left must be `inner` times the split axis.
fn places(program: &UProgram, op: &Operator, offset: ExprId, split: Split) -> Option<Deal> {
    let (local, _) = op.axes[split.axis];
    let linear = Linear::of(program, op, offset);
    let inner = linear.factor(program, local)?.clone();
    let count = Monomial::of(program, split.period)?;
    let whole = inner.times(&count)?;
    if whole.constant <= 0 || inner.constant <= 0 {
        return None;
    }
    let (mut low, mut rest) = (vec![], 0i64);
    let mut rounds = split.period != op.axes[split.axis].1;
    for (factor, atom) in &linear.terms {
        if atom.is_some_and(|a| program.pool[a] == Expr::Local(local)) {
            continue;
        }
        if factor.over(&whole).is_some() {
            rounds = true;
            continue;
        }
        match atom {
            Some(atom) => {
                let size = bound(program, op, *atom)?;
                low.push((factor.clone(), size));
            }
            None => {
                let constant = factor.as_int()?;
                // Of a constant only what is left after whole rounds counts.
                let round = whole.as_int().unwrap_or(i64::MAX);
                rounds |= !(0..round).contains(&constant);
                rest = rest.checked_add(constant.checked_rem_euclid(round)?)?;
            }
        }
    }
    if !below(low, rest, &inner) {
        return None;
    }
    // Shares in grains are shares of places that are larger; where there is one round, the last of them may be smaller.
    let shares = Monomial::new(split.grain);
    let rounded = |n: i64| Some(Monomial::new(n.checked_add(split.grain - 1)? / split.grain));
    let grains = count.over(&shares);
    let grains = grains.or_else(|| count.as_int().filter(|_| !rounds).and_then(rounded));
    Some(match (inner.times(&shares), grains) {
        (Some(inner), Some(count)) => Deal::Places {
            inner,
            count,
            grain: 1,
            first: split.first,
        },
        _ => Deal::Places {
            inner,
            count,
            grain: split.grain,
            first: split.first,
        },
    })
}

/// Whether a sum of factors times what is below a size, and of a constant, is at least 0 and always below a bound.
fn below(mut low: Vec<(Monomial, Monomial)>, rest: i64, bound: &Monomial) -> bool {
    if rest < 0 || low.iter().any(|(factor, _)| factor.constant < 0) {
        return false;
    }
    // As the digits of a number do not reach the next one's place: an axis that with its size divides the bound leaves its own
    // factor as the bound of the others.
    let mut bound = bound.clone();
    loop {
        if most(&low, rest).is_some_and(|most| most < bound.constant) {
            return true;
        }
        let digit = low.iter().position(|(factor, size)| {
            let span = factor.times(size);
            span.is_some_and(|span| span.constant > 0 && bound.over(&span).is_some())
        });
        match digit {
            Some(k) => bound = low.swap_remove(k).0,
            None => return false,
        }
    }
}

/// The most that the sum can be, if no sizes are in it.
fn most(low: &[(Monomial, Monomial)], rest: i64) -> Option<i64> {
    low.iter().try_fold(rest, |sum, (factor, size)| {
        let last = size.as_int()?.checked_sub(1)?.max(0);
        sum.checked_add(factor.as_int()?.checked_mul(last)?)
    })
}
