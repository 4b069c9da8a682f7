//! Activations, and softmax.

use heddle_ir::op::{CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::Table;
use super::cx::NodeCx;
use crate::error::{Result, refuse};
use crate::graph::Size;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("_log_softmax", |cx| softmax(cx, true)),
    ("_log_softmax_backward_data", |cx| {
        softmax_gradient(cx, true)
    }),
    ("_prelu_kernel", prelu),
    ("_safe_softmax", safe_softmax),
    ("_softmax", |cx| softmax(cx, false)),
    ("_softmax_backward_data", |cx| softmax_gradient(cx, false)),
    ("celu", |cx| {
        let alpha = cx.float(1, "alpha", 1.0)?;
        of_float(cx, |cx, x| elu(cx, x, alpha, 1.0, 1.0 / alpha))
    }),
    ("elu", |cx| {
        let (alpha, scale) = (cx.float(1, "alpha", 1.0)?, cx.float(2, "scale", 1.0)?);
        let input_scale = cx.float(3, "input_scale", 1.0)?;
        of_float(cx, |cx, x| elu(cx, x, alpha, scale, input_scale))
    }),
    ("gelu", gelu),
    ("gelu_backward", gelu_gradient),
    ("glu", glu),
    ("hardsigmoid", |cx| of_float(cx, hard_sigmoid)),
    ("hardswish", |cx| {
        of_float(cx, |cx, x| {
            let gate = hard_sigmoid(cx, x)?;
            cx.mul(x, gate)
        })
    }),
    ("hardtanh", hardtanh),
    ("leaky_relu", leaky_relu),
    ("log_sigmoid_forward", |cx| {
        let y = of_float(cx, log_sigmoid)?[0];
        // The second result is a buffer for the gradient, which some devices leave empty.
        let stated = cx.node.results.get(1).map(|r| r.shape.as_slice());
        let none = match stated {
            Some([Size::Int(0)]) => {
                let zero = cx.like(y, 0.0)?;
                cx.filled(zero, &[0.into()])?
            }
            _ => of_float(cx, |cx, x| {
                let size = cx.unary(UnaryOp::Abs, x)?;
                let least = cx.unary(UnaryOp::Neg, size)?;
                cx.unary(UnaryOp::Exp, least)
            })?[0],
        };
        Ok(vec![y, none])
    }),
    ("log_sigmoid", |cx| of_float(cx, log_sigmoid)),
    ("log_softmax.int", |cx| softmax(cx, true)),
    ("logit", |cx| {
        let eps = cx.opt_float(1, "eps")?;
        of_float(cx, |cx, x| {
            let x = match eps {
                Some(eps) => {
                    // The lower bound comes first, also where it is the larger.
                    let (low, high) = (cx.like(x, eps)?, cx.like(x, 1.0 - eps)?);
                    let is_low = cx.compare(CompareOp::Lt, x, low)?;
                    let is_high = cx.compare(CompareOp::Gt, x, high)?;
                    let y = cx.select(is_high, high, x)?;
                    cx.select(is_low, low, y)?
                }
                None => x,
            };
            let one = cx.like(x, 1.0)?;
            let rest = cx.sub(one, x)?;
            let odds = cx.div(x, rest)?;
            cx.unary(UnaryOp::Log, odds)
        })
    }),
    ("mish", |cx| {
        of_float(cx, |cx, x| {
            let soft = soft_plus(cx, x)?;
            let gate = cx.unary(UnaryOp::Tanh, soft)?;
            cx.mul(x, gate)
        })
    }),
    ("prelu", prelu),
    ("relu", |cx| {
        let x = cx.value(0, "self")?;
        Ok(vec![cx.at_least(x, 0.0)?])
    }),
    ("relu6", |cx| {
        let x = cx.value(0, "self")?;
        let y = cx.at_least(x, 0.0)?;
        Ok(vec![cx.at_most(y, 6.0)?])
    }),
    ("selu", |cx| {
        of_float(cx, |cx, x| {
            elu(cx, x, 1.673_263_242_354_377_2, 1.050_700_987_355_480_5, 1.0)
        })
    }),
    ("sigmoid_backward", |cx| {
        let (gradient, y) = (cx.value(0, "grad_output")?, cx.value(1, "output")?);
        let one = cx.like(y, 1.0)?;
        let rest = cx.sub(one, y)?;
        let slope = cx.mul(rest, y)?;
        Ok(vec![cx.mul(gradient, slope)?])
    }),
    ("silu", |cx| {
        of_float(cx, |cx, x| {
            let gate = cx.unary(UnaryOp::Sigmoid, x)?;
            cx.mul(x, gate)
        })
    }),
    ("softmax.int", |cx| softmax(cx, false)),
    ("softplus", softplus),
    ("tanh_backward", |cx| {
        let (gradient, y) = (cx.value(0, "grad_output")?, cx.value(1, "output")?);
        let (square, one) = (cx.mul(y, y)?, cx.like(y, 1.0)?);
        let slope = cx.sub(one, square)?;
        Ok(vec![cx.mul(gradient, slope)?])
    }),
    ("threshold", |cx| {
        let x = cx.value(0, "self")?;
        let (threshold, value) = (cx.float(1, "threshold", 0.0)?, cx.float(2, "value", 0.0)?);
        let is_low = cx.compare_with(CompareOp::Le, x, threshold)?;
        let value = cx.like(x, value)?;
        Ok(vec![cx.select(is_low, value, x)?])
    }),
    ("threshold_backward", |cx| {
        let (gradient, x) = (cx.value(0, "grad_output")?, cx.value(1, "self")?);
        let threshold = cx.float(2, "threshold", 0.0)?;
        let is_low = cx.compare_with(CompareOp::Le, x, threshold)?;
        let zero = cx.like(gradient, 0.0)?;
        Ok(vec![cx.select(is_low, zero, gradient)?])
    }),
];

fn of_float(
    cx: &mut NodeCx,
    function: impl FnOnce(&mut NodeCx, Value) -> Result<Value>,
) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    Ok(vec![cx.on_floats(x, function)?])
}

/// `exp(x) / sum(exp(x))` along an axis, or its logarithm. The third argument is a result type, or says that 16-bit floats give `f32`.
fn softmax(cx: &mut NodeCx, has_log: bool) -> Result<Vec<Value>> {
    let (mut x, axis) = (cx.value(0, "self")?, cx.int(1, "dim")?);
    let rank = cx.rank(x)?;
    let axis = cx.axis(axis, rank)?;
    if cx.node.target.ends_with(".int") {
        if let Some(dtype) = cx.dtype_arg(2, "dtype")? {
            x = cx.cast(x, dtype)?;
        }
    } else if cx.flag(2, "half_to_float", false)? {
        x = cx.cast(x, DType::F32)?;
    }
    if rank == 0 {
        let y = cx.like(x, if has_log { 0.0 } else { 1.0 })?;
        return Ok(vec![y]);
    }
    Ok(vec![cx.on_floats(x, |cx, x| match has_log {
        false => cx.softmax(x, &[axis]),
        true => {
            let max = cx.reduce(ReduceOp::Max, x, &[axis], true)?;
            let shifted = cx.sub(x, max)?;
            let exp = cx.unary(UnaryOp::Exp, shifted)?;
            let sum = cx.reduce(ReduceOp::Sum, exp, &[axis], true)?;
            let log = cx.unary(UnaryOp::Log, sum)?;
            cx.sub(shifted, log)
        }
    })?])
}

/// A row that is minus infinity throughout gives zeros.
fn safe_softmax(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (mut x, axis) = (cx.value(0, "self")?, cx.int(1, "dim")?);
    if let Some(dtype) = cx.dtype_arg(2, "dtype")? {
        x = cx.cast(x, dtype)?;
    }
    let rank = cx.rank(x)?;
    let axis = cx.axis(axis, rank)?;
    if rank == 0 {
        return refuse("an array without axes");
    }
    Ok(vec![cx.on_floats(x, |cx, x| {
        let y = cx.softmax(x, &[axis])?;
        let max = cx.reduce(ReduceOp::Max, x, &[axis], true)?;
        let is_nothing = cx.compare_with(CompareOp::Eq, max, f64::NEG_INFINITY)?;
        let zero = cx.like(y, 0.0)?;
        cx.select(is_nothing, zero, y)
    })?])
}

fn softmax_gradient(cx: &mut NodeCx, has_log: bool) -> Result<Vec<Value>> {
    let (gradient, y) = (cx.value(0, "grad_output")?, cx.value(1, "output")?);
    let axis = cx.int(2, "dim")?;
    let axis = cx.axis(axis, cx.rank(y)?)?;
    let dtype = cx.dtype_arg(3, "input_dtype")?.unwrap_or(cx.dtype(y)?);
    let axes = if cx.rank(y)? == 0 { vec![] } else { vec![axis] };
    let x = match has_log {
        true => {
            let sum = cx.reduce(ReduceOp::Sum, gradient, &axes, true)?;
            let share = cx.unary(UnaryOp::Exp, y)?;
            let share = cx.mul(share, sum)?;
            cx.sub(gradient, share)?
        }
        false => {
            let product = cx.mul(gradient, y)?;
            let sum = cx.reduce(ReduceOp::Sum, product, &axes, true)?;
            let share = cx.mul(y, sum)?;
            cx.sub(product, share)?
        }
    };
    Ok(vec![cx.cast(x, dtype)?])
}

fn elu(cx: &mut NodeCx, x: Value, alpha: f64, scale: f64, input_scale: f64) -> Result<Value> {
    let scaled = cx.times(x, input_scale)?;
    let below = cx.unary(UnaryOp::Expm1, scaled)?;
    let below = cx.times(below, alpha * scale)?;
    let above = cx.times(x, scale)?;
    let is_above = cx.compare_with(CompareOp::Gt, x, 0.0)?;
    cx.select(is_above, above, below)
}

fn gelu(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let approximate = cx.str(usize::MAX, "approximate", "none")?;
    let is_tanh = match approximate {
        "none" => false,
        "tanh" => true,
        other => return refuse(format!("approximate `{other}`")),
    };
    of_float(cx, |cx, x| {
        let half = cx.times(x, 0.5)?;
        let inner = if is_tanh {
            let square = cx.mul(x, x)?;
            let cube = cx.mul(square, x)?;
            let cube = cx.times(cube, 0.044715)?;
            let sum = cx.add(x, cube)?;
            let sum = cx.times(sum, (2.0 / std::f64::consts::PI).sqrt())?;
            cx.unary(UnaryOp::Tanh, sum)?
        } else {
            let scaled = cx.times(x, std::f64::consts::FRAC_1_SQRT_2)?;
            cx.unary(UnaryOp::Erf, scaled)?
        };
        let gate = cx.plus(inner, 1.0)?;
        cx.mul(half, gate)
    })
}

fn gelu_gradient(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (gradient, x) = (cx.value(0, "grad_output")?, cx.value(1, "self")?);
    if cx.str(usize::MAX, "approximate", "none")? != "none" {
        return refuse("an approximation");
    }
    let slope = cx.on_floats(x, |cx, x| {
        let scaled = cx.times(x, std::f64::consts::FRAC_1_SQRT_2)?;
        let erf = cx.unary(UnaryOp::Erf, scaled)?;
        let cdf = cx.plus(erf, 1.0)?;
        let cdf = cx.times(cdf, 0.5)?;
        let square = cx.mul(x, x)?;
        let square = cx.times(square, -0.5)?;
        let pdf = cx.unary(UnaryOp::Exp, square)?;
        let pdf = cx.times(pdf, 1.0 / (2.0 * std::f64::consts::PI).sqrt())?;
        let pdf = cx.mul(x, pdf)?;
        cx.add(cdf, pdf)
    })?;
    Ok(vec![cx.mul(gradient, slope)?])
}

fn glu(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, axis) = (cx.value(0, "self")?, cx.int_or(1, "dim", -1)?);
    let axis = cx.axis(axis, cx.rank(x)?)?;
    let size = cx.size(x, axis)?;
    let half = cx.int_div(size, 2)?;
    let a = cx.slice(x, axis, 0.into(), half, 1.into())?;
    let b = cx.slice(x, axis, half, i64::MAX.into(), 1.into())?;
    let gate = cx.unary(UnaryOp::Sigmoid, b)?;
    Ok(vec![cx.mul(a, gate)?])
}

fn hard_sigmoid(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let y = cx.plus(x, 3.0)?;
    let y = cx.at_least(y, 0.0)?;
    let y = cx.at_most(y, 6.0)?;
    let six = cx.like(y, 6.0)?;
    cx.div(y, six)
}

fn hardtanh(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (least, most) = (cx.float(1, "min_val", -1.0)?, cx.float(2, "max_val", 1.0)?);
    let x = cx.value(0, "self")?;
    let y = cx.at_least(x, least)?;
    Ok(vec![cx.at_most(y, most)?])
}

fn leaky_relu(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let slope = cx.float(1, "negative_slope", 0.01)?;
    of_float(cx, |cx, x| {
        let below = cx.times(x, slope)?;
        let is_above = cx.compare_with(CompareOp::Gt, x, 0.0)?;
        cx.select(is_above, x, below)
    })
}

/// The weights are one number, or one for each channel, the second axis.
fn prelu(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, mut weight) = (cx.value(0, "self")?, cx.value(1, "weight")?);
    let rank = cx.rank(x)?;
    if cx.rank(weight)? == 1 && rank >= 2 {
        weight = cx.per_channel(weight, rank - 2)?;
    } else if cx.rank(weight)? == 1 && rank == 0 {
        weight = cx.reshape(weight, &[])?;
    }
    let below = cx.mul(x, weight)?;
    let is_above = cx.compare_with(CompareOp::Gt, x, 0.0)?;
    Ok(vec![cx.select(is_above, x, below)?])
}

/// `log(1 + exp(x))`, without overflow.
fn soft_plus(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let size = cx.unary(UnaryOp::Abs, x)?;
    let least = cx.unary(UnaryOp::Neg, size)?;
    let exp = cx.unary(UnaryOp::Exp, least)?;
    let log = cx.unary(UnaryOp::Log1p, exp)?;
    let above = cx.at_least(x, 0.0)?;
    cx.add(above, log)
}

fn log_sigmoid(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let negative = cx.unary(UnaryOp::Neg, x)?;
    let y = soft_plus(cx, negative)?;
    cx.unary(UnaryOp::Neg, y)
}

fn softplus(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (beta, threshold) = (cx.float(1, "beta", 1.0)?, cx.float(2, "threshold", 20.0)?);
    of_float(cx, |cx, x| {
        let scaled = cx.times(x, beta)?;
        let y = soft_plus(cx, scaled)?;
        let beta = cx.like(x, beta)?;
        let y = cx.div(y, beta)?;
        let is_large = cx.compare_with(CompareOp::Gt, scaled, threshold)?;
        cx.select(is_large, x, y)
    })
}
