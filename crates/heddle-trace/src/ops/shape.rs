//! Shapes and the order of axes.

use heddle_ir::{Emit, Op, Value};

use super::Table;
use super::args::Int;
use super::cx::NodeCx;
use crate::error::{Result, invalid, refuse};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("_reshape_alias", view),
    ("_unsafe_view", view),
    ("as_strided", as_strided),
    ("broadcast_to", expand),
    ("expand", expand),
    ("expand_as", |cx| {
        let (x, other) = (cx.value(0, "self")?, cx.value(1, "other")?);
        Ok(vec![cx.broadcast_like(x, other)?])
    }),
    ("flatten.using_ints", flatten),
    ("movedim.int", movedim),
    ("movedim.intlist", movedim),
    ("numpy_T", |cx| {
        let x = cx.value(0, "self")?;
        let perm: Vec<usize> = (0..cx.rank(x)?).rev().collect();
        Ok(vec![cx.transpose(x, &perm)?])
    }),
    ("permute", permute),
    ("repeat", repeat),
    ("reshape", view),
    ("squeeze", squeeze),
    ("squeeze.dim", squeeze),
    ("squeeze.dims", squeeze),
    ("t", |cx| {
        let x = cx.value(0, "self")?;
        Ok(vec![match cx.rank(x)? {
            2 => cx.swap(x, 0, 1)?,
            _ => x,
        }])
    }),
    ("tile", repeat),
    ("transpose.int", |cx| {
        let x = cx.value(0, "self")?;
        let rank = cx.rank(x)?;
        let (a, b) = (cx.int(1, "dim0")?, cx.int(2, "dim1")?);
        let (a, b) = (cx.axis(a, rank)?, cx.axis(b, rank)?);
        Ok(vec![if rank == 0 { x } else { cx.swap(x, a, b)? }])
    }),
    ("unflatten.int", unflatten),
    ("unsqueeze", unsqueeze),
    ("view", view),
    ("view_as", |cx| {
        let (x, other) = (cx.value(0, "self")?, cx.value(1, "other")?);
        let sizes = cx.sizes(other)?;
        Ok(vec![cx.reshape(x, &sizes)?])
    }),
];

fn view(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let sizes = cx.size_list(1, "size")?;
    let open = sizes.iter().filter(|n| n.as_const() == Some(-1)).count();
    if open > 1 || sizes.iter().any(|n| n.as_const().is_some_and(|n| n < -1)) {
        return invalid("its sizes are negative");
    }
    Ok(vec![cx.reshape(x, &sizes)?])
}

/// A size of -1 keeps the axis.
fn expand(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let sizes = cx.size_list(1, "size")?;
    let rank = cx.rank(x)?;
    if sizes.len() < rank {
        return invalid(format!("{rank} axes can't become {}", sizes.len()));
    }
    let sizes = sizes.into_iter().map(|n| match n {
        Int::Const(-1) => Int::Const(1),
        n => n,
    });
    let sizes: Vec<Int> = sizes.collect();
    if sizes.iter().any(|n| n.as_const().is_some_and(|n| n < 0)) {
        return invalid("its sizes are negative");
    }
    Ok(vec![cx.filled(x, &sizes)?])
}

fn permute(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let rank = cx.rank(x)?;
    let dims = cx.ints(1, "dims")?;
    let perm = dims
        .iter()
        .map(|&d| cx.axis(d, rank))
        .collect::<Result<Vec<_>>>()?;
    if perm.len() != rank || cx.axes(&dims, rank)?.len() != rank {
        return invalid(format!("{dims:?} is no order of {rank} axes"));
    }
    Ok(vec![cx.transpose(x, &perm)?])
}

fn movedim(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let rank = cx.rank(x)?;
    let (from, to) = (cx.ints(1, "source")?, cx.ints(2, "destination")?);
    let from = from
        .iter()
        .map(|&a| cx.axis(a, rank))
        .collect::<Result<Vec<_>>>()?;
    let to = to
        .iter()
        .map(|&a| cx.axis(a, rank))
        .collect::<Result<Vec<_>>>()?;
    if from.len() != to.len() || rank == 0 {
        return invalid("its axes do not pair");
    }
    let mut perm = vec![None; rank];
    for (from, to) in from.iter().zip(&to) {
        perm[*to] = Some(*from);
    }
    let mut rest = (0..rank).filter(|a| !from.contains(a));
    let perm: Vec<usize> = perm
        .into_iter()
        .filter_map(|p| p.or_else(|| rest.next()))
        .collect();
    let mut seen = perm.clone();
    seen.sort_unstable();
    if seen != (0..rank).collect::<Vec<_>>() {
        return invalid("its axes name one twice");
    }
    Ok(vec![cx.transpose(x, &perm)?])
}

fn unsqueeze(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, axis) = (cx.value(0, "self")?, cx.int(1, "dim")?);
    let axis = cx.axis(axis, cx.rank(x)? + 1)?;
    Ok(vec![cx.unsqueeze(x, &[axis])?])
}

/// Removes axes whose size is 1, of those that are named, or of all.
fn squeeze(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let shape = cx.shape(x)?;
    let axes = match cx.arg(1, "dim") {
        Some(_) => {
            let axes = cx.ints(1, "dim")?;
            cx.axes(&axes, shape.len())?
        }
        None => (0..shape.len()).collect(),
    };
    // Dynamic sizes are not 1: a recorder states it where they are.
    let ones: Vec<usize> = axes.into_iter().filter(|&a| shape[a].is(1)).collect();
    let stated = cx.node.results.first().map(|r| r.shape.len());
    if stated.is_some_and(|rank| rank + ones.len() != shape.len()) {
        return refuse("an axis whose size only the run knows");
    }
    Ok(vec![cx.squeeze(x, &ones)?])
}

fn flatten(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let rank = cx.rank(x)?;
    let (start, end) = (cx.int_or(1, "start_dim", 0)?, cx.int_or(2, "end_dim", -1)?);
    let (start, end) = (cx.axis(start, rank)?, cx.axis(end, rank)?);
    let sizes = cx.sizes(x)?;
    if rank == 0 {
        return Ok(vec![cx.flat(x)?]);
    }
    if end < start {
        return invalid("its last axis comes before its first");
    }
    let joined = cx.int_product(&sizes[start..=end])?;
    let sizes = [&sizes[..start], &[joined], &sizes[end + 1..]].concat();
    Ok(vec![cx.reshape(x, &sizes)?])
}

fn unflatten(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, axis) = (cx.value(0, "self")?, cx.int(1, "dim")?);
    let inner = cx.size_list(2, "sizes")?;
    let sizes = cx.sizes(x)?;
    let axis = cx.axis(axis, sizes.len())?;
    if sizes.is_empty() {
        return invalid("it has no axes");
    }
    let mut inner = inner;
    if let Some(open) = inner.iter().position(|n| n.as_const() == Some(-1)) {
        let rest: Vec<Int> = inner
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != open)
            .map(|(_, n)| *n)
            .collect();
        let rest = cx.int_product(&rest)?;
        inner[open] = cx.int_div(sizes[axis], rest)?;
    }
    let sizes = [&sizes[..axis], &inner, &sizes[axis + 1..]].concat();
    Ok(vec![cx.reshape(x, &sizes)?])
}

/// Each axis repeated as a whole.
fn repeat(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let mut repeats = cx.size_list(1, "repeats")?;
    let mut sizes = cx.sizes(x)?;
    while repeats.len() < sizes.len() {
        repeats.insert(0, Int::Const(1));
    }
    while sizes.len() < repeats.len() {
        sizes.insert(0, Int::Const(1));
    }
    // Each axis becomes (repeats, size).
    let (mut split, mut wide, mut joined) = (vec![], vec![], vec![]);
    for (&n, &size) in repeats.iter().zip(&sizes) {
        split.extend([Int::Const(1), size]);
        wide.extend([n, size]);
        joined.push(cx.int_mul(n, size)?);
    }
    let y = cx.reshape(x, &split)?;
    let y = cx.filled(y, &wide)?;
    Ok(vec![cx.reshape(y, &joined)?])
}

/// Elements by their place in memory, where the operand is stated to lie in row-major order: other places are not known here.
fn as_strided(cx: &mut NodeCx) -> Result<Vec<Value>> {
    if !cx.flag(usize::MAX, "dense", false)? {
        return refuse("its operand is not stated to lie in row-major order");
    }
    let x = cx.value(0, "self")?;
    let (sizes, strides) = (cx.size_list(1, "size")?, cx.size_list(2, "stride")?);
    let start = cx.opt_size(3, "storage_offset")?.unwrap_or(Int::Const(0));
    if sizes.len() != strides.len() {
        return invalid("it has as many sizes as strides");
    }
    let mut places = cx.int_value(start);
    let rank = sizes.len();
    for (axis, (&size, &stride)) in sizes.iter().zip(&strides).enumerate() {
        let steps = cx.iota(size)?;
        let stride = cx.int_value(stride);
        let steps = cx.mul(steps, stride)?;
        let steps = cx.per_channel(steps, rank - 1 - axis)?;
        places = cx.add(places, steps)?;
    }
    let flat = cx.flat(x)?;
    Ok(vec![cx.op(Op::Gather { axis: 0 }, &[flat, places])?])
}
