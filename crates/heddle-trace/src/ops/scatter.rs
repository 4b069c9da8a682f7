//! Writing by index arrays along an axis.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, ScatterReduce};
use heddle_ir::{DType, Emit, Op, Value};

use super::Table;
use super::args::Int;
use super::cx::NodeCx;
use super::indexing::{as_places, same_shape};
use crate::error::{Result, invalid, refuse};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("embedding_dense_backward", embedding_gradient),
    ("index_add", |cx| {
        let from = cx.value(3, "source")?;
        let from = match cx.number(usize::MAX, "alpha")? {
            Some(alpha) => {
                let dtype = cx.dtype(from)?;
                let alpha = cx.scalar(alpha, dtype)?;
                match dtype {
                    DType::Bool => cx.binary(BinaryOp::And, from, alpha)?,
                    _ => cx.mul(from, alpha)?,
                }
            }
            None => from,
        };
        rows(cx, from, ScatterReduce::Add)
    }),
    ("index_copy", |cx| {
        let from = cx.value(3, "source")?;
        rows(cx, from, ScatterReduce::Set)
    }),
    ("index_fill.int_Scalar", |cx| {
        let (x, places) = (cx.value(0, "self")?, cx.value(2, "index")?);
        let (axis, rank) = (cx.int(1, "dim")?, cx.rank(x)?);
        let axis = cx.axis(axis, rank)?;
        let (dtype, value) = (cx.dtype(x)?, cx.operand(3, "value")?);
        let value = cx.as_type(value, dtype)?;
        let mut sizes = cx.sizes(x)?;
        if rank == 0 {
            return Ok(vec![value]);
        }
        sizes[axis] = cx.total(places)?;
        let from = cx.filled(value, &sizes)?;
        rows(cx, from, ScatterReduce::Set)
    }),
    ("masked_scatter", masked_scatter),
    ("scatter.reduce", |cx| {
        let reduce = match cx.str(usize::MAX, "reduce", "")? {
            "add" => ScatterReduce::Add,
            "multiply" => ScatterReduce::Mul,
            other => return refuse(format!("reduce `{other}`")),
        };
        let from = cx.value(3, "src")?;
        Ok(vec![along(cx, from, reduce)?])
    }),
    ("scatter.src", |cx| {
        let from = cx.value(3, "src")?;
        Ok(vec![along(cx, from, ScatterReduce::Set)?])
    }),
    ("scatter.value", |cx| {
        let (x, places) = (cx.value(0, "self")?, cx.value(2, "index")?);
        let (dtype, value) = (cx.dtype(x)?, cx.operand(3, "value")?);
        let (value, sizes) = (cx.as_type(value, dtype)?, cx.sizes(places)?);
        let from = cx.filled(value, &sizes)?;
        Ok(vec![along(cx, from, ScatterReduce::Set)?])
    }),
    ("scatter_add", |cx| {
        let from = cx.value(3, "src")?;
        Ok(vec![along(cx, from, ScatterReduce::Add)?])
    }),
    ("scatter_reduce.two", reduced),
];

/// `self` with elements of `from` written at `index` along `dim`.
fn along(cx: &mut NodeCx, from: Value, reduce: ScatterReduce) -> Result<Value> {
    let x = cx.value(0, "self")?;
    write(cx, x, from, reduce)
}

fn write(cx: &mut NodeCx, x: Value, from: Value, reduce: ScatterReduce) -> Result<Value> {
    let places = cx.value(2, "index")?;
    let places = as_places(cx, places)?;
    let (axis, rank) = (cx.int(1, "dim")?, cx.rank(x)?);
    let axis = cx.axis(axis, rank)?;
    let dtype = cx.dtype(x)?;
    if rank == 0 || cx.rank(places)? == 0 {
        let sizes = cx.sizes(x)?;
        let (x, places, from) = (cx.flat(x)?, cx.flat(places)?, cx.flat(from)?);
        let y = elements(cx, x, places, from, 0, reduce, dtype)?;
        return cx.reshape(y, &sizes);
    }
    // As much of the source is used as there are indices.
    let (have, want) = (cx.shape(from)?, cx.shape(places)?);
    let mut from = from;
    if have.len() != rank || want.len() != rank {
        return invalid(format!(
            "it has {rank} axes, its indices {} and its source {}",
            want.len(),
            have.len()
        ));
    }
    for axis in 0..rank {
        if !have[axis].equals(&want[axis]) {
            let end = cx.size(places, axis)?;
            from = cx.slice(from, axis, 0.into(), end, 1.into())?;
        }
    }
    elements(cx, x, places, from, axis, reduce, dtype)
}

/// Sums of truth values are disjunctions.
fn elements(
    cx: &mut NodeCx,
    x: Value,
    places: Value,
    from: Value,
    axis: usize,
    reduce: ScatterReduce,
    dtype: DType,
) -> Result<Value> {
    let wide = match dtype {
        DType::Bool if reduce != ScatterReduce::Set => DType::I32,
        dtype => dtype,
    };
    let (x, from) = (cx.cast(x, wide)?, cx.cast(from, wide)?);
    let y = cx.op(Op::ScatterElements { axis, reduce }, &[x, places, from])?;
    cx.cast(y, dtype)
}

/// Combinations by name; without `include_self` the old elements that are written to do not count.
fn reduced(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, from) = (cx.value(0, "self")?, cx.value(3, "src")?);
    let dtype = cx.dtype(x)?;
    let includes = cx.flag(5, "include_self", true)?;
    let name = cx.str(4, "reduce", "")?;
    let (lowest, highest) = match dtype {
        _ if dtype.is_float() => (f64::NEG_INFINITY, f64::INFINITY),
        DType::Bool => (0.0, 1.0),
        _ if dtype.is_signed_int() => {
            let most = 2f64.powi(dtype.bits() as i32 - 1);
            (-most, most)
        }
        _ => (0.0, 2f64.powi(dtype.bits() as i32)),
    };
    let (reduce, neutral) = match name {
        "sum" | "mean" => (ScatterReduce::Add, 0.0),
        "prod" => (ScatterReduce::Mul, 1.0),
        "amax" => (ScatterReduce::Max, lowest),
        "amin" => (ScatterReduce::Min, highest),
        other => return refuse(format!("reduce `{other}`")),
    };
    let needs_counts = name == "mean" || !includes;
    let mut counts = None;
    if needs_counts {
        let places = cx.value(2, "index")?;
        let (zero, one) = (cx.b.i64(0), cx.b.i64(1));
        let (sizes, many) = (cx.sizes(x)?, cx.sizes(places)?);
        let (zeros, ones) = (cx.filled(zero, &sizes)?, cx.filled(one, &many)?);
        counts = Some(write(cx, zeros, ones, ScatterReduce::Add)?);
    }
    let mut start = x;
    if let (false, Some(counts)) = (includes, counts) {
        let is_hit = cx.compare_with(CompareOp::Gt, counts, 0.0)?;
        let neutral = cx.like(x, neutral)?;
        start = cx.select(is_hit, neutral, x)?;
    }
    let y = write(cx, start, from, reduce)?;
    let Some(counts) = counts.filter(|_| name == "mean") else {
        return Ok(vec![y]);
    };
    let counts = match includes {
        true => cx.plus(counts, 1.0)?,
        false => cx.at_least(counts, 1.0)?,
    };
    let counts = cx.cast(counts, dtype)?;
    Ok(vec![match dtype.is_float() {
        true => cx.div(y, counts)?,
        false => super::elementwise::floor_quotient(cx, y, counts)?,
    }])
}

/// Whole slices at indices of an axis.
fn rows(cx: &mut NodeCx, from: Value, reduce: ScatterReduce) -> Result<Vec<Value>> {
    let (x, places) = (cx.value(0, "self")?, cx.value(2, "index")?);
    let (axis, rank, dtype) = (cx.int(1, "dim")?, cx.rank(x)?, cx.dtype(x)?);
    let axis = cx.axis(axis, rank)?;
    let places = as_places(cx, places)?;
    let places = cx.flat(places)?;
    if rank == 0 {
        let (x, from) = (cx.flat(x)?, cx.flat(from)?);
        let y = elements(cx, x, places, from, 0, reduce, dtype)?;
        return Ok(vec![cx.reshape(y, &[])?]);
    }
    let perm: Vec<usize> = std::iter::once(axis)
        .chain((0..rank).filter(|a| *a != axis))
        .collect();
    let mut back = vec![0; rank];
    for (i, &p) in perm.iter().enumerate() {
        back[p] = i;
    }
    let from = if cx.rank(from)? < rank {
        cx.unsqueeze(from, &[axis])?
    } else {
        from
    };
    let (x, from) = (cx.transpose(x, &perm)?, cx.transpose(from, &perm)?);
    let tuples = cx.unsqueeze(places, &[1])?;
    let wide = match dtype {
        DType::Bool if reduce != ScatterReduce::Set => DType::I32,
        dtype => dtype,
    };
    let (x, from) = (cx.cast(x, wide)?, cx.cast(from, wide)?);
    let y = cx.op(Op::ScatterNd { reduce }, &[x, tuples, from])?;
    let y = cx.cast(y, dtype)?;
    Ok(vec![cx.transpose(y, &back)?])
}

/// The elements under the mask are those of the source, in order.
fn masked_scatter(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, mask, from) = (
        cx.value(0, "self")?,
        cx.value(1, "mask")?,
        cx.value(2, "source")?,
    );
    let dtype = cx.dtype(x)?;
    let rank = cx.rank(x)?.max(cx.rank(mask)?);
    let (x, mask) = same_shape(cx, x, mask, rank)?;
    let from = cx.cast(from, dtype)?;
    let (flat, source) = (cx.flat(mask)?, cx.flat(from)?);
    let counted = cx.cast(flat, DType::I64)?;
    let (kind, axis, exclusive, reverse) = (ReduceOp::Sum, 0, true, false);
    let places = cx.op(
        Op::Cumulative {
            kind,
            axis,
            exclusive,
            reverse,
        },
        &[counted],
    )?;
    // An element to which nothing is written reads a zero behind the source.
    let zero = cx.like(source, 0.0)?;
    let zero = cx.unsqueeze(zero, &[0])?;
    let count = cx.size(source, 0)?;
    let padded = cx.concat(&[source, zero], 0)?;
    let last = cx.int_value(count);
    let safe = cx.binary(BinaryOp::Min, places, last)?;
    let taken = cx.gather(padded, safe, 0)?;
    let sizes = cx.sizes(x)?;
    let taken = cx.reshape(taken, &sizes)?;
    Ok(vec![cx.select(mask, taken, x)?])
}

/// Gradients of the rows that were read, added up.
fn embedding_gradient(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (gradient, places) = (cx.value(0, "grad_output")?, cx.value(1, "indices")?);
    let (count, padding) = (
        cx.size_arg(2, "num_weights")?,
        cx.int_or(3, "padding_idx", -1)?,
    );
    if cx.flag(4, "scale_grad_by_freq", false)? {
        return refuse("gradients scaled by frequency");
    }
    let places = as_places(cx, places)?;
    let places = cx.flat(places)?;
    let rank = cx.rank(gradient)?;
    if rank == 0 {
        return invalid("the gradient has no axes");
    }
    let width = cx.size(gradient, rank - 1)?;
    let mut rows = cx.reshape(gradient, &[Int::Const(-1), width])?;
    if padding >= 0 {
        let is_padding = cx.compare_with(CompareOp::Eq, places, padding as f64)?;
        let is_padding = cx.unsqueeze(is_padding, &[1])?;
        let zero = cx.like(rows, 0.0)?;
        rows = cx.select(is_padding, zero, rows)?;
    }
    let zero = cx.like(rows, 0.0)?;
    let zeros = cx.filled(zero, &[count, width])?;
    let tuples = cx.unsqueeze(places, &[1])?;
    let reduce = ScatterReduce::Add;
    Ok(vec![
        cx.op(Op::ScatterNd { reduce }, &[zeros, tuples, rows])?,
    ])
}
