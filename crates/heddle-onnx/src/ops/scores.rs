//! Scores and labels of `ai.onnx.ml` models, as ONNX Runtime computes them.

use heddle_ir::op::{CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Tensor, Value};

use super::cx::{NodeCx, OpError, Result, invalid};
use crate::refusal::Refusal;

/// The attribute `post_transform`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transform {
    None,
    Softmax,
    Logistic,
    /// Softmax in which scores of zero take no part.
    SoftmaxZero,
    /// The inverse of the normal distribution.
    Probit,
}

const NAMES: &[(&str, Transform)] = &[
    ("NONE", Transform::None),
    ("SOFTMAX", Transform::Softmax),
    ("LOGISTIC", Transform::Logistic),
    ("SOFTMAX_ZERO", Transform::SoftmaxZero),
    ("PROBIT", Transform::Probit),
];

/// The score of the other class, where a model of two classes computes one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Second {
    /// There is none.
    Absent,
    /// `1 - score`.
    Complement,
    /// `-score`.
    Negated,
}

impl Transform {
    /// The attribute as text.
    pub fn named(cx: &NodeCx) -> Result<Self> {
        cx.choice("post_transform", "NONE", NAMES)
    }

    /// The attribute as a number.
    pub fn numbered(cx: &NodeCx) -> Result<Self> {
        let number = cx.int_or("post_transform", 0);
        let known = usize::try_from(number).ok().and_then(|n| NAMES.get(n));
        known
            .map(|(_, transform)| *transform)
            .ok_or_else(|| OpError::Invalid(format!("post_transform is {number}")))
    }

    /// Applied to `scores[rows, n]`. Of a single score only PROBIT and, if there is another class,
    /// LOGISTIC give something else.
    pub fn apply(self, cx: &mut NodeCx, scores: Value, n: usize, second: Second) -> Result<Value> {
        match (self, second) {
            (Transform::Probit, _) => probit(cx, scores),
            (_, Second::Absent) if n == 1 => Ok(scores),
            (Transform::Logistic, _) if n == 1 => {
                let other = cx.neg(scores)?;
                let both = cx.concat(&[other, scores], 1)?;
                cx.unary(UnaryOp::Sigmoid, both)
            }
            (_, Second::Complement) if n == 1 => {
                let one = cx.real_like(scores, 1.0)?;
                let other = cx.sub(one, scores)?;
                cx.concat(&[other, scores], 1)
            }
            (_, Second::Negated) if n == 1 => {
                let other = cx.neg(scores)?;
                cx.concat(&[other, scores], 1)
            }
            (Transform::None, _) => Ok(scores),
            (Transform::Softmax, _) => cx.softmax(scores, &[1]),
            (Transform::Logistic, _) => cx.unary(UnaryOp::Sigmoid, scores),
            (Transform::SoftmaxZero, _) => softmax_zero(cx, scores),
        }
    }
}

/// Softmax over the scores that are not zero; the others are scaled alike.
fn softmax_zero(cx: &mut NodeCx, scores: Value) -> Result<Value> {
    let max = cx.reduce(ReduceOp::Max, scores, &[1], true)?;
    let abs = cx.unary(UnaryOp::Abs, scores)?;
    let counts = cx.compare_to(CompareOp::Gt, abs, 1e-7)?;
    let shifted = cx.sub(scores, max)?;
    let exp = cx.exp(shifted)?;
    let zero = cx.scalar_like(scores, 0.0)?;
    let parts = cx.select(counts, exp, zero)?;
    let sum = cx.reduce(ReduceOp::Sum, parts, &[1], true)?;
    let negated = cx.neg(max)?;
    let factor = cx.exp(negated)?;
    let small = cx.mul(scores, factor)?;
    let y = cx.select(counts, exp, small)?;
    cx.div(y, sum)
}

/// `sqrt(2) * erfinv(2 x - 1)`, with Winitzki's approximation of the inverse error function.
fn probit(cx: &mut NodeCx, x: Value) -> Result<Value> {
    const A: f64 = 0.147;
    let dtype = cx.dtype(x)?;
    let x = cx.cast(x, DType::F32)?;
    let x = cx.scale(x, 2.0)?;
    let x = cx.shift(x, -1.0)?;
    let one = cx.real_like(x, 1.0)?;
    let (below, above) = (cx.sub(one, x)?, cx.add(one, x)?);
    let product = cx.mul(below, above)?;
    let log = cx.log(product)?;
    let half = cx.scale(log, 0.5)?;
    let v = cx.shift(half, 2.0 / (std::f64::consts::PI * A))?;
    let w = cx.scale(log, 1.0 / A)?;
    let square = cx.mul(v, v)?;
    let root = cx.sub(square, w)?;
    let root = cx.unary(UnaryOp::Sqrt, root)?;
    let size = cx.sub(root, v)?;
    let size = cx.unary(UnaryOp::Sqrt, size)?;
    let negative = cx.compare_to(CompareOp::Lt, x, 0.0)?;
    let mirrored = cx.neg(size)?;
    let y = cx.select(negative, mirrored, size)?;
    let y = cx.scale(y, std::f64::consts::SQRT_2)?;
    cx.cast(y, dtype)
}

/// The input as `[rows, features]`; a vector is one row.
pub(super) fn rows(cx: &mut NodeCx, x: Value) -> Result<Value> {
    match cx.rank(x)? {
        1 => cx.unsqueeze(x, &[0]),
        2 => Ok(x),
        rank => invalid(format!("the features have {rank} axes, not 1 or 2")),
    }
}

/// The labels of the classes: text, or else integers.
pub(super) fn class_labels(cx: &NodeCx, integers: &str) -> Result<Tensor> {
    if let Some(list) = cx.strs("classlabels_strings")?.filter(|l| !l.is_empty()) {
        return text(&list);
    }
    match cx.ints(integers).filter(|l| !l.is_empty()) {
        Some(list) => Ok(Tensor::vector(list)),
        None => invalid("there are no class labels"),
    }
}

/// The most elements of a matrix of weights that is written out.
const MAX_WEIGHTS: usize = 1 << 27;

/// The number of elements of a matrix of weights, one row for each of the `items`.
pub(super) fn matrix_size(
    (rows, items): (usize, &'static str),
    (columns, of): (usize, &'static str),
) -> Result<usize> {
    let count = rows.checked_mul(columns).filter(|n| *n <= MAX_WEIGHTS);
    let refusal = Refusal::Weights {
        rows,
        items,
        columns,
        of,
    };
    count.ok_or_else(|| refusal.into())
}

/// A vector of text.
pub(super) fn text(list: &[&str]) -> Result<Tensor> {
    let items = list.iter().map(|&s| Box::from(s)).collect();
    Tensor::strings(vec![list.len()], items).map_err(|e| OpError::Invalid(e.to_string()))
}

/// The second of two labels where the condition holds, else the first. Unless there are two, they are
/// 0 and 1.
pub(super) fn one_of_two(cx: &mut NodeCx, labels: &Tensor, second: Value) -> Result<Value> {
    let pair = match (labels.len(), labels.dtype()) {
        (2, _) => labels.clone(),
        (_, DType::Str) => text(&["0", "1"])?,
        _ => Tensor::vector(&[0i64, 1]),
    };
    let place = cx.cast(second, DType::I64)?;
    let pair = cx.b.constant(pair);
    cx.gather(pair, place, 0)
}

/// The label of each row's first greatest score.
pub(super) fn label_of_max(cx: &mut NodeCx, labels: &Tensor, scores: Value) -> Result<Value> {
    let place = cx.arg_max(scores, 1, false)?;
    let labels = cx.b.constant(labels.clone());
    cx.gather(labels, place, 0)
}

/// `x > 0` of single scores: `bool[rows]`.
pub(super) fn positive(cx: &mut NodeCx, score: Value) -> Result<Value> {
    let score = cx.squeeze(score, &[1])?;
    cx.compare_to(CompareOp::Gt, score, 0.0)
}
