//! Losses over classes.

use heddle_ir::op::{CompareOp, ReduceOp};
use heddle_ir::{Emit, Op, Value};

use super::activation::log_softmax;
use super::cx::{NodeCx, Result, Table, invalid};

pub(super) const OPS: Table = &[
    ("NegativeLogLikelihoodLoss", |cx| {
        let x = cx.input(0)?;
        Ok(vec![likelihood_loss(cx, x)?])
    }),
    ("SoftmaxCrossEntropyLoss", |cx| {
        let x = cx.input(0)?;
        let log_prob = log_softmax(cx, x, &[1])?;
        Ok(vec![likelihood_loss(cx, log_prob)?, log_prob])
    }),
];

/// The loss for log-probabilities `x: [batch, classes, ..]`; labels and weights are inputs 1 and 2.
fn likelihood_loss(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let labels = cx.input(1)?;
    let ignored = match cx.int("ignore_index") {
        Some(index) => Some(cx.compare_to(CompareOp::Eq, labels, index as f64)?),
        None => None,
    };
    // Ignored labels may be no class: they are looked up as class 0, and dropped.
    let zero = cx.scalar_like(labels, 0.0)?;
    let classes = match ignored {
        Some(ignored) => cx.select(ignored, zero, labels)?,
        None => labels,
    };
    let places = cx.unsqueeze(classes, &[1])?;
    let found = cx.op(Op::GatherElements { axis: 1 }, &[x, places])?;
    let found = cx.squeeze(found, &[1])?;
    let mut loss = cx.neg(found)?;
    let mut weight = match (cx.opt(2), ignored) {
        (Some(weights), _) => Some(cx.gather(weights, classes, 0)?),
        (None, Some(_)) => {
            let shape = cx.shape_of(labels)?;
            let one = cx.scalar_like(x, 1.0)?;
            Some(cx.broadcast_to(one, shape)?)
        }
        (None, None) => None,
    };
    if let Some(w) = weight {
        loss = cx.mul(loss, w)?;
    }
    if let Some(ignored) = ignored {
        let nothing = cx.scalar_like(x, 0.0)?;
        loss = cx.select(ignored, nothing, loss)?;
        weight = match weight {
            Some(w) => Some(cx.select(ignored, nothing, w)?),
            None => None,
        };
    }
    let all: Vec<usize> = (0..cx.rank(loss)?).collect();
    match (cx.str_or("reduction", "mean")?, weight) {
        ("none", _) => Ok(loss),
        ("sum", _) => cx.reduce(ReduceOp::Sum, loss, &all, false),
        ("mean", None) => cx.mean(loss, &all, false),
        ("mean", Some(weight)) => {
            let total = cx.reduce(ReduceOp::Sum, loss, &all, false)?;
            let weight = cx.reduce(ReduceOp::Sum, weight, &all, false)?;
            cx.div(total, weight)
        }
        (other, _) => invalid(format!("reduction is `{other}`")),
    }
}
