//! Types of expressions.

use heddle_ir::{DType, Entity};

use super::program::{Checked, Fault, ProgramError, computable, exists, same};
use crate::expr::{Expr, ExprId};
use crate::program::UProgram;

/// Checks each expression of the pool; operands are checked before their users.
pub(super) fn verify_pool(program: &UProgram) -> Result<(), ProgramError> {
    for k in 0..program.pool.len() {
        let id = ExprId::new(k);
        self::expr(program, id).map_err(|fault| ProgramError {
            item: shown(program.pool[id]),
            fault,
        })?;
    }
    for (_, local) in program.locals.iter() {
        computable(local.dtype).map_err(|fault| ProgramError {
            item: format!("%{}", local.name),
            fault,
        })?;
    }
    Ok(())
}

/// An expression's name in messages.
fn shown(expr: Expr) -> String {
    format!("expression {expr:?}")
}

fn expr(program: &UProgram, id: ExprId) -> Checked {
    let expr = program.pool[id];
    if let Some(later) = expr.operands().find(|o| o.index() >= id.index()) {
        return Err(Fault::Order(format!("{later:?}")));
    }
    let is = |what, e, wanted| same(what, program.type_of(e), wanted);
    match expr {
        Expr::Num(dtype, bits) => {
            computable(dtype)?;
            match dtype.bits() < 64 && bits >> dtype.bits() != 0 {
                true => Err(Fault::Bits(dtype)),
                false => Ok(()),
            }
        }
        Expr::Local(local) => exists(program.locals.len(), local, "l"),
        Expr::Load(buffer, offset) => {
            exists(program.buffers.len(), buffer, "b")?;
            is("an offset", offset, DType::I64)
        }
        Expr::Unary(_, dtype, a) => {
            computable(dtype)?;
            is("an operand", a, dtype)
        }
        Expr::Binary(_, dtype, a, b) | Expr::Compare(_, dtype, a, b) => {
            computable(dtype)?;
            is("an operand", a, dtype)?;
            is("an operand", b, dtype)
        }
        Expr::Select(dtype, cond, a, b) => {
            is("a condition", cond, DType::Bool)?;
            is("a choice", a, dtype)?;
            is("a choice", b, dtype)
        }
        Expr::Cast(from, to, a) => {
            computable(to)?;
            is("an operand", a, from)
        }
        Expr::Bits(from, to, a) => {
            computable(to)?;
            match from.bits() == to.bits() {
                true => is("an operand", a, from),
                false => Err(Fault::Rule("its types have different widths")),
            }
        }
        Expr::Narrow(narrow, a) => match narrow.to.is_small_float() {
            true => is("an operand", a, DType::F64),
            false => Err(Fault::NoType(narrow.to)),
        },
        Expr::Index(index, size) => {
            is("an index", index, DType::I64)?;
            is("a size", size, DType::I64)
        }
    }
}
