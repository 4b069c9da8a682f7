//! Sorting, and running sums.

use heddle_ir::op::{Extreme, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::Table;
use super::args::Int;
use super::cx::NodeCx;
use crate::error::{Result, invalid};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("argsort", |cx| {
        let descends = cx.flag(2, "descending", false)?;
        Ok(vec![sorted(cx, 1, descends)?[1]])
    }),
    ("argsort.stable", |cx| {
        let descends = cx.flag(usize::MAX, "descending", false)?;
        Ok(vec![sorted(cx, usize::MAX, descends)?[1]])
    }),
    ("cumprod", |cx| running(cx, ReduceOp::Prod)),
    ("cumsum", |cx| running(cx, ReduceOp::Sum)),
    ("logcumsumexp", |cx| {
        let (x, axis) = (cx.value(0, "self")?, cx.int(1, "dim")?);
        let axis = cx.axis(axis, cx.rank(x)?)?;
        if cx.rank(x)? == 0 {
            return Ok(vec![x]);
        }
        Ok(vec![cx.on_floats(x, |cx, x| {
            // One shift for the whole axis.
            let most = cx.reduce(ReduceOp::Max, x, &[axis], true)?;
            let gap = cx.sub(x, most)?;
            let exp = cx.unary(UnaryOp::Exp, gap)?;
            let sum = cumulative(cx, ReduceOp::Sum, exp, axis)?;
            let log = cx.unary(UnaryOp::Log, sum)?;
            cx.add(log, most)
        })?])
    }),
    ("sort", |cx| {
        let descends = cx.flag(2, "descending", false)?;
        sorted(cx, 1, descends)
    }),
    ("sort.stable", |cx| {
        let descends = cx.flag(usize::MAX, "descending", false)?;
        sorted(cx, usize::MAX, descends)
    }),
    ("topk", |cx| {
        let (x, count) = (cx.value(0, "self")?, cx.size_arg(1, "k")?);
        let (axis, is_largest) = (cx.int_or(2, "dim", -1)?, cx.flag(3, "largest", true)?);
        let kind = if is_largest {
            Extreme::Max
        } else {
            Extreme::Min
        };
        let axis = cx.axis(axis, cx.rank(x)?)?;
        ends(cx, x, count, axis, kind)
    }),
];

/// The first `count` elements in order, and their indices; equal ones keep theirs.
fn ends(cx: &mut NodeCx, x: Value, count: Int, axis: usize, kind: Extreme) -> Result<Vec<Value>> {
    if cx.rank(x)? == 0 {
        let zero = cx.b.i64(0);
        return Ok(vec![x, zero]);
    }
    let dtype = cx.dtype(x)?;
    let x = match dtype {
        DType::Bool => cx.cast(x, DType::I32)?,
        _ => x,
    };
    let count = cx.int_value(count);
    let results = cx.b.op(Op::TopK { axis, kind }, &[x, count])?;
    Ok(vec![cx.cast(results[0], dtype)?, results[1]])
}

fn sorted(cx: &mut NodeCx, place: usize, descends: bool) -> Result<Vec<Value>> {
    let (x, axis) = (cx.value(0, "self")?, cx.int_or(place, "dim", -1)?);
    let rank = cx.rank(x)?;
    let axis = cx.axis(axis, rank)?;
    let kind = if descends { Extreme::Max } else { Extreme::Min };
    let count = if rank == 0 {
        Int::Const(1)
    } else {
        cx.size(x, axis)?
    };
    ends(cx, x, count, axis, kind)
}

fn cumulative(cx: &mut NodeCx, kind: ReduceOp, x: Value, axis: usize) -> Result<Value> {
    let (exclusive, reverse) = (false, false);
    cx.op(
        Op::Cumulative {
            kind,
            axis,
            exclusive,
            reverse,
        },
        &[x],
    )
}

/// Integers and truth values are counted in `i64`.
fn running(cx: &mut NodeCx, kind: ReduceOp) -> Result<Vec<Value>> {
    let (x, axis) = (cx.value(0, "self")?, cx.int(1, "dim")?);
    let (rank, from) = (cx.rank(x)?, cx.dtype(x)?);
    let default = if from.is_float() { from } else { DType::I64 };
    let dtype = cx.dtype_arg(usize::MAX, "dtype")?.unwrap_or(default);
    if dtype == DType::Bool {
        return invalid("truth values have no running sum");
    }
    let (x, axis) = (cx.cast(x, dtype)?, cx.axis(axis, rank)?);
    match rank {
        0 => Ok(vec![x]),
        _ => Ok(vec![cumulative(cx, kind, x, axis)?]),
    }
}
