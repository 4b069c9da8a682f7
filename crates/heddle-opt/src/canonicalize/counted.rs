//! Derives trip counts from loop conditions.
//!
//! A back-edge condition `iteration + 1 < n` with the initial condition `0 < n` states a trip
//! count. In conjunction with another condition, or if the comparison is of floats, which are
//! rounded, it states a bound. Exporters write it in many ways: with a carried counter of 32 bits
//! that begins anywhere and steps by any constant, with both numbers cast, with an `n` that each
//! iteration recomputes from loop-invariant values, with the length of an array that grows. Both
//! sides may move.

mod between;
mod number;
mod position;
mod range;
mod test;
mod trips;

use std::collections::HashSet;

use heddle_ir::op::{BinaryOp, UnaryOp};
use heddle_ir::{DType, LoopView, Op, Value, ValueDef};

use super::rewriter::{Rewriter, truth_of};
use number::Number;
use position::{MAX_DEPTH, Scope, arms_of, keeps_one};
use trips::Begins;

/// Trip count, or bound on it, that follows from a condition.
pub(super) enum Counted {
    /// The trip count.
    Exactly(Value),
    /// An upper bound; the condition stays.
    AtMost(Value),
}

/// Maximum number of tests that bound the trip count together.
const MAX_TESTS: usize = 4;

/// The trip count that the initial condition and the back-edge condition state, if they count
/// iterations.
pub(super) fn counted(
    cx: &mut Rewriter,
    p: &LoopView,
    cond: Value,
    next: Value,
) -> Option<Counted> {
    let (conditions, first) = (conjuncts(cx, next), conjuncts(cx, cond));
    let scope = Scope::new(cx, p, &conditions);
    let always = truth_of(cx, cond) == Some(true);
    let (mut all, mut decides) = (None::<Number>, true);
    let (mut begins, mut begun) = (true, HashSet::new());
    let mut found = 0;
    for &condition in &conditions {
        let test = test::test(cx, &scope, condition, &first);
        let trips = test.and_then(|test| Some((test, test.trips(cx)?)));
        let Some((test, trips)) = trips.filter(|_| found < MAX_TESTS) else {
            decides = false;
            continue;
        };
        found += 1;
        decides &= trips.exact;
        match test.begins {
            Begins::Untested => begins = false,
            Begins::Holds => {}
            Begins::Is(k) => {
                begun.insert(k);
            }
        }
        all = Some(match all {
            Some(all) => all.binary(cx, BinaryOp::Min, trips.number)?,
            None => trips.number,
        });
    }
    let all = match all {
        Some(all) => all,
        None => {
            decides = false;
            begins = false;
            test::together(cx, &scope, &conditions, &first)?
        }
    };
    if decides && begins && begun.len() == first.len() {
        return Some(Counted::Exactly(all.scalar(cx)?));
    }
    // The back-edge condition does not guarantee a first iteration.
    let most = all
        .binary(cx, BinaryOp::Max, Number::Known(1))?
        .scalar(cx)?;
    Some(match decides && always {
        true => Counted::Exactly(most),
        false => Counted::AtMost(most),
    })
}

/// A term of a conjunction, and the truth value that it must have.
type Condition = (Value, bool);

/// The terms of a conjunction: `a and b`, also if `b` is computed only where `a` holds.
fn conjuncts(cx: &Rewriter, cond: Value) -> Vec<Condition> {
    let (mut found, mut open) = (vec![], vec![(cond, true, 0)]);
    while let Some((value, truth, depth)) = open.pop() {
        let parts = match depth < MAX_DEPTH {
            true => parts_of(cx, value, truth),
            false => vec![],
        };
        match parts.is_empty() {
            // It may hold always.
            true if truth_of(cx, value) == Some(truth) => {}
            true => found.push((value, truth)),
            false => open.extend(parts.into_iter().map(|(v, t)| (v, t, depth + 1))),
        }
    }
    found
}

/// The terms that a condition is the conjunction of, unless it is one itself.
fn parts_of(cx: &Rewriter, value: Value, truth: bool) -> Vec<Condition> {
    if let Some([then, otherwise]) = arms_of(cx, value) {
        let chosen_by = chooser(cx, value);
        let (then_is, otherwise_is) = (truth_of(cx, then), truth_of(cx, otherwise));
        return match () {
            _ if otherwise_is == Some(!truth) => {
                chosen_by.map_or(vec![], |c| vec![(c, true), (then, truth)])
            }
            _ if then_is == Some(!truth) => {
                chosen_by.map_or(vec![], |c| vec![(c, false), (otherwise, truth)])
            }
            _ => vec![],
        };
    }
    match cx.definition(value) {
        Some((Op::Binary(BinaryOp::And | BinaryOp::Min), args)) if truth => {
            args.into_iter().map(|arg| (arg, true)).collect()
        }
        Some((Op::Binary(BinaryOp::Or | BinaryOp::Max), args)) if !truth => {
            args.into_iter().map(|arg| (arg, false)).collect()
        }
        Some((Op::Unary(UnaryOp::Not), args)) => vec![(args[0], !truth)],
        Some((op, args)) if keeps_one(op) && is_one_bool(cx, args[0]) => vec![(args[0], truth)],
        _ => vec![],
    }
}

/// The condition of the branch that a value is a result of.
fn chooser(cx: &Rewriter, value: Value) -> Option<Value> {
    let ValueDef::Result(inst, _) = cx.patch.func().values[value].def else {
        return None;
    };
    cx.patch.args(inst).first().copied()
}

fn is_one_bool(cx: &Rewriter, value: Value) -> bool {
    let t = cx.ty(value).as_tensor();
    t.is_some_and(|t| {
        t.dtype == DType::Bool && t.static_shape().is_some_and(|s| s.iter().all(|&n| n == 1))
    })
}
