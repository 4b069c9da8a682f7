//! Gathering, scattering and selecting by index.

use heddle_ir::op::{BinaryOp, CompareOp, ScatterReduce};
use heddle_ir::{DType, Emit, Op, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid};

pub(super) const OPS: Table = &[
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TensorScatter", tensor_scatter),
    ("NonZero", non_zero),
    ("Compress", compress),
    ("OneHot", one_hot),
    ("ReverseSequence", reverse_sequence),
];

fn gather(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, indices) = (cx.input(0)?, cx.input(1)?);
    let axis = axis_attr(cx, x, 0)?;
    Ok(vec![cx.gather(x, indices, axis)?])
}

/// The attribute `axis`; one that is not negative needs no known rank.
fn axis_attr(cx: &NodeCx, x: Value, default: i64) -> Result<usize> {
    let axis = cx.int_or("axis", default);
    match (usize::try_from(axis), cx.tensor_ty(x)?.rank()) {
        (Ok(axis), None) => Ok(axis),
        _ => cx.axis(axis, cx.rank(x)?),
    }
}

fn gather_elements(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, indices) = (cx.input(0)?, cx.input(1)?);
    let axis = axis_attr(cx, x, 0)?;
    Ok(vec![cx.op(Op::GatherElements { axis }, &[x, indices])?])
}

fn gather_nd(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, indices) = (cx.input(0)?, cx.input(1)?);
    let batch_dims = usize::try_from(cx.int_or("batch_dims", 0))
        .map_err(|_| OpError::Invalid("batch_dims is negative".into()))?;
    Ok(vec![cx.op(Op::GatherNd { batch_dims }, &[x, indices])?])
}

fn scatter_elements(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, indices, updates) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let axis = axis_attr(cx, x, 0)?;
    let reduce = reduction(cx)?;
    let op = Op::ScatterElements { axis, reduce };
    Ok(vec![cx.op(op, &[x, indices, updates])?])
}

fn scatter_nd(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, indices, updates) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let reduce = reduction(cx)?;
    Ok(vec![
        cx.op(Op::ScatterNd { reduce }, &[x, indices, updates])?,
    ])
}

fn reduction(cx: &NodeCx) -> Result<ScatterReduce> {
    cx.choice(
        "reduction",
        "none",
        &[
            ("none", ScatterReduce::Set),
            ("add", ScatterReduce::Add),
            ("mul", ScatterReduce::Mul),
            ("max", ScatterReduce::Max),
            ("min", ScatterReduce::Min),
        ],
    )
}

/// Writes `update` into a cache, at a separate index for each element of the batch.
fn tensor_scatter(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (cache, update) = (cx.input(0)?, cx.input(1)?);
    let rank = cx.rank(cache)?;
    let axis = cx.axis(cx.int_or("axis", -2), rank)?;
    if axis == 0 {
        return invalid("axis 0 is the batch");
    }
    let circular = cx.choice("mode", "linear", &[("linear", false), ("circular", true)])?;
    let places = cx.positions(update, axis)?;
    let mut places = cx.along(places, axis, rank)?;
    if let Some(starts) = cx.opt(2) {
        let starts = cx.to_indices(starts)?;
        let starts = cx.along(starts, 0, rank)?;
        places = cx.add(places, starts)?;
    }
    if circular {
        let size = cx.size_of(cache, axis)?;
        places = cx.binary(BinaryOp::Mod, places, size)?;
    }
    let shape = cx.shape_of(update)?;
    let places = cx.broadcast_to(places, shape)?;
    let op = Op::ScatterElements {
        axis,
        reduce: ScatterReduce::Set,
    };
    Ok(vec![cx.op(op, &[cache, places, update])?])
}

fn non_zero(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    Ok(vec![cx.op(Op::NonZero, &[x])?])
}

fn compress(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, cond) = (cx.input(0)?, cx.input(1)?);
    let (x, axis) = match cx.int("axis") {
        Some(_) => (x, axis_attr(cx, x, 0)?),
        None => (cx.to_vector(x)?, 0),
    };
    let chosen = cx.true_indices(cond)?;
    Ok(vec![cx.gather(x, chosen, axis)?])
}

/// Indices outside of the depth match nothing.
fn one_hot(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (indices, depth, values) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let rank = cx.rank(indices)? + 1;
    let axis = cx.axis(cx.int_or("axis", -1), rank)?;
    let indices = cx.cast(indices, DType::I64)?;
    let depth = cx.to_index(depth)?;
    let from_end = cx.add(indices, depth)?;
    let negative = cx.compare_to(CompareOp::Lt, indices, 0.0)?;
    let indices = cx.select(negative, from_end, indices)?;
    let indices = cx.unsqueeze(indices, &[axis])?;
    let classes = cx.iota(depth)?;
    let classes = cx.along(classes, axis, rank)?;
    let hot = cx.compare(CompareOp::Eq, indices, classes)?;
    let (off, on) = (cx.element(values, 0)?, cx.element(values, 1)?);
    Ok(vec![cx.select(hot, on, off)?])
}

/// Reverses the first `sequence_lens[b]` elements of each batch element along the time axis.
fn reverse_sequence(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, lens) = (cx.input(0)?, cx.input(1)?);
    let rank = cx.rank(x)?;
    let time_first = match (cx.int_or("time_axis", 0), cx.int_or("batch_axis", 1)) {
        (0, 1) => true,
        (1, 0) => false,
        other => {
            return invalid(format!("time and batch axes are {other:?}"));
        }
    };
    if rank < 2 {
        return invalid("the input needs two axes");
    }
    let mut swap: Vec<usize> = (0..rank).collect();
    if time_first {
        swap.swap(0, 1);
    }
    // From here on: [batch, time, ..].
    let x = cx.transpose(x, &swap)?;
    let lens = cx.to_indices(lens)?;
    let lens = cx.along(lens, 0, 2)?;
    let time = cx.positions(x, 1)?;
    let time = cx.along(time, 1, 2)?;
    let inside = cx.compare(CompareOp::Lt, time, lens)?;
    let mirrored = cx.sub(lens, time)?;
    let mirrored = cx.shift(mirrored, -1.0)?;
    let source = cx.select(inside, mirrored, time)?;
    let source = cx.unsqueeze(source, &[2])?;
    let y = cx.op(Op::GatherNd { batch_dims: 1 }, &[x, source])?;
    Ok(vec![cx.transpose(y, &swap)?])
}
