//! Parts of arrays, and arrays of parts.

use heddle_ir::op::BinaryOp;
use heddle_ir::{Emit, Op, Value};

use super::Table;
use super::args::Int;
use super::cx::NodeCx;
use super::promote::Operand;
use crate::error::{Result, invalid, refuse};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("cat", cat),
    ("chunk", chunk),
    ("concat", cat),
    ("diagonal", diagonal),
    ("diagonal_scatter", diagonal_scatter),
    ("flip", flip),
    ("narrow", narrow),
    ("roll", roll),
    ("select.int", select),
    ("select_scatter", select_scatter),
    ("slice.Tensor", slice),
    ("slice_scatter", slice_scatter),
    ("split.Tensor", split),
    ("split_with_sizes", split_with_sizes),
    ("stack", stack),
    ("unbind.int", unbind),
    ("unfold", unfold),
];

fn axis_of(cx: &mut NodeCx, x: Value, i: usize, default: i64) -> Result<usize> {
    let axis = cx.int_or(i, "dim", default)?;
    let rank = cx.rank(x)?;
    match rank {
        0 => invalid("an array without axes has no parts"),
        _ => cx.axis(axis, rank),
    }
}

/// Axes of size 0 with none beside it are left out, as PyTorch does.
fn cat(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let all = cx.values(0, "tensors")?;
    let axis = cx.int_or(1, "dim", 0)?;
    let mut parts = vec![];
    for &x in &all {
        let shape = cx.shape(x)?;
        if shape.len() != 1 || !shape[0].is(0) {
            parts.push(x);
        }
    }
    if parts.is_empty() {
        parts.extend(all.first());
    }
    let Some(&first) = parts.first() else {
        return invalid("there is nothing to join");
    };
    let axis = cx.axis(axis, cx.rank(first)?)?;
    joined(cx, &all, &parts, axis)
}

/// Parts in the common type of `all`.
fn joined(cx: &mut NodeCx, all: &[Value], parts: &[Value], axis: usize) -> Result<Vec<Value>> {
    let operands: Vec<Operand> = all.iter().copied().map(Operand::from).collect();
    let dtype = cx.promoted(&operands)?;
    let cast = parts.iter().map(|&x| cx.cast(x, dtype));
    let parts = cast.collect::<Result<Vec<_>>>()?;
    if cx.rank(parts[0])? == 0 {
        return invalid("arrays without axes can't be joined");
    }
    Ok(vec![cx.concat(&parts, axis)?])
}

fn stack(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let all = cx.values(0, "tensors")?;
    let axis = cx.int_or(1, "dim", 0)?;
    let Some(&first) = all.first() else {
        return invalid("there is nothing to join");
    };
    let axis = cx.axis(axis, cx.rank(first)? + 1)?;
    let rows = all.iter().map(|&x| cx.unsqueeze(x, &[axis]));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    joined(cx, &rows, &rows, axis)
}

fn select(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let axis = axis_of(cx, x, 1, 0)?;
    let index = cx.size_arg(2, "index")?;
    let index = cx.int_value(index);
    Ok(vec![cx.gather(x, index, axis)?])
}

fn slice(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let axis = axis_of(cx, x, 1, 0)?;
    let (start, end, step) = bounds(cx, 2)?;
    if (start.as_const(), end.as_const(), step.as_const()) == (Some(0), Some(i64::MAX), Some(1)) {
        return Ok(vec![x]);
    }
    Ok(vec![cx.slice(x, axis, start, end, step)?])
}

/// Start, end and step, from the argument at `i` on.
fn bounds(cx: &mut NodeCx, i: usize) -> Result<(Int, Int, Int)> {
    let start = cx.opt_size(i, "start")?.unwrap_or(Int::Const(0));
    let end = cx.opt_size(i + 1, "end")?.unwrap_or(Int::Const(i64::MAX));
    let step = cx.opt_size(i + 2, "step")?.unwrap_or(Int::Const(1));
    match step.as_const() {
        Some(n) if n <= 0 => invalid(format!("its step is {n}")),
        _ => Ok((start, end, step)),
    }
}

fn narrow(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let axis = axis_of(cx, x, 1, 0)?;
    let (start, length) = (cx.size_arg(2, "start")?, cx.size_arg(3, "length")?);
    let start = match start {
        Int::Const(n) if n < 0 => {
            let size = cx.size(x, axis)?;
            cx.int_add(size, n)?
        }
        start => start,
    };
    let end = cx.int_add(start, length)?;
    Ok(vec![cx.slice(x, axis, start, end, 1.into())?])
}

fn split_with_sizes(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let (lengths, axis) = (cx.size_list(1, "split_sizes")?, axis_of(cx, x, 2, 0)?);
    parts(cx, x, &lengths, axis)
}

fn parts(cx: &mut NodeCx, x: Value, lengths: &[Int], axis: usize) -> Result<Vec<Value>> {
    let mut start = Int::Const(0);
    let mut parts = vec![];
    for &length in lengths {
        let end = cx.int_add(start, length)?;
        parts.push(cx.slice(x, axis, start, end, 1.into())?);
        start = end;
    }
    Ok(parts)
}

/// Parts of one length, the last one shorter. The number of parts is that of the results.
fn split(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let (length, axis) = (cx.size_arg(1, "split_size")?, axis_of(cx, x, 2, 0)?);
    let lengths = vec![length; cx.node.results.len()];
    parts(cx, x, &lengths, axis)
}

fn chunk(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let (count, axis) = (cx.int(1, "chunks")?, axis_of(cx, x, 2, 0)?);
    if count <= 0 {
        return invalid(format!("{count} chunks"));
    }
    let size = cx.size(x, axis)?;
    let length = cx.int_add(size, count - 1)?;
    let length = cx.int_div(length, count)?;
    let lengths = vec![length; cx.node.results.len()];
    parts(cx, x, &lengths, axis)
}

fn unbind(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let axis = axis_of(cx, x, 1, 0)?;
    let places = 0..cx.node.results.len() as i64;
    places
        .map(|i| {
            let i = cx.b.i64(i);
            cx.gather(x, i, axis)
        })
        .collect()
}

fn flip(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let mut x = cx.value(0, "self")?;
    let axes = cx.ints(1, "dims")?;
    for axis in cx.axes(&axes, cx.rank(x)?)? {
        x = cx.reverse(x, axis)?;
    }
    Ok(vec![x])
}

/// Elements that leave an axis enter it at the other end. Without axes, the flattened array is rolled.
fn roll(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let (shifts, axes) = (cx.size_list(1, "shifts")?, cx.ints(2, "dims")?);
    if !axes.is_empty() && axes.len() != shifts.len() || axes.is_empty() && shifts.len() != 1 {
        return invalid("it has as many shifts as axes");
    }
    let sizes = cx.sizes(x)?;
    let mut y = if axes.is_empty() { cx.flat(x)? } else { x };
    let places = if axes.is_empty() { vec![0] } else { axes };
    for (axis, shift) in places.into_iter().zip(shifts) {
        let rank = cx.rank(y)?;
        if rank == 0 {
            continue;
        }
        let axis = cx.axis(axis, rank)?;
        let size = cx.size(y, axis)?;
        let (shift, count) = (cx.int_value(shift), cx.int_value(size));
        // The first element that stays behind the cut.
        let shift = cx.binary(BinaryOp::Mod, shift, count)?;
        let cut = cx.sub(count, shift)?;
        let cut = cx.int_min(Int::Value(cut), size)?;
        let head = cx.slice(y, axis, 0.into(), cut, 1.into())?;
        let tail = cx.slice(y, axis, cut, i64::MAX.into(), 1.into())?;
        y = cx.concat(&[tail, head], axis)?;
    }
    Ok(vec![cx.reshape(y, &sizes)?])
}

/// The elements at `(i, i + offset)` of two axes, along a new last axis.
fn diagonal(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let (perm, y, places) = diagonal_of(cx, x, 1)?;
    let y = cx.op(Op::GatherNd { batch_dims: 0 }, &[y, places])?;
    let mut last: Vec<usize> = (1..perm.len() - 1).collect();
    last.push(0);
    Ok(vec![cx.transpose(y, &last)?])
}

/// Such elements are replaced.
fn diagonal_scatter(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, from) = (cx.value(0, "self")?, cx.value(1, "src")?);
    let (perm, y, places) = diagonal_of(cx, x, 2)?;
    let dtype = cx.dtype(x)?;
    let from = cx.cast(from, dtype)?;
    // The written diagonals have the sizes of those that are read, which `from` may broadcast to.
    let mut sizes = cx.sizes(y)?.split_off(2);
    sizes.push(cx.size(places, 0)?);
    let from = cx.filled(from, &sizes)?;
    let mut first: Vec<usize> = vec![perm.len() - 2];
    first.extend(0..perm.len() - 2);
    let from = cx.transpose(from, &first)?;
    let reduce = heddle_ir::op::ScatterReduce::Set;
    let y = cx.op(Op::ScatterNd { reduce }, &[y, places, from])?;
    let mut back = vec![0; perm.len()];
    for (to, axis) in perm.into_iter().enumerate() {
        back[axis] = to;
    }
    Ok(vec![cx.transpose(y, &back)?])
}

/// The order with the two axes of the diagonal in front, `x` in it, and the places of the diagonal, `i64[count, 2]`. Arguments begin at
/// `i`.
fn diagonal_of(cx: &mut NodeCx, x: Value, i: usize) -> Result<(Vec<usize>, Value, Value)> {
    let rank = cx.rank(x)?;
    let offset = cx.int_or(i, "offset", 0)?;
    let (a, b) = (cx.int_or(i + 1, "dim1", 0)?, cx.int_or(i + 2, "dim2", 1)?);
    let (a, b) = (cx.axis(a, rank)?, cx.axis(b, rank)?);
    if a == b || rank < 2 {
        return invalid("a diagonal has two axes");
    }
    let mut perm: Vec<usize> = [a, b].to_vec();
    perm.extend((0..rank).filter(|axis| *axis != a && *axis != b));
    let y = cx.transpose(x, &perm)?;
    let (rows, columns) = (cx.size(y, 0)?, cx.size(y, 1)?);
    let (first_row, first_column) = (offset.min(0).saturating_neg(), offset.max(0));
    let (rows, columns) = (
        cx.int_sub(rows, first_row)?,
        cx.int_sub(columns, first_column)?,
    );
    let count = cx.int_min(rows, columns)?;
    let count = cx.int_max(count, 0)?;
    let steps = cx.iota(count)?;
    let (rows, columns) = (
        cx.plus(steps, first_row as f64)?,
        cx.plus(steps, first_column as f64)?,
    );
    let places = [cx.unsqueeze(rows, &[1])?, cx.unsqueeze(columns, &[1])?];
    let places = cx.concat(&places, 1)?;
    Ok((perm, y, places))
}

/// Windows of an axis, along a new last axis.
fn unfold(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let rank = cx.rank(x)?;
    let axis = cx.int(1, "dimension")?;
    let axis = cx.axis(axis, rank)?;
    let (length, step) = (cx.int(2, "size")?, cx.int(3, "step")?);
    if rank == 0 || length < 0 || step <= 0 {
        return refuse(format!("windows of {length} with step {step}"));
    }
    let size = cx.size(x, axis)?;
    let room = cx.int_sub(size, length)?;
    let count = cx.int_div(room, step)?;
    let count = cx.int_add(count, 1)?;
    let starts = cx.iota(count)?;
    let step = cx.b.i64(step);
    let starts = cx.mul(starts, step)?;
    let starts = cx.unsqueeze(starts, &[1])?;
    let offsets = cx.iota(length.into())?;
    let places = cx.add(starts, offsets)?;
    let y = cx.gather(x, places, axis)?;
    let mut perm: Vec<usize> = (0..rank + 1).filter(|a| *a != axis + 1).collect();
    perm.push(axis + 1);
    Ok(vec![cx.transpose(y, &perm)?])
}

fn select_scatter(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, from) = (cx.value(0, "self")?, cx.value(1, "src")?);
    let axis = axis_of(cx, x, 2, 0)?;
    let index = cx.size_arg(3, "index")?;
    let index = cx.int_value(index);
    let size = cx.size(x, axis)?;
    let size = cx.int_value(size);
    let zero = cx.b.i64(0);
    let is_negative = cx.compare(heddle_ir::op::CompareOp::Lt, index, zero)?;
    let wrapped = cx.add(index, size)?;
    let start = cx.select(is_negative, wrapped, index)?;
    let from = cx.unsqueeze(from, &[axis])?;
    write(cx, x, from, axis, start)
}

/// `x` with `from` written at `start` of an axis.
fn write(cx: &mut NodeCx, x: Value, from: Value, axis: usize, start: Value) -> Result<Vec<Value>> {
    let dtype = cx.dtype(x)?;
    let from = cx.cast(from, dtype)?;
    let mut starts = vec![Int::Const(0); cx.rank(x)?];
    starts[axis] = Int::Value(start);
    let starts = cx.ints_value(&starts)?;
    Ok(vec![cx.op(Op::UpdateSlice, &[x, from, starts])?])
}

/// The rows of a slice are replaced.
fn slice_scatter(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, from) = (cx.value(0, "self")?, cx.value(1, "src")?);
    let axis = axis_of(cx, x, 2, 0)?;
    let (start, end, step) = bounds(cx, 3)?;
    let size = cx.size(x, axis)?;
    let rows = cx.iota(size)?;
    let rows = cx.slice(rows, 0, start, end, step)?;
    let rank = cx.rank(x)?;
    let perm: Vec<usize> = std::iter::once(axis)
        .chain((0..rank).filter(|a| *a != axis))
        .collect();
    let mut back = vec![0; rank];
    for (i, &p) in perm.iter().enumerate() {
        back[p] = i;
    }
    let dtype = cx.dtype(x)?;
    let from = cx.cast(from, dtype)?;
    // The written rows have the sizes of the slice, which `from` may broadcast to.
    let mut sizes = cx.sizes(x)?;
    sizes[axis] = cx.size(rows, 0)?;
    let from = cx.filled(from, &sizes)?;
    let (front, from) = (cx.transpose(x, &perm)?, cx.transpose(from, &perm)?);
    let places = cx.unsqueeze(rows, &[1])?;
    let reduce = heddle_ir::op::ScatterReduce::Set;
    let y = cx.op(Op::ScatterNd { reduce }, &[front, places, from])?;
    Ok(vec![cx.transpose(y, &back)?])
}
