//! Sorting, and running sums.

use heddle_ir::op::{BinaryOp, CompareOp, Extreme, ReduceOp, UnaryOp};
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
    ("kthvalue", |cx| {
        let (x, axis, keep) = (
            cx.value(0, "self")?,
            cx.int_or(2, "dim", -1)?,
            cx.flag(3, "keepdim", false)?,
        );
        let axis = cx.axis(axis, cx.rank(x)?)?;
        let place = place_of(cx, x, axis)?;
        at_place(cx, x, axis, keep, place)
    }),
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
    ("median", |cx| {
        let x = cx.value(0, "self")?;
        let flat = cx.flat(x)?;
        let place = middle(cx, flat, 0)?;
        Ok(vec![at_place(cx, flat, 0, false, place)?[0]])
    }),
    ("median.dim", |cx| {
        let (x, axis) = (cx.value(0, "self")?, cx.int(1, "dim")?);
        let (rank, keep) = (cx.rank(x)?, cx.flag(2, "keepdim", false)?);
        let axis = cx.axis(axis, rank)?;
        let place = match rank {
            0 => cx.b.i64(0),
            _ => middle(cx, x, axis)?,
        };
        at_place(cx, x, axis, keep, place)
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

/// The place of the median in the order along an axis: of an even number the lower one of the middle, `i64[]`; the last one where a NaN is
/// among the elements, since these are ordered behind all numbers, `i64` for each row.
fn middle(cx: &mut NodeCx, x: Value, axis: usize) -> Result<Value> {
    let size = cx.size(x, axis)?;
    let last = cx.int_sub(size, 1)?;
    let half = cx.int_div(last, 2)?;
    let (last, half) = (cx.int_value(last), cx.int_value(half));
    if !cx.dtype(x)?.is_float() {
        return Ok(half);
    }
    let is_nan = cx.unary(UnaryOp::IsNan, x)?;
    let has_nan = cx.reduce(ReduceOp::Max, is_nan, &[axis], false)?;
    cx.select(has_nan, last, half)
}

/// The place of the `k`th element in the order along an axis, if there is one.
fn place_of(cx: &mut NodeCx, x: Value, axis: usize) -> Result<Value> {
    let k = cx.size_arg(1, "k")?;
    let size = match cx.rank(x)? {
        0 => Int::Const(1),
        _ => cx.size(x, axis)?,
    };
    if let (Int::Const(k), Int::Const(size)) = (k, size) {
        return match (1..=size).contains(&k) {
            true => Ok(cx.b.i64(k - 1)),
            false => invalid(format!("`k` is {k}, and the axis has the size {size}")),
        };
    }
    let (k, size) = (cx.int_value(k), cx.int_value(size));
    let is_positive = cx.compare_with(CompareOp::Ge, k, 1.0)?;
    let is_within = cx.compare(CompareOp::Le, k, size)?;
    let holds = cx.binary(BinaryOp::And, is_positive, is_within)?;
    let one = cx.b.i64(1);
    let place = cx.sub(k, one)?;
    let message = "`k` is not from 1 to the size of the axis";
    let [place] = cx.stop_unless(holds, message, [place])?;
    Ok(place)
}

/// The elements at a place in the order along an axis, and their indices. The place is one number, or one for each row.
fn at_place(
    cx: &mut NodeCx,
    x: Value,
    axis: usize,
    keep: bool,
    place: Value,
) -> Result<Vec<Value>> {
    let rank = cx.rank(x)?;
    if rank == 0 {
        let zero = cx.b.i64(0);
        return Ok(vec![x, zero]);
    }
    let size = cx.size(x, axis)?;
    let mut found = ends(cx, x, size, axis, Extreme::Min)?;
    for values in &mut found {
        *values = match cx.rank(place)? {
            0 => cx.gather(*values, place, axis)?,
            _ => {
                let places = cx.unsqueeze(place, &[axis])?;
                let row = cx.op(Op::GatherElements { axis }, &[*values, places])?;
                cx.squeeze(row, &[axis])?
            }
        };
        if keep {
            *values = cx.unsqueeze(*values, &[axis])?;
        }
    }
    Ok(found)
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
