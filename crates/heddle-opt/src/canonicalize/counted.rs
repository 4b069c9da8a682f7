//! Derives trip counts from loop conditions.
//!
//! A back-edge condition `iteration + 1 < n` with the initial condition `0 < n` states a trip
//! count. In conjunction with another condition, or if the comparison is of floats, which are
//! rounded, it states a bound. Exporters write it in many ways: with a carried counter of 32 bits,
//! with both numbers cast, with an `n` that each iteration recomputes from loop-invariant values.

use heddle_ir::op::{BinaryOp, CompareOp, Effect};
use heddle_ir::{DType, LoopView, Op, Region, Tensor, Type, Value, ValueDef};

use super::control::truth_of;
use super::rewriter::Rewriter;

/// Trip count, or bound on it, that follows from a condition.
pub(super) enum Counted {
    /// The trip count.
    Exactly(Value),
    /// An upper bound; the condition stays.
    AtMost(Value),
}

/// Floats represent all integers up to this.
const MAX_WHOLE: i64 = 1 << 24;

/// Maximum depth to which expressions are compared.
const MAX_DEPTH: usize = 8;

/// The limit that the iteration number is compared with.
#[derive(Clone, Copy)]
enum Limit {
    Known(i64),
    /// A scalar of 32 or 64 bits.
    Integer(Value),
    /// A scalar that is rounded to a float first.
    Rounded(Value),
}

/// The trip count that the initial condition and the back-edge condition state, if they count
/// iterations.
pub(super) fn counted(
    cx: &mut Rewriter,
    p: &LoopView,
    cond: Value,
    next: Value,
) -> Option<Counted> {
    let tests = conjuncts(cx, next);
    let (count, limit) = tests.iter().find_map(|&test| {
        let (number, count) = compared(cx, test)?;
        let limit = limit_of(cx, count)?;
        let limit = outside(cx, p, cond, count, limit)?;
        is_number(cx, p, number, limit).then_some((count, limit))
    })?;
    let n = match limit {
        Limit::Known(n) => cx.constant_value(Tensor::scalar(n))?,
        Limit::Integer(n) | Limit::Rounded(n) => n,
    };
    let n = match *cx.ty(n) == Type::scalar(DType::I64) {
        true => n,
        false => cx.op(Op::cast(DType::I64), &[n])?,
    };
    let decides = tests.len() == 1 && !matches!(limit, Limit::Rounded(_));
    if decides && begins(cx, cond, count, limit) {
        return Some(Counted::Exactly(n));
    }
    // The back-edge condition does not guarantee a first iteration.
    let one = cx.constant_value(Tensor::scalar(1i64))?;
    let most = cx.op(Op::Binary(BinaryOp::Max), &[n, one])?;
    Some(match decides && truth_of(cx, cond) == Some(true) {
        true => Counted::Exactly(most),
        false => Counted::AtMost(most),
    })
}

/// The terms of a conjunction.
fn conjuncts(cx: &Rewriter, cond: Value) -> Vec<Value> {
    let (mut found, mut open) = (vec![], vec![(cond, 0)]);
    while let Some((value, depth)) = open.pop() {
        match cx.definition(value) {
            Some((Op::Binary(BinaryOp::And), args)) if depth < MAX_DEPTH => {
                open.extend(args.into_iter().map(|arg| (arg, depth + 1)));
            }
            _ => {
                found.push(value);
                let first = chosen_if(cx, value).filter(|_| depth < MAX_DEPTH);
                open.extend(first.map(|first| (first, depth + 1)));
            }
        }
    }
    found
}

/// The condition of a branch whose other arm is false: `a` in `a and b`, where `b` is computed only
/// if `a` holds.
fn chosen_if(cx: &Rewriter, value: Value) -> Option<Value> {
    let func = cx.patch.func();
    let ValueDef::Result(inst, place) = func.values[value].def else {
        return None;
    };
    let data = &func.insts[inst];
    let (Op::If, &[_, otherwise]) = (&data.op, data.regions.as_slice()) else {
        return None;
    };
    let otherwise = *cx.patch.yields(otherwise).get(place as usize)?;
    (truth_of(cx, otherwise) == Some(false)).then(|| cx.patch.resolve(data.args[0]))
}

/// The operands of a `less than`, smaller first.
fn compared(cx: &Rewriter, test: Value) -> Option<(Value, Value)> {
    match cx.definition(test)? {
        (Op::Compare(CompareOp::Lt), args) => Some((args[0], args[1])),
        (Op::Compare(CompareOp::Gt), args) => Some((args[1], args[0])),
        _ => None,
    }
}

/// The element type of a scalar.
fn scalar(cx: &Rewriter, value: Value) -> Option<DType> {
    let t = cx.ty(value).as_tensor()?;
    (t.rank() == Some(0)).then_some(t.dtype)
}

fn is_integer(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// The limit that a value represents.
fn limit_of(cx: &Rewriter, count: Value) -> Option<Limit> {
    let dtype = scalar(cx, count)?;
    if is_integer(dtype) {
        let known = cx.integer_of(count).map(Limit::Known);
        return Some(known.unwrap_or(Limit::Integer(count)));
    }
    if !is_float(dtype) {
        return None;
    }
    if let Some(constant) = cx.constant(count) {
        let number = *constant.to_f64s()?.first()?;
        let is_whole = number.abs() <= MAX_WHOLE as f64;
        return is_whole.then_some(Limit::Known(number.ceil() as i64));
    }
    match cx.definition(count)? {
        (Op::Cast { .. }, args) if is_integer(scalar(cx, args[0])?) => {
            let known = cx.integer_of(args[0]);
            let known = known.filter(|n| (-MAX_WHOLE..=MAX_WHOLE).contains(n));
            Some(known.map_or(Limit::Rounded(args[0]), Limit::Known))
        }
        _ => None,
    }
}

/// The limit in terms of values defined before the loop. The initial condition may recompute an
/// expression of the body.
fn outside(cx: &Rewriter, p: &LoopView, cond: Value, count: Value, limit: Limit) -> Option<Limit> {
    let value = match limit {
        Limit::Known(_) => return Some(limit),
        Limit::Integer(value) | Limit::Rounded(value) => value,
    };
    if !is_inside(cx, value, p.body) {
        return Some(limit);
    }
    let mut first = conjuncts(cx, cond).into_iter();
    first.find_map(|test| {
        let (_, same) = compared(cx, test)?;
        alike(cx, count, same, 0).then(|| limit_of(cx, same))?
    })
}

fn is_inside(cx: &Rewriter, value: Value, body: Region) -> bool {
    match cx.patch.func().values[value].def {
        ValueDef::Result(inst, _) => cx.patch.home(inst) == Some(body),
        ValueDef::Param(region, _) => region == body,
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

/// Is a value the number of completed iterations, at least up to this limit?
fn is_number(cx: &Rewriter, p: &LoopView, number: Value, limit: Limit) -> bool {
    let wide = match limit {
        Limit::Known(n) => i32::try_from(n).is_err(),
        Limit::Integer(n) | Limit::Rounded(n) => scalar(cx, n) == Some(DType::I64),
    };
    // A 32-bit counter wraps before it reaches a large 64-bit limit.
    let holds = |v: Value| match scalar(cx, v) {
        Some(DType::I32) => !wide,
        Some(dtype) => dtype == DType::I64 || is_float(dtype),
        None => false,
    };
    let Some(sum) = uncast(cx, number, &holds) else {
        return false;
    };
    let before = one_less(cx, sum).and_then(|before| uncast(cx, before, &holds));
    before.is_some_and(|before| is_counter(cx, p, before))
}

/// `x`, if a value is `x + 1`.
pub(super) fn one_less(cx: &Rewriter, value: Value) -> Option<Value> {
    let (Op::Binary(BinaryOp::Add), args) = cx.definition(value)? else {
        return None;
    };
    let mut sides = [(args[0], args[1]), (args[1], args[0])].into_iter();
    sides.find_map(|(a, b)| (cx.integer_of(b) == Some(1)).then_some(a))
}

/// The source of a chain of casts between types that hold the number. Only the last one, which is
/// compared, may round.
fn uncast(cx: &Rewriter, mut value: Value, holds: &dyn Fn(Value) -> bool) -> Option<Value> {
    let mut is_whole = false;
    for _ in 0..MAX_DEPTH {
        let rounds = scalar(cx, value).is_some_and(is_float);
        if !holds(value) || is_whole && rounds {
            return None;
        }
        is_whole |= !rounds;
        value = match cx.definition(value) {
            Some((Op::Cast { .. }, args)) => args[0],
            _ => return scalar(cx, value).is_some_and(is_integer).then_some(value),
        };
    }
    None
}

/// Is a value of the body the iteration number: the loop's own, or a carried counter that starts at
/// 0 with step 1?
fn is_counter(cx: &Rewriter, p: &LoopView, value: Value) -> bool {
    let Some(k) = p.params.iter().position(|&param| param == value) else {
        return value == p.iteration;
    };
    cx.integer_of(p.inits[k]) == Some(0) && one_less(cx, p.next[k]) == Some(value)
}

/// Is the initial condition `0 < limit`?
fn begins(cx: &Rewriter, cond: Value, count: Value, limit: Limit) -> bool {
    if let Some(begins) = truth_of(cx, cond) {
        return begins && matches!(limit, Limit::Known(1..));
    }
    let Some((first, same)) = compared(cx, cond) else {
        return false;
    };
    let is_zero = match cx.constant(first).and_then(Tensor::to_f64s) {
        Some(elements) => elements == [0.0],
        None => cx.integer_of(first) == Some(0),
    };
    let is_same = match (limit, limit_of(cx, same)) {
        (Limit::Known(n), Some(Limit::Known(other))) => n == other,
        _ => alike(cx, count, same, 0),
    };
    is_zero && is_same
}
