//! Operators of ONNX's first versions that were experiments and went.

use heddle_ir::op::UnaryOp;
use heddle_ir::{Tensor, Value};

use super::activation::softplus;
use super::cx::{NodeCx, Result, Table, invalid, required};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("Affine", affine),
    ("Crop", crop),
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
