//! Tests of counters: comparisons of what a loop carries with what stays the same.

use heddle_ir::op::{BinaryOp, CompareOp, Effect};
use heddle_ir::{DType, Op, Tensor, Value, cannot_fail};

use super::Condition;
use super::between::tested_between;
use super::number::Number;
use super::position::{Anchor, MAX_DEPTH, Part, Scope, arms_pairwise, one_integer};
use super::range::{Interval, SMALL};
use super::trips::{Begins, Test};
use crate::canonicalize::rewriter::Rewriter;

/// Floats represent all integers up to this.
const MAX_WHOLE: i128 = 1 << 24;

/// The test that a condition is, if it is one. `first` are the conditions before the first
/// iteration.
pub(super) fn test(
    cx: &mut Rewriter,
    scope: &Scope,
    condition: Condition,
    first: &[Condition],
) -> Option<Test> {
    let (relation, a, b) = comparison(cx, condition)?;
    let ways = [(relation, a, b), (mirrored(relation), b, a)];
    let found = ways
        .into_iter()
        .find_map(|way| tested(cx, scope, way, first));
    found.or_else(|| {
        ways.into_iter().find_map(|way| {
            let difference = tested_difference(cx, scope, way, first);
            difference.or_else(|| tested_between(cx, scope, way, first))
        })
    })
}

/// A comparison that holds, and its operands.
pub(super) type Comparison = (CompareOp, Value, Value);

fn comparison(cx: &Rewriter, (value, truth): Condition) -> Option<Comparison> {
    let (&Op::Compare(relation), args) = cx.definition(value)? else {
        return None;
    };
    let relation = match (truth, relation) {
        (true, relation) => relation,
        (false, CompareOp::Eq) => CompareOp::Ne,
        (false, CompareOp::Ne) => CompareOp::Eq,
        // Floats have no opposite comparison: NaN fails both.
        (false, _) if one_integer(cx, args[0]).is_none() => return None,
        (false, CompareOp::Lt) => CompareOp::Ge,
        (false, CompareOp::Le) => CompareOp::Gt,
        (false, CompareOp::Gt) => CompareOp::Le,
        (false, CompareOp::Ge) => CompareOp::Lt,
    };
    Some((relation, args[0], args[1]))
}

fn mirrored(relation: CompareOp) -> CompareOp {
    match relation {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        CompareOp::Eq | CompareOp::Ne => relation,
    }
}

/// The test of a counter, on the left, by a limit.
fn tested(
    cx: &mut Rewriter,
    scope: &Scope,
    (relation, counter, count): Comparison,
    first: &[Condition],
) -> Option<Test> {
    if relation == CompareOp::Eq {
        return None;
    }
    let position = scope.position(cx, before_rounding(cx, counter)?, Part::Number)?;
    let step = scope.step(cx, position.anchor)?;
    let limit = limit(cx, scope, relation, count, first)?;
    let start = start(cx, scope, position.anchor)?;
    let mut test = Test {
        anchor: position.anchor,
        offset: position.offset,
        step: step.offset,
        range: position.range.common(step.range),
        relation,
        limit: limit.number,
        rounded: limit.rounded,
        start,
        begins: Begins::Untested,
    };
    if test.offset == test.step {
        test.begins = begins(cx, &test, count, first);
    }
    Some(test)
}

/// The test of what is left to a limit: `n - c > k` is `c < n - k` if no difference overflows.
fn tested_difference(
    cx: &mut Rewriter,
    scope: &Scope,
    (relation, left, constant): Comparison,
    first: &[Condition],
) -> Option<Test> {
    let k = i128::from(cx.integer_of(constant)?);
    if one_integer(cx, left)? != DType::I64 || !Interval::from(k as i64).is_within(SMALL) {
        return None;
    }
    let (Op::Binary(BinaryOp::Sub), args) = cx.definition(left)? else {
        return None;
    };
    let way = (mirrored(relation), args[1], args[0]);
    let mut test = tested(cx, scope, way, first)?;
    let rises = test.step.low.is_some_and(|n| n >= 0) && test.start.range().low? >= 0;
    // A limit that was above a counter that is not negative is far from the other end.
    let is_tested = k == 0 && test.begins != Begins::Untested;
    if !rises || !test.start.is_small() || !test.limit.is_small() && !is_tested {
        return None;
    }
    if k != 0 {
        test.begins = Begins::Untested;
        test.limit = test.limit.add(cx, -k)?;
    }
    Some(test)
}

/// The integer that a value is, or is rounded from.
fn before_rounding(cx: &Rewriter, value: Value) -> Option<Value> {
    let is_integer = |v: Value| one_integer(cx, v).is_some();
    if is_integer(value) {
        return Some(value);
    }
    match cx.definition(value)? {
        (Op::Cast { .. }, args) if is_float(cx, value) && is_integer(args[0]) => Some(args[0]),
        _ => None,
    }
}

fn is_float(cx: &Rewriter, value: Value) -> bool {
    let dtype = cx.ty(value).as_tensor().map(|t| t.dtype);
    matches!(dtype, Some(DType::F32 | DType::F64))
}

struct Limit {
    number: Number,
    rounded: bool,
}

/// The limit that a value represents.
fn limit(
    cx: &mut Rewriter,
    scope: &Scope,
    relation: CompareOp,
    count: Value,
    first: &[Condition],
) -> Option<Limit> {
    let rounded = is_float(cx, count);
    if let Some(constant) = cx.constant(count).filter(|_| rounded) {
        let &[number] = constant.to_f64s()?.as_slice() else {
            return None;
        };
        let whole = match relation {
            CompareOp::Lt | CompareOp::Ge => number.ceil(),
            CompareOp::Le | CompareOp::Gt => number.floor(),
            _ => return None,
        };
        let number = (number.abs() <= MAX_WHOLE as f64).then_some(Number::Known(whole as i128))?;
        return Some(Limit {
            number,
            rounded: false,
        });
    }
    let count = before_rounding(cx, count)?;
    let number = match cx.integer_of(count) {
        Some(known) => Number::Known(known.into()),
        None => {
            let count = outside(cx, scope, count, first)?;
            Number::of(cx, count)?
        }
    };
    let is_exact = number
        .range()
        .is_within(Interval::new(-MAX_WHOLE, MAX_WHOLE));
    let rounded = rounded && !is_exact;
    // Numbers that round to one are not less than each other, but may be at most each other.
    let is_strict = matches!(relation, CompareOp::Lt | CompareOp::Gt);
    (is_strict || !rounded).then_some(Limit { number, rounded })
}

/// A value in terms of those before the loop: what the initial condition computes, or a copy.
fn outside(cx: &mut Rewriter, scope: &Scope, value: Value, first: &[Condition]) -> Option<Value> {
    if !scope.holds(cx, value) {
        return Some(value);
    }
    let known = first.iter().find_map(|&condition| {
        let (_, a, b) = comparison(cx, condition)?;
        let mut sides = [a, b].into_iter().filter_map(|v| before_rounding(cx, v));
        sides.find(|&v| alike(cx, value, v, 0) && !scope.holds(cx, v))
    });
    known.or_else(|| copied(cx, scope, value, 0))
}

/// A copy, before the loop, of what is computed in it from what it does not change.
fn copied(cx: &mut Rewriter, scope: &Scope, value: Value, depth: usize) -> Option<Value> {
    if !scope.holds(cx, value) {
        return Some(value);
    }
    let inst = cx.patch.func().def_inst(value)?;
    let (op, args) = cx.definition(value)?;
    let op = op.clone();
    let is_pure = op.props().effect == Effect::Pure;
    let is_shape = matches!(op, Op::Shape | Op::Gather { .. });
    if depth > MAX_DEPTH || !is_pure || !is_shape && !cannot_fail(cx.patch.func(), inst) {
        return None;
    }
    let view = scope.view;
    let param = |v: &Value| view.params.iter().position(|p| p == v);
    if let (Op::Shape, Some(k)) = (&op, args.first().and_then(param)) {
        // Sizes that all iterations have in common.
        let known = cx.known(value)?.to_vec();
        let copy = cx.op(op, &[view.inits[k]])?;
        let is_same = known.iter().all(|d| d.as_expr().is_some()) && cx.known(copy)? == known;
        return is_same.then_some(copy);
    }
    let args = args.iter().map(|&arg| copied(cx, scope, arg, depth + 1));
    let args: Option<Vec<_>> = args.collect();
    cx.op(op, &args?)
}

/// The anchor before the first iteration.
pub(super) fn start(cx: &mut Rewriter, scope: &Scope, anchor: Anchor) -> Option<Number> {
    let Anchor::Carried(k, part) = anchor else {
        return Some(Number::Known(0));
    };
    let init = scope.view.inits[k];
    let value = match part {
        Part::Number => init,
        Part::Axis(axis) => {
            if let Some(size) = cx.shape(init)?.get(axis)?.as_const() {
                return Some(Number::Known(size.into()));
            }
            let shape = cx.op(Op::Shape, &[init])?;
            let axis = cx.constant_value(Tensor::scalar(i64::try_from(axis).ok()?))?;
            cx.op(Op::Gather { axis: 0 }, &[shape, axis])?
        }
        Part::Length => cx.op(Op::SeqLen, &[init])?,
    };
    Number::of(cx, value)
}

/// The test before the first iteration; `count` is the limit in the loop.
pub(super) fn begins(cx: &Rewriter, test: &Test, count: Value, first: &[Condition]) -> Begins {
    if let (Number::Known(start), Number::Known(limit)) = (test.start, test.limit) {
        let holds = match test.relation {
            CompareOp::Lt => start < limit,
            CompareOp::Le => start <= limit,
            CompareOp::Gt => start > limit,
            CompareOp::Ge => start >= limit,
            CompareOp::Ne => start != limit,
            CompareOp::Eq => start == limit,
        };
        if holds {
            return Begins::Holds;
        }
    }
    let is_limit = |v: Value| alike(cx, count, v, 0) || is_number(cx, v, test.limit);
    let is_test = |&condition: &Condition| {
        let Some((relation, a, b)) = comparison(cx, condition) else {
            return false;
        };
        let sides = [(relation, a, b), (mirrored(relation), b, a)];
        sides.into_iter().any(|(relation, start, limit)| {
            relation == test.relation && is_number(cx, start, test.start) && is_limit(limit)
        })
    };
    let place = first.iter().position(is_test);
    place.map_or(Begins::Untested, Begins::Is)
}

fn is_number(cx: &Rewriter, value: Value, number: Number) -> bool {
    let float = || match cx.constant(value)?.to_f64s()?.as_slice() {
        &[n] => Some(n),
        _ => None,
    };
    match number {
        Number::Known(n) if is_float(cx, value) => float() == Some(n as f64),
        Number::Known(n) => cx.integer_of(value).map(i128::from) == Some(n),
        Number::Value(other, _) => {
            let value = before_rounding(cx, value).unwrap_or(value);
            let both = cx.known(value).zip(cx.known(other));
            let is_known =
                both.is_some_and(|(a, b)| a == b && a.iter().all(|d| d.as_expr().is_some()));
            is_known || alike(cx, value, other, 0)
        }
    }
}

/// Are two values the same expression over the same values?
fn alike(cx: &Rewriter, a: Value, b: Value, depth: usize) -> bool {
    if a == b {
        return true;
    }
    let (Some((op, args)), Some((other, others))) = (cx.definition(a), cx.definition(b)) else {
        return false;
    };
    let is_pure = op.props().effect == Effect::Pure;
    depth < MAX_DEPTH
        && is_pure
        && op == other
        && args.len() == others.len()
        && args
            .iter()
            .zip(&others)
            .all(|(&a, &b)| alike(cx, a, b, depth + 1))
}

/// A bound on the trip count if each iteration moves one of two counters: not more iterations than
/// both counters together have steps to their limits.
pub(super) fn together(
    cx: &mut Rewriter,
    scope: &Scope,
    conditions: &[Condition],
    first: &[Condition],
) -> Option<Number> {
    let tests = conditions.iter().filter_map(|&c| test(cx, scope, c, first));
    let tests: Vec<_> = tests.filter(|t| t.offset == t.step).collect();
    for (i, &a) in tests.iter().enumerate() {
        for &b in &tests[i + 1..] {
            if least_together(cx, scope, a, b).is_some_and(|least| least >= 1) {
                let a = a.one_step().trips(cx)?.number.at_least_1(cx)?;
                let b = b.one_step().trips(cx)?.number.at_least_1(cx)?;
                return a.binary(cx, BinaryOp::Add, b);
            }
        }
    }
    None
}

/// The least sum of the steps of two counters toward their limits.
fn least_together(cx: &Rewriter, scope: &Scope, a: Test, b: Test) -> Option<i128> {
    let next = |t: Test| match t.anchor {
        Anchor::Carried(k, part) => Some((scope.view.next[k], part)),
        Anchor::Iteration => None,
    };
    let ((next_a, part_a), (next_b, part_b)) = (next(a)?, next(b)?);
    let least = |t: Test, v: Value, part: Part| {
        let position = scope.position(cx, v, part)?;
        let moves = if t.falls() {
            -position.offset
        } else {
            position.offset
        };
        moves.low.filter(|_| position.anchor == t.anchor)
    };
    let pairs = arms_pairwise(cx, next_a, next_b);
    let sums = pairs
        .into_iter()
        .map(|(v, w)| Some(least(a, v, part_a)? + least(b, w, part_b)?));
    sums.collect::<Option<Vec<_>>>()?.into_iter().min()
}
