//! Sizes of axes as expressions over the launch's named sizes.

use heddle_ir::dim::Atom;
use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, DimExpr, Type};

use super::{Lowerer, Result};
use crate::expr::ExprId;
use crate::program::{LocalData, LocalKind};

impl Lowerer<'_> {
    /// The size of each axis of a tensor type.
    pub(super) fn shape_of(&mut self, ty: &Type) -> Result<Vec<ExprId>> {
        let Some(shape) = ty.as_tensor().and_then(|t| t.shape.as_ref()) else {
            return self.fail(&format!("{ty} has no known rank"));
        };
        shape.iter().map(|d| self.size(d)).collect()
    }

    /// A size.
    pub(super) fn size(&mut self, dim: &Dim) -> Result<ExprId> {
        match dim {
            Dim::Expr(e) => self.size_expr(e),
            Dim::Unknown(_) => self.fail("a size is known only while it runs"),
        }
    }

    /// Makes a named size of the launch known.
    pub(super) fn named_size(&mut self, name: &str) {
        if self.sizes.contains_key(name) {
            return;
        }
        let data = LocalData {
            dtype: DType::I64,
            kind: LocalKind::Size,
            name: name.into(),
        };
        let local = self.program.locals.push(data);
        let size = self.program.pool.local(local);
        self.sizes.insert(name.into(), size);
        self.program.sizes.push((name.into(), local));
    }

    fn size_expr(&mut self, e: &DimExpr) -> Result<ExprId> {
        let mut sum = self.program.pool.int(0);
        for (atoms, coefficient) in e.terms() {
            let mut term = self.program.pool.int(coefficient);
            for atom in atoms {
                let factor = self.atom(atom)?;
                term = self.program.pool.product(term, factor);
            }
            sum = self.program.pool.sum(sum, term);
        }
        Ok(sum)
    }

    fn atom(&mut self, atom: &Atom) -> Result<ExprId> {
        let (op, pair) = match atom {
            Atom::Sym(name) => {
                let Some(&size) = self.sizes.get(name.as_ref()) else {
                    return self.fail(&format!("the size {name} is no input's"));
                };
                return Ok(size);
            }
            Atom::FloorDiv(p) => (BinaryOp::Div, p),
            Atom::Max(p) => (BinaryOp::Max, p),
            Atom::Min(p) => (BinaryOp::Min, p),
        };
        let (mut a, b) = (self.size_expr(&pair.0)?, self.size_expr(&pair.1)?);
        let pool = &mut self.program.pool;
        if op == BinaryOp::Div {
            // Rounding down, also where the dividend is negative: less the remainder, division is exact.
            let rest = pool.binary(BinaryOp::Mod, DType::I64, a, b);
            a = pool.binary(BinaryOp::Sub, DType::I64, a, rest);
        }
        Ok(pool.binary(op, DType::I64, a, b))
    }
}
