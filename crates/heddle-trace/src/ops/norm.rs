//! Normalisations.

use heddle_ir::op::{ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::Table;
use super::args::{Int, Number};
use super::cx::NodeCx;
use super::reduce::variance;
use crate::error::{Result, invalid};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("_native_batch_norm_legit", |cx| batch_norm_of(cx, true)),
    ("_native_batch_norm_legit.no_stats", |cx| {
        batch_norm_of(cx, false)
    }),
    ("_native_batch_norm_legit_functional", batch_norm_functional),
    ("_native_batch_norm_legit_no_training", |cx| {
        let eps = cx.float(6, "eps", 1e-5)?;
        let x = cx.value(0, "input")?;
        let y = batch_norm_running(cx, x, eps)?;
        let none = empty(cx, x)?;
        Ok(vec![y, none, none])
    }),
    ("batch_norm", |cx| {
        let eps = cx.float(7, "eps", 1e-5)?;
        let x = cx.value(0, "input")?;
        match cx.flag(5, "training", false)? {
            true => Ok(vec![batch_norm_own(cx, x, eps)?.0]),
            false => Ok(vec![batch_norm_running(cx, x, eps)?]),
        }
    }),
    ("layer_norm", |cx| {
        let eps = cx.float(4, "eps", 1e-5)?;
        Ok(vec![layer_norm(cx, eps)?[0]])
    }),
    ("native_batch_norm", |cx| batch_norm_of(cx, true)),
    ("native_group_norm", native_group_norm),
    ("native_group_norm_backward", group_norm_gradient),
    ("group_norm", group_norm),
    ("native_layer_norm", |cx| {
        let eps = cx.float(4, "eps", 1e-5)?;
        layer_norm(cx, eps)
    }),
    ("native_layer_norm_backward", layer_norm_gradient),
    ("rms_norm", rms_norm),
];

/// `1 / sqrt(variance + eps)`.
fn inverse_deviation(cx: &mut NodeCx, variance: Value, eps: f64) -> Result<Value> {
    let shifted = cx.plus(variance, eps)?;
    let root = cx.unary(UnaryOp::Sqrt, shifted)?;
    cx.inverse(root)
}

/// A value over axes whose mean becomes 0 and variance 1; the mean and the inverse deviation, with axes of size 1.
fn normalised(cx: &mut NodeCx, x: Value, axes: &[usize], eps: f64) -> Result<[Value; 3]> {
    let (variance, mean) = variance(cx, x, axes, Number::Int(0), true)?;
    let inverse = inverse_deviation(cx, variance, eps)?;
    let gap = cx.sub(x, mean)?;
    Ok([cx.mul(gap, inverse)?, mean, inverse])
}

/// `x * weight + bias`, where they are given, in the type of `x`.
fn affine(
    cx: &mut NodeCx,
    mut x: Value,
    weight: Option<Value>,
    bias: Option<Value>,
) -> Result<Value> {
    let dtype = cx.dtype(x)?;
    if let Some(weight) = weight {
        let weight = cx.cast(weight, dtype)?;
        x = cx.mul(x, weight)?;
    }
    if let Some(bias) = bias {
        let bias = cx.cast(bias, dtype)?;
        x = cx.add(x, bias)?;
    }
    Ok(x)
}

/// The axes that a normalised shape stands for.
fn last_axes(cx: &mut NodeCx, x: Value) -> Result<Vec<usize>> {
    let count = cx.list(1, "normalized_shape")?.len();
    match cx.rank(x)?.checked_sub(count) {
        Some(first) => Ok((first..first + count).collect()),
        None => invalid(format!("{count} axes of {}", cx.rank(x)?)),
    }
}

/// The result, the mean and the inverse deviation.
fn layer_norm(cx: &mut NodeCx, eps: f64) -> Result<Vec<Value>> {
    let x = cx.value(0, "input")?;
    let axes = last_axes(cx, x)?;
    let (weight, bias) = (cx.opt_value(2, "weight")?, cx.opt_value(3, "bias")?);
    let dtype = cx.dtype(x)?;
    let wide = cx.widen(x)?;
    let [y, mean, inverse] = normalised(cx, wide, &axes, eps)?;
    let y = affine(cx, y, weight, bias)?;
    Ok(vec![cx.cast(y, dtype)?, mean, inverse])
}

fn layer_norm_gradient(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (gradient, x) = (cx.value(0, "grad_out")?, cx.value(1, "input")?);
    let count = cx.list(2, "normalized_shape")?.len();
    let (mean, inverse) = (cx.value(3, "mean")?, cx.value(4, "rstd")?);
    let weight = cx.opt_value(5, "weight")?;
    let Some(first) = cx.rank(x)?.checked_sub(count) else {
        return invalid("it has too few axes");
    };
    let (inner, outer): (Vec<usize>, Vec<usize>) =
        ((first..first + count).collect(), (0..first).collect());
    let dtype = cx.dtype(x)?;
    let (wide, gradient) = (cx.widen(x)?, cx.widen(gradient)?);
    let gap = cx.sub(wide, mean)?;
    let y = cx.mul(gap, inverse)?;
    let scaled = match weight {
        Some(weight) => {
            let weight = cx.widen(weight)?;
            cx.mul(gradient, weight)?
        }
        None => gradient,
    };
    let own = cx.mean(scaled, &inner, true)?;
    let product = cx.mul(scaled, y)?;
    let along = cx.mean(product, &inner, true)?;
    let along = cx.mul(y, along)?;
    let dx = cx.sub(scaled, own)?;
    let dx = cx.sub(dx, along)?;
    let dx = cx.mul(dx, inverse)?;
    let dw = cx.mul(gradient, y)?;
    let dw = cx.reduce(ReduceOp::Sum, dw, &outer, false)?;
    let db = cx.reduce(ReduceOp::Sum, gradient, &outer, false)?;
    let mask = cx.mask(7, 3)?;
    wanted(cx, [dx, dw, db], &mask, dtype)
}

/// Gradients in an element type; nothing in place of those that are not asked for.
fn wanted(cx: &mut NodeCx, all: [Value; 3], mask: &[bool], dtype: DType) -> Result<Vec<Value>> {
    let pairs = all.into_iter().zip(mask);
    let each = pairs.map(|(value, is_wanted)| match is_wanted {
        true => cx.cast(value, dtype),
        false => cx.nothing(),
    });
    each.collect()
}

fn rms_norm(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "input")?;
    let axes = last_axes(cx, x)?;
    let weight = cx.opt_value(2, "weight")?;
    let dtype = cx.dtype(x)?;
    let smallest = match dtype {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    };
    let eps = cx.float(3, "eps", smallest)?;
    let wide = cx.widen(x)?;
    let square = cx.mul(wide, wide)?;
    let mean = cx.mean(square, &axes, true)?;
    let inverse = inverse_deviation(cx, mean, eps)?;
    let y = cx.mul(wide, inverse)?;
    let y = affine(cx, y, weight, None)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// `[n, c, …]` normalised over each group of channels: the result, and mean and inverse deviation `[n, groups]`.
fn grouped(cx: &mut NodeCx, x: Value, groups: i64, eps: f64) -> Result<Vec<Value>> {
    let (weight, bias) = (cx.opt_value(1, "weight")?, cx.opt_value(2, "bias")?);
    grouped_with(cx, x, groups, eps, weight, bias)
}

fn grouped_with(
    cx: &mut NodeCx,
    x: Value,
    groups: i64,
    eps: f64,
    weight: Option<Value>,
    bias: Option<Value>,
) -> Result<Vec<Value>> {
    let sizes = cx.sizes(x)?;
    if sizes.len() < 2 || groups <= 0 {
        return invalid(format!("{groups} groups of {} axes", sizes.len()));
    }
    let dtype = cx.dtype(x)?;
    let wide = cx.widen(x)?;
    let rest = cx.int_product(&sizes[1..])?;
    let rest = cx.int_div(rest, groups)?;
    let split = cx.reshape(wide, &[sizes[0], groups.into(), rest])?;
    let [y, mean, inverse] = normalised(cx, split, &[2], eps)?;
    let y = cx.reshape(y, &sizes)?;
    let behind = sizes.len() - 2;
    let weight = weight.map(|w| cx.per_channel(w, behind)).transpose()?;
    let bias = bias.map(|b| cx.per_channel(b, behind)).transpose()?;
    let y = affine(cx, y, weight, bias)?;
    let (mean, inverse) = (cx.squeeze(mean, &[2])?, cx.squeeze(inverse, &[2])?);
    Ok(vec![
        cx.cast(y, dtype)?,
        cx.cast(mean, dtype)?,
        cx.cast(inverse, dtype)?,
    ])
}

fn native_group_norm(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, groups) = (cx.value(0, "input")?, cx.int(6, "group")?);
    let eps = cx.float(7, "eps", 1e-5)?;
    grouped(cx, x, groups, eps)
}

fn group_norm(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, groups) = (cx.value(0, "input")?, cx.int(1, "num_groups")?);
    let (weight, bias) = (cx.opt_value(2, "weight")?, cx.opt_value(3, "bias")?);
    let eps = cx.float(4, "eps", 1e-5)?;
    Ok(vec![grouped_with(cx, x, groups, eps, weight, bias)?[0]])
}

fn empty(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let dtype = cx.dtype(x)?;
    let zero = cx.b.scalar(dtype, 0.0);
    cx.filled(zero, &[Int::Const(0)])
}

/// Weight and bias with an axis for each of those behind the channels.
fn channel_affine(cx: &mut NodeCx, y: Value, behind: usize) -> Result<Value> {
    let (weight, bias) = (cx.opt_value(1, "weight")?, cx.opt_value(2, "bias")?);
    let weight = weight.map(|w| cx.per_channel(w, behind)).transpose()?;
    let bias = bias.map(|b| cx.per_channel(b, behind)).transpose()?;
    affine(cx, y, weight, bias)
}

fn behind_channels(cx: &NodeCx, x: Value) -> Result<usize> {
    match cx.rank(x)?.checked_sub(2) {
        Some(behind) => Ok(behind),
        None => invalid("there is no axis of channels"),
    }
}

/// By running statistics.
fn batch_norm_running(cx: &mut NodeCx, x: Value, eps: f64) -> Result<Value> {
    let behind = behind_channels(cx, x)?;
    let (mean, variance) = (cx.value(3, "running_mean")?, cx.value(4, "running_var")?);
    let dtype = cx.dtype(x)?;
    let (x, mean, variance) = (cx.widen(x)?, cx.widen(mean)?, cx.widen(variance)?);
    let inverse = inverse_deviation(cx, variance, eps)?;
    let (mean, inverse) = (
        cx.per_channel(mean, behind)?,
        cx.per_channel(inverse, behind)?,
    );
    let gap = cx.sub(x, mean)?;
    let y = cx.mul(gap, inverse)?;
    let y = channel_affine(cx, y, behind)?;
    cx.cast(y, dtype)
}

/// By the batch's own statistics: the result, mean, inverse deviation and variance.
fn batch_norm_own(cx: &mut NodeCx, x: Value, eps: f64) -> Result<(Value, Value, Value, Value)> {
    let behind = behind_channels(cx, x)?;
    let axes: Vec<usize> = std::iter::once(0).chain(2..2 + behind).collect();
    let dtype = cx.dtype(x)?;
    let wide = cx.widen(x)?;
    let (variance, mean) = variance(cx, wide, &axes, Number::Int(0), true)?;
    let inverse = inverse_deviation(cx, variance, eps)?;
    let gap = cx.sub(wide, mean)?;
    let y = cx.mul(gap, inverse)?;
    let y = channel_affine(cx, y, behind)?;
    let y = cx.cast(y, dtype)?;
    let flat = [mean, inverse, variance].map(|v| cx.squeeze(v, &axes));
    let [mean, inverse, variance] = flat;
    Ok((y, mean?, inverse?, variance?))
}

/// With a training flag behind the statistics, where there are any.
fn batch_norm_of(cx: &mut NodeCx, has_stats: bool) -> Result<Vec<Value>> {
    let x = cx.value(0, "input")?;
    let at = if has_stats { 5 } else { 3 };
    let eps = cx.float(at + 2, "eps", 1e-5)?;
    if has_stats && !cx.flag(at, "training", false)? {
        let y = batch_norm_running(cx, x, eps)?;
        let none = empty(cx, x)?;
        return Ok(vec![y, none, none]);
    }
    let (y, mean, inverse, _) = batch_norm_own(cx, x, eps)?;
    Ok(vec![y, mean, inverse])
}

/// With the next running statistics as results.
fn batch_norm_functional(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "input")?;
    let (old_mean, old_variance) = (cx.value(3, "running_mean")?, cx.value(4, "running_var")?);
    let eps = cx.float(7, "eps", 1e-5)?;
    if !cx.flag(5, "training", false)? {
        let y = batch_norm_running(cx, x, eps)?;
        let none = empty(cx, x)?;
        return Ok(vec![y, none, none, old_mean, old_variance]);
    }
    let momentum = cx.float(6, "momentum", 0.1)?;
    let (y, mean, inverse, variance) = batch_norm_own(cx, x, eps)?;
    let axes: Vec<usize> = (0..cx.rank(x)?).filter(|a| *a != 1).collect();
    let count = cx.count(x, &axes)?;
    let count = cx.real(count, variance)?;
    let less = cx.plus(count, -1.0)?;
    let factor = cx.div(count, less)?;
    let unbiased = cx.mul(variance, factor)?;
    let mut next = vec![];
    for (old, new) in [(old_mean, mean), (old_variance, unbiased)] {
        let dtype = cx.dtype(old)?;
        let (old, new) = (cx.times(old, 1.0 - momentum)?, cx.times(new, momentum)?);
        let new = cx.cast(new, dtype)?;
        next.push(cx.add(old, new)?);
    }
    Ok(vec![y, mean, inverse, next[0], next[1]])
}

fn group_norm_gradient(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (dy, x) = (cx.value(0, "grad_out")?, cx.value(1, "input")?);
    let (mean, inverse) = (cx.value(2, "mean")?, cx.value(3, "rstd")?);
    let (weight, groups) = (cx.opt_value(4, "weight")?, cx.int(8, "group")?);
    let sizes = cx.sizes(x)?;
    if sizes.len() < 2 || groups <= 0 {
        return invalid(format!("{groups} groups of {} axes", sizes.len()));
    }
    let dtype = cx.dtype(x)?;
    // `[n, groups, channels of a group, elements]`
    let each = cx.int_div(sizes[1], groups)?;
    let plane = cx.int_product(&sizes[2..])?;
    let split = [sizes[0], groups.into(), each, plane];
    let (x, dy) = (cx.widen(x)?, cx.widen(dy)?);
    let (x, dy) = (cx.reshape(x, &split)?, cx.reshape(dy, &split)?);
    let (mean, inverse) = (cx.widen(mean)?, cx.widen(inverse)?);
    let statistic = [sizes[0], groups.into(), 1.into(), 1.into()];
    let (mean, inverse) = (
        cx.reshape(mean, &statistic)?,
        cx.reshape(inverse, &statistic)?,
    );
    let gap = cx.sub(x, mean)?;
    let y = cx.mul(gap, inverse)?;
    let scaled = match weight {
        Some(weight) => {
            let weight = cx.widen(weight)?;
            let weight = cx.reshape(weight, &[groups.into(), each, 1.into()])?;
            cx.mul(dy, weight)?
        }
        None => dy,
    };
    let own = cx.mean(scaled, &[2, 3], true)?;
    let product = cx.mul(scaled, y)?;
    let along = cx.mean(product, &[2, 3], true)?;
    let along = cx.mul(y, along)?;
    let dx = cx.sub(scaled, own)?;
    let dx = cx.sub(dx, along)?;
    let dx = cx.mul(dx, inverse)?;
    let dw = cx.mul(dy, y)?;
    let dx = cx.reshape(dx, &sizes)?;
    let mut sums = [dw, dy];
    for sum in &mut sums {
        let channels = cx.reduce(ReduceOp::Sum, *sum, &[0, 3], false)?;
        *sum = cx.reshape(channels, &[sizes[1]])?;
    }
    let mask = cx.mask(9, 3)?;
    wanted(cx, [dx, sums[0], sums[1]], &mask, dtype)
}
