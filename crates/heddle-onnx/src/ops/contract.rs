//! Matrix products, and determinants.

use heddle_ir::op::{CompareOp, UnaryOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::cx::{NodeCx, Result, Table, invalid};

pub(super) const OPS: Table = &[("MatMul", matmul), ("Gemm", gemm), ("Det", det)];

fn matmul(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    Ok(vec![cx.matmul(a, b)?])
}

/// `alpha * A' * B' + beta * C`
pub(super) fn gemm(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let mut operands = [cx.input(0)?, cx.input(1)?];
    for (x, name) in operands.iter_mut().zip(["transA", "transB"]) {
        if cx.rank(*x)? != 2 {
            return invalid("A and B must be matrices");
        }
        if cx.flag(name, false) {
            *x = cx.transpose(*x, &[1, 0])?;
        }
    }
    let product = cx.matmul(operands[0], operands[1])?;
    let mut y = scaled(cx, product, "alpha")?;
    if let Some(c) = cx.opt(2) {
        let c = scaled(cx, c, "beta")?;
        y = cx.add(y, c)?;
    }
    Ok(vec![y])
}

/// Times a float attribute; for integers rounded toward zero.
fn scaled(cx: &mut NodeCx, x: Value, name: &str) -> Result<Value> {
    let factor = f64::from(cx.float_or(name, 1.0));
    let dtype = cx.dtype(x)?;
    if factor == 1.0 {
        return Ok(x);
    }
    if dtype.is_float() || factor.fract() == 0.0 {
        return cx.scale(x, factor);
    }
    let wide = cx.cast(x, DType::F64)?;
    let wide = cx.scale(wide, factor)?;
    cx.cast(wide, dtype)
}

/// The product of the pivots of Gaussian elimination with row exchange, one column an iteration,
/// all matrices at once.
fn det(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let rank = cx.rank(x)?;
    if rank < 2 {
        return invalid("square matrices are needed");
    }
    let dtype = cx.dtype(x)?;
    let wide = cx.widen(x)?;
    let n = cx.size_of(x, rank - 1)?;
    let outer: Vec<usize> = (0..rank - 2).collect();
    let batch = cx.count(x, &outer)?;
    let rows = cx.size_of(x, rank - 2)?;
    let sizes = cx.stack_i64s(&[batch, rows, n])?;
    let matrices = cx.reshape_to(wide, sizes)?;
    let one = cx.scalar_like(wide, 1.0)?;
    let batch = cx.stack_i64s(&[batch])?;
    let ones = cx.broadcast_to(one, batch)?;
    let results = cx.repeat(n, &[matrices, ones], |cx, k, state| {
        Ok((eliminate(cx, k, state[0], state[1])?.to_vec(), vec![]))
    })?;
    let shape = cx.shape_of(x)?;
    let outer = cx.slice(shape, 0, 0, rank as i64 - 2)?;
    let y = cx.reshape_to(results[1], outer)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// Clears column `k` below the diagonal of `a: [batch, n, n]`; multiplies `det: [batch]` by the
/// pivot.
fn eliminate(cx: &mut NodeCx, k: Value, a: Value, det: Value) -> Result<[Value; 2]> {
    let rows = cx.positions(a, 1)?;
    let rows = cx.unsqueeze(rows, &[0])?;
    let column = cx.gather(a, k, 2)?;
    let size = cx.unary(UnaryOp::Abs, column)?;
    let done = cx.compare(CompareOp::Lt, rows, k)?;
    let below_all = cx.scalar_like(a, -1.0)?;
    let size = cx.select(done, below_all, size)?;
    let pivot_row = cx.arg_max(size, 1, true)?;

    // Rows `k` and `pivot_row` change places, which changes the sign.
    let at_k = cx.compare(CompareOp::Eq, rows, k)?;
    let at_pivot = cx.compare(CompareOp::Eq, rows, pivot_row)?;
    let order = cx.select(at_pivot, k, rows)?;
    let order = cx.select(at_k, pivot_row, order)?;
    let order = cx.unsqueeze(order, &[2])?;
    let a = cx.op(Op::GatherNd { batch_dims: 1 }, &[a, order])?;
    let in_place = cx.compare(CompareOp::Eq, pivot_row, k)?;
    let in_place = cx.squeeze(in_place, &[1])?;
    let (plus, minus) = (cx.scalar_like(a, 1.0)?, cx.scalar_like(a, -1.0)?);
    let sign = cx.select(in_place, plus, minus)?;

    let column = cx.gather(a, k, 2)?;
    let pivot = cx.gather(column, k, 1)?;
    let det = cx.mul(det, sign)?;
    let det = cx.mul(det, pivot)?;

    // A pivot of zero means that the column is zero already, and so is the determinant.
    let nothing = cx.compare_to(CompareOp::Eq, pivot, 0.0)?;
    let divisor = cx.select(nothing, plus, pivot)?;
    let divisor = cx.unsqueeze(divisor, &[1])?;
    let factor = cx.div(column, divisor)?;
    let below = cx.compare(CompareOp::Gt, rows, k)?;
    let zero = cx.scalar_like(a, 0.0)?;
    let factor = cx.select(below, factor, zero)?;
    let factor = cx.unsqueeze(factor, &[2])?;
    let pivot_row = cx.gather(a, k, 1)?;
    let pivot_row = cx.unsqueeze(pivot_row, &[1])?;
    let step = cx.mul(factor, pivot_row)?;
    let a = cx.sub(a, step)?;
    Ok([a, det])
}
