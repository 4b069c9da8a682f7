//! Optimiser steps of `ai.onnx.preview.training`. Each takes a learning rate, an update count, and
//! any number of tensors, followed by as many gradients, and by as many of each kind of state.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::cx::{NodeCx, Result, Table, invalid, required};

pub(super) const OPS: Table = &[
    ("Adam", |cx| each(cx, 2, adam)),
    ("Adagrad", |cx| each(cx, 1, adagrad)),
    ("Momentum", |cx| each(cx, 1, momentum)),
];

/// One tensor with its gradient and states, the learning rate and the update count.
struct Step {
    rate: Value,
    count: Value,
    x: Value,
    gradient: Value,
    states: Vec<Value>,
}

/// Applies a step to each tensor: the new tensors come first, then their states, kind by kind.
fn each(
    cx: &mut NodeCx,
    states: usize,
    f: fn(&mut NodeCx, Step) -> Result<Vec<Value>>,
) -> Result<Vec<Value>> {
    let inputs = cx.all_inputs()?;
    let [rate, count, tensors @ ..] = inputs.as_slice() else {
        return invalid("R and T are missing");
    };
    let (rate, count) = (cx.to_scalar(*rate)?, cx.to_scalar(*count)?);
    let n = tensors.len() / (states + 2);
    if n * (states + 2) != tensors.len() {
        return invalid(format!(
            "{} tensors do not divide into {} groups",
            tensors.len(),
            states + 2
        ));
    }
    let mut results = vec![vec![]; states + 1];
    for i in 0..n {
        let x = tensors[i];
        let dtype = cx.dtype(x)?;
        let step = Step {
            rate: cx.cast(rate, dtype)?,
            count,
            x,
            gradient: tensors[n + i],
            states: (0..states).map(|s| tensors[(2 + s) * n + i]).collect(),
        };
        for (list, value) in results.iter_mut().zip(f(cx, step)?) {
            list.push(value);
        }
    }
    Ok(results.concat())
}

/// The gradient with that of `0.5 * norm_coefficient * |X|²`.
fn regularized(cx: &mut NodeCx, step: &Step) -> Result<Value> {
    let factor = cx.float_or("norm_coefficient", 0.0).into();
    let pull = cx.scale(step.x, factor)?;
    cx.add(pull, step.gradient)
}

/// `factor * old + (1 - factor) * new`
fn average(cx: &mut NodeCx, factor: f64, old: Value, new: Value) -> Result<Value> {
    let (kept, added) = (cx.scale(old, factor)?, cx.scale(new, 1.0 - factor)?);
    cx.add(kept, added)
}

fn adam(cx: &mut NodeCx, step: Step) -> Result<Vec<Value>> {
    let alpha = f64::from(cx.float_or("alpha", 0.9));
    let beta = f64::from(cx.float_or("beta", 0.999));
    let epsilon = f64::from(cx.float_or("epsilon", 1e-6));
    let after = f64::from(cx.float_or("norm_coefficient_post", 0.0));
    let gradient = regularized(cx, &step)?;
    let v = average(cx, alpha, step.states[0], gradient)?;
    let square = cx.mul(gradient, gradient)?;
    let h = average(cx, beta, step.states[1], square)?;
    let root = cx.unary(UnaryOp::Sqrt, h)?;
    let root = cx.shift(root, epsilon)?;

    // The rate is adjusted for the averages' start at zero. In double, because `1 - beta^T`
    // cancels.
    let count = cx.cast(step.count, DType::F64)?;
    let missing = |cx: &mut NodeCx, base: f64| {
        let base = cx.b.scalar(DType::F64, base);
        let power = cx.binary(BinaryOp::Pow, base, count)?;
        let one = cx.b.scalar(DType::F64, 1.0);
        cx.sub(one, power)
    };
    let (of_h, of_v) = (missing(cx, beta)?, missing(cx, alpha)?);
    let of_h = cx.unary(UnaryOp::Sqrt, of_h)?;
    let factor = cx.div(of_h, of_v)?;
    let later = cx.compare_to(CompareOp::Gt, count, 0.0)?;
    let one = cx.b.scalar(DType::F64, 1.0);
    let factor = cx.select(later, factor, one)?;
    let dtype = cx.dtype(step.x)?;
    let factor = cx.cast(factor, dtype)?;
    let rate = cx.mul(step.rate, factor)?;

    let direction = cx.div(v, root)?;
    let change = cx.mul(rate, direction)?;
    let x = cx.sub(step.x, change)?;
    Ok(vec![cx.scale(x, 1.0 - after)?, v, h])
}

fn adagrad(cx: &mut NodeCx, step: Step) -> Result<Vec<Value>> {
    let decay = f64::from(cx.float_or("decay_factor", 0.0));
    let epsilon = f64::from(cx.float_or("epsilon", 1e-6));
    let dtype = cx.dtype(step.x)?;
    let count = cx.cast(step.count, dtype)?;
    let decay = cx.scale(count, decay)?;
    let decay = cx.shift(decay, 1.0)?;
    let rate = cx.div(step.rate, decay)?;
    let gradient = regularized(cx, &step)?;
    let square = cx.mul(gradient, gradient)?;
    let h = cx.add(step.states[0], square)?;
    let root = cx.unary(UnaryOp::Sqrt, h)?;
    let root = cx.shift(root, epsilon)?;
    let change = cx.mul(rate, gradient)?;
    let change = cx.div(change, root)?;
    Ok(vec![cx.sub(step.x, change)?, h])
}

fn momentum(cx: &mut NodeCx, step: Step) -> Result<Vec<Value>> {
    let number = |name: &str| required(cx.float(name).map(f64::from), name);
    let (alpha, beta) = (number("alpha")?, number("beta")?);
    let nesterov = cx.choice("mode", "", &[("standard", false), ("nesterov", true)])?;
    let gradient = regularized(cx, &step)?;
    let (beta, one) = (cx.real_like(step.x, beta)?, cx.scalar_like(step.x, 1.0)?);
    let later = cx.compare_to(CompareOp::Gt, step.count, 0.0)?;
    let beta = cx.select(later, beta, one)?;
    let added = cx.mul(beta, gradient)?;
    let kept = cx.scale(step.states[0], alpha)?;
    let v = cx.add(kept, added)?;
    let direction = if nesterov {
        let ahead = cx.scale(v, alpha)?;
        cx.add(gradient, ahead)?
    } else {
        v
    };
    let change = cx.mul(step.rate, direction)?;
    Ok(vec![cx.sub(step.x, change)?, v])
}
