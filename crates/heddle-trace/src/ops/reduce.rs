//! Reductions.

use heddle_ir::op::{BinaryOp, CompareOp, Extreme, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::Table;
use super::args::{Int, Number};
use super::cx::NodeCx;
use crate::error::{Result, invalid};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("_cdist_forward", |cx| {
        let (a, b) = (cx.value(0, "x1")?, cx.value(1, "x2")?);
        let order = cx.float(2, "p", 2.0)?;
        Ok(vec![distances(cx, a, b, order)?])
    }),
    ("_pdist_forward", |cx| {
        let x = cx.value(0, "self")?;
        let order = cx.float(1, "p", 2.0)?;
        let all = distances(cx, x, x, order)?;
        // Pairs of a row and a later one.
        let count = cx.size(x, 0)?;
        let places = cx.iota(count)?;
        let rows = cx.unsqueeze(places, &[1])?;
        let is_pair = cx.compare(CompareOp::Lt, rows, places)?;
        let pairs = cx.op(Op::NonZero, &[is_pair])?;
        let pairs = cx.swap(pairs, 0, 1)?;
        Ok(vec![cx.op(Op::GatherNd { batch_dims: 0 }, &[all, pairs])?])
    }),
    ("all", |cx| truth(cx, ReduceOp::Min)),
    ("all.dim", |cx| truth(cx, ReduceOp::Min)),
    ("all.dims", |cx| truth(cx, ReduceOp::Min)),
    ("amax", |cx| extreme(cx, ReduceOp::Max)),
    ("amin", |cx| extreme(cx, ReduceOp::Min)),
    ("aminmax", |cx| {
        let x = cx.value(0, "self")?;
        let rank = cx.rank(x)?;
        let axes = match cx.arg(usize::MAX, "dim") {
            Some(_) => cx.axes_arg(usize::MAX, "dim", rank)?,
            None => (0..rank).collect(),
        };
        let keep = cx.flag(usize::MAX, "keepdim", false)?;
        let least = cx.reduce(ReduceOp::Min, x, &axes, keep)?;
        Ok(vec![least, cx.reduce(ReduceOp::Max, x, &axes, keep)?])
    }),
    ("any", |cx| truth(cx, ReduceOp::Max)),
    ("any.dim", |cx| truth(cx, ReduceOp::Max)),
    ("any.dims", |cx| truth(cx, ReduceOp::Max)),
    ("argmax", |cx| arg(cx, Extreme::Max)),
    ("argmin", |cx| arg(cx, Extreme::Min)),
    ("count_nonzero", count_nonzero),
    ("count_nonzero.dim_IntList", count_nonzero),
    ("linalg_vector_norm", vector_norm),
    ("logsumexp", logsumexp),
    ("max", |cx| whole(cx, ReduceOp::Max)),
    ("max.dim", |cx| with_index(cx, Extreme::Max)),
    ("mean", mean),
    ("mean.dim", mean),
    ("min", |cx| whole(cx, ReduceOp::Min)),
    ("min.dim", |cx| with_index(cx, Extreme::Min)),
    ("prod", |cx| sum(cx, ReduceOp::Prod, None)),
    ("prod.dim_int", |cx| sum(cx, ReduceOp::Prod, Some(1))),
    ("std.correction", |cx| deviation(cx, true, false)),
    ("std.dim", |cx| deviation(cx, true, false)),
    ("std_mean.correction", |cx| deviation(cx, true, true)),
    ("sum", |cx| sum(cx, ReduceOp::Sum, None)),
    ("sum.dim_IntList", |cx| sum(cx, ReduceOp::Sum, Some(1))),
    ("var.correction", |cx| deviation(cx, false, false)),
    ("var.dim", |cx| deviation(cx, false, false)),
    ("var_mean.correction", |cx| deviation(cx, false, true)),
];

/// Sums and products; integers and truth values are counted in `i64`, and become truth values again if that is asked for.
fn sum(cx: &mut NodeCx, kind: ReduceOp, axes: Option<usize>) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let rank = cx.rank(x)?;
    let from = cx.dtype(x)?;
    let default = if from.is_float() { from } else { DType::I64 };
    let dtype = cx.dtype_arg(usize::MAX, "dtype")?.unwrap_or(default);
    let (axes, keep) = match axes {
        None => ((0..rank).collect(), false),
        Some(i) => (
            cx.axes_arg(i, "dim", rank)?,
            cx.flag(i + 1, "keepdim", false)?,
        ),
    };
    let x = cx.cast(x, dtype)?;
    let x = match dtype {
        DType::Bool => cx.cast(x, DType::I64)?,
        _ => x,
    };
    let y = cx.reduce(kind, x, &axes, keep)?;
    Ok(vec![cx.cast(y, dtype)?])
}

fn extreme(cx: &mut NodeCx, kind: ReduceOp) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let axes = cx.axes_arg(1, "dim", cx.rank(x)?)?;
    let keep = cx.flag(2, "keepdim", false)?;
    Ok(vec![cx.reduce(kind, x, &axes, keep)?])
}

fn whole(cx: &mut NodeCx, kind: ReduceOp) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let axes: Vec<usize> = (0..cx.rank(x)?).collect();
    Ok(vec![cx.reduce(kind, x, &axes, false)?])
}

/// The extreme element along an axis, and its first index.
fn with_index(cx: &mut NodeCx, kind: Extreme) -> Result<Vec<Value>> {
    let (x, axis) = (cx.value(0, "self")?, cx.int(1, "dim")?);
    let keep = cx.flag(2, "keepdim", false)?;
    let axis = cx.axis(axis, cx.rank(x)?)?;
    if cx.rank(x)? == 0 {
        let zero = cx.b.i64(0);
        return Ok(vec![x, zero]);
    }
    let reduce = match kind {
        Extreme::Max => ReduceOp::Max,
        Extreme::Min => ReduceOp::Min,
    };
    let value = cx.reduce(reduce, x, &[axis], keep)?;
    Ok(vec![value, arg_along(cx, x, kind, axis, keep)?])
}

fn arg_along(cx: &mut NodeCx, x: Value, kind: Extreme, axis: usize, keep: bool) -> Result<Value> {
    let x = match cx.dtype(x)? {
        DType::Bool => cx.cast(x, DType::I32)?,
        _ => x,
    };
    let last = false;
    cx.op(
        Op::ArgReduce {
            kind,
            axis,
            keep,
            last,
        },
        &[x],
    )
}

fn arg(cx: &mut NodeCx, kind: Extreme) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let (rank, keep) = (cx.rank(x)?, cx.flag(2, "keepdim", false)?);
    if cx.arg(1, "dim").is_some() && rank > 0 {
        let axis = cx.int(1, "dim")?;
        let axis = cx.axis(axis, rank)?;
        return Ok(vec![arg_along(cx, x, kind, axis, keep)?]);
    }
    let flat = cx.flat(x)?;
    let place = arg_along(cx, flat, kind, 0, false)?;
    Ok(vec![match keep {
        true => cx.unsqueeze(place, &(0..rank).collect::<Vec<_>>())?,
        false => place,
    }])
}

fn truth(cx: &mut NodeCx, kind: ReduceOp) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let axes = cx.axes_arg(1, "dim", cx.rank(x)?)?;
    let keep = cx.flag(2, "keepdim", false)?;
    // Bytes give bytes.
    let is_byte = cx.dtype(x)? == DType::U8;
    let x = cx.cast(x, DType::Bool)?;
    let y = cx.reduce(kind, x, &axes, keep)?;
    Ok(vec![if is_byte { cx.cast(y, DType::U8)? } else { y }])
}

fn count_nonzero(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let axes = cx.axes_arg(1, "dim", cx.rank(x)?)?;
    let x = cx.cast(x, DType::Bool)?;
    let x = cx.cast(x, DType::I64)?;
    Ok(vec![cx.reduce(ReduceOp::Sum, x, &axes, false)?])
}

fn mean(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let dtype = cx.dtype_arg(usize::MAX, "dtype")?.unwrap_or(cx.dtype(x)?);
    if !dtype.is_float() {
        return invalid(format!("a mean is of floats, not {dtype}"));
    }
    let axes = cx.axes_arg(1, "dim", cx.rank(x)?)?;
    let keep = cx.flag(2, "keepdim", false)?;
    let x = cx.cast(x, dtype)?;
    Ok(vec![cx.on_floats(x, |cx, x| cx.mean(x, &axes, keep))?])
}

/// The variance, with `n - correction` in the denominator, and the mean.
pub(super) fn variance(
    cx: &mut NodeCx,
    x: Value,
    axes: &[usize],
    correction: Number,
    keep: bool,
) -> Result<(Value, Value)> {
    let mean = cx.mean(x, axes, true)?;
    let gap = cx.sub(x, mean)?;
    let square = cx.mul(gap, gap)?;
    let count = cx.count(x, axes)?;
    let variance = match correction {
        Number::Int(0) => cx.mean(square, axes, keep)?,
        correction => {
            let sum = cx.reduce(ReduceOp::Sum, square, axes, keep)?;
            let dtype = cx.dtype(x)?;
            let count = cx.real(count, x)?;
            let correction = cx.scalar(correction, dtype)?;
            let rest = cx.sub(count, correction)?;
            let rest = cx.at_least(rest, 0.0)?;
            cx.div(sum, rest)?
        }
    };
    let mean = if keep {
        mean
    } else {
        cx.squeeze_kept(mean, axes)?
    };
    Ok((variance, mean))
}

fn deviation(cx: &mut NodeCx, has_root: bool, has_mean: bool) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let axes = cx.axes_arg(1, "dim", cx.rank(x)?)?;
    let is_dim = cx.node.target.ends_with(".dim");
    let correction = match is_dim {
        true => Number::Int(i64::from(cx.flag(2, "unbiased", true)?)),
        false => cx
            .number(usize::MAX, "correction")?
            .unwrap_or(Number::Int(1)),
    };
    let keep = match is_dim {
        true => cx.flag(3, "keepdim", false)?,
        false => cx.flag(usize::MAX, "keepdim", false)?,
    };
    let dtype = cx.dtype(x)?;
    let x = cx.widen(x)?;
    let (mut y, mean) = variance(cx, x, &axes, correction, keep)?;
    if has_root {
        y = cx.unary(UnaryOp::Sqrt, y)?;
    }
    let mut results = vec![cx.cast(y, dtype)?];
    if has_mean {
        results.push(cx.cast(mean, dtype)?);
    }
    Ok(results)
}

fn logsumexp(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let axes = cx.axes_arg(1, "dim", cx.rank(x)?)?;
    let keep = cx.flag(2, "keepdim", false)?;
    Ok(vec![cx.on_floats(x, |cx, x| {
        let most = cx.reduce(ReduceOp::Max, x, &axes, true)?;
        // Infinities have no difference.
        let is_infinite = cx.unary(UnaryOp::IsInf, most)?;
        let zero = cx.like(x, 0.0)?;
        let shift = cx.select(is_infinite, zero, most)?;
        let gap = cx.sub(x, shift)?;
        let exp = cx.unary(UnaryOp::Exp, gap)?;
        let sum = cx.reduce(ReduceOp::Sum, exp, &axes, true)?;
        let log = cx.unary(UnaryOp::Log, sum)?;
        let y = cx.add(log, shift)?;
        match keep {
            true => Ok(y),
            false => cx.squeeze_kept(y, &axes),
        }
    })?])
}

fn vector_norm(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let ord = cx.float(1, "ord", 2.0)?;
    let axes = cx.axes_arg(2, "dim", cx.rank(x)?)?;
    let keep = cx.flag(3, "keepdim", false)?;
    let dtype = cx.dtype_arg(usize::MAX, "dtype")?.unwrap_or(cx.dtype(x)?);
    let x = cx.cast(x, dtype)?;
    Ok(vec![
        cx.on_floats(x, |cx, x| norm(cx, x, ord, &axes, keep))?,
    ])
}

/// The norm of an order over axes.
pub(super) fn norm(
    cx: &mut NodeCx,
    x: Value,
    ord: f64,
    axes: &[usize],
    keep: bool,
) -> Result<Value> {
    let size = cx.unary(UnaryOp::Abs, x)?;
    if ord == f64::INFINITY {
        return cx.reduce(ReduceOp::Max, size, axes, keep);
    }
    if ord == f64::NEG_INFINITY {
        return cx.reduce(ReduceOp::Min, size, axes, keep);
    }
    if ord == 0.0 {
        let is_some = cx.compare_with(CompareOp::Ne, x, 0.0)?;
        let dtype = cx.dtype(x)?;
        let is_some = cx.cast(is_some, dtype)?;
        return cx.reduce(ReduceOp::Sum, is_some, axes, keep);
    }
    if ord == 1.0 {
        return cx.reduce(ReduceOp::Sum, size, axes, keep);
    }
    if ord == 2.0 {
        let square = cx.mul(x, x)?;
        let sum = cx.reduce(ReduceOp::Sum, square, axes, keep)?;
        return cx.unary(UnaryOp::Sqrt, sum);
    }
    let power = cx.like(x, ord)?;
    let powers = cx.binary(BinaryOp::Pow, size, power)?;
    let sum = cx.reduce(ReduceOp::Sum, powers, axes, keep)?;
    let root = cx.like(x, 1.0 / ord)?;
    cx.binary(BinaryOp::Pow, sum, root)
}

/// Norms of the differences of all pairs of rows.
fn distances(cx: &mut NodeCx, a: Value, b: Value, order: f64) -> Result<Value> {
    let rank = cx.rank(a)?;
    if rank < 2 || cx.rank(b)? < 2 {
        return invalid("rows have two axes or more");
    }
    let behind = cx.rank(b)? - 2;
    let (a, b) = (cx.unsqueeze(a, &[rank - 1])?, cx.unsqueeze(b, &[behind])?);
    let gap = cx.sub(a, b)?;
    let last = cx.rank(gap)? - 1;
    norm(cx, gap, order, &[last], false)
}

impl NodeCx<'_> {
    /// Removes axes that a reduction kept.
    pub(super) fn squeeze_kept(&mut self, x: Value, axes: &[usize]) -> Result<Value> {
        self.squeeze(x, axes)
    }

    /// The number of elements of an array.
    pub(super) fn total(&mut self, x: Value) -> Result<Int> {
        let axes: Vec<usize> = (0..self.rank(x)?).collect();
        self.count(x, &axes)
    }
}
