//! Shapes, views and rearrangements.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp};
use heddle_ir::{DType, Dim, Emit, Op, Tensor, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid, required};

pub(super) const OPS: Table = &[
    ("Identity", |cx| Ok(vec![cx.input(0)?])),
    ("Shape", shape),
    ("Size", size),
    ("Reshape", reshape),
    ("Flatten", flatten),
    ("Squeeze", squeeze),
    ("Unsqueeze", unsqueeze),
    ("Transpose", transpose),
    ("Expand", expand),
    ("Tile", tile),
    ("DepthToSpace", depth_to_space),
    ("SpaceToDepth", space_to_depth),
];

/// `start` and `end` follow Python's slices.
fn shape(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let shape = cx.shape_of(x)?;
    let (start, end) = (cx.int_or("start", 0), cx.int("end"));
    if start == 0 && end.is_none() {
        return Ok(vec![shape]);
    }
    Ok(vec![cx.slice(shape, 0, start, end.unwrap_or(i64::MAX))?])
}

fn size(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let shape = cx.shape_of(x)?;
    Ok(vec![cx.reduce(ReduceOp::Prod, shape, &[0], false)?])
}

/// A size of 0 stands for the input's at the same place, unless `allowzero` is set. Sizes are an
/// attribute before version 5.
fn reshape(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let sizes = match cx.opset {
        ..5 => {
            let sizes = required(cx.ints("shape"), "shape")?;
            cx.b.i64s(sizes)
        }
        _ => {
            let sizes = cx.input(1)?;
            cx.to_indices(sizes)?
        }
    };
    let known = cx.b.known(sizes).map(<[Dim]>::to_vec);
    let literal = cx.flag("allowzero", false)
        || known
            .as_ref()
            .is_some_and(|k| k.iter().all(|d| d.as_const().is_some_and(|c| c != 0)));
    if literal {
        return Ok(vec![cx.reshape_to(x, sizes)?]);
    }
    if let (Some(known), Some(rank)) = (&known, cx.tensor_ty(x)?.rank())
        && let Some(i) = known.iter().skip(rank).position(|d| d.is(0))
    {
        return invalid(format!(
            "size {} of its shape is 0, which copies a size of the input, but the input has {rank} \
             axes",
            rank + i
        ));
    }
    let copied = input_sizes(cx, x, sizes)?;
    let zero = cx.b.i64(0);
    let mask = match computed_sizes(cx, sizes) {
        Some(mask) => cx.b.constant(mask),
        None => cx.compare(CompareOp::Eq, sizes, zero)?,
    };
    let sizes = cx.select(mask, copied, sizes)?;
    Ok(vec![cx.reshape_to(x, sizes)?])
}

/// The input's sizes, cut or padded to the length of `sizes`. A 0 beyond the input's axes is an
/// error, so the padding is a size that no reshape accepts.
fn input_sizes(cx: &mut NodeCx, x: Value, sizes: Value) -> Result<Value> {
    let have = cx.shape_of(x)?;
    let invalid = -2;
    if let (Some(rank), Some(count)) = (cx.tensor_ty(x)?.rank(), cx.len_of(sizes)) {
        let Some(more) = count.checked_sub(rank) else {
            return cx.slice(have, 0, 0, count as i64);
        };
        let rest = cx.b.i64s(&vec![invalid; more]);
        return cx.concat(&[have, rest], 0);
    }
    let (want, count) = (cx.shape_of(sizes)?, cx.shape_of(have)?);
    let missing = cx.sub(want, count)?;
    let none = cx.b.i64s(&[0]);
    let pads = cx.concat(&[none, missing], 0)?;
    let invalid = cx.b.i64(invalid);
    cx.pad(have, pads, invalid)
}

/// Mask of the sizes that are 0, if all are constants or expressions of named sizes. Such an
/// expression is literal even in a run where it is 0: a model that computes a shape from shapes
/// means its value.
fn computed_sizes(cx: &NodeCx, sizes: Value) -> Option<Tensor> {
    let dims = cx.b.known(sizes)?;
    let zero: Option<Vec<u8>> = dims
        .iter()
        .map(|d| d.as_expr().map(|_| d.is(0) as u8))
        .collect();
    Tensor::new(DType::Bool, vec![dims.len()], zero?.into()).ok()
}

fn flatten(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let rank = cx.rank(x)?;
    let axis = match cx.int_or("axis", 1) {
        a if a == rank as i64 => rank,
        a => cx.axis(a, rank)?,
    };
    let (before, after): (Vec<_>, Vec<_>) = (0..rank).partition(|a| *a < axis);
    let sizes = [cx.count(x, &before)?, cx.count(x, &after)?];
    let sizes = cx.stack_i64s(&sizes)?;
    Ok(vec![cx.reshape_to(x, sizes)?])
}

/// The axes: an attribute before version 13, an input since.
fn axes_of(cx: &mut NodeCx) -> Result<Option<AxisList>> {
    if cx.opset < 13 {
        return Ok(cx.ints("axes").map(|a| AxisList::Known(a.to_vec())));
    }
    let Some(axes) = cx.opt(1) else {
        return Ok(None);
    };
    let axes = cx.to_indices(axes)?;
    Ok(Some(match cx.const_i64s(axes) {
        Some(known) => AxisList::Known(known),
        None => AxisList::Computed(axes),
    }))
}

enum AxisList {
    Known(Vec<i64>),
    Computed(Value),
}

impl AxisList {
    /// As an `i64[k]` value.
    fn value(&self, cx: &mut NodeCx) -> Value {
        match self {
            AxisList::Known(axes) => cx.b.i64s(axes),
            AxisList::Computed(axes) => *axes,
        }
    }
}

fn squeeze(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let Some(axes) = axes_of(cx)? else {
        return Ok(vec![squeeze_all(cx, x)?]);
    };
    if let Some(axes) = normal_axes(cx, x, &axes, 0)? {
        return Ok(vec![cx.squeeze(x, &axes)?]);
    }
    let axes = axes.value(cx);
    let shape = cx.shape_of(x)?;
    let count = cx.shape_of(shape)?;
    let keep = mask_without(cx, count, axes)?;
    let kept = cx.true_indices(keep)?;
    let rest = cx.tensor_ty(x)?.rank().zip(cx.len_of(axes));
    if let Some(rest) = rest.and_then(|(rank, k)| rank.checked_sub(k)) {
        cx.set_len(kept, rest)?;
    }
    let sizes = cx.gather(shape, kept, 0)?;
    Ok(vec![cx.reshape_to(x, sizes)?])
}

/// Removes all axes of size 1; a dynamic size makes the result's rank dynamic.
fn squeeze_all(cx: &mut NodeCx, x: Value) -> Result<Value> {
    if let Some(sizes) = cx.tensor_ty(x)?.static_shape() {
        let ones: Vec<_> = (0..sizes.len()).filter(|&i| sizes[i] == 1).collect();
        return cx.squeeze(x, &ones);
    }
    let shape = cx.shape_of(x)?;
    let one = cx.b.i64(1);
    let keep = cx.compare(CompareOp::Ne, shape, one)?;
    let kept = cx.true_indices(keep)?;
    let sizes = cx.gather(shape, kept, 0)?;
    cx.reshape_to(x, sizes)
}

/// `bool[len]`, false at the positions that an `i64[k]` value lists; `len` is `i64[1]`.
fn mask_without(cx: &mut NodeCx, len: Value, positions: Value) -> Result<Value> {
    let all = cx.full(DType::Bool, len, 1.0)?;
    let count = cx.shape_of(positions)?;
    let none = cx.full(DType::Bool, count, 0.0)?;
    cx.scatter(all, positions, none, 0)
}

fn unsqueeze(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let axes = axes_of(cx)?.ok_or_else(|| OpError::Invalid("the axes are missing".into()))?;
    let added = match &axes {
        AxisList::Known(axes) => Some(axes.len()),
        AxisList::Computed(axes) => cx.len_of(*axes),
    };
    if let Some(axes) = normal_axes(cx, x, &axes, added.unwrap_or(0))? {
        return Ok(vec![cx.unsqueeze(x, &axes)?]);
    }
    // The old sizes go where no new axis is.
    let axes = axes.value(cx);
    let shape = cx.shape_of(x)?;
    let (old, new) = (cx.shape_of(shape)?, cx.shape_of(axes)?);
    let count = cx.add(old, new)?;
    let keep = mask_without(cx, count, axes)?;
    let kept = cx.true_indices(keep)?;
    if let Some(rank) = cx.tensor_ty(x)?.rank() {
        cx.set_len(kept, rank)?;
    }
    let ones = cx.full(DType::I64, count, 1.0)?;
    let sizes = cx.scatter(ones, kept, shape, 0)?;
    Ok(vec![cx.reshape_to(x, sizes)?])
}

/// The axes in ascending order, unless they are computed, or are negative and the rank is not
/// known. `added` axes are counted besides the operand's.
fn normal_axes(cx: &NodeCx, x: Value, axes: &AxisList, added: usize) -> Result<Option<Vec<usize>>> {
    let AxisList::Known(axes) = axes else {
        return Ok(None);
    };
    match cx.tensor_ty(x)?.rank() {
        Some(rank) => cx.axes(axes, rank + added).map(Some),
        None if axes.iter().all(|a| *a >= 0) => cx.axes(axes, usize::MAX >> 1).map(Some),
        None => Ok(None),
    }
}

fn transpose(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let perm = match cx.ints("perm") {
        Some(perm) => {
            let rank = perm.len();
            let perm = perm.iter().map(|&p| cx.axis(p, rank));
            perm.collect::<Result<Vec<_>>>()?
        }
        None => (0..cx.rank(x)?).rev().collect(),
    };
    let y = match cx.tensor_ty(x)?.rank() {
        Some(_) => cx.transpose(x, &perm)?,
        None => cx.op(Op::Transpose { perm }, &[x])?,
    };
    Ok(vec![y])
}

fn expand(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, sizes) = (cx.input(0)?, cx.input(1)?);
    let sizes = cx.to_indices(sizes)?;
    Ok(vec![cx.broadcast_to(x, sizes)?])
}

/// Each axis gets one of size 1 before it, which is broadcast to the number of repeats and merged.
/// Before version 6 the inputs are one number of repeats and its axis.
fn tile(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, repeats) = (cx.input(0)?, cx.input(1)?);
    let rank = cx.rank(x)?;
    let repeats = match cx.opset {
        ..6 => {
            let axis = cx.input(2)?;
            let (count, axis) = (cx.to_index(repeats)?, cx.to_index(axis)?);
            let size = cx.b.i64(rank as i64);
            let axis = cx.binary(BinaryOp::Mod, axis, size)?;
            let places = cx.iota(rank as i64)?;
            let here = cx.compare(CompareOp::Eq, places, axis)?;
            let one = cx.b.i64(1);
            cx.select(here, count, one)?
        }
        _ => cx.to_indices(repeats)?,
    };
    let fresh: Vec<_> = (0..rank).map(|i| 2 * i).collect();
    let split = cx.unsqueeze(x, &fresh)?;
    let (mut both, mut merged) = (vec![], vec![]);
    for axis in 0..rank {
        let count = cx.element(repeats, axis)?;
        let size = cx.size_of(x, axis)?;
        both.extend([count, size]);
        merged.push(cx.mul(count, size)?);
    }
    let both = cx.stack_i64s(&both)?;
    let tiled = cx.broadcast_to(split, both)?;
    let merged = cx.stack_i64s(&merged)?;
    Ok(vec![cx.reshape_to(tiled, merged)?])
}

/// Channels become blocks of space: [n, c, h, w] to [n, c / b², h * b, w * b].
fn depth_to_space(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let (block, sizes) = block_and_sizes(cx, x)?;
    let [n, c, h, w] = sizes;
    let area = cx.mul(block, block)?;
    let depth = cx.div(c, area)?;
    let (split, perm) = cx.choice(
        "mode",
        "DCR",
        &[
            ("DCR", ([n, block, block, depth, h, w], [0, 3, 4, 1, 5, 2])),
            ("CRD", ([n, depth, block, block, h, w], [0, 1, 4, 2, 5, 3])),
        ],
    )?;
    let (high, wide) = (cx.mul(h, block)?, cx.mul(w, block)?);
    regroup(cx, x, &split, &perm, &[n, depth, high, wide])
}

/// Blocks of space become channels: [n, c, h, w] to [n, c * b², h / b, w / b].
fn space_to_depth(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let (block, sizes) = block_and_sizes(cx, x)?;
    let [n, c, h, w] = sizes;
    let (rows, columns) = (cx.div(h, block)?, cx.div(w, block)?);
    let area = cx.mul(block, block)?;
    let depth = cx.mul(c, area)?;
    let split = [n, c, rows, block, columns, block];
    let perm = cx.choice(
        "mode",
        "DCR",
        &[("DCR", [0, 3, 5, 1, 2, 4]), ("CRD", [0, 1, 3, 5, 2, 4])],
    )?;
    regroup(cx, x, &split, &perm, &[n, depth, rows, columns])
}

fn block_and_sizes(cx: &mut NodeCx, x: Value) -> Result<(Value, [Value; 4])> {
    let block = cx.int_req("blocksize")?;
    if block < 1 || cx.rank(x)? != 4 {
        return invalid("a positive blocksize and an input of four axes are needed");
    }
    let mut sizes = [x; 4];
    for (axis, size) in sizes.iter_mut().enumerate() {
        *size = cx.size_of(x, axis)?;
    }
    Ok((cx.b.i64(block), sizes))
}

/// Splits axes, permutes them and merges them again.
fn regroup(
    cx: &mut NodeCx,
    x: Value,
    split: &[Value],
    perm: &[usize],
    merged: &[Value],
) -> Result<Vec<Value>> {
    let split = cx.stack_i64s(split)?;
    let y = cx.reshape_to(x, split)?;
    let y = cx.transpose(y, perm)?;
    let merged = cx.stack_i64s(merged)?;
    Ok(vec![cx.reshape_to(y, merged)?])
}
