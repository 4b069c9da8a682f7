//! Normalisations.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use super::elem::dtype_of;
use super::sizes::Int;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("BatchNormalization", batch_normalization),
    ("InstanceNormalization", instance_normalization),
    ("LayerNormalization", layer_normalization),
    ("GroupNormalization", group_normalization),
    ("RMSNormalization", rms_normalization),
    ("LpNormalization", lp_normalization),
    ("MeanVarianceNormalization", mean_variance_normalization),
    ("LRN", lrn),
];

/// BatchNormalization 1, 6, 7, 9, 14, 15. From 7 to 13 a node that wants more than one output is in
/// training.
fn batch_normalization(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let (dtype, rank) = (cx.dtype(x)?, cx.rank(x)?);
    let compute = wide(dtype);
    let training = match cx.opset {
        ..7 => !cx.flag("is_test", false),
        7..14 => (1..cx.output_count()).any(|i| cx.wants(i)),
        _ => cx.flag("training_mode", false),
    };
    let x = cx.cast(x, compute)?;
    // Scale, bias, mean and variance: one number per channel, or with `spatial` 0 (opset 7) per
    // element of an image.
    let mut parameters = vec![];
    for i in 1..5 {
        let p = cx.input(i)?;
        let p = cx.cast(p, compute)?;
        parameters.push(match (cx.rank(p)?, rank) {
            (1, 2..) => cx.per_channel(p, rank - 2)?,
            (p_rank, _) if p_rank + 1 == rank => cx.unsqueeze(p, &[0])?,
            _ => p,
        });
    }
    let (scale, bias) = (parameters[0], parameters[1]);
    let (running_mean, running_var) = (parameters[2], parameters[3]);
    let epsilon = f64::from(cx.float_or("epsilon", 1e-5));
    if !training {
        let y = standardize(cx, x, running_mean, running_var, epsilon)?;
        let y = affine(cx, y, scale, Some(bias))?;
        return Ok(vec![cx.cast(y, dtype)?]);
    }
    let shared = cx.flag("spatial", true);
    let axes: Vec<usize> = (0..rank).filter(|a| *a == 0 || shared && *a != 1).collect();
    let (mean, var) = moments(cx, x, &axes)?;
    let y = standardize(cx, x, mean, var, epsilon)?;
    let y = affine(cx, y, scale, Some(bias))?;
    let mut outputs = vec![cx.cast(y, dtype)?];
    let momentum = f64::from(cx.float_or("momentum", 0.9));
    for (i, running, batch) in [(3, running_mean, mean), (4, running_var, var)] {
        let keep = cx.real_like(running, momentum)?;
        let renew = cx.real_like(running, 1.0 - momentum)?;
        let (old, new) = (cx.mul(running, keep)?, cx.mul(batch, renew)?);
        let updated = cx.add(old, new)?;
        let like = cx.input(i)?;
        outputs.push(shaped_like(cx, updated, like)?);
    }
    for (i, batch) in [(3, mean), (4, var)] {
        let like = cx.input(i)?;
        outputs.push(shaped_like(cx, batch, like)?);
    }
    Ok(outputs)
}

/// InstanceNormalization 6, 22.
fn instance_normalization(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, scale, bias) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let dtype = cx.dtype(x)?;
    let spatial = cx.spatial_rank(x, 0)?;
    let axes: Vec<usize> = (2..2 + spatial).collect();
    let epsilon = f64::from(cx.float_or("epsilon", 1e-5));
    let x = cx.widen(x)?;
    let (mean, var) = moments(cx, x, &axes)?;
    let y = standardize(cx, x, mean, var, epsilon)?;
    let (scale, bias) = (cx.widen(scale)?, cx.widen(bias)?);
    let (scale, bias) = (
        cx.per_channel(scale, spatial)?,
        cx.per_channel(bias, spatial)?,
    );
    let y = affine(cx, y, scale, Some(bias))?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// LayerNormalization 17, and ONNX Runtime's before it: statistics in the type that `stash_type` names, the rest in the input's.
fn layer_normalization(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, scale) = (cx.input(0)?, cx.input(1)?);
    let dtype = cx.dtype(x)?;
    let axes = trailing_axes(cx, x)?;
    let epsilon = f64::from(cx.float_or("epsilon", 1e-5));
    let stash = dtype_of(cx.int_or("stash_type", 1))?;
    let wide = cx.cast(x, stash)?;
    let (mean, var) = moments(cx, wide, &axes)?;
    let centered = cx.sub(wide, mean)?;
    let deviation = deviation(cx, var, epsilon)?;
    let y = cx.div(centered, deviation)?;
    // Below version 17 it is ONNX Runtime's: the result has the scale's type.
    let to = match cx.dtype(scale)? {
        to if cx.opset < 17 && to.is_float() => to,
        _ => dtype,
    };
    let y = cx.cast(y, to)?;
    let bias = cx.opt(2);
    let y = affine(cx, y, scale, bias)?;
    let one = cx.real_like(deviation, 1.0)?;
    let inverse = cx.div(one, deviation)?;
    Ok(vec![y, mean, inverse])
}

/// GroupNormalization 18 (scale and bias per group), 21 (per channel).
fn group_normalization(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, scale, bias) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let dtype = cx.dtype(x)?;
    let spatial = cx.spatial_rank(x, 0)?;
    let groups = cx.int_req("num_groups")?;
    if groups < 1 {
        return invalid(format!("num_groups is {groups}"));
    }
    let epsilon = f64::from(cx.float_or("epsilon", 1e-5));
    let compute = match cx.opset {
        ..21 => wide(dtype),
        _ => dtype_of(cx.int_or("stash_type", 1))?,
    };
    let sizes = cx.sizes(x)?;
    let mut members = cx.int_div(sizes[1], groups)?;
    for &size in &sizes[2..] {
        members = cx.int_mul(members, size)?;
    }
    let value = cx.cast(x, compute)?;
    let grouped = cx.reshape_ints(value, &[sizes[0], Int::Const(groups), members])?;
    let (mean, var) = moments(cx, grouped, &[2])?;
    let mut y = standardize(cx, grouped, mean, var, epsilon)?;
    if cx.opset < 21 {
        let scale = cx.cast(scale, compute)?;
        let bias = cx.cast(bias, compute)?;
        let (scale, bias) = (cx.per_channel(scale, 1)?, cx.per_channel(bias, 1)?);
        y = affine(cx, y, scale, Some(bias))?;
        y = cx.reshape_ints(y, &sizes)?;
        return Ok(vec![cx.cast(y, dtype)?]);
    }
    y = cx.reshape_ints(y, &sizes)?;
    y = cx.cast(y, dtype)?;
    let scale = cx.per_channel(scale, spatial)?;
    let bias = cx.per_channel(bias, spatial)?;
    Ok(vec![affine(cx, y, scale, Some(bias))?])
}

/// RMSNormalization 23.
fn rms_normalization(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, scale) = (cx.input(0)?, cx.input(1)?);
    let dtype = cx.dtype(x)?;
    let axes = trailing_axes(cx, x)?;
    let epsilon = f64::from(cx.float_or("epsilon", 1e-5));
    let stash = dtype_of(cx.int_or("stash_type", 1))?;
    let wide = cx.cast(x, stash)?;
    let squares = cx.mul(wide, wide)?;
    let mean = cx.mean(squares, &axes, true)?;
    let deviation = deviation(cx, mean, epsilon)?;
    let y = cx.div(wide, deviation)?;
    // The scale may be of another type than the input; the result has the scale's.
    let scale_dtype = cx.dtype(scale)?;
    let y = cx.cast(y, dtype)?;
    let y = cx.cast(y, scale_dtype)?;
    Ok(vec![affine(cx, y, scale, None)?])
}

/// LpNormalization 1, 22. Vectors of norm 0 stay 0.
fn lp_normalization(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = cx.dtype(x)?;
    let axis = cx.axis(cx.int_or("axis", -1), cx.rank(x)?)?;
    let x = cx.widen(x)?;
    let norm = match cx.int_or("p", 2) {
        1 => {
            let abs = cx.unary(UnaryOp::Abs, x)?;
            cx.reduce(ReduceOp::Sum, abs, &[axis], true)?
        }
        2 => {
            let squares = cx.mul(x, x)?;
            let sum = cx.reduce(ReduceOp::Sum, squares, &[axis], true)?;
            cx.unary(UnaryOp::Sqrt, sum)?
        }
        p => return invalid(format!("p is {p}, not 1 or 2")),
    };
    let zero = cx.real_like(norm, 0.0)?;
    let empty = cx.compare(CompareOp::Eq, norm, zero)?;
    let quotient = cx.div(x, norm)?;
    let y = cx.select(empty, zero, quotient)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// MeanVarianceNormalization 9, 13, and the experiment of version 1 as ONNX Runtime has it.
fn mean_variance_normalization(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = cx.dtype(x)?;
    let default: &[i64] = match (cx.opset, cx.flag("across_channels", false)) {
        (..9, true) => &[0, 1, 2, 3],
        _ => &[0, 2, 3],
    };
    let axes = cx.axes(cx.ints("axes").unwrap_or(default), cx.rank(x)?)?;
    let x = cx.widen(x)?;
    let (mean, var) = moments(cx, x, &axes)?;
    if cx.opset < 9 && !cx.flag("normalize_variance", true) {
        let centered = cx.sub(x, mean)?;
        return Ok(vec![cx.cast(centered, dtype)?]);
    }
    let deviation = cx.unary(UnaryOp::Sqrt, var)?;
    let epsilon = cx.real_like(deviation, 1e-9)?;
    let deviation = cx.add(deviation, epsilon)?;
    let centered = cx.sub(x, mean)?;
    let y = cx.div(centered, deviation)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// LRN 1, 13: `x / (bias + alpha / size * sum of squares of neighbouring channels) ^ beta`.
fn lrn(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = cx.dtype(x)?;
    let spatial = cx.spatial_rank(x, 0)?;
    let size = cx.int_req("size")?;
    let Some(size) = usize::try_from(size).ok().filter(|s| *s > 0) else {
        return invalid(format!("size is {size}"));
    };
    let alpha = f64::from(cx.float_or("alpha", 1e-4));
    let beta = f64::from(cx.float_or("beta", 0.75));
    let bias = f64::from(cx.float_or("bias", 1.0));
    let x = cx.widen(x)?;
    let squares = cx.mul(x, x)?;
    let axes = spatial + 1;
    let mut window = vec![1; axes];
    window[0] = size;
    let mut pads = vec![0; 2 * axes];
    pads[0] = (size as i64 - 1) / 2;
    pads[axes] = size as i64 - 1 - pads[0];
    let pads = cx.b.i64s(&pads);
    let op = Op::Window {
        kind: ReduceOp::Sum,
        window,
        strides: vec![1; axes],
        dilations: vec![1; axes],
    };
    let sum = cx.op(op, &[squares, pads])?;
    let factor = cx.real_like(sum, alpha / size as f64)?;
    let scaled = cx.mul(sum, factor)?;
    let bias = cx.real_like(sum, bias)?;
    let base = cx.add(scaled, bias)?;
    let beta = cx.real_like(sum, beta)?;
    let divisor = cx.binary(BinaryOp::Pow, base, beta)?;
    let y = cx.div(x, divisor)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// The type in which a float type is computed with in several steps.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::Bf16 => DType::F32,
        other => other,
    }
}

/// Axes from the attribute `axis` to the last.
fn trailing_axes(cx: &NodeCx, x: Value) -> Result<Vec<usize>> {
    let rank = cx.rank(x)?;
    Ok((cx.axis(cx.int_or("axis", -1), rank)?..rank).collect())
}

/// Mean and variance (of the population) over axes that are kept.
pub(super) fn moments(cx: &mut NodeCx, x: Value, axes: &[usize]) -> Result<(Value, Value)> {
    let mean = cx.mean(x, axes, true)?;
    let centered = cx.sub(x, mean)?;
    let squares = cx.mul(centered, centered)?;
    Ok((mean, cx.mean(squares, axes, true)?))
}

/// `sqrt(var + epsilon)`.
pub(super) fn deviation(cx: &mut NodeCx, var: Value, epsilon: f64) -> Result<Value> {
    let epsilon = cx.real_like(var, epsilon)?;
    let sum = cx.add(var, epsilon)?;
    cx.unary(UnaryOp::Sqrt, sum)
}

/// `(x - mean) / sqrt(var + epsilon)`.
fn standardize(cx: &mut NodeCx, x: Value, mean: Value, var: Value, epsilon: f64) -> Result<Value> {
    let centered = cx.sub(x, mean)?;
    let deviation = deviation(cx, var, epsilon)?;
    cx.div(centered, deviation)
}

/// `x * scale + bias`.
pub(super) fn affine(
    cx: &mut NodeCx,
    x: Value,
    scale: Value,
    bias: Option<Value>,
) -> Result<Value> {
    let y = cx.mul(x, scale)?;
    match bias {
        Some(bias) => cx.add(y, bias),
        None => Ok(y),
    }
}

/// The same elements with shape and type of another value.
fn shaped_like(cx: &mut NodeCx, x: Value, like: Value) -> Result<Value> {
    let sizes = cx.sizes(like)?;
    let x = cx.reshape_ints(x, &sizes)?;
    let dtype = cx.dtype(like)?;
    cx.cast(x, dtype)
}
