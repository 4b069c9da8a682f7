//! Reductions, in all their forms: axes as attribute or input, known or computed.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::cx::{NodeCx, Result, Table};
use crate::refusal::Refusal;

pub(super) const OPS: Table = &[
    ("ReduceSum", |cx| {
        run(cx, 13, |r, cx, x| r.apply(cx, ReduceOp::Sum, x))
    }),
    ("ReduceProd", |cx| {
        run(cx, 18, |r, cx, x| r.apply(cx, ReduceOp::Prod, x))
    }),
    ("ReduceMax", |cx| {
        run(cx, 18, |r, cx, x| r.apply(cx, ReduceOp::Max, x))
    }),
    ("ReduceMin", |cx| {
        run(cx, 18, |r, cx, x| r.apply(cx, ReduceOp::Min, x))
    }),
    ("ReduceMean", |cx| run(cx, 18, mean)),
    ("ReduceL1", |cx| run(cx, 18, l1)),
    ("ReduceL2", |cx| run(cx, 18, l2)),
    ("ReduceSumSquare", |cx| run(cx, 18, sum_square)),
    ("ReduceLogSum", |cx| run(cx, 18, log_sum)),
    ("ReduceLogSumExp", |cx| run(cx, 18, log_sum_exp)),
];

/// The reduced axes.
enum Axes {
    /// These axes.
    Known(Vec<usize>),
    /// All axes of a tensor whose rank is not known.
    All,
    /// Axes where a `bool[rank]` value is true, with their number, if static.
    Mask(Value, Option<usize>),
}

type Body = fn(&Axes, &mut NodeCx, Value) -> Result<Value>;

/// Reads the axes, which are an input since version `since`; reduces keeping them; drops them if
/// asked to.
fn run(cx: &mut NodeCx, since: i64, body: Body) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let axes = axes_of(cx, x, since)?;
    let y = body(&axes, cx, x)?;
    if cx.flag("keepdims", true) {
        return Ok(vec![y]);
    }
    Ok(vec![match axes {
        Axes::Known(axes) => cx.squeeze(y, &axes)?,
        Axes::All => cx.reshape(y, &[])?,
        Axes::Mask(mask, count) => {
            let rank = cx.rank(x)?;
            let keep = cx.unary(UnaryOp::Not, mask)?;
            let kept = cx.true_indices(keep)?;
            if let Some(rest) = count.and_then(|c| rank.checked_sub(c)) {
                cx.set_len(kept, rest)?;
            }
            let shape = cx.shape_of(y)?;
            let sizes = cx.gather(shape, kept, 0)?;
            cx.reshape_to(y, sizes)?
        }
    }])
}

fn axes_of(cx: &mut NodeCx, x: Value, since: i64) -> Result<Axes> {
    let noop = cx.opset >= since && cx.flag("noop_with_empty_axes", false);
    let input = if cx.opset >= since { cx.opt(1) } else { None };
    let input = input.map(|a| cx.to_indices(a)).transpose()?;
    let known = match input {
        None if cx.opset < since => Some(cx.ints("axes").unwrap_or_default().to_vec()),
        None => Some(vec![]),
        Some(axes) if cx.len_of(axes) == Some(0) => Some(vec![]),
        Some(axes) => cx.const_i64s(axes),
    };
    let rank = cx.tensor_ty(x)?.rank();
    match (known, rank, input) {
        (Some(axes), _, _) if axes.is_empty() && noop => Ok(Axes::Known(vec![])),
        (Some(axes), Some(rank), _) if axes.is_empty() => Ok(Axes::Known((0..rank).collect())),
        (Some(axes), None, _) if axes.is_empty() => Ok(Axes::All),
        (Some(axes), None, _) if axes.iter().all(|a| *a >= 0) => {
            Ok(Axes::Known(cx.axes(&axes, usize::MAX >> 1)?))
        }
        (Some(axes), Some(rank), _) => Ok(Axes::Known(cx.axes(&axes, rank)?)),
        (None, Some(rank), Some(axes)) => mask_of(cx, axes, rank, noop),
        _ => Err(Refusal::ReductionOfUnknownRank.into()),
    }
}

/// Marks computed axes; none at all means all, unless the node says that it means none.
fn mask_of(cx: &mut NodeCx, axes: Value, rank: usize, noop: bool) -> Result<Axes> {
    let count = cx.len_of(axes);
    let size = cx.b.i64s(&[rank as i64]);
    let none = cx.full(DType::Bool, size, 0.0)?;
    let len = cx.shape_of(axes)?;
    let yes = cx.full(DType::Bool, len, 1.0)?;
    let mut mask = cx.scatter(none, axes, yes, 0)?;
    if !noop && count.is_none() {
        let empty = cx.compare_to(CompareOp::Eq, len, 0.0)?;
        mask = cx.binary(BinaryOp::Or, mask, empty)?;
    }
    Ok(Axes::Mask(mask, count))
}

impl Axes {
    /// The plain reduction; reduced axes stay with size 1.
    fn apply(&self, cx: &mut NodeCx, kind: ReduceOp, x: Value) -> Result<Value> {
        match self {
            Axes::Known(axes) => cx.reduce(kind, x, axes, true),
            Axes::All => {
                let flat = cx.to_vector(x)?;
                let y = cx.reduce(kind, flat, &[0], false)?;
                let shape = cx.shape_of(x)?;
                let rank = cx.shape_of(shape)?;
                let ones = cx.full(DType::I64, rank, 1.0)?;
                cx.reshape_to(y, ones)
            }
            Axes::Mask(mask, _) => {
                let mut y = x;
                for axis in 0..cx.rank(x)? {
                    let reduced = cx.element(*mask, axis)?;
                    y = cx.branch(
                        reduced,
                        |cx| Ok(vec![cx.reduce(kind, y, &[axis], true)?]),
                        |_| Ok(vec![y]),
                    )?[0];
                }
                Ok(y)
            }
        }
    }

    /// The number of elements reduced to one, as `i64[]`.
    fn count(&self, cx: &mut NodeCx, x: Value) -> Result<Value> {
        let sizes = match self {
            Axes::Known(axes) if cx.tensor_ty(x)?.rank().is_some() => return cx.count(x, axes),
            Axes::Known(axes) => {
                let axes: Vec<_> = axes.iter().map(|&a| a as i64).collect();
                let (shape, axes) = (cx.shape_of(x)?, cx.b.i64s(&axes));
                cx.gather(shape, axes, 0)?
            }
            Axes::All => cx.shape_of(x)?,
            Axes::Mask(mask, _) => {
                let (shape, one) = (cx.shape_of(x)?, cx.b.i64(1));
                cx.select(*mask, shape, one)?
            }
        };
        cx.reduce(ReduceOp::Prod, sizes, &[0], false)
    }
}

/// Sums of half-precision numbers would overflow, so they are computed in single precision. The
/// quotient of integers is rounded toward zero.
fn mean(axes: &Axes, cx: &mut NodeCx, x: Value) -> Result<Value> {
    let dtype = cx.dtype(x)?;
    let x = cx.widen(x)?;
    let sum = axes.apply(cx, ReduceOp::Sum, x)?;
    let count = axes.count(cx, x)?;
    let wide = cx.dtype(x)?;
    let count = cx.cast(count, wide)?;
    let y = cx.div(sum, count)?;
    cx.cast(y, dtype)
}

fn l1(axes: &Axes, cx: &mut NodeCx, x: Value) -> Result<Value> {
    let abs = cx.unary(UnaryOp::Abs, x)?;
    axes.apply(cx, ReduceOp::Sum, abs)
}

fn sum_square(axes: &Axes, cx: &mut NodeCx, x: Value) -> Result<Value> {
    let square = cx.mul(x, x)?;
    axes.apply(cx, ReduceOp::Sum, square)
}

fn l2(axes: &Axes, cx: &mut NodeCx, x: Value) -> Result<Value> {
    let sum = sum_square(axes, cx, x)?;
    through_float(cx, sum, |cx, sum| cx.unary(UnaryOp::Sqrt, sum))
}

fn log_sum(axes: &Axes, cx: &mut NodeCx, x: Value) -> Result<Value> {
    let sum = axes.apply(cx, ReduceOp::Sum, x)?;
    through_float(cx, sum, |cx, sum| cx.log(sum))
}

/// `max + log(sum(exp(x - max)))`. A maximum that is infinite is not subtracted, else the
/// difference were NaN.
fn log_sum_exp(axes: &Axes, cx: &mut NodeCx, x: Value) -> Result<Value> {
    through_float(cx, x, |cx, x| {
        let max = axes.apply(cx, ReduceOp::Max, x)?;
        let infinite = cx.unary(UnaryOp::IsInf, max)?;
        let zero = cx.scalar_like(x, 0.0)?;
        let max = cx.select(infinite, zero, max)?;
        let shifted = cx.sub(x, max)?;
        let exp = cx.exp(shifted)?;
        let sum = axes.apply(cx, ReduceOp::Sum, exp)?;
        let log = cx.log(sum)?;
        cx.add(log, max)
    })
}

/// Applies a function of reals; integers go through double precision and are rounded toward zero.
fn through_float(
    cx: &mut NodeCx,
    x: Value,
    f: impl FnOnce(&mut NodeCx, Value) -> Result<Value>,
) -> Result<Value> {
    let dtype = cx.dtype(x)?;
    if dtype.is_float() {
        return f(cx, x);
    }
    let wide = cx.cast(x, DType::F64)?;
    let y = f(cx, wide)?;
    cx.cast(y, dtype)
}
