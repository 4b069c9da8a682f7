//! Operators of the domain com.microsoft on integers with scales and zero points: ONNX Runtime's
//! quantiser writes them.

use heddle_ir::op::{BinaryOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::activation;
use super::conv::qlinear_conv;
use super::cx::{NodeCx, OpError, Result, Table, invalid};
use super::pool::{average, largest};
use super::quant::{centered, centered_matmul, matmul_integer, quantized, saturated, scalar};
use super::spatial::{channels_first, channels_last};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("DynamicQuantizeMatMul", dynamic_quantize_matmul),
    ("MatMulInteger16", matmul_integer),
    ("MatMulIntegerToFloat", matmul_integer_to_float),
    ("NhwcMaxPool", nhwc_max_pool),
    ("QGemm", qgemm),
    ("QLinearAdd", |cx| qlinear_binary(cx, BinaryOp::Add)),
    ("QLinearAveragePool", qlinear_average_pool),
    ("QLinearConcat", qlinear_concat),
    ("QLinearConv", qlinear_conv),
    ("QLinearGlobalAveragePool", qlinear_global_average_pool),
    ("QLinearLeakyRelu", |cx| {
        let alpha = f64::from(cx.float_or("alpha", 0.01));
        qlinear_unary(cx, |cx, x| activation::leaky_relu(cx, x, alpha))
    }),
    ("QLinearMul", |cx| qlinear_binary(cx, BinaryOp::Mul)),
    ("QLinearReduceMean", qlinear_reduce_mean),
    ("QLinearSigmoid", |cx| {
        qlinear_unary(cx, |cx, x| cx.unary(UnaryOp::Sigmoid, x))
    }),
    ("QLinearSoftmax", qlinear_softmax),
    ("QLinearWhere", qlinear_where),
];

/// Inputs `first` to `first + 2`: an array, its scale and its zero point, as real numbers.
fn real(cx: &mut NodeCx, first: usize) -> Result<Value> {
    let (x, scale) = (cx.input(first)?, cx.input(first + 1)?);
    let zero = cx.opt(first + 2).map(|z| scalar(cx, z)).transpose()?;
    let x = centered(cx, x, zero)?;
    let x = cx.cast(x, DType::F32)?;
    let scale = scalar(cx, scale)?;
    cx.mul(x, scale)
}

/// Real numbers with the scale `i` and the zero point `i + 1`, in the type of an array.
fn rounded(cx: &mut NodeCx, y: Value, i: usize, like: Value) -> Result<Vec<Value>> {
    let scale = cx.input(i)?;
    let scale = scalar(cx, scale)?;
    let zero = cx.opt(i + 1).map(|z| scalar(cx, z)).transpose()?;
    let to = cx.dtype(like)?;
    let y = cx.div(y, scale)?;
    Ok(vec![saturated(cx, y, zero, to)?])
}

fn qlinear_binary(cx: &mut NodeCx, kind: BinaryOp) -> Result<Vec<Value>> {
    let (a, b) = (real(cx, 0)?, real(cx, 3)?);
    let y = cx.binary(kind, a, b)?;
    let like = cx.input(0)?;
    rounded(cx, y, 6, like)
}

fn qlinear_unary(
    cx: &mut NodeCx,
    f: impl FnOnce(&mut NodeCx, Value) -> Result<Value>,
) -> Result<Vec<Value>> {
    let x = real(cx, 0)?;
    let y = f(cx, x)?;
    let like = cx.input(0)?;
    rounded(cx, y, 3, like)
}

/// The result's scale and zero point, then three inputs for each part.
fn qlinear_concat(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let mut parts = vec![];
    for first in (2..cx.inputs.len()).step_by(3) {
        parts.push(real(cx, first)?);
    }
    let first = parts.first().copied();
    let first = first.ok_or_else(|| OpError::Invalid("there is nothing to join".into()))?;
    let axis = cx.axis(cx.int_req("axis")?, cx.rank(first)?)?;
    let y = cx.concat(&parts, axis)?;
    let like = cx.input(2)?;
    rounded(cx, y, 0, like)
}

fn qlinear_average_pool(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let last = cx.flag("channels_last", false);
    qlinear_unary(cx, |cx, x| {
        let x = channels_first(cx, x, last)?;
        let y = average(cx, x)?;
        channels_last(cx, y, last)
    })
}

fn qlinear_global_average_pool(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let last = cx.flag("channels_last", false);
    qlinear_unary(cx, |cx, x| {
        let first = if last { 1 } else { 2 };
        let axes: Vec<usize> = (first..first + cx.spatial_rank(x, 1)?).collect();
        cx.mean(x, &axes, true)
    })
}

/// Without axes, over all of them.
fn qlinear_reduce_mean(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let keep = cx.flag("keepdims", true);
    let named = cx.ints("axes").filter(|a| !a.is_empty());
    qlinear_unary(cx, |cx, x| {
        let rank = cx.rank(x)?;
        let axes = match named {
            Some(axes) => cx.axes(axes, rank)?,
            None => (0..rank).collect(),
        };
        cx.mean(x, &axes, keep)
    })
}

/// Before version 13, which the attribute `opset` states, over all axes from `axis` on.
fn qlinear_softmax(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let version = cx.int_req("opset")?;
    qlinear_unary(cx, |cx, x| {
        let rank = cx.rank(x)?;
        let axis = cx.axis(cx.int_or("axis", -1), rank)?;
        let axes: Vec<usize> = match version < 13 {
            true => (axis..rank).collect(),
            false => vec![axis],
        };
        cx.softmax(x, &axes)
    })
}

/// Inputs: the condition; an array with scale and zero point for each case; scale and zero point of
/// the result.
fn qlinear_where(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (condition, like) = (cx.input(0)?, cx.input(1)?);
    let (a, b) = (real(cx, 1)?, real(cx, 4)?);
    let y = cx.select(condition, a, b)?;
    rounded(cx, y, 7, like)
}

/// MaxPool with the channels last.
fn nhwc_max_pool(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let x = channels_first(cx, x, true)?;
    let y = largest(cx, x)?;
    Ok(vec![channels_last(cx, y, true)?])
}

/// `alpha * (A' B' + C)`: integers with scales, in floats or with the scale and zero point of inputs 7
/// and 8. C has the scale of the product.
fn qgemm(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a_scale, b_scale) = (cx.input(1)?, cx.input(4)?);
    let mut operands = [cx.input(0)?, cx.input(3)?];
    let like = operands[0];
    for (x, name) in operands.iter_mut().zip(["transA", "transB"]) {
        if cx.rank(*x)? != 2 {
            return invalid("A and B must be matrices");
        }
        if cx.flag(name, false) {
            *x = cx.transpose(*x, &[1, 0])?;
        }
    }
    let a_zero = cx.opt(2).map(|z| scalar(cx, z)).transpose()?;
    let b_zero = cx.opt(5).map(|z| scalar(cx, z)).transpose()?;
    let mut sum = centered_matmul(cx, operands[0], a_zero, operands[1], b_zero)?;
    if let Some(c) = cx.opt(6) {
        sum = cx.add(sum, c)?;
    }
    let y = scaled(cx, sum, a_scale, b_scale)?;
    let y = cx.scale(y, f64::from(cx.float_or("alpha", 1.0)))?;
    match cx.opt(7) {
        Some(_) => rounded(cx, y, 7, like),
        None => Ok(vec![y]),
    }
}

/// Inputs: A, B, their scales, their zero points, a bias.
fn matmul_integer_to_float(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let (a_scale, b_scale) = (cx.input(2)?, cx.input(3)?);
    let zeros = [cx.opt(4), cx.opt(5)];
    float_product(cx, [a, b], [a_scale, b_scale], zeros, 6)
}

/// Inputs: A in floats, B, its scale, its zero point, a bias.
fn dynamic_quantize_matmul(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b, b_scale) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let [a, a_scale, a_zero] = quantized(cx, a)?;
    let zeros = [Some(a_zero), cx.opt(3)];
    float_product(cx, [a, b], [a_scale, b_scale], zeros, 4)
}

fn float_product(
    cx: &mut NodeCx,
    [a, b]: [Value; 2],
    [a_scale, b_scale]: [Value; 2],
    zeros: [Option<Value>; 2],
    bias: usize,
) -> Result<Vec<Value>> {
    let [a_zero, b_zero] = zeros;
    let a_zero = a_zero.map(|z| scalar(cx, z)).transpose()?;
    let b_zero = b_zero.map(|z| scalar(cx, z)).transpose()?;
    let product = centered_matmul(cx, a, a_zero, b, b_zero)?;
    let y = scaled(cx, product, a_scale, b_scale)?;
    match cx.opt(bias) {
        Some(bias) => Ok(vec![cx.add(y, bias)?]),
        None => Ok(vec![y]),
    }
}

/// Sums of products as floats.
fn scaled(cx: &mut NodeCx, sums: Value, a_scale: Value, b_scale: Value) -> Result<Value> {
    let (a_scale, b_scale) = (scalar(cx, a_scale)?, scalar(cx, b_scale)?);
    let scale = cx.mul(a_scale, b_scale)?;
    let sums = cx.cast(sums, DType::F32)?;
    cx.mul(sums, scale)
}
