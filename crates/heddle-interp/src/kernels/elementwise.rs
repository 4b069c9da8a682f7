//! Elementwise ops. Operands are broadcast to the result's shape; [`super::number`] defines each
//! op.

use std::sync::Arc;

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};

use super::cast;
use super::movement::broadcast_to;
use super::number::Scalar;
use super::walk::broadcast_shape;
use crate::context::{Context, PART};
use crate::error::Fault;
use crate::value::{Array, Buf, Elem, with_any, with_scalar};

/// One operand.
pub fn unary(cx: &Context, op: UnaryOp, x: &Array) -> Result<Array, Fault> {
    if matches!(op, UnaryOp::IsNan | UnaryOp::IsInf) {
        return predicate(cx, op, x);
    }
    let unsupported = || Fault::dtype(op.name(), x.dtype);
    with_scalar!(x.data, data => {
        let mut out = cx.vec(data.len())?;
        for part in data.chunks(PART) {
            cx.tick(8 * part.len())?;
            if !Scalar::unary(op, part, &mut out) {
                return Err(unsupported());
            }
        }
        cx.array(x.dtype, x.shape.clone(), out)
    }, else Err(unsupported()))
}

/// `is_nan` and `is_inf`, which 8-bit floats have, too.
fn predicate(cx: &Context, op: UnaryOp, x: &Array) -> Result<Array, Fault> {
    if !x.dtype.is_float() && !x.dtype.is_small_float() {
        return Err(Fault::dtype(op.name(), x.dtype));
    }
    let wide = cast::cast_plain(cx, x, DType::F64)?;
    let holds = match op {
        UnaryOp::IsNan => f64::is_nan,
        _ => f64::is_infinite,
    };
    let mut out = cx.vec(wide.len())?;
    out.extend(wide.data::<f64>()?.iter().map(|&v| holds(v)));
    cx.array(DType::Bool, x.shape.clone(), out)
}

/// Two operands of one type.
pub fn binary(cx: &Context, op: BinaryOp, a: &Array, b: &Array) -> Result<Array, Fault> {
    let shape = broadcast_shape(&[&a.shape, &b.shape])?;
    let [x, y] = [broadcast_to(cx, a, &shape)?, broadcast_to(cx, b, &shape)?];
    let unsupported = || Fault::dtype(op.name(), a.dtype);
    with_scalar!(x.data, x => {
        let mut out = cx.vec(x.len())?;
        for (x, y) in x.chunks(PART).zip(y.data()?.chunks(PART)) {
            cx.tick(x.len())?;
            if !Scalar::binary(op, x, y, &mut out) {
                return Err(unsupported());
            }
        }
        cx.array(a.dtype, shape, out)
    }, else Err(unsupported()))
}

/// Compares two operands of one type.
pub fn compare(cx: &Context, op: CompareOp, a: &Array, b: &Array) -> Result<Array, Fault> {
    fn pairs<T: Elem + PartialOrd>(
        cx: &Context,
        op: CompareOp,
        x: &[T],
        y: &[T],
    ) -> Result<Vec<bool>, Fault> {
        let mut out = cx.vec(x.len())?;
        let pairs = x.iter().zip(y);
        match op {
            CompareOp::Eq => out.extend(pairs.map(|(x, y)| x == y)),
            CompareOp::Ne => out.extend(pairs.map(|(x, y)| x != y)),
            CompareOp::Lt => out.extend(pairs.map(|(x, y)| x < y)),
            CompareOp::Le => out.extend(pairs.map(|(x, y)| x <= y)),
            CompareOp::Gt => out.extend(pairs.map(|(x, y)| x > y)),
            CompareOp::Ge => out.extend(pairs.map(|(x, y)| x >= y)),
        }
        Ok(out)
    }
    let shape = broadcast_shape(&[&a.shape, &b.shape])?;
    let [x, y] = [broadcast_to(cx, a, &shape)?, broadcast_to(cx, b, &shape)?];
    cx.tick(x.len())?;
    let out = match &x.data {
        Buf::Str(_) => pairs(cx, op, x.data::<Arc<str>>()?, y.data()?)?,
        data => with_scalar!(*data, x => pairs(cx, op, x, y.data()?)?,
            else return Err(Fault::dtype(op.name(), a.dtype))),
    };
    cx.array(DType::Bool, shape, out)
}

/// `a` where the condition holds, else `b` (ONNX Where 9).
pub fn select(cx: &Context, cond: &Array, a: &Array, b: &Array) -> Result<Array, Fault> {
    fn typed<T: Elem>(cx: &Context, cond: &[bool], x: &[T], y: &[T]) -> Result<Vec<T>, Fault> {
        let mut out = cx.vec(cond.len())?;
        let each = cond.iter().zip(x.iter().zip(y));
        out.extend(each.map(|(&c, (x, y))| if c { x } else { y }.clone()));
        Ok(out)
    }
    let shape = broadcast_shape(&[&cond.shape, &a.shape, &b.shape])?;
    let cond = broadcast_to(cx, cond, &shape)?;
    let [x, y] = [broadcast_to(cx, a, &shape)?, broadcast_to(cx, b, &shape)?];
    cx.tick(cond.len())?;
    with_any!(x.data, x => {
        let out = typed(cx, cond.data()?, x, y.data()?)?;
        cx.array(a.dtype, shape, out)
    })
}
