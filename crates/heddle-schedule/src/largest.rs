//! Bounds of indices.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp};

use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{LocalKind, Operator, UProgram};

/// The largest value of an index, if it is never negative.
pub(crate) fn most(program: &UProgram, op: &Operator, index: ExprId) -> Option<i64> {
    let pool = &program.pool;
    let of = |e| most(program, op, e);
    match pool[index] {
        Expr::Num(DType::I64, bits) => Some(bits as i64).filter(|n| *n >= 0),
        Expr::Local(local) if program.locals[local].kind == LocalKind::Axis => {
            let mut axes = op.axes.iter().chain(op.body.axes());
            let size = axes.find(|a| a.0 == local)?.1;
            pool.as_int(size).map(|n| (n - 1).max(0))
        }
        Expr::Binary(BinaryOp::Add, DType::I64, a, b) => of(a)?.checked_add(of(b)?),
        Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => of(a)?.checked_mul(of(b)?),
        Expr::Binary(BinaryOp::Div, DType::I64, a, b) => {
            let by = pool.as_int(b).filter(|by| *by > 0)?;
            Some(of(a)? / by)
        }
        Expr::Binary(BinaryOp::Mod, DType::I64, _, b) => {
            pool.as_int(b).filter(|by| *by > 0).map(|by| by - 1)
        }
        Expr::Index(_, size) => pool.as_int(size).map(|n| (n - 1).max(0)),
        Expr::Select(DType::I64, cond, a, b) => {
            let bounds = [of(a), most_if(program, cond, a)];
            let chosen = bounds.into_iter().flatten().min()?;
            Some(chosen.max(of(b)?))
        }
        _ => None,
    }
}

/// The largest value of an index where a condition holds, which says that it is not negative.
fn most_if(program: &UProgram, cond: ExprId, index: ExprId) -> Option<i64> {
    let pool = &program.pool;
    let (mut open, mut from, mut to) = (vec![cond], false, None);
    while let Some(id) = open.pop() {
        match pool[id] {
            Expr::Binary(BinaryOp::And, DType::Bool, a, b) => open.extend([a, b]),
            Expr::Compare(op, DType::I64, a, b) if a == index => match (op, pool.as_int(b)) {
                (CompareOp::Ge, Some(0)) => from = true,
                (CompareOp::Lt, Some(size)) => to = Some(size - 1),
                _ => {}
            },
            _ => {}
        }
    }
    to.filter(|_| from)
}
