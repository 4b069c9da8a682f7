//! `ai.onnx.ml`: support vector machines, as ONNX Runtime computes them.

mod probability;

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Tensor, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid, required};
use super::scores::{Second, Transform, class_labels, label_of_max, matrix_size, one_of_two, rows};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("SVMClassifier", svm_classifier),
    ("SVMRegressor", svm_regressor),
];

/// SVMRegressor 1. ONNX Runtime applies no post transform.
fn svm_regressor(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = features(cx)?;
    let coefficients = floats(cx, "coefficients")?;
    let rho = f64::from(first(cx, "rho")?);
    let supports = cx.int_or("n_supports", 0);
    let sums = match usize::try_from(supports).unwrap_or(0) {
        0 => product(cx, x, coefficients, 1)?,
        n if n != coefficients.len() => {
            return invalid(format!(
                "{} coefficients for {n} vectors",
                coefficients.len()
            ));
        }
        n => {
            let kernels = kernels(cx, x, n)?;
            product(cx, kernels, coefficients, 1)?
        }
    };
    let y = cx.shift(sums, rho)?;
    if !cx.flag("one_class", false) {
        return Ok(vec![y]);
    }
    let inside = cx.compare_to(CompareOp::Gt, y, 0.0)?;
    let (one, minus_one) = (cx.scalar_like(y, 1.0)?, cx.scalar_like(y, -1.0)?);
    Ok(vec![cx.select(inside, one, minus_one)?])
}

/// SVMClassifier 1: the labels, and the scores of classes or of pairs of classes.
fn svm_classifier(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = features(cx)?;
    let labels = class_labels(cx, "classlabels_ints")?;
    let counts = cx.ints("vectors_per_class").unwrap_or_default();
    match counts.iter().any(|n| *n != 0) {
        true => by_votes(cx, x, &labels, counts),
        false => linear(cx, x, &labels),
    }
}

/// One linear function for each class. The one of two classes that wins with a negative score is the
/// second one only if all coefficients are positive.
fn linear(cx: &mut NodeCx, x: Value, labels: &Tensor) -> Result<Vec<Value>> {
    let coefficients = floats(cx, "coefficients")?;
    let n = labels.len();
    let scores = product(cx, x, coefficients, n)?;
    let scores = cx.shift(scores, f64::from(first(cx, "rho")?))?;
    let label = if n == 2 {
        let max = cx.reduce(ReduceOp::Max, scores, &[1], false)?;
        let high = match coefficients.iter().all(|c| *c >= 0.0) {
            true => cx.compare_to(CompareOp::Ge, max, 0.5)?,
            false => cx.compare_to(CompareOp::Gt, max, 0.0)?,
        };
        let (first, second) = (cx.pick(scores, 0, 1)?, cx.pick(scores, 1, 1)?);
        let wins = cx.compare(CompareOp::Gt, second, first)?;
        let second = cx.binary(BinaryOp::Or, high, wins)?;
        one_of_two(cx, labels, second)?
    } else {
        label_of_max(cx, labels, scores)?
    };
    let transform = Transform::named(cx)?;
    let scores = transform.apply(cx, scores, n, Second::Absent)?;
    Ok(vec![label, scores])
}

/// One function for each pair of classes, which votes for one of them.
fn by_votes(cx: &mut NodeCx, x: Value, labels: &Tensor, counts: &[i64]) -> Result<Vec<Value>> {
    let n = labels.len();
    let pairs = Pairs::of(cx, n, counts)?;
    let kernels = kernels(cx, x, pairs.vectors)?;
    let weights = Tensor::from_slice(vec![pairs.vectors, pairs.list.len()], &pairs.weights);
    let weights = cx.b.constant(weights);
    let sums = cx.matmul(kernels, weights)?;
    let rho = at_least(cx, "rho", pairs.list.len())?;
    let rho = cx.b.constant(Tensor::vector(rho));
    let scores = cx.add(sums, rho)?;
    let votes = pairs.votes(cx, scores, n)?;
    let label = label_of_max(cx, labels, votes)?;
    let transform = Transform::named(cx)?;
    let probabilities = cx.floats("prob_a").is_some_and(|l| !l.is_empty());
    let scores = if probabilities {
        let first = pairs.probabilities(cx, scores)?;
        let scores = probability::of_classes(cx, first, &pairs.list, n)?;
        transform.apply(cx, scores, n, Second::Absent)?
    } else {
        let second = match transform {
            Transform::None => Second::Negated,
            _ => Second::Complement,
        };
        transform.apply(cx, scores, pairs.list.len(), second)?
    };
    Ok(vec![label, scores])
}

/// The pairs of classes with the weights of their functions.
struct Pairs {
    /// First and second class.
    list: Vec<(usize, usize)>,
    /// `[vectors, pairs]`.
    weights: Vec<f32>,
    /// Number of support vectors, which lie class by class.
    vectors: usize,
}

impl Pairs {
    /// Each vector has a coefficient for each class but its own: `[classes - 1, vectors]`.
    fn of(cx: &NodeCx, classes: usize, counts: &[i64]) -> Result<Self> {
        let counts: Option<Vec<usize>> = counts.iter().map(|&c| c.try_into().ok()).collect();
        let counts = counts.filter(|c| c.len() == classes);
        let Some(counts) = counts else {
            return invalid("vectors_per_class does not fit the class labels");
        };
        let owners = counts.iter().enumerate();
        let owners = owners.flat_map(|(class, &count)| std::iter::repeat_n(class, count));
        // The features of the vectors bound their number, which is checked before anything so long
        // is made.
        let bound = cx.floats("support_vectors").unwrap_or_default().len();
        let owners: Vec<usize> = owners.take(bound + 1).collect();
        let vectors = owners.len();
        if vectors > bound {
            return invalid("there are fewer support_vectors than vectors_per_class counts");
        }
        let coefficients = at_least(cx, "coefficients", (classes - 1).saturating_mul(vectors))?;
        let pairs = classes.saturating_mul(classes - 1) / 2;
        matrix_size((vectors, "support vectors"), (pairs, "pairs of classes"))?;
        let firsts = 0..classes;
        let list: Vec<_> = firsts
            .flat_map(|i| (i + 1..classes).map(move |j| (i, j)))
            .collect();
        let mut weights = vec![];
        for (vector, &owner) in owners.iter().enumerate() {
            weights.extend(list.iter().map(|&(i, j)| match owner {
                _ if owner == i => coefficients[(j - 1) * vectors + vector],
                _ if owner == j => coefficients[i * vectors + vector],
                _ => 0.0,
            }));
        }
        Ok(Self {
            list,
            weights,
            vectors,
        })
    }

    /// The number of votes for each class, `[rows, classes]`: a positive score is one for the first
    /// class of its pair.
    fn votes(&self, cx: &mut NodeCx, scores: Value, classes: usize) -> Result<Value> {
        let mut gain = vec![0.0f32; self.list.len() * classes];
        let mut start = vec![0.0f32; classes];
        for (pair, &(i, j)) in self.list.iter().enumerate() {
            gain[pair * classes + i] = 1.0;
            gain[pair * classes + j] = -1.0;
            start[j] += 1.0;
        }
        let won = cx.compare_to(CompareOp::Gt, scores, 0.0)?;
        let won = cx.cast(won, DType::F32)?;
        let gain = Tensor::from_slice(vec![self.list.len(), classes], &gain);
        let gain = cx.b.constant(gain);
        let votes = cx.matmul(won, gain)?;
        let start = cx.b.constant(Tensor::vector(&start));
        cx.add(votes, start)
    }

    /// The probabilities of the first classes: logistic functions of the scores.
    fn probabilities(&self, cx: &mut NodeCx, scores: Value) -> Result<Value> {
        let count = self.list.len();
        let (a, b) = (
            at_least(cx, "prob_a", count)?,
            at_least(cx, "prob_b", count)?,
        );
        let (a, b) = (
            cx.b.constant(Tensor::vector(a)),
            cx.b.constant(Tensor::vector(b)),
        );
        let sum = cx.mul(scores, a)?;
        let sum = cx.add(sum, b)?;
        let logistic = cx.unary(UnaryOp::Sigmoid, sum)?;
        let one = cx.scalar_like(logistic, 1.0)?;
        let first = cx.sub(one, logistic)?;
        let (low, high) = (cx.real_like(first, 1e-7)?, cx.real_like(first, 1.0 - 1e-7)?);
        let first = cx.max(first, low)?;
        cx.min(first, high)
    }
}

/// The kernel function of each row and each of `n` support vectors: `f32[rows, n]`.
fn kernels(cx: &mut NodeCx, x: Value, n: usize) -> Result<Value> {
    let vectors = floats(cx, "support_vectors")?;
    let parameters = cx.floats("kernel_params").unwrap_or_default();
    let parameter = |i: usize| parameters.get(i).map_or(0.0, |p| f64::from(*p));
    let (gamma, coef0, degree) = (parameter(0), parameter(1), parameter(2));
    let kind = cx.str_or("kernel_type", "LINEAR")?;
    if kind == "RBF" {
        let width = vectors.len() / n;
        if width * n != vectors.len() {
            return invalid(format!("{} numbers for {n} support vectors", vectors.len()));
        }
        let vectors = cx.b.constant(Tensor::from_slice(vec![n, width], vectors));
        let x = cx.unsqueeze(x, &[1])?;
        let difference = cx.sub(x, vectors)?;
        let square = cx.mul(difference, difference)?;
        let distance = cx.reduce(ReduceOp::Sum, square, &[2], false)?;
        let exponent = cx.scale(distance, -gamma)?;
        return cx.exp(exponent);
    }
    let dots = product(cx, x, vectors, n)?;
    if kind == "LINEAR" {
        return Ok(dots);
    }
    let scaled = cx.scale(dots, gamma)?;
    let y = cx.shift(scaled, coef0)?;
    match kind {
        "POLY" if degree == 2.0 => cx.mul(y, y),
        "POLY" if degree == 3.0 => {
            let square = cx.mul(y, y)?;
            cx.mul(square, y)
        }
        "POLY" => {
            let degree = cx.real_like(y, degree)?;
            cx.binary(BinaryOp::Pow, y, degree)
        }
        "SIGMOID" => cx.unary(UnaryOp::Tanh, y),
        other => invalid(format!("kernel_type is `{other}`")),
    }
}

/// The products of rows with the rows of a matrix of `n` rows.
fn product(cx: &mut NodeCx, x: Value, matrix: &[f32], n: usize) -> Result<Value> {
    let width = matrix.len() / n;
    if width == 0 || width * n != matrix.len() {
        return invalid(format!("{} numbers in {n} rows", matrix.len()));
    }
    let matrix = cx.b.constant(Tensor::from_slice(vec![n, width], matrix));
    let matrix = cx.transpose(matrix, &[1, 0])?;
    cx.matmul(x, matrix)
}

fn features(cx: &mut NodeCx) -> Result<Value> {
    let x = cx.input(0)?;
    let x = rows(cx, x)?;
    cx.cast(x, DType::F32)
}

fn floats<'a>(cx: &NodeCx<'a>, name: &str) -> Result<&'a [f32]> {
    required(cx.floats(name).filter(|l| !l.is_empty()), name)
}

fn first(cx: &NodeCx, name: &str) -> Result<f32> {
    Ok(floats(cx, name)?[0])
}

/// The first `n` numbers of a list.
fn at_least<'a>(cx: &NodeCx<'a>, name: &str, n: usize) -> Result<&'a [f32]> {
    let list = cx.floats(name).unwrap_or_default();
    let short = || OpError::Invalid(format!("{name} has {} numbers, not {n}", list.len()));
    list.get(..n).ok_or_else(short)
}
