//! Operators of ONNX's first versions that were experiments and went.

use heddle_ir::op::{CompareOp, UnaryOp};
use heddle_ir::{DType, Emit, Op, Tensor, Value};

use super::activation::softplus;
use super::cx::{NodeCx, Result, Table, invalid, required};
use super::slicing::slice_by;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("Affine", affine),
    ("ConstantFill", constant_fill),
    ("Crop", crop),
    ("DynamicSlice", |cx| slice_by(cx, false)),
    ("GRUUnit", gru_unit),
    ("GivenTensorFill", given_tensor_fill),
    ("ImageScaler", image_scaler),
    ("ParametricSoftplus", parametric_softplus),
    ("Scale", scale),
    ("ScaledTanh", scaled_tanh),
];

fn number(cx: &NodeCx, name: &str, default: f32) -> f64 {
    cx.float_or(name, default).into()
}

/// `alpha * x + beta`.
fn affine(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let x = cx.scale(x, number(cx, "alpha", 1.0))?;
    Ok(vec![cx.shift(x, number(cx, "beta", 0.0))?])
}

/// `alpha * softplus(beta * x)`.
fn parametric_softplus(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let x = cx.scale(x, number(cx, "beta", 1.0))?;
    let y = softplus(cx, x)?;
    Ok(vec![cx.scale(y, number(cx, "alpha", 1.0))?])
}

/// `alpha * tanh(beta * x)`.
fn scaled_tanh(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let x = cx.scale(x, number(cx, "beta", 1.0))?;
    let y = cx.unary(UnaryOp::Tanh, x)?;
    Ok(vec![cx.scale(y, number(cx, "alpha", 1.0))?])
}

/// `scale * x`.
fn scale(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    Ok(vec![cx.scale(x, number(cx, "scale", 1.0))?])
}

/// `scale * x` plus a bias for each channel.
fn image_scaler(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let spatial = cx.spatial_rank(x, 0)?;
    let bias = required(cx.floats("bias"), "bias")?;
    let bias = cx.b.constant(Tensor::vector(bias));
    let dtype = cx.dtype(x)?;
    let bias = cx.cast(bias, dtype)?;
    let bias = cx.per_channel(bias, spatial)?;
    let x = cx.scale(x, number(cx, "scale", 1.0))?;
    Ok(vec![cx.add(x, bias)?])
}

/// Images without their `border` (left, top, right, bottom), or the part of the size `scale` (height
/// and width) at its corner.
fn crop(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let border = cx.ints("border").unwrap_or_default();
    let &[left, top, right, bottom] = border else {
        return invalid(format!("border is {border:?}, not four numbers"));
    };
    if border.iter().any(|b| *b < 0) || cx.rank(x)? != 4 {
        return invalid("a border that is not negative and an input of four axes are needed");
    }
    let mut y = x;
    for (i, (axis, first, last)) in [(2, top, bottom), (3, left, right)].into_iter().enumerate() {
        let end = match cx.ints("scale") {
            Some(sizes) if sizes.len() == 2 => cx.int_add(first, sizes[i])?,
            _ => {
                let size = cx.size(x, axis)?;
                cx.int_sub(size, last)?
            }
        };
        y = cx.cut(y, axis, first, end)?;
    }
    Ok(vec![y])
}

/// One number everywhere, in the shape that [`filled_shape`] gives.
fn constant_fill(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let shape = filled_shape(cx)?;
    let dtype = cx.dtype_attr("dtype")?.unwrap_or(DType::F32);
    let value = number(cx, "value", 0.0);
    Ok(vec![cx.full(dtype, shape, value)?])
}

/// The attribute `values`, in the shape that [`filled_shape`] gives.
fn given_tensor_fill(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let shape = filled_shape(cx)?;
    let values = required(cx.floats("values"), "values")?;
    let values = cx.b.constant(Tensor::vector(values));
    Ok(vec![cx.reshape_to(values, shape)?])
}

/// The attribute `shape`, or the input's shape, or with `input_as_shape` the input; then
/// `extra_shape`.
fn filled_shape(cx: &mut NodeCx) -> Result<Value> {
    let shape = match cx.opt(0) {
        Some(x) if cx.flag("input_as_shape", false) => cx.to_indices(x)?,
        Some(x) => cx.op(Op::Shape, &[x])?,
        None => cx.b.i64s(cx.ints("shape").unwrap_or_default()),
    };
    let extra = cx.ints("extra_shape").unwrap_or_default();
    let extra = cx.b.i64s(extra);
    cx.concat(&[shape, extra], 0)
}

/// A step of a GRU whose gates (reset, update and output) are sums already. Inputs: the state `[1,
/// batch, n]`, the gates `[1, batch, 3 n]`, lengths of the sequences, and the number of the step.
fn gru_unit(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (state, gates) = (cx.input(0)?, cx.input(1)?);
    let (lengths, step) = (cx.input(2)?, cx.input(3)?);
    let axis = cx.axis(-1, cx.rank(state)?)?;
    let n = cx.size(state, axis)?;
    let twice = cx.int_mul(n, 2)?;
    let all = cx.int_mul(n, 3)?;
    let update = cx.cut(gates, axis, n, twice)?;
    let output = cx.cut(gates, axis, twice, all)?;
    let update = cx.unary(UnaryOp::Sigmoid, update)?;
    let output = cx.unary(UnaryOp::Tanh, output)?;
    let one = cx.scalar_like(update, 1.0)?;
    let open = cx.sub(one, update)?;
    let (kept, new) = (cx.mul(state, update)?, cx.mul(output, open)?);
    let next = cx.add(kept, new)?;
    let (lengths, step) = (cx.to_indices(lengths)?, cx.to_index(step)?);
    let inside = cx.compare(CompareOp::Lt, step, lengths)?;
    let inside = cx.unsqueeze(inside, &[1])?;
    let ended = match cx.flag("drop_states", false) {
        true => cx.scalar_like(state, 0.0)?,
        false => state,
    };
    Ok(vec![cx.select(inside, next, ended)?])
}
