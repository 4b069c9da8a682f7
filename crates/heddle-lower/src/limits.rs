//! Limits of carried arrays whose sizes change, computed at launch for [`grow`](super::grow).
//!
//! After an iteration a size is at most the limit of one of the loop's sizes plus the growth per
//! iteration, or something independent of them. Sizes that become one another share a limit: the
//! largest initial size plus, for each iteration, their largest growth.

use std::collections::{HashMap, HashSet};

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp};

use super::grow::Grown;
use super::{Lowerer, MAX_LEN, MAX_TRIPS, Result};
use crate::value::Val;
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::Local;

/// An upper bound of a size after an iteration.
#[derive(Clone)]
struct Next {
    /// The limits that it depends on, by index; the growth is added to each.
    of: Vec<usize>,
    /// The growth per iteration.
    growth: ExprId,
    /// A bound independent of the limits.
    least: Option<ExprId>,
}

/// Derives sizes after an iteration.
struct Finder<'a> {
    pool: &'a mut Pool,
    limits: &'a [Local],
    /// Values computed at launch.
    definitions: HashMap<Local, ExprId>,
    found: HashMap<ExprId, Found>,
}

#[derive(Clone)]
enum Found {
    /// Independent of the limits.
    Fixed,
    /// A limit plus growth.
    Next(Next),
    /// Any other growth.
    Unbounded,
}

impl Lowerer<'_> {
    /// Defines the limits of a loop's carried arrays from their next values and the bound on the
    /// trip count.
    pub(super) fn set_limits(
        &mut self,
        carried: &[(Grown, Val)],
        trip: Option<ExprId>,
    ) -> Result<()> {
        let axes = carried.iter().flat_map(|(grown, next)| {
            let axes = grown.axes.iter();
            axes.filter_map(move |a| Some((grown.param, a, a.limit?, next.shape()[a.axis])))
        });
        let axes: Vec<_> = axes.collect();
        let limits: Vec<_> = axes.iter().map(|(_, _, limit, _)| limit.most).collect();
        let mut next = vec![];
        for &(param, axis, limit, size) in &axes {
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
                (None, Some(stated)) => self.stated(limit.first, size, stated),
                (None, None) => return self.has_no_limit(param, axis.axis),
            });
        }
        let groups = groups(&next);
        for (k, &(param, axis, own, _)) in axes.iter().enumerate() {
            let pool = &mut self.program.pool;
            let (mut first, mut growth) = (own.first, pool.int(0));
            for m in (0..axes.len()).filter(|&m| groups[m] == groups[k]) {
                first = max(pool, first, axes[m].2.first);
                first = next[m].least.map_or(first, |least| max(pool, first, least));
                growth = max(pool, growth, next[m].growth);
            }
            let Some(limit) = self.after_iterations(first, growth, trip) else {
                return self.has_no_limit(param, axis.axis);
            };
            self.program.derived.push((own.most, limit));
        }
        Ok(())
    }

    /// A size bounded by the model's type, which is checked.
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

    /// `first` plus `growth` per iteration, if these have a bound.
    fn after_iterations(
        &mut self,
        first: ExprId,
        growth: ExprId,
        trip: Option<ExprId>,
    ) -> Option<ExprId> {
        let (zero, one) = (self.program.pool.int(0), self.program.pool.int(1));
        if growth == zero {
            return Some(first);
        }
        let trip = trip.map(|trip| max(&mut self.program.pool, trip, zero));
        let trip = trip.and_then(|trip| self.upper_bound(trip));
        let pool = &mut self.program.pool;
        let trip = trip.filter(|&t| pool.as_int(t).is_none_or(|n| n <= MAX_TRIPS))?;
        // Saturates above any memory size, without overflow.
        let (most, at_least) = (pool.int(MAX_LEN), max(pool, growth, one));
        let most = pool.binary(BinaryOp::Div, DType::I64, most, at_least);
        let most = pool.sum(most, one);
        let trip = pool.binary(BinaryOp::Min, DType::I64, trip, most);
        let all = pool.product(trip, growth);
        Some(pool.sum(first, all))
    }

    /// Sorts the launch's definitions so that limits precede their uses.
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
    /// The size after an iteration, from its upper bound.
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
                // Twice a limit is not a sum with growth.
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
            // Each operand is an upper bound; prefer one that is constant.
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
                // A negative dividend would make the quotient larger.
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

    /// True for a bound that means "no limit" in models: a slice's end beyond every array's.
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

/// For each size the first one that it shares a limit with.
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
