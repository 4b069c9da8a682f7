//! Activation functions and the softmax family.

use heddle_ir::op::{CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use super::elementwise::below_zero;

pub(super) const OPS: Table = &[
    ("Relu", |cx| one(cx, relu)),
    ("PRelu", prelu),
    ("LeakyRelu", |cx| {
        one(cx, |cx, x| leaky_relu(cx, x, attr(cx, "alpha", 0.01)))
    }),
    ("Elu", |cx| {
        one(cx, |cx, x| elu(cx, x, attr(cx, "alpha", 1.0)))
    }),
    ("Selu", |cx| one(cx, selu)),
    ("Celu", |cx| one(cx, celu)),
    ("HardSigmoid", |cx| {
        one(cx, |cx, x| {
            hard_sigmoid(cx, x, attr(cx, "alpha", 0.2), attr(cx, "beta", 0.5))
        })
    }),
    ("HardSwish", |cx| one(cx, hard_swish)),
    ("Softplus", |cx| one(cx, softplus)),
    ("Softsign", |cx| one(cx, softsign)),
    ("ThresholdedRelu", |cx| {
        one(cx, |cx, x| thresholded_relu(cx, x, attr(cx, "alpha", 1.0)))
    }),
    ("Shrink", |cx| one(cx, shrink)),
    ("Mish", |cx| one(cx, mish)),
    ("Gelu", |cx| one(cx, gelu)),
    ("Swish", |cx| {
        one(cx, |cx, x| swish(cx, x, attr(cx, "alpha", 1.0)))
    }),
    ("SwiGLU", swi_glu),
    ("Softmax", softmax),
    ("LogSoftmax", log_softmax_op),
    ("Hardmax", hardmax),
];

fn one(cx: &mut NodeCx, f: impl FnOnce(&mut NodeCx, Value) -> Result<Value>) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    Ok(vec![f(cx, x)?])
}

fn attr(cx: &NodeCx, name: &str, default: f32) -> f64 {
    cx.float_or(name, default).into()
}

pub(super) fn relu(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let zero = cx.scalar_like(x, 0.0)?;
    cx.max(x, zero)
}

/// Before version 7 the slopes are one for all elements, or one for each channel.
fn prelu(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, mut slope) = (cx.input(0)?, cx.input(1)?);
    if cx.opset < 7 && cx.rank(slope)? == 1 {
        let rank = cx.rank(x)?;
        slope = cx.unsqueeze(
            slope,
            &(1..rank.saturating_sub(1).max(1)).collect::<Vec<_>>(),
        )?;
    }
    let negative = cx.mul(slope, x)?;
    Ok(vec![below_zero(cx, x, negative)?])
}

pub(super) fn leaky_relu(cx: &mut NodeCx, x: Value, alpha: f64) -> Result<Value> {
    let negative = cx.scale(x, alpha)?;
    below_zero(cx, x, negative)
}

pub(super) fn elu(cx: &mut NodeCx, x: Value, alpha: f64) -> Result<Value> {
    let e = cx.unary(UnaryOp::Expm1, x)?;
    let negative = cx.scale(e, alpha)?;
    below_zero(cx, x, negative)
}

fn selu(cx: &mut NodeCx, x: Value) -> Result<Value> {
    // The defaults are stated as singles.
    let defaults = match cx.opset {
        ..6 => [1.6732, 1.0507],
        _ => [1.673_263_2, 1.050_701],
    };
    let alpha = attr(cx, "alpha", defaults[0]);
    let gamma = attr(cx, "gamma", defaults[1]);
    let y = elu(cx, x, alpha)?;
    cx.scale(y, gamma)
}

/// `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`
fn celu(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let alpha = attr(cx, "alpha", 1.0);
    let positive = relu(cx, x)?;
    let divisor = cx.scalar_like(x, alpha)?;
    let ratio = cx.div(x, divisor)?;
    let e = cx.unary(UnaryOp::Expm1, ratio)?;
    let curve = cx.scale(e, alpha)?;
    let zero = cx.scalar_like(x, 0.0)?;
    let negative = cx.min(curve, zero)?;
    cx.add(positive, negative)
}

pub(super) fn hard_sigmoid(cx: &mut NodeCx, x: Value, alpha: f64, beta: f64) -> Result<Value> {
    let line = cx.scale(x, alpha)?;
    let line = cx.shift(line, beta)?;
    clamp_to_unit(cx, line)
}

fn clamp_to_unit(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let (zero, one) = (cx.scalar_like(x, 0.0)?, cx.scalar_like(x, 1.0)?);
    let x = cx.min(x, one)?;
    cx.max(x, zero)
}

/// `x * max(0, min(1, x / 6 + 0.5))`; the specification's 1/6 is not rounded to single precision.
fn hard_swish(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let line = cx.scale(x, 1.0 / 6.0)?;
    let line = cx.shift(line, 0.5)?;
    let gate = clamp_to_unit(cx, line)?;
    cx.mul(x, gate)
}

/// `max(x, 0) + log(1 + exp(-|x|))`, which does not overflow.
pub(super) fn softplus(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let abs = cx.unary(UnaryOp::Abs, x)?;
    let negative = cx.neg(abs)?;
    let e = cx.exp(negative)?;
    let rest = cx.unary(UnaryOp::Log1p, e)?;
    let positive = relu(cx, x)?;
    cx.add(positive, rest)
}

pub(super) fn softsign(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let abs = cx.unary(UnaryOp::Abs, x)?;
    let divisor = cx.shift(abs, 1.0)?;
    cx.div(x, divisor)
}

pub(super) fn thresholded_relu(cx: &mut NodeCx, x: Value, alpha: f64) -> Result<Value> {
    let above = cx.compare_to(CompareOp::Gt, x, alpha)?;
    let zero = cx.scalar_like(x, 0.0)?;
    cx.select(above, x, zero)
}

/// Integers are shrunk as reals, because the threshold and the bias are.
fn shrink(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let (bias, lambda) = (attr(cx, "bias", 0.0), attr(cx, "lambd", 0.5));
    let dtype = cx.dtype(x)?;
    let x = if dtype.is_float() {
        x
    } else {
        cx.cast(x, DType::F64)?
    };
    let low = cx.compare_to(CompareOp::Lt, x, -lambda)?;
    let high = cx.compare_to(CompareOp::Gt, x, lambda)?;
    let (raised, lowered) = (cx.shift(x, bias)?, cx.shift(x, -bias)?);
    let zero = cx.scalar_like(x, 0.0)?;
    let y = cx.select(high, lowered, zero)?;
    let y = cx.select(low, raised, y)?;
    cx.cast(y, dtype)
}

fn mish(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let soft = softplus(cx, x)?;
    let gate = cx.unary(UnaryOp::Tanh, soft)?;
    cx.mul(x, gate)
}

fn gelu(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let gate = match cx.str_or("approximate", "none")? {
        "none" => {
            let root = cx.real_like(x, std::f64::consts::SQRT_2)?;
            let ratio = cx.div(x, root)?;
            cx.unary(UnaryOp::Erf, ratio)?
        }
        "tanh" => {
            let square = cx.mul(x, x)?;
            let cube = cx.mul(square, x)?;
            let small = cx.scale(cube, 0.044715)?;
            let sum = cx.add(x, small)?;
            let root = std::f64::consts::FRAC_2_PI.sqrt();
            let inner = cx.scale(sum, root)?;
            cx.unary(UnaryOp::Tanh, inner)?
        }
        other => {
            return invalid(format!("approximate is `{other}`, not `none` or `tanh`"));
        }
    };
    let gate = cx.shift(gate, 1.0)?;
    let half = cx.scale(x, 0.5)?;
    cx.mul(half, gate)
}

fn swish(cx: &mut NodeCx, x: Value, alpha: f64) -> Result<Value> {
    let inner = cx.scale(x, alpha)?;
    let gate = cx.unary(UnaryOp::Sigmoid, inner)?;
    cx.mul(x, gate)
}

fn swi_glu(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let alpha = attr(cx, "alpha", 1.0);
    let gate = swish(cx, a, alpha)?;
    Ok(vec![cx.mul(gate, b)?])
}

/// The axes that are normalised together: one since version 13; before, when the input was a
/// matrix, all from the given one on.
fn softmax_axes(cx: &NodeCx, x: Value) -> Result<Vec<usize>> {
    let rank = cx.rank(x)?;
    if cx.opset >= 13 {
        return Ok(vec![cx.axis(cx.int_or("axis", -1), rank)?]);
    }
    let first = cx.int_or("axis", 1);
    if first == rank as i64 {
        return Ok(vec![]);
    }
    Ok((cx.axis(first, rank)?..rank).collect())
}

fn softmax(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let axes = softmax_axes(cx, x)?;
    Ok(vec![cx.softmax(x, &axes)?])
}

fn log_softmax_op(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let axes = softmax_axes(cx, x)?;
    Ok(vec![log_softmax(cx, x, &axes)?])
}

/// `x - max - log(sum(exp(x - max)))`
pub(super) fn log_softmax(cx: &mut NodeCx, x: Value, axes: &[usize]) -> Result<Value> {
    let max = cx.reduce(ReduceOp::Max, x, axes, true)?;
    let shifted = cx.sub(x, max)?;
    let exp = cx.exp(shifted)?;
    let sum = cx.reduce(ReduceOp::Sum, exp, axes, true)?;
    let log = cx.log(sum)?;
    cx.sub(shifted, log)
}

/// One at the first largest element, zero elsewhere.
fn hardmax(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = cx.dtype(x)?;
    let axes = softmax_axes(cx, x)?;
    let shape = cx.shape_of(x)?;
    let rank = cx.rank(x)?;
    // Several axes are always the last ones: seen as one.
    let (flat, axis) = match axes.as_slice() {
        [axis] => (x, *axis),
        _ => {
            let outer = rank - axes.len();
            let mut sizes = (0..outer)
                .map(|i| cx.size_of(x, i))
                .collect::<Result<Vec<_>>>()?;
            sizes.push(cx.count(x, &axes)?);
            let sizes = cx.stack_i64s(&sizes)?;
            (cx.reshape_to(x, sizes)?, outer)
        }
    };
    let rank = cx.rank(flat)?;
    let best = cx.arg_max(flat, axis, true)?;
    let places = cx.positions(flat, axis)?;
    let places = cx.along(places, axis, rank)?;
    let hit = cx.compare(CompareOp::Eq, places, best)?;
    let y = cx.cast(hit, dtype)?;
    Ok(vec![if axes.len() == 1 {
        y
    } else {
        cx.reshape_to(y, shape)?
    }])
}
