//! Random numbers, and dropout, which draws them in training.

use heddle_ir::op::{CompareOp, Distribution};
use heddle_ir::{DType, Op, Value};

use super::cx::{NodeCx, Result, Table, invalid, required};

pub(super) const OPS: Table = &[
    ("RandomNormal", |cx| {
        let dist = normal(cx);
        draw(cx, dist)
    }),
    ("RandomUniform", |cx| {
        let dist = uniform(cx);
        draw(cx, dist)
    }),
    ("RandomNormalLike", |cx| {
        let dist = normal(cx);
        draw_like(cx, dist)
    }),
    ("RandomUniformLike", |cx| {
        let dist = uniform(cx);
        draw_like(cx, dist)
    }),
    ("Bernoulli", bernoulli),
    ("Multinomial", multinomial),
    ("Dropout", dropout),
];

fn normal(cx: &NodeCx) -> Distribution {
    Distribution::Normal {
        mean: cx.float_or("mean", 0.0).into(),
        scale: cx.float_or("scale", 1.0).into(),
    }
}

fn uniform(cx: &NodeCx) -> Distribution {
    Distribution::Uniform {
        low: cx.float_or("low", 0.0).into(),
        high: cx.float_or("high", 1.0).into(),
    }
}

/// Seeds are floats, but for Dropout's; their bits tell them apart.
fn seed(cx: &NodeCx) -> Option<u64> {
    let integer = cx.int("seed").map(|s| s as u64);
    integer.or_else(|| cx.float("seed").map(|s| s.to_bits().into()))
}

fn random(cx: &mut NodeCx, dist: Distribution, dtype: DType, operand: Value) -> Result<Value> {
    let seed = seed(cx);
    cx.op(Op::Random { dist, dtype, seed }, &[operand])
}

fn draw(cx: &mut NodeCx, dist: Distribution) -> Result<Vec<Value>> {
    let dtype = cx.dtype_attr("dtype")?.unwrap_or(DType::F32);
    let shape = required(cx.ints("shape"), "shape")?;
    let shape = cx.b.i64s(shape);
    Ok(vec![random(cx, dist, dtype, shape)?])
}

fn draw_like(cx: &mut NodeCx, dist: Distribution) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = match cx.dtype_attr("dtype")? {
        Some(dtype) => dtype,
        None => cx.dtype(x)?,
    };
    let shape = cx.shape_of(x)?;
    Ok(vec![random(cx, dist, dtype, shape)?])
}

fn bernoulli(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let p = cx.input(0)?;
    let dtype = match cx.dtype_attr("dtype")? {
        Some(dtype) => dtype,
        None => cx.dtype(p)?,
    };
    Ok(vec![random(cx, Distribution::Bernoulli, dtype, p)?])
}

/// Samples by the largest of the log-probabilities, each with Gumbel noise of its own:
/// `-log(-log(u))`.
fn multinomial(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let logits = cx.input(0)?;
    if cx.rank(logits)? != 2 {
        return invalid("the input must be a matrix");
    }
    let dtype = cx.dtype_attr("dtype")?.unwrap_or(DType::I32);
    let logits = match cx.dtype(logits)? {
        DType::F64 => logits,
        _ => cx.cast(logits, DType::F32)?,
    };
    let (batch, classes) = (cx.size_of(logits, 0)?, cx.size_of(logits, 1)?);
    let samples = cx.b.i64(cx.int_or("sample_size", 1));
    let shape = cx.stack_i64s(&[batch, samples, classes])?;
    let unit = Distribution::Uniform {
        low: 0.0,
        high: 1.0,
    };
    let u = {
        let dtype = cx.dtype(logits)?;
        random(cx, unit, dtype, shape)?
    };
    let log = cx.log(u)?;
    let log = cx.neg(log)?;
    let log = cx.log(log)?;
    let logits = cx.unsqueeze(logits, &[1])?;
    let noisy = cx.sub(logits, log)?;
    let chosen = cx.arg_max(noisy, 2, false)?;
    Ok(vec![cx.cast(chosen, dtype)?])
}

/// Outside of training the input itself. The mask is of the input's type before version 10.
fn dropout(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
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
        None => cx.b.scalar(DType::F32, 0.5),
    };
    let unit = Distribution::Uniform {
        low: 0.0,
        high: 1.0,
    };
    let u = random(cx, unit, DType::F32, shape)?;
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
