//! Cutting, joining and padding.

use heddle_ir::op::{BinaryOp, CompareOp, PadMode, ReduceOp};
use heddle_ir::{DType, Dim, Emit, Op, Type, Value};

use super::cx::{NodeCx, Result, Table, invalid, required};
use crate::refusal::Refusal;

pub(super) const OPS: Table = &[
    ("Concat", concat),
    ("Split", split),
    ("Slice", slice),
    ("Pad", pad),
    ("Trilu", trilu),
];

fn concat(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let parts = cx.all_inputs()?;
    let axis = match cx.opset {
        ..4 => cx.int_or("axis", 1),
        _ => cx.int_req("axis")?,
    };
    // Any input may be the one whose rank is known.
    let rank = parts.iter().find_map(|&p| cx.tensor_ty(p).ok()?.rank());
    let axis = match rank {
        Some(rank) => cx.axis(axis, rank)?,
        None => usize::try_from(axis).map_err(|_| Refusal::UnknownRank)?,
    };
    Ok(vec![cx.concat(&parts, axis)?])
}

/// Lengths are an attribute before version 13 and an input since; either in version 1. Without them the parts are equal;
/// since version 18 the last may be shorter.
fn split(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let axis = cx.int_or("axis", 0);
    match cx.tensor_ty(x)?.rank() {
        Some(rank) => {
            let axis = cx.axis(axis, rank)?;
            split_along(cx, x, axis)
        }
        None => split_unranked(cx, x, axis),
    }
}

/// Splits a view of three axes: those before the axis as one, the axis, those after it as one.
fn split_unranked(cx: &mut NodeCx, x: Value, axis: i64) -> Result<Vec<Value>> {
    let shape = cx.shape_of(x)?;
    let before = cx.slice(shape, 0, 0, axis)?;
    let after = match axis {
        -1 => cx.b.i64s(&[]),
        _ => cx.slice(shape, 0, axis.saturating_add(1), i64::MAX)?,
    };
    let place = cx.b.i64(axis);
    let size = cx.gather(shape, place, 0)?;
    let outer = cx.reduce(ReduceOp::Prod, before, &[0], false)?;
    let inner = cx.reduce(ReduceOp::Prod, after, &[0], false)?;
    let sizes = cx.stack_i64s(&[outer, size, inner])?;
    let view = cx.reshape_to(x, sizes)?;
    let mut outputs = vec![];
    for part in split_along(cx, view, 1)? {
        let size = cx.size_of(part, 1)?;
        let size = cx.stack_i64s(&[size])?;
        let sizes = cx.concat(&[before, size, after], 0)?;
        outputs.push(cx.reshape_to(part, sizes)?);
    }
    Ok(outputs)
}

fn split_along(cx: &mut NodeCx, x: Value, axis: usize) -> Result<Vec<Value>> {
    let lengths = match (cx.opset < 13, cx.opt(1)) {
        (true, Some(lengths)) if cx.opset < 2 => Some(cx.to_indices(lengths)?),
        (true, _) => cx.ints("split").map(|s| cx.b.i64s(s)),
        (false, Some(lengths)) => Some(cx.to_indices(lengths)?),
        (false, None) => None,
    };
    let parts = cx.output_count();
    let Some(lengths) = lengths else {
        return split_evenly(cx, x, axis, parts);
    };
    if cx.len_of(lengths).is_some_and(|n| n != parts) {
        return invalid(format!("{parts} outputs, but another number of lengths"));
    }
    let size = cx.shape(x)?[axis].clone();
    if let Some(known) = cx.const_i64s(lengths) {
        let sum = known.iter().try_fold(0i64, |s, l| s.checked_add(*l));
        if sum.is_none_or(|s| size.differs(&Dim::constant(s))) || known.iter().any(|l| *l < 0) {
            return invalid(format!("parts of {known:?} from an axis of {size}"));
        }
    }
    if cx.const_i64s(lengths).is_none() || size.as_const().is_none() {
        return split_checked(cx, x, axis, lengths, parts);
    }
    let mut start = cx.b.i64(0);
    let mut outputs = vec![];
    for i in 0..parts {
        let length = cx.element(lengths, i)?;
        let end = cx.add(start, length)?;
        outputs.push(cx.cut(x, axis, start, end)?);
        start = end;
    }
    Ok(outputs)
}

/// Splits with a run-time check that dynamic lengths sum to the axis: slices would drop the rest
/// silently.
fn split_checked(
    cx: &mut NodeCx,
    x: Value,
    axis: usize,
    lengths: Value,
    parts: usize,
) -> Result<Vec<Value>> {
    let known = cx.const_i64s(lengths);
    let lengths = cx.reshape(lengths, &[parts as i64])?;
    let squeeze = false;
    let pieces = cx.op(Op::SeqSplit { axis, squeeze }, &[x, lengths])?;
    let mut outputs = vec![];
    for i in 0..parts {
        let place = cx.b.i64(i as i64);
        let part = cx.op(Op::SeqAt, &[pieces, place])?;
        if let Some(known) = &known {
            let mut shape = cx.shape(part)?;
            shape[axis] = Dim::constant(known[i]);
            let dtype = cx.dtype(part)?;
            cx.b.refine_type(part, Type::tensor(dtype, shape))?;
        }
        outputs.push(part);
    }
    Ok(outputs)
}

fn split_evenly(cx: &mut NodeCx, x: Value, axis: usize, parts: usize) -> Result<Vec<Value>> {
    let stated = cx.int("num_outputs");
    if stated.is_some_and(|n| n != parts as i64) || parts == 0 {
        return invalid(format!("num_outputs differs from the {parts} outputs"));
    }
    let size = cx.shape(x)?[axis].as_const();
    if cx.opset < 18 && size.is_some_and(|s| s % parts as i64 != 0) {
        return invalid(format!(
            "an axis of {size:?} does not divide into {parts} parts"
        ));
    }
    let even = size.is_some() || cx.opset >= 18;
    let size = cx.size_of(x, axis)?;
    let count = cx.b.i64(parts as i64);
    let more = cx.b.i64(if cx.opset < 18 { 0 } else { parts as i64 - 1 });
    let rounded = cx.add(size, more)?;
    let chunk = cx.div(rounded, count)?;
    if !even {
        let lengths = cx.stack_i64s(&vec![chunk; parts])?;
        return split_checked(cx, x, axis, lengths, parts);
    }
    let mut outputs = vec![];
    let mut start = cx.b.i64(0);
    for _ in 0..parts {
        // Slices clamp their ends, which makes the last parts short or empty.
        let end = cx.add(start, chunk)?;
        outputs.push(cx.cut(x, axis, start, end)?);
        start = end;
    }
    Ok(outputs)
}

/// Bounds are attributes before version 10 and inputs since.
fn slice(cx: &mut NodeCx) -> Result<Vec<Value>> {
    slice_by(cx, cx.opset < 10)
}

/// Slice with bounds that are attributes, or inputs.
pub(super) fn slice_by(cx: &mut NodeCx, attributes: bool) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let (starts, ends, axes, steps);
    if attributes {
        let list = |name: &str| required(cx.ints(name), name);
        let bounds = [list("starts")?, list("ends")?];
        let named = cx.ints("axes");
        starts = cx.b.i64s(bounds[0]);
        ends = cx.b.i64s(bounds[1]);
        axes = named.map(|a| cx.b.i64s(a));
        steps = None;
    } else {
        let inputs = [cx.input(1)?, cx.input(2)?];
        starts = cx.to_indices(inputs[0])?;
        ends = cx.to_indices(inputs[1])?;
        axes = cx.opt(3).map(|a| cx.to_indices(a)).transpose()?;
        steps = cx.opt(4).map(|s| cx.to_indices(s)).transpose()?;
    }
    let count = cx.len_of(starts).or_else(|| cx.len_of(ends));
    let known_axes = match (axes, count) {
        (Some(axes), _) => cx.const_i64s(axes),
        (None, Some(n)) => Some((0..n as i64).collect()),
        (None, None) => None,
    };
    let steps = match steps {
        Some(steps) => steps,
        None => {
            let len = cx.shape_of(starts)?;
            cx.full(DType::I64, len, 1.0)?
        }
    };
    let Some(known_axes) = known_axes else {
        return slice_computed_axes(cx, x, starts, ends, axes, steps);
    };
    let rank = match cx.tensor_ty(x)?.rank() {
        Some(rank) => rank,
        None if known_axes.iter().all(|a| *a >= 0) => usize::MAX >> 1,
        None => cx.rank(x)?,
    };
    let axes = cx.axes(&known_axes, rank)?;
    // The op wants ascending axes; the bounds follow.
    let mut order: Vec<usize> = (0..known_axes.len()).collect();
    let normal = known_axes.iter().map(|&a| cx.axis(a, rank));
    let normal = normal.collect::<Result<Vec<_>>>()?;
    order.sort_by_key(|&i| normal[i]);
    let mut bounds = [starts, ends, steps];
    if !order.is_sorted() {
        let order: Vec<i64> = order.iter().map(|&i| i as i64).collect();
        let order = cx.b.i64s(&order);
        for b in &mut bounds {
            *b = cx.gather(*b, order, 0)?;
        }
    }
    let y = cx.op(Op::Slice { axes }, &[x, bounds[0], bounds[1], bounds[2]])?;
    Ok(vec![y])
}

/// Slices all axes, unnamed ones from their first to their last element.
fn slice_computed_axes(
    cx: &mut NodeCx,
    x: Value,
    starts: Value,
    ends: Value,
    axes: Option<Value>,
    steps: Value,
) -> Result<Vec<Value>> {
    let rank = cx.rank(x)?;
    let axes = match axes {
        Some(axes) => axes,
        None => cx.positions(starts, 0)?,
    };
    let shape = cx.shape_of(x)?;
    let (zeros, ones) = (cx.b.i64s(&vec![0; rank]), cx.b.i64s(&vec![1; rank]));
    let starts = cx.scatter(zeros, axes, starts, 0)?;
    let ends = cx.scatter(shape, axes, ends, 0)?;
    let steps = cx.scatter(ones, axes, steps, 0)?;
    let all = Op::Slice {
        axes: (0..rank).collect(),
    };
    Ok(vec![cx.op(all, &[x, starts, ends, steps])?])
}

/// Pads and value are attributes before version 11 and inputs since; since 18 the axes may be
/// named.
fn pad(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let mode = cx.choice(
        "mode",
        "constant",
        &[
            ("constant", PadMode::Constant),
            ("edge", PadMode::Edge),
            ("reflect", PadMode::Reflect),
            ("wrap", PadMode::Wrap),
        ],
    )?;
    let dtype = cx.dtype(x)?;
    let mut value = cx.zero(dtype)?;
    let pads;
    if cx.opset < 11 {
        let name = if cx.opset < 2 { "paddings" } else { "pads" };
        let list = required(cx.ints(name), name)?;
        pads = cx.b.i64s(list);
        if let Some(number) = cx.float("value") {
            value = cx.scalar_like(x, number.into())?;
        }
    } else {
        let list = cx.input(1)?;
        pads = cx.to_indices(list)?;
        if let Some(v) = cx.opt(2) {
            value = cx.to_scalar(v)?;
        }
    }
    let pads = match cx.opt(3) {
        Some(axes) => all_pads(cx, x, pads, axes)?,
        None => pads,
    };
    Ok(vec![cx.op(Op::Pad { mode }, &[x, pads, value])?])
}

/// Pads for all axes out of those for some.
fn all_pads(cx: &mut NodeCx, x: Value, pads: Value, axes: Value) -> Result<Value> {
    let rank = cx.rank(x)?;
    let axes = cx.to_indices(axes)?;
    if let (Some(axes), Some(pads)) = (cx.const_i64s(axes), cx.const_i64s(pads)) {
        let mut all = vec![0; 2 * rank];
        if pads.len() != 2 * axes.len() {
            return invalid(format!("{} pads for {} axes", pads.len(), axes.len()));
        }
        for (i, &axis) in axes.iter().enumerate() {
            let axis = cx.axis(axis, rank)?;
            all[axis] = pads[i];
            all[axis + rank] = pads[i + axes.len()];
        }
        return Ok(cx.b.i64s(&all));
    }
    let r = cx.b.i64(rank as i64);
    let before = cx.binary(BinaryOp::Mod, axes, r)?;
    let after = cx.add(before, r)?;
    let places = cx.concat(&[before, after], 0)?;
    let zeros = cx.b.i64s(&vec![0; 2 * rank]);
    cx.scatter(zeros, places, pads, 0)
}

/// Keeps the elements on and above (or below) diagonal `k`.
fn trilu(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let rank = cx.rank(x)?;
    if rank < 2 {
        return invalid("the input needs two axes");
    }
    let k = match cx.opt(1) {
        Some(k) => cx.to_index(k)?,
        None => cx.b.i64(0),
    };
    let rows = cx.positions(x, rank - 2)?;
    let rows = cx.along(rows, 0, 2)?;
    let columns = cx.positions(x, rank - 1)?;
    let columns = cx.along(columns, 1, 2)?;
    let diagonal = cx.add(rows, k)?;
    let kind = if cx.flag("upper", true) {
        CompareOp::Ge
    } else {
        CompareOp::Le
    };
    let keep = cx.compare(kind, columns, diagonal)?;
    let dtype = cx.dtype(x)?;
    let zero = cx.zero(dtype)?;
    Ok(vec![cx.select(keep, x, zero)?])
}
