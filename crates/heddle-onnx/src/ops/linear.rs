//! `ai.onnx.ml`: linear models.

use heddle_ir::{DType, Emit, Tensor, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use super::scores::{Second, Transform, class_labels, label_of_max, one_of_two, positive, rows};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("LinearClassifier", linear_classifier),
    ("LinearRegressor", linear_regressor),
];

/// LinearRegressor 1.
fn linear_regressor(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let targets = cx.int_or("targets", 1);
    let Some(n) = usize::try_from(targets).ok().filter(|n| *n > 0) else {
        return invalid(format!("targets is {targets}"));
    };
    let scores = products(cx, n)?;
    let transform = Transform::named(cx)?;
    Ok(vec![transform.apply(cx, scores, n, Second::Absent)?])
}

/// LinearClassifier 1: the labels, and the scores of all classes.
fn linear_classifier(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let labels = class_labels(cx, "classlabels_ints")?;
    let n = match cx.floats("intercepts").unwrap_or_default().len() {
        0 => labels.len(),
        n => n,
    };
    let scores = products(cx, n)?;
    let (label, second) = if n == 1 {
        let positive = positive(cx, scores)?;
        let second = match labels.len() {
            2 => Second::Complement,
            _ => Second::Absent,
        };
        (one_of_two(cx, &labels, positive)?, second)
    } else if n == labels.len() {
        (label_of_max(cx, &labels, scores)?, Second::Absent)
    } else {
        return invalid(format!("{} labels for {n} classes", labels.len()));
    };
    let transform = Transform::named(cx)?;
    let scores = transform.apply(cx, scores, n, second)?;
    Ok(vec![label, scores])
}

/// The products of the features with `n` rows of coefficients, plus intercepts: `f32[rows, n]`.
fn products(cx: &mut NodeCx, n: usize) -> Result<Value> {
    let x = cx.input(0)?;
    let x = rows(cx, x)?;
    let x = cx.cast(x, DType::F32)?;
    let coefficients = cx.floats("coefficients").unwrap_or_default();
    let features = coefficients.len() / n;
    if features == 0 || features * n != coefficients.len() {
        return invalid(format!("{} coefficients for {n} rows", coefficients.len()));
    }
    let weights = Tensor::from_slice(vec![n, features], coefficients);
    let weights = cx.b.constant(weights);
    let weights = cx.transpose(weights, &[1, 0])?;
    let y = cx.matmul(x, weights)?;
    match cx.floats("intercepts").filter(|l| l.len() == n) {
        Some(intercepts) => {
            let intercepts = cx.b.constant(Tensor::vector(intercepts));
            cx.add(y, intercepts)
        }
        None => Ok(y),
    }
}
