//! Random numbers, and dropout, which draws them in training.
//!
//! Numbers are a function of a key: of the node's seed or of the run's, of the iterations of the loops around, and of the
//! call of the function around. So they are the same in each run, and differ between nodes, iterations and calls.

use heddle_ir::op::CompareOp;
use heddle_ir::{DType, Emit, Op, Value};

use super::cx::{NodeCx, Result, Table, invalid, required};
use super::position::next;
use super::sizes::Int;

pub(super) const OPS: Table = &[
    ("RandomNormal", |cx| draw(cx, normal)),
    ("RandomUniform", |cx| draw(cx, uniform)),
    ("RandomNormalLike", |cx| draw_like(cx, normal)),
    ("RandomUniformLike", |cx| draw_like(cx, uniform)),
    ("Bernoulli", bernoulli),
    ("Multinomial", multinomial),
    ("Dropout", dropout),
];

/// Does an operator draw random numbers?
pub fn is_random(domain: &str, op: &str) -> bool {
    match domain {
        "" => OPS.iter().any(|(name, _)| *name == op),
        _ => (domain, op) == ("com.microsoft", "Sampling"),
    }
}

/// The node's key for this evaluation: of its seed, or else of the run's and the node's number.
///
/// Seeds are floats, whose bits are the key, but for Dropout's, which is the key. The same seed gives the same numbers in each run.
fn key(cx: &mut NodeCx) -> Result<Value> {
    let integer = cx.int("seed").map(|s| s as u64);
    let seed = integer.or_else(|| cx.float("seed").map(|s| s.to_bits().into()));
    let key = match seed {
        Some(seed) => cx.b.key(seed),
        None => {
            let run = cx.op(Op::RunKey, &[])?;
            let node = cx.b.key(next(cx.draws));
            cx.b.fold_in(run, node)?
        }
    };
    Ok(cx.position.key(cx.b, key)?)
}

/// The type in which numbers of this type are drawn.
fn wide(dtype: DType) -> Result<DType> {
    match dtype {
        DType::F64 => Ok(DType::F64),
        _ if dtype.is_float() => Ok(DType::F32),
        _ => invalid(format!("it draws floats, not {dtype}")),
    }
}

/// Numbers in `[0, 1)`.
fn unit(cx: &mut NodeCx, dtype: DType, shape: Value) -> Result<Value> {
    let key = key(cx)?;
    let draws = cx.b.uniform(dtype, key, shape)?;
    Ok(cx.b.as_floats(dtype, draws)?)
}

/// Draws numbers of a type and shape.
type Draw = fn(&mut NodeCx, DType, Value) -> Result<Value>;

fn normal(cx: &mut NodeCx, dtype: DType, shape: Value) -> Result<Value> {
    let (mean, scale) = (cx.float_or("mean", 0.0), cx.float_or("scale", 1.0));
    wide(dtype)?;
    let key = key(cx)?;
    let draws = cx.b.normal(key, shape)?;
    Ok(cx.b.scaled(dtype, draws, mean, scale)?)
}

/// Numbers that rounding moved to the upper end go to the lower one.
fn uniform(cx: &mut NodeCx, dtype: DType, shape: Value) -> Result<Value> {
    let (low, high) = (cx.float_or("low", 0.0), cx.float_or("high", 1.0));
    let (wide, key) = (wide(dtype)?, key(cx)?);
    let draws = cx.b.uniform(wide, key, shape)?;
    let x = cx.b.scaled(dtype, draws, low, high - low)?;
    if low >= high || (low, high, wide) == (0.0, 1.0, dtype) {
        return Ok(x);
    }
    let (low, high) = (
        cx.scalar_like(x, low.into())?,
        cx.scalar_like(x, high.into())?,
    );
    let below = cx.compare(CompareOp::Lt, x, high)?;
    cx.select(below, x, low)
}

fn draw(cx: &mut NodeCx, draw: Draw) -> Result<Vec<Value>> {
    let dtype = cx.dtype_attr("dtype")?.unwrap_or(DType::F32);
    let shape = required(cx.ints("shape"), "shape")?;
    if shape.iter().any(|&n| n < 0) {
        return invalid(format!("a size in its shape {shape:?} is negative"));
    }
    let shape = cx.b.i64s(shape);
    Ok(vec![draw(cx, dtype, shape)?])
}

fn draw_like(cx: &mut NodeCx, draw: Draw) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = match cx.dtype_attr("dtype")? {
        Some(dtype) => dtype,
        None => cx.dtype(x)?,
    };
    let shape = cx.shape_of(x)?;
    Ok(vec![draw(cx, dtype, shape)?])
}

/// 1 with the probability that the input says, else 0.
fn bernoulli(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let p = cx.input(0)?;
    let dtype = match cx.dtype_attr("dtype")? {
        Some(dtype) => dtype,
        None => cx.dtype(p)?,
    };
    let wide = wide(cx.dtype(p)?)?;
    let (shape, p) = (cx.shape_of(p)?, cx.cast(p, wide)?);
    let u = unit(cx, wide, shape)?;
    let hit = cx.compare(CompareOp::Lt, u, p)?;
    Ok(vec![cx.cast(hit, dtype)?])
}

/// Samples by the largest of the log-probabilities, each with Gumbel noise of its own, in `f64`.
fn multinomial(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let logits = cx.input(0)?;
    if cx.rank(logits)? != 2 {
        return invalid("the input must be a matrix");
    }
    let dtype = cx.dtype_attr("dtype")?.unwrap_or(DType::I32);
    let logits = cx.cast(logits, DType::F64)?;
    let (batch, classes) = (cx.size_of(logits, 0)?, cx.size_of(logits, 1)?);
    let samples = cx.b.i64(cx.int_or("sample_size", 1));
    let shape = cx.stack_i64s(&[batch, samples, classes])?;
    let key = key(cx)?;
    let logits = cx.unsqueeze(logits, &[1])?;
    let chosen = sampled(cx, key, logits, shape)?;
    Ok(vec![cx.cast(chosen, dtype)?])
}

/// The classes along the last axis that logits of `f64`, broadcast to a shape, choose.
fn sampled(cx: &mut NodeCx, key: Value, logits: Value, shape: Value) -> Result<Value> {
    let noise = cx.b.gumbel(key, shape)?;
    let noise = cx.b.as_floats(DType::F64, noise)?;
    let noisy = cx.add(logits, noise)?;
    let last = cx.rank(noisy)? - 1;
    cx.arg_max(noisy, last, false)
}

/// The token of each row of `logits[rows, vocabulary]` in one step of a search. The key is the seed,
/// or else that of the run and the node, and then the number of the step.
pub(super) fn draw_token(
    cx: &mut NodeCx,
    seed: Option<Value>,
    step: Int,
    logits: Value,
) -> Result<Value> {
    let key = match seed {
        Some(seed) => {
            let seed = cx.to_scalar(seed)?;
            let seed = cx.cast(seed, DType::U64)?;
            cx.position.key(cx.b, seed)?
        }
        None => key(cx)?,
    };
    let step = cx.int_value(step);
    let key = cx.b.fold_in(key, step)?;
    let logits = cx.cast(logits, DType::F64)?;
    let shape = cx.shape_of(logits)?;
    sampled(cx, key, logits, shape)
}

/// Outside of training the input itself. The mask is of the input's type before version 10.
fn dropout(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    if cx.opset < 7 && !cx.flag("is_test", false) {
        let outputs = drop_some(cx, x)?;
        let dtype = cx.dtype(x)?;
        return Ok(vec![outputs[0], cx.cast(outputs[1], dtype)?]);
    }
    let training = if cx.opset < 12 { None } else { cx.opt(2) };
    let training = match training {
        None => None,
        Some(t) => {
            let t = cx.to_scalar(t)?;
            let known = cx.const_i64s(t);
            (known.as_deref() != Some(&[0])).then_some(t)
        }
    };
    if let Some(training) = training {
        return cx.branch(training, |cx| drop_some(cx, x), |cx| keep_all(cx, x));
    }
    if cx.wants(1) {
        return keep_all(cx, x);
    }
    Ok(vec![x])
}

fn keep_all(cx: &mut NodeCx, x: Value) -> Result<Vec<Value>> {
    let dtype = match cx.opset < 10 {
        true => cx.dtype(x)?,
        false => DType::Bool,
    };
    let shape = cx.shape_of(x)?;
    Ok(vec![x, cx.full(dtype, shape, 1.0)?])
}

/// Each element is dropped with the probability `ratio`; the others grow by as much.
fn drop_some(cx: &mut NodeCx, x: Value) -> Result<Vec<Value>> {
    let shape = cx.shape_of(x)?;
    let ratio = match cx.opt(1) {
        Some(ratio) => {
            let ratio = cx.to_scalar(ratio)?;
            cx.cast(ratio, DType::F32)?
        }
        None => {
            let ratio = cx.float_or("ratio", 0.5);
            cx.b.scalar(DType::F32, ratio.into())
        }
    };
    let u = unit(cx, DType::F32, shape)?;
    let mask = cx.compare(CompareOp::Ge, u, ratio)?;
    let one = cx.b.scalar(DType::F32, 1.0);
    let rest = cx.sub(one, ratio)?;
    let scale = cx.div(one, rest)?;
    let dtype = cx.dtype(x)?;
    let scale = cx.cast(scale, dtype)?;
    let grown = cx.mul(x, scale)?;
    let zero = cx.scalar_like(x, 0.0)?;
    Ok(vec![cx.select(mask, grown, zero)?, mask])
}
