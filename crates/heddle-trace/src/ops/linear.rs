//! Products of matrices.

use heddle_ir::{DType, Emit, Value};

use super::Table;
use super::args::Number;
use super::cx::NodeCx;
use crate::error::Result;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("addbmm", |cx| {
        let product = batched(cx, 1)?;
        let sum = cx.reduce(heddle_ir::op::ReduceOp::Sum, product, &[0], false)?;
        weighted(cx, sum)
    }),
    ("addmm", |cx| {
        let (a, b) = (cx.value(1, "mat1")?, cx.value(2, "mat2")?);
        let product = product(cx, a, b)?;
        weighted(cx, product)
    }),
    ("addmv", |cx| {
        let (a, b) = (cx.value(1, "mat")?, cx.value(2, "vec")?);
        let product = product(cx, a, b)?;
        weighted(cx, product)
    }),
    ("baddbmm", |cx| {
        let product = batched(cx, 1)?;
        weighted(cx, product)
    }),
    ("bmm", |cx| two(cx, "mat2")),
    ("dot", |cx| two(cx, "tensor")),
    ("linear", linear),
    ("matmul", |cx| two(cx, "other")),
    ("mm", |cx| two(cx, "mat2")),
    ("mv", |cx| two(cx, "vec")),
    ("outer", outer),
];

/// The product of matrices of integers, too; truth values are `and` and `or`.
fn product(cx: &mut NodeCx, a: Value, b: Value) -> Result<Value> {
    if cx.dtype(a)? != DType::Bool {
        return cx.matmul(a, b);
    }
    let (a, b) = (cx.cast(a, DType::I32)?, cx.cast(b, DType::I32)?);
    let y = cx.matmul(a, b)?;
    cx.cast(y, DType::Bool)
}

fn two(cx: &mut NodeCx, name: &str) -> Result<Vec<Value>> {
    let (a, b) = (cx.value(0, "self")?, cx.value(1, name)?);
    Ok(vec![product(cx, a, b)?])
}

fn batched(cx: &mut NodeCx, i: usize) -> Result<Value> {
    let (a, b) = (cx.value(i, "batch1")?, cx.value(i + 1, "batch2")?);
    product(cx, a, b)
}

/// `beta * self + alpha * product`. With `beta` 0 the first operand does not count, not even NaN.
fn weighted(cx: &mut NodeCx, product: Value) -> Result<Vec<Value>> {
    let dtype = cx.dtype(product)?;
    let mut sum = product;
    if let Some(alpha) = factor(cx, "alpha")? {
        let alpha = cx.scalar(alpha, dtype)?;
        sum = cx.mul(sum, alpha)?;
    }
    let x = cx.value(0, "self")?;
    let x = cx.cast(x, dtype)?;
    match factor(cx, "beta")? {
        Some(Number::Int(0)) => return Ok(vec![sum]),
        Some(Number::Float(0.0)) => return Ok(vec![sum]),
        Some(beta) => {
            let beta = cx.scalar(beta, dtype)?;
            let x = cx.mul(x, beta)?;
            sum = cx.add(sum, x)?;
        }
        None => sum = cx.add(sum, x)?,
    }
    Ok(vec![sum])
}

/// A factor other than 1.
fn factor(cx: &mut NodeCx, name: &str) -> Result<Option<Number>> {
    let factor = cx.number(usize::MAX, name)?;
    let is_one =
        matches!(factor, Some(Number::Int(1))) || matches!(factor, Some(Number::Float(1.0)));
    Ok(factor.filter(|_| !is_one))
}

fn linear(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, weight) = (cx.value(0, "input")?, cx.value(1, "weight")?);
    let weight = match cx.rank(weight)? {
        2 => cx.swap(weight, 0, 1)?,
        _ => weight,
    };
    let mut y = cx.matmul(x, weight)?;
    if let Some(bias) = cx.opt_value(2, "bias")? {
        y = cx.add(y, bias)?;
    }
    Ok(vec![y])
}

fn outer(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b) = (cx.value(0, "self")?, cx.value(1, "vec2")?);
    let a = cx.unsqueeze(a, &[1])?;
    Ok(vec![cx.mul(a, b)?])
}
