//! Probabilities of classes out of those of pairs, by the second method of Wu, Lin and Weng,
//! "Probability Estimates for Multi-class Classification by Pairwise Coupling", 2004.

use heddle_ir::op::{CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Tensor, Type, Value};

use super::super::cx::{NodeCx, Result};

/// The most iterations, as in libsvm.
const ITERATIONS: i64 = 100;

/// The probabilities of `n` classes, given those of pairs `[rows, pairs]` for the first class.
pub(super) fn of_classes(
    cx: &mut NodeCx,
    first: Value,
    pairs: &[(usize, usize)],
    n: usize,
) -> Result<Value> {
    let r = of_pairs(cx, first, pairs, n)?;
    // q[i][j] = -r[j][i] r[i][j], and q[i][i] is the sum of all r[j][i]^2.
    let transposed = cx.transpose(r, &[0, 2, 1])?;
    let product = cx.mul(transposed, r)?;
    let product = cx.neg(product)?;
    let squares = cx.mul(transposed, transposed)?;
    let diagonal = cx.reduce(ReduceOp::Sum, squares, &[2], true)?;
    let classes = cx.iota(n as i64)?;
    let column = cx.unsqueeze(classes, &[1])?;
    let same = cx.compare(CompareOp::Eq, column, classes)?;
    let q = cx.select(same, diagonal, product)?;

    let start = cx.b.scalar(DType::F32, 1.0 / n as f64);
    let shape = cx.reduce(ReduceOp::Max, diagonal, &[2], false)?;
    let shape = cx.shape_of(shape)?;
    let start = cx.broadcast_to(start, shape)?;
    let tolerance = 0.005 / n as f64;
    iterate(cx, q, start, classes, tolerance)
}

/// The probabilities for all ordered pairs of classes: `[rows, n, n]` with zeros on the diagonal.
fn of_pairs(cx: &mut NodeCx, first: Value, pairs: &[(usize, usize)], n: usize) -> Result<Value> {
    let one = cx.scalar_like(first, 1.0)?;
    let second = cx.sub(one, first)?;
    let zero = cx.sub(first, first)?;
    let all = cx.concat(&[first, second, zero], 1)?;
    let mut places = vec![2 * pairs.len() as i64; n * n];
    for (pair, &(i, j)) in pairs.iter().enumerate() {
        places[i * n + j] = pair as i64;
        places[j * n + i] = (pairs.len() + pair) as i64;
    }
    let places = cx.b.constant(Tensor::from_slice(vec![n, n], &places));
    cx.gather(all, places, 1)
}

/// Improves the probabilities of all rows, class after class, until those of each row are close
/// enough; rows that are stay as they are.
fn iterate(
    cx: &mut NodeCx,
    q: Value,
    start: Value,
    classes: Value,
    tolerance: f64,
) -> Result<Value> {
    let params = [Type::scalar(DType::I64), cx.b.ty(start).clone()];
    let (_, values) = cx.b.begin_region(&params);
    let p = values[1];
    let (state, open) = errors(cx, q, p, tolerance)?;
    let count = cx.size_of(p, 1)?;
    let improved = cx.repeat(count, &[p, state.qp, state.pqp], |cx, class, carried| {
        Ok((improve(cx, q, class, classes, carried)?, vec![]))
    })?;
    let next = cx.select(open, improved[0], p)?;
    let again = cx.reduce(ReduceOp::Max, open, &[0, 1], false)?;
    let body = cx.b.end_region(&[again, next]);
    let trip = cx.b.i64(ITERATIONS);
    let yes = cx.b.scalar(DType::Bool, 1.0);
    Ok(cx.b.loop_(Some(trip), Some(yes), &[start], body)?[0])
}

/// Products that the iteration keeps up to date.
struct State {
    /// `q p`, `[rows, n]`.
    qp: Value,
    /// `p q p`, `[rows, 1]`.
    pqp: Value,
}

/// The products anew, and the mask of rows whose error is not below the tolerance, `[rows, 1]`.
fn errors(cx: &mut NodeCx, q: Value, p: Value, tolerance: f64) -> Result<(State, Value)> {
    let row = cx.unsqueeze(p, &[1])?;
    let products = cx.mul(q, row)?;
    let qp = cx.reduce(ReduceOp::Sum, products, &[2], false)?;
    let products = cx.mul(p, qp)?;
    let pqp = cx.reduce(ReduceOp::Sum, products, &[1], true)?;
    let error = cx.sub(qp, pqp)?;
    let error = cx.unary(UnaryOp::Abs, error)?;
    let error = cx.reduce(ReduceOp::Max, error, &[1], true)?;
    let close = cx.compare_to(CompareOp::Lt, error, tolerance)?;
    let open = cx.unary(UnaryOp::Not, close)?;
    Ok((State { qp, pqp }, open))
}

/// Moves the probability of one class to its optimum, and scales all to the sum of one.
fn improve(
    cx: &mut NodeCx,
    q: Value,
    class: Value,
    classes: Value,
    carried: &[Value],
) -> Result<Vec<Value>> {
    let (p, qp, pqp) = (carried[0], carried[1], carried[2]);
    let row = cx.gather(q, class, 1)?;
    let at = cx.unsqueeze(class, &[0])?;
    let (own, qp_own) = (cx.gather(row, at, 1)?, cx.gather(qp, at, 1)?);
    let difference = cx.sub(pqp, qp_own)?;
    let step = cx.div(difference, own)?;
    let is_own = cx.compare(CompareOp::Eq, classes, class)?;
    let moved = cx.add(p, step)?;
    let p = cx.select(is_own, moved, p)?;
    let sum = cx.shift(step, 1.0)?;
    // (pqp + step (step own + 2 qp_own)) / sum^2
    let inner = cx.mul(step, own)?;
    let twice = cx.scale(qp_own, 2.0)?;
    let inner = cx.add(inner, twice)?;
    let inner = cx.mul(step, inner)?;
    let pqp = cx.add(pqp, inner)?;
    let pqp = cx.div(pqp, sum)?;
    let pqp = cx.div(pqp, sum)?;
    let change = cx.mul(row, step)?;
    let qp = cx.add(qp, change)?;
    let (qp, p) = (cx.div(qp, sum)?, cx.div(p, sum)?);
    Ok(vec![p, qp, pqp])
}
