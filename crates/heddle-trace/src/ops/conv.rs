//! Convolutions.

use heddle_ir::op::ReduceOp;
use heddle_ir::{Emit, Op, Value};

use super::Table;
use super::args::Int;
use super::cx::NodeCx;
use crate::error::{Result, invalid};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("conv1d", |cx| plain(cx, 1)),
    ("conv2d", |cx| plain(cx, 2)),
    ("conv3d", |cx| plain(cx, 3)),
    ("convolution", convolution),
    ("convolution_backward", gradients),
];

/// The numbers of a convolution, one for each spatial axis.
struct Form {
    strides: Vec<usize>,
    pads: Vec<Int>,
    dilations: Vec<usize>,
    groups: usize,
}

impl Form {
    /// From the argument at `i` on: strides, padding, dilations.
    fn of(cx: &mut NodeCx, i: usize, spatial: usize) -> Result<Self> {
        let pads = cx.per_axis(i + 1, "padding", spatial, &[0])?;
        Ok(Self {
            strides: cx.positive(i, "stride", spatial, &[1])?,
            pads: pads.into_iter().map(Int::Const).collect(),
            dilations: cx.positive(i + 2, "dilation", spatial, &[1])?,
            groups: 1,
        })
    }
}

fn groups(cx: &mut NodeCx, i: usize) -> Result<usize> {
    match usize::try_from(cx.int_or(i, "groups", 1)?) {
        Ok(groups) if groups > 0 => Ok(groups),
        _ => invalid("there is no group"),
    }
}

/// `conv1d` and its like, with padding in numbers.
fn plain(cx: &mut NodeCx, spatial: usize) -> Result<Vec<Value>> {
    let (x, weight) = (cx.value(0, "input")?, cx.value(1, "weight")?);
    let mut form = Form::of(cx, 3, spatial)?;
    form.groups = groups(cx, 6)?;
    let y = batched(cx, x, weight, spatial, |cx, x| {
        forward(cx, x, weight, &form)
    })?;
    with_bias(cx, y, spatial)
}

fn convolution(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, weight) = (cx.value(0, "input")?, cx.value(1, "weight")?);
    let Some(spatial) = cx.rank(weight)?.checked_sub(2) else {
        return invalid("a weight has two axes or more");
    };
    let mut form = Form::of(cx, 3, spatial)?;
    form.groups = groups(cx, 8)?;
    let is_transposed = cx.flag(6, "transposed", false)?;
    let y = match is_transposed {
        false => batched(cx, x, weight, spatial, |cx, x| {
            forward(cx, x, weight, &form)
        })?,
        true => {
            let extra = cx.per_axis(7, "output_padding", spatial, &[0])?;
            let extra: Vec<Int> = extra.into_iter().map(Int::Const).collect();
            batched(cx, x, weight, spatial, |cx, x| {
                transposed(cx, x, weight, &form, &extra)
            })?
        }
    };
    with_bias(cx, y, spatial)
}

/// Adds an axis in front of an input that is not a batch, and removes it from the result.
fn batched(
    cx: &mut NodeCx,
    x: Value,
    weight: Value,
    spatial: usize,
    work: impl FnOnce(&mut NodeCx, Value) -> Result<Value>,
) -> Result<Value> {
    if cx.rank(weight)? != spatial + 2 {
        return invalid(format!("the weight has {} axes", cx.rank(weight)?));
    }
    match cx.rank(x)? {
        rank if rank == spatial + 2 => work(cx, x),
        rank if rank == spatial + 1 => {
            let x = cx.unsqueeze(x, &[0])?;
            let y = work(cx, x)?;
            cx.squeeze(y, &[0])
        }
        rank => invalid(format!("the input has {rank} axes")),
    }
}

fn with_bias(cx: &mut NodeCx, y: Value, spatial: usize) -> Result<Vec<Value>> {
    let Some(bias) = cx.opt_value(2, "bias")? else {
        return Ok(vec![y]);
    };
    let bias = cx.per_channel(bias, spatial)?;
    Ok(vec![cx.add(y, bias)?])
}

fn forward(cx: &mut NodeCx, x: Value, weight: Value, form: &Form) -> Result<Value> {
    let pads = [form.pads.clone(), form.pads.clone()].concat();
    let pads = cx.ints_value(&pads)?;
    let op = Op::Conv {
        strides: form.strides.clone(),
        dilations: form.dilations.clone(),
        input_dilations: vec![1; form.strides.len()],
        groups: form.groups,
    };
    cx.op(op, &[x, weight, pads])
}

/// A convolution of the input with zeros between its elements and of the mirrored weight.
fn transposed(
    cx: &mut NodeCx,
    x: Value,
    weight: Value,
    form: &Form,
    extra: &[Int],
) -> Result<Value> {
    let spatial = form.strides.len();
    let mut pads = vec![Int::Const(0); 2 * spatial];
    for i in 0..spatial {
        // Positions that a window reaches back over.
        let size = cx.size(weight, i + 2)?;
        let reach = cx.int_sub(size, 1)?;
        let reach = cx.int_mul(reach, form.dilations[i] as i64)?;
        pads[i] = cx.int_sub(reach, form.pads[i])?;
        pads[spatial + i] = cx.int_add(pads[i], extra[i])?;
    }
    let pads = cx.ints_value(&pads)?;
    let weight = mirrored(cx, weight, form.groups)?;
    let op = Op::Conv {
        strides: vec![1; spatial],
        dilations: form.dilations.clone(),
        input_dilations: form.strides.clone(),
        groups: form.groups,
    };
    cx.op(op, &[x, weight, pads])
}

/// `w[c, m/g, k…]` as `[m, c/g, k…]`, mirrored along the spatial axes.
fn mirrored(cx: &mut NodeCx, w: Value, groups: usize) -> Result<Value> {
    let sizes = cx.sizes(w)?;
    let (g, rank) = (groups as i64, sizes.len());
    let mut y = w;
    if groups > 1 {
        let inputs = cx.int_div(sizes[0], g)?;
        let outputs = cx.int_mul(sizes[1], g)?;
        y = cx.reshape(y, &[&[g.into(), inputs], &sizes[1..]].concat())?;
        let perm: Vec<usize> = [0, 2, 1].into_iter().chain(3..rank + 1).collect();
        y = cx.transpose(y, &perm)?;
        y = cx.reshape(y, &[&[outputs, inputs], &sizes[2..]].concat())?;
    } else {
        y = cx.swap(y, 0, 1)?;
    }
    for axis in 2..rank {
        y = cx.reverse(y, axis)?;
    }
    Ok(y)
}

/// The elements to add behind each axis of a transposed convolution of `y` for it to have the sizes of `x`.
fn missing(cx: &mut NodeCx, x: Value, y: Value, weight: Value, form: &Form) -> Result<Vec<Int>> {
    let mut extra = vec![];
    for i in 0..form.strides.len() {
        let (want, steps) = (cx.size(x, i + 2)?, cx.size(y, i + 2)?);
        let steps = cx.int_sub(steps, 1)?;
        let reach = cx.int_mul(steps, form.strides[i] as i64)?;
        let kernel = cx.size(weight, i + 2)?;
        let span = cx.int_sub(kernel, 1)?;
        let span = cx.int_mul(span, form.dilations[i] as i64)?;
        let full = cx.int_add(reach, span)?;
        let full = cx.int_add(full, 1)?;
        let pads = cx.int_mul(form.pads[i], 2)?;
        let have = cx.int_sub(full, pads)?;
        extra.push(cx.int_sub(want, have)?);
    }
    Ok(extra)
}

/// Gradients of input, weight and bias.
fn gradients(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (dy, x, weight) = (
        cx.value(0, "grad_output")?,
        cx.value(1, "input")?,
        cx.value(2, "weight")?,
    );
    let rank = cx.rank(weight)?;
    let is_transposed = cx.flag(7, "transposed", false)?;
    if rank < 3 || cx.rank(x)? != rank || cx.rank(dy)? != rank {
        return invalid(format!("the weight has {rank} axes"));
    }
    let spatial = rank - 2;
    let mut form = Form::of(cx, 4, spatial)?;
    form.groups = groups(cx, 9)?;
    let mask = cx.mask(10, 3)?;
    let mut results = vec![];
    for (i, is_wanted) in mask.into_iter().enumerate() {
        results.push(match i {
            _ if !is_wanted => cx.nothing()?,
            // A transposed convolution takes what another gives: its gradients are that one's, with both exchanged.
            0 if is_transposed => forward(cx, dy, weight, &form)?,
            1 if is_transposed => weight_gradient(cx, x, dy, weight, &form)?,
            0 => {
                let extra = missing(cx, x, dy, weight, &form)?;
                transposed(cx, dy, weight, &form, &extra)?
            }
            1 => weight_gradient(cx, dy, x, weight, &form)?,
            _ => {
                let axes: Vec<usize> = (0..rank).filter(|axis| *axis != 1).collect();
                cx.reduce(ReduceOp::Sum, dy, &axes, false)?
            }
        });
    }
    Ok(results)
}

/// A convolution of the input with the gradient, in which batch and channels change places.
fn weight_gradient(
    cx: &mut NodeCx,
    dy: Value,
    x: Value,
    weight: Value,
    form: &Form,
) -> Result<Value> {
    let sizes = cx.sizes(x)?;
    let (g, rank) = (form.groups as i64, sizes.len());
    let each = cx.int_div(sizes[1], g)?;
    let split = cx.reshape(x, &[&[sizes[0], g.into(), each], &sizes[2..]].concat())?;
    let perm: Vec<usize> = [2, 1, 0].into_iter().chain(3..rank + 1).collect();
    let moved = cx.transpose(split, &perm)?;
    let batch = cx.int_mul(sizes[0], g)?;
    let input = cx.reshape(moved, &[&[each, batch], &sizes[2..]].concat())?;
    let kernel = cx.swap(dy, 0, 1)?;
    let own = Form {
        strides: form.dilations.clone(),
        pads: form.pads.clone(),
        dilations: form.strides.clone(),
        groups: form.groups,
    };
    let mut y = forward(cx, input, kernel, &own)?;
    for axis in 2..rank {
        // Elements that the last stride leaves over are not part of a kernel.
        let end = cx.size(weight, axis)?;
        y = cx.slice(y, axis, 0.into(), end, 1.into())?;
    }
    cx.swap(y, 0, 1)
}

/// The gradient of sums over windows: `dy` spread over the windows of `x`. Planes are the last axes.
pub(super) fn spread(
    cx: &mut NodeCx,
    dy: Value,
    x: Value,
    window: &[usize],
    strides: &[usize],
    pads: &[i64],
) -> Result<Value> {
    let (sizes, spatial) = (cx.sizes(x)?, window.len());
    let first = sizes.len() - spatial;
    let planes = |cx: &mut NodeCx, v: Value| {
        let of = cx.sizes(v)?;
        let count = cx.int_product(&of[..first])?;
        cx.reshape(v, &[&[count, 1.into()], &of[first..]].concat())
    };
    let (dy, x) = (planes(cx, dy)?, planes(cx, x)?);
    let mut kernel: Vec<Int> = vec![1.into(), 1.into()];
    kernel.extend(window.iter().map(|&n| Int::Const(n as i64)));
    let one = cx.like(dy, 1.0)?;
    let weight = cx.filled(one, &kernel)?;
    let form = Form {
        strides: strides.to_vec(),
        pads: pads.iter().map(|&p| Int::Const(p)).collect(),
        dilations: vec![1; spatial],
        groups: 1,
    };
    let extra = missing(cx, x, dy, weight, &form)?;
    let dx = transposed(cx, dy, weight, &form, &extra)?;
    cx.reshape(dx, &sizes)
}
