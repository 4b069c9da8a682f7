//! Finds the memory layout of operands.

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use super::Access;
use crate::expr::{Expr, ExprId, Pool};
use crate::ids::Local;

/// The layout of an operand that is a plain load at an offset affine in rows or columns and in
/// depth.
///
/// Axes that the operand does not depend on have stride 0.
pub fn strided(
    pool: &mut Pool,
    value: ExprId,
    outer: Option<Local>,
    depth: Local,
) -> Option<Access> {
    let Expr::Load(buffer, offset) = pool[value] else {
        return None;
    };
    let (depth, rest) = stride(pool, offset, depth)?;
    let (outer, base) = match outer {
        Some(local) => stride(pool, rest, local)?,
        None => (pool.int(0), rest),
    };
    Some(Access::Strided {
        buffer,
        base,
        outer,
        depth,
    })
}

/// The layout of a first operand whose rows begin anywhere and are contiguous along the depth.
pub fn rows(pool: &mut Pool, value: ExprId, depth: Local) -> Option<Access> {
    let Expr::Load(buffer, offset) = pool[value] else {
        return None;
    };
    let (step, at) = stride(pool, offset, depth)?;
    (pool.as_int(step) == Some(1)).then_some(Access::Rows { buffer, at })
}

/// Splits an expression into `stride * local + rest`, where neither part depends on `local`.
pub fn stride(pool: &mut Pool, expr: ExprId, local: Local) -> Option<(ExprId, ExprId)> {
    let zero = pool.int(0);
    let is_local = |e: Expr| e == Expr::Local(local);
    if !pool.any(expr, &is_local) {
        return Some((zero, expr));
    }
    match pool[expr] {
        Expr::Local(_) => Some((pool.int(1), zero)),
        Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), DType::I64, a, b) => {
            let (a, b) = (stride(pool, a, local)?, stride(pool, b, local)?);
            let mut join = |a, b| pool.binary(op, DType::I64, a, b);
            Some((join(a.0, b.0), join(a.1, b.1)))
        }
        Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
            let (a, factor) = match pool.any(b, &is_local) {
                false => (a, b),
                true if !pool.any(a, &is_local) => (b, a),
                true => return None,
            };
            let (by, rest) = stride(pool, a, local)?;
            Some((pool.product(by, factor), pool.product(rest, factor)))
        }
        _ => None,
    }
}
