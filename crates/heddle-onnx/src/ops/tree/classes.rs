//! Labels and scores of TreeEnsembleClassifier, as ONNX Runtime computes them.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Emit, Tensor, Value};

use super::super::cx::{NodeCx, Result, invalid};
use super::super::scores::{Second, Transform, label_of_max, one_of_two, positive};
use super::votes::{Scores, Votes};

/// The facts about the weights that the labels of two classes depend on.
pub(in super::super) struct Weights {
    /// All votes are for one class.
    one_class: bool,
    all_positive: bool,
}

impl Weights {
    pub fn of(votes: &Votes) -> Self {
        let mut all = votes.of_leaves.iter().flatten();
        let first = all.clone().next().map(|v| v.0);
        Self {
            one_class: all.clone().all(|v| Some(v.0) == first),
            all_positive: all.all(|v| v.1 >= 0.0),
        }
    }
}

/// The labels, and the scores of all classes.
pub(in super::super) fn classify(
    cx: &mut NodeCx,
    mut scores: Scores,
    weights: &Weights,
    labels: &Tensor,
    base: &[f64],
) -> Result<Vec<Value>> {
    let transform = Transform::named(cx)?;
    match labels.len() {
        1 => {
            if base.len() == 1 {
                scores.add(cx, base, false)?;
            }
            let positive = positive(cx, scores.values)?;
            let label = one_of_two(cx, labels, positive)?;
            let scores = transform.apply(cx, scores.values, 1, Second::Absent)?;
            Ok(vec![label, scores])
        }
        2 => two_classes(cx, &scores, weights, labels, base, transform),
        n => {
            if base.len() == n {
                scores.add(cx, base, false)?;
                scores.voted = None;
            } else if !base.is_empty() {
                return invalid(format!("{} base values for {n} classes", base.len()));
            }
            let mut candidates = scores.values;
            if let Some(voted) = scores.voted {
                let never = cx.real_like(candidates, f64::NEG_INFINITY)?;
                candidates = cx.select(voted, candidates, never)?;
            }
            let label = label_of_max(cx, labels, candidates)?;
            let scores = transform.apply(cx, scores.values, n, Second::Absent)?;
            Ok(vec![label, scores])
        }
    }
}

/// A row has two scores if a leaf votes for the second class, or if there are two base values. A
/// single score belongs to the second class.
fn two_classes(
    cx: &mut NodeCx,
    scores: &Scores,
    weights: &Weights,
    labels: &Tensor,
    base: &[f64],
    transform: Transform,
) -> Result<Vec<Value>> {
    let (mut first, has_first) = scores.column(cx, 0)?;
    let (mut second, has_second) = scores.column(cx, 1)?;
    let mut two_scores = has_second;
    let mut other = Second::Negated;
    match *base {
        [] => {}
        [one] => {
            first = cx.shift(first, one)?;
            other = Second::Absent;
        }
        [one, two] => {
            // With votes for both classes ONNX Runtime takes those for the first one alone.
            let joint = cx.shift(first, two)?;
            let negated = cx.neg(joint)?;
            let (own_first, own_second) = (cx.shift(first, one)?, cx.shift(second, two)?);
            first = cx.select(has_second, negated, own_first)?;
            second = cx.select(has_second, joint, own_second)?;
            two_scores = cx.b.constant(Tensor::splat(DType::Bool, vec![1, 1], 1.0));
        }
        _ => return invalid(format!("{} base values for 2 classes", base.len())),
    }
    let zero = cx.scalar_like(first, 0.0)?;
    let first_or_zero = cx.select(has_first, first, zero)?;
    let score = cx.select(has_second, second, first_or_zero)?;
    let mut threshold = 0.0;
    if weights.one_class {
        other = Second::Negated;
        if weights.all_positive {
            (other, threshold) = (Second::Complement, 0.5);
        }
    }
    let wins = cx.squeeze(score, &[1])?;
    let wins = cx.compare_to(CompareOp::Gt, wins, threshold)?;
    let label = one_of_two(cx, labels, wins)?;

    let second = cx.select(has_second, second, zero)?;
    let both = cx.concat(&[first_or_zero, second], 1)?;
    let both = transform.apply(cx, both, 2, Second::Absent)?;
    let mut single = transform.apply(cx, first, 1, other)?;
    if transform == Transform::Probit || other == Second::Absent {
        let none = cx.binary(BinaryOp::Mul, first, zero)?;
        single = cx.concat(&[single, none], 1)?;
    }
    Ok(vec![label, cx.select(two_scores, both, single)?])
}
