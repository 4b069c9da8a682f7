//! How large carried arrays get whose sizes change: what the launch computes for [`grow`](super::grow).
//!
//! After an iteration a size is at most the limit of one of the loop's sizes before it and what the iteration adds, or something that depends
//! on none of them. Sizes that become one another share a limit: the largest first size and, for each iteration, the most that is added to
//! any.

use std::collections::{HashMap, HashSet};

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp};

use super::grow::Grown;
use super::{Lowerer, MAX_LEN, Result};
use crate::value::Val;
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::Local;

/// What a size is at most after an iteration.
#[derive(Clone)]
struct Next {
    /// Which of the loop's limits, by place, is added to; none where it depends on none.
    of: Vec<usize>,
    /// What is added.
    growth: ExprId,
    /// What it is at most apart from that.
    least: Option<ExprId>,
}

/// Finds what sizes are after an iteration.
struct Finder<'a> {
    pool: &'a mut Pool,
    limits: &'a [Local],
    /// What the launch computes.
    definitions: HashMap<Local, ExprId>,
    found: HashMap<ExprId, Found>,
}

#[derive(Clone)]
enum Found {
    /// It depends on no limit.
    Fixed,
    /// It grows by a sum.
    Next(Next),
    /// It grows otherwise.
    Unbounded,
}

impl Lowerer<'_> {
    /// Says what the limits of a loop's carried arrays are, whose next values are given, after so many iterations at most.
    pub(super) fn set_limits(
        &mut self,
        carried: &[(Grown, Val)],
        trip: Option<ExprId>,
    ) -> Result<()> {
        let axes = carried.iter().flat_map(|(grown, next)| {
            let axes = grown.axes.iter();
            axes.map(move |a| (grown.place, a, next.shape()[a.axis]))
        });
        let axes: Vec<_> = axes.collect();
        let limits: Vec<_> = axes.iter().map(|(_, a, _)| a.limit).collect();
        let mut next = vec![];
        for &(place, axis, size) in &axes {
            let bound = self.upper_bound(size);
            let mut finder = Finder {
                pool: &mut self.program.pool,
                limits: &limits,
                definitions: self.program.derived.iter().copied().collect(),
                found: HashMap::new(),
            };
            let found = bound.and_then(|bound| finder.next(bound));
            let found = found.filter(|next| !finder.is_no_limit(next));
            next.push(match (found, axis.stated) {
                (Some(next), _) => next,
                (None, Some(stated)) => self.stated(axis.first, size, stated),
                (None, None) => {
                    return self.fail(&format!(
                        "axis {} of carried value {place} changes in size without a bound",
                        axis.axis
                    ));
                }
            });
        }
        let groups = groups(&next);
        for (k, (_, axis, _)) in axes.iter().enumerate() {
            let pool = &mut self.program.pool;
            let (mut first, mut growth) = (axis.first, pool.int(0));
            for m in (0..axes.len()).filter(|&m| groups[m] == groups[k]) {
                first = max(pool, first, axes[m].1.first);
                first = next[m].least.map_or(first, |least| max(pool, first, least));
                growth = max(pool, growth, next[m].growth);
            }
            let limit = self.after_iterations(first, growth, trip)?;
            self.program.derived.push((axis.limit, limit));
        }
        Ok(())
    }

    /// A size that the model's type bounds, which therefore must be true.
    fn stated(&mut self, first: ExprId, size: ExprId, stated: u64) -> Next {
        let pool = &mut self.program.pool;
        let stated = pool.int(i64::try_from(stated).unwrap_or(i64::MAX));
        let fits = pool.compare(CompareOp::Le, DType::I64, size, stated);
        self.check(fits, size, stated);
        let pool = &mut self.program.pool;
        Next {
            of: vec![],
            growth: pool.int(0),
            least: Some(max(pool, first, stated)),
        }
    }

    /// `first` and, for each iteration, `growth`.
    fn after_iterations(
        &mut self,
        first: ExprId,
        growth: ExprId,
        trip: Option<ExprId>,
    ) -> Result<ExprId> {
        let (zero, one) = (self.program.pool.int(0), self.program.pool.int(1));
        if growth == zero {
            return Ok(first);
        }
        let trip = trip.map(|trip| max(&mut self.program.pool, trip, zero));
        let trip = trip.and_then(|trip| self.upper_bound(trip));
        let pool = &mut self.program.pool;
        let Some(trip) = trip.filter(|&t| pool.as_int(t).is_none_or(|n| n <= MAX_LEN)) else {
            return self.fail("carries an array that grows in a loop that only a condition ends");
        };
        // More than any memory holds is enough to say that there is not enough, and does not overflow.
        let (most, at_least) = (pool.int(MAX_LEN), max(pool, growth, one));
        let most = pool.binary(BinaryOp::Div, DType::I64, most, at_least);
        let most = pool.sum(most, one);
        let trip = pool.binary(BinaryOp::Min, DType::I64, trip, most);
        let all = pool.product(trip, growth);
        Ok(pool.sum(first, all))
    }

    /// Puts what the launch computes in order: limits are known after what is made of them.
    pub(super) fn order_derived(&mut self) {
        let definitions: HashMap<_, _> = self.program.derived.iter().copied().collect();
        let (mut ordered, mut done) = (vec![], HashSet::new());
        for &(local, _) in &self.program.derived {
            let mut open = vec![(local, false)];
            while let Some((local, is_ready)) = open.pop() {
                let Some(&expr) = definitions.get(&local) else {
                    continue;
                };
                if is_ready {
                    ordered.push((local, expr));
                } else if done.insert(local) {
                    open.push((local, true));
                    let made_of = self.program.locals_of(expr);
                    open.extend(made_of.into_iter().map(|l| (l, false)));
                }
            }
        }
        self.program.derived = ordered;
    }
}

impl Finder<'_> {
    /// What a size is at most, of which this bound holds.
    fn next(&mut self, bound: ExprId) -> Option<Next> {
        match self.find(bound) {
            Found::Fixed => Some(Next {
                of: vec![],
                growth: self.pool.int(0),
                least: Some(bound),
            }),
            Found::Next(next) => Some(next),
            Found::Unbounded => None,
        }
    }

    fn find(&mut self, bound: ExprId) -> Found {
        if let Some(found) = self.found.get(&bound) {
            return found.clone();
        }
        let found = match self.pool[bound] {
            Expr::Local(local) => self.find_local(local),
            expr => {
                let operands: Vec<_> = expr.operands().collect();
                let fixed = |&operand: &ExprId| matches!(self.find(operand), Found::Fixed);
                match (operands.iter().all(fixed), expr) {
                    (true, _) => Found::Fixed,
                    (false, Expr::Binary(op, DType::I64, a, b)) => self
                        .find_binary(op, a, b)
                        .map_or(Found::Unbounded, Found::Next),
                    _ => Found::Unbounded,
                }
            }
        };
        self.found.insert(bound, found.clone());
        found
    }

    fn find_local(&mut self, local: Local) -> Found {
        match self.limits.iter().position(|&limit| limit == local) {
            Some(k) => Found::Next(Next {
                of: vec![k],
                growth: self.pool.int(0),
                least: None,
            }),
            None => match self.definitions.get(&local) {
                Some(&definition) => self.find(definition),
                None => Found::Fixed,
            },
        }
    }

    fn find_binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> Option<Next> {
        match op {
            BinaryOp::Add => {
                let (a, b) = (self.next(a)?, self.next(b)?);
                let (a, b) = if b.of.is_empty() { (a, b) } else { (b, a) };
                // Twice a limit is no sum.
                let by = b.least.filter(|_| b.of.is_empty())?;
                Some(self.shifted(a, BinaryOp::Add, by))
            }
            BinaryOp::Sub if matches!(self.find(b), Found::Fixed) => {
                let a = self.next(a)?;
                Some(self.shifted(a, BinaryOp::Sub, b))
            }
            BinaryOp::Max => {
                let (a, b) = (self.next(a)?, self.next(b)?);
                Some(self.larger(a, b))
            }
            // Either bounds the smaller one, best one that never changes.
            BinaryOp::Min => match (self.next(a), self.next(b)) {
                (Some(a), b) if self.is_no_limit(&a) => b,
                (a, Some(b)) if self.is_no_limit(&b) => a,
                (Some(a), Some(b)) if b.of.is_empty() => Some(if a.of.is_empty() {
                    self.larger(a, b)
                } else {
                    b
                }),
                (a, b) => a.or(b),
            },
            BinaryOp::Div if self.pool.as_int(b).is_some_and(|n| n > 0) => {
                let a = self.next(a)?;
                // Of what is negative the quotient is larger.
                let zero = self.pool.int(0);
                Some(Next {
                    of: a.of,
                    growth: max(self.pool, a.growth, zero),
                    least: a.least.map(|least| max(self.pool, least, zero)),
                })
            }
            _ => None,
        }
    }

    /// Whether it is how models write that there is no limit: the end of a slice that is beyond every array's.
    fn is_no_limit(&self, next: &Next) -> bool {
        let least = next.least.and_then(|least| self.pool.as_int(least));
        least.is_some_and(|n| n > MAX_LEN)
    }

    fn shifted(&mut self, next: Next, op: BinaryOp, by: ExprId) -> Next {
        Next {
            of: next.of,
            growth: self.pool.binary(op, DType::I64, next.growth, by),
            least: next
                .least
                .map(|least| self.pool.binary(op, DType::I64, least, by)),
        }
    }

    fn larger(&mut self, a: Next, b: Next) -> Next {
        let least = match (a.least, b.least) {
            (Some(a), Some(b)) => Some(max(self.pool, a, b)),
            (a, b) => a.or(b),
        };
        let mut of = [a.of, b.of].concat();
        of.sort_unstable();
        of.dedup();
        Next {
            of,
            growth: max(self.pool, a.growth, b.growth),
            least,
        }
    }
}

/// For each size the first of those that it shares a limit with.
fn groups(next: &[Next]) -> Vec<usize> {
    let mut groups: Vec<_> = (0..next.len()).collect();
    for (k, next) in next.iter().enumerate() {
        for &of in &next.of {
            let (a, b) = (groups[k], groups[of]);
            for group in groups.iter_mut().filter(|g| **g == a.max(b)) {
                *group = a.min(b);
            }
        }
    }
    groups
}

fn max(pool: &mut Pool, a: ExprId, b: ExprId) -> ExprId {
    pool.binary(BinaryOp::Max, DType::I64, a, b)
}
