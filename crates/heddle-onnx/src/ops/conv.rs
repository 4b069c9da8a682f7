//! Convolutions: Conv, ConvTranspose and the integer forms.

use heddle_ir::{Emit, Op, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid};
use super::quant;
use super::sizes::Int;
use super::spatial::{AutoPad, Windows, channels_first, channels_last, explicit_pads};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("Conv", conv),
    ("ConvTranspose", conv_transpose),
    ("ConvInteger", conv_integer),
    ("QLinearConv", qlinear_conv),
];

/// Conv 1, 11, 22.
pub(super) fn conv(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, w) = (cx.input(0)?, cx.input(1)?);
    let y = convolve(cx, x, w)?;
    Ok(vec![add_bias(cx, y, 2)?])
}

/// ConvTranspose 1, 11, 22: a convolution of the input with zeros between its elements and of the
/// mirrored weight.
fn conv_transpose(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, w) = (cx.input(0)?, cx.input(1)?);
    let k = cx.spatial_rank(x, 1)?;
    let windows = Windows::of(cx, k)?;
    let groups = group_count(cx)?;
    let kernel = kernel_sizes(cx, w, k)?;
    let spans = windows.spans(cx, &kernel)?;
    let pads = transposed_pads(cx, x, &windows, &spans)?;
    let extra = output_padding(cx, k)?;

    // Positions that the input is padded to: a window reaches back over all but one of its
    // elements.
    let mut conv_pads = vec![Int::Const(0); 2 * k];
    for i in 0..k {
        let reach = cx.int_sub(spans[i], 1)?;
        conv_pads[i] = cx.int_sub(reach, pads[i])?;
        let end = cx.int_sub(reach, pads[k + i])?;
        conv_pads[k + i] = cx.int_add(end, extra[i])?;
    }
    let conv_pads = cx.ints_value(&conv_pads)?;
    let weight = mirrored_weight(cx, w, groups)?;
    let op = Op::Conv {
        strides: vec![1; k],
        dilations: windows.dilations,
        input_dilations: windows.strides,
        groups,
    };
    let y = cx.op(op, &[x, weight, conv_pads])?;
    Ok(vec![add_bias(cx, y, 2)?])
}

/// ConvInteger 10: in `i32`, zero points subtracted first, so that padding stands for zero.
fn conv_integer(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, w) = (cx.input(0)?, cx.input(1)?);
    let (x_zero, w_zero) = (cx.opt(2), cx.opt(3));
    let x = quant::centered(cx, x, x_zero)?;
    let rank = cx.rank(w)?;
    let w_zero = w_zero.map(|z| along_outputs(cx, z, rank)).transpose()?;
    let w = quant::centered(cx, w, w_zero)?;
    Ok(vec![convolve(cx, x, w)?])
}

/// QLinearConv 10, also with the channels last, as com.microsoft has it.
pub(super) fn qlinear_conv(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let last = cx.flag("channels_last", false);
    let [x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero] = inputs(cx)?;
    let x = channels_first(cx, x, last)?;
    let x = quant::centered(cx, x, Some(x_zero))?;
    let rank = cx.rank(w)?;
    let w_zero = along_outputs(cx, w_zero, rank)?;
    let w = quant::centered(cx, w, Some(w_zero))?;
    let y = convolve(cx, x, w)?;
    let y = add_bias(cx, y, 8)?;
    let w_scale = match cx.rank(w_scale)? {
        1 => cx.per_channel(w_scale, rank - 2)?,
        _ => w_scale,
    };
    let (x_scale, y_scale) = (quant::scalar(cx, x_scale)?, quant::scalar(cx, y_scale)?);
    let scale = cx.mul(x_scale, w_scale)?;
    let scale = cx.div(scale, y_scale)?;
    let y_zero = quant::scalar(cx, y_zero)?;
    let y = quant::requantize(cx, y, scale, y_zero)?;
    Ok(vec![channels_last(cx, y, last)?])
}

/// The first inputs, all required.
fn inputs<const N: usize>(cx: &NodeCx) -> Result<[Value; N]> {
    let all: Vec<Value> = (0..N).map(|i| cx.input(i)).collect::<Result<_>>()?;
    Ok(all.try_into().expect("N of them"))
}

/// The convolution that the node's attributes describe, without bias.
fn convolve(cx: &mut NodeCx, x: Value, w: Value) -> Result<Value> {
    let k = cx.spatial_rank(x, 1)?;
    let windows = Windows::of(cx, k)?;
    let groups = group_count(cx)?;
    let kernel = kernel_sizes(cx, w, k)?;
    let pads = windows.pads(cx, x, &kernel)?;
    let pads = cx.ints_value(&pads)?;
    let op = Op::Conv {
        strides: windows.strides,
        dilations: windows.dilations,
        input_dilations: vec![1; k],
        groups,
    };
    cx.op(op, &[x, w, pads])
}

fn group_count(cx: &NodeCx) -> Result<usize> {
    let groups = cx.int_or("group", 1);
    usize::try_from(groups)
        .ok()
        .filter(|g| *g > 0)
        .ok_or_else(|| OpError::Invalid(format!("group is {groups}")))
}

/// The weight's spatial sizes, which the attribute `kernel_shape` repeats.
fn kernel_sizes(cx: &mut NodeCx, w: Value, k: usize) -> Result<Vec<Int>> {
    let rank = cx.rank(w)?;
    if rank != k + 2 {
        return invalid(format!("the weight has {rank} axes, the input {}", k + 2));
    }
    let sizes: Vec<Int> = (0..k).map(|i| cx.size(w, i + 2)).collect::<Result<_>>()?;
    let Some(stated) = cx.ints("kernel_shape").filter(|s| !s.is_empty()) else {
        return Ok(sizes);
    };
    let agrees = |(s, n): (&Int, &i64)| s.as_const().is_none_or(|c| c == *n);
    if stated.len() != k || !sizes.iter().zip(stated).all(agrees) {
        return invalid(format!(
            "kernel_shape is {stated:?}, the weight {}",
            cx.b.ty(w)
        ));
    }
    Ok(stated.iter().map(|&n| Int::Const(n)).collect())
}

/// Adds input `i`, one number per channel, if it is there.
fn add_bias(cx: &mut NodeCx, y: Value, i: usize) -> Result<Value> {
    let Some(bias) = cx.opt(i) else {
        return Ok(y);
    };
    let spatial = cx.rank(y)? - 2;
    let bias = cx.per_channel(bias, spatial)?;
    cx.add(y, bias)
}

/// One number per output channel with axes added to fit a weight; others as they are.
fn along_outputs(cx: &mut NodeCx, list: Value, rank: usize) -> Result<Value> {
    match cx.rank(list)? {
        1 => cx.unsqueeze(list, &(1..rank).collect::<Vec<_>>()),
        _ => Ok(list),
    }
}

/// `w[c, m/g, k…]` as `[m, c/g, k…]`, mirrored along the spatial axes.
fn mirrored_weight(cx: &mut NodeCx, w: Value, groups: usize) -> Result<Value> {
    let sizes = cx.sizes(w)?;
    let rank = sizes.len();
    let g = groups as i64;
    let inputs = cx.int_div(sizes[0], g)?;
    let outputs = cx.int_mul(sizes[1], g)?;
    let mut y = w;
    if groups > 1 {
        let split = [&[Int::Const(g), inputs], &sizes[1..]].concat();
        y = cx.reshape_ints(y, &split)?;
        let perm: Vec<usize> = [0, 2, 1].into_iter().chain(3..rank + 1).collect();
        y = cx.transpose(y, &perm)?;
        let joined = [&[outputs, inputs], &sizes[2..]].concat();
        y = cx.reshape_ints(y, &joined)?;
    } else {
        let perm: Vec<usize> = [1, 0].into_iter().chain(2..rank).collect();
        y = cx.transpose(y, &perm)?;
    }
    for axis in 2..rank {
        y = cx.reverse(y, axis)?;
    }
    Ok(y)
}

fn output_padding(cx: &NodeCx, k: usize) -> Result<Vec<Int>> {
    match cx.ints("output_padding").filter(|p| !p.is_empty()) {
        None => Ok(vec![Int::Const(0); k]),
        Some(list) if list.len() >= k => Ok(list[..k].iter().map(|&p| Int::Const(p)).collect()),
        Some(list) => invalid(format!("output_padding is {list:?} for {k} spatial axes")),
    }
}

/// The elements that ConvTranspose cuts off: at the beginning of each axis, then at the end.
fn transposed_pads(
    cx: &mut NodeCx,
    x: Value,
    windows: &Windows,
    spans: &[Int],
) -> Result<Vec<Int>> {
    let k = spans.len();
    let same = matches!(windows.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
    // Models write the sizes with those of batch and channels in front, too.
    let stated = cx.ints("output_shape").filter(|s| !s.is_empty());
    let stated = match stated {
        Some(s) if s.len() == k => Some(s),
        Some(s) if s.len() == k + 2 => Some(&s[2..]),
        Some(s) => {
            return invalid(format!("output_shape is {s:?} for {k} spatial axes"));
        }
        None => None,
    };
    if stated.is_none() && !same {
        return match windows.auto_pad {
            AutoPad::Explicit => explicit_pads(cx, k),
            _ => Ok(vec![Int::Const(0); 2 * k]),
        };
    }
    let extra = output_padding(cx, k)?;
    let (mut begins, mut ends) = (vec![], vec![]);
    for i in 0..k {
        let size = cx.size(x, i + 2)?;
        let stride = windows.strides[i] as i64;
        let target = match stated {
            Some(s) => Int::Const(s[i]),
            None => cx.int_mul(size, stride)?,
        };
        let steps = cx.int_sub(size, 1)?;
        let reach = cx.int_mul(steps, stride)?;
        let full = cx.int_add(reach, spans[i])?;
        let full = cx.int_add(full, extra[i])?;
        let total = cx.int_sub(full, target)?;
        // An output beyond the reach of the input is zero-padded at its end.
        let cut = cx.int_max(total, 0)?;
        let fill = cx.int_min(total, 0)?;
        let (begin, end) = windows.distribute(cx, cut)?;
        begins.push(begin);
        ends.push(cx.int_add(end, fill)?);
    }
    Ok([begins, ends].concat())
}
