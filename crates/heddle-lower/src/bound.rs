//! Upper bounds of dynamic sizes, from which memory is planned before the run. An array with a size
//! that has none lies in a segment, which grows while the program runs.

use std::collections::HashMap;

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use super::Lowerer;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Local, LocalKind, Stmt};

/// Upper bounds of sizes in variables, where they have one. All are sizes: never negative.
pub type Bounds = HashMap<Local, Option<ExprId>>;

/// No array is as long as this.
const END: i64 = 1 << 47;

impl Lowerer<'_> {
    /// A per-unit variable that holds a dynamic size, of at most `bound` if given.
    pub(super) fn sized(&mut self, size: ExprId, bound: Option<ExprId>) -> ExprId {
        let local = self.variable(DType::I64, "size");
        self.block.push(Stmt::Let(local, size));
        // Bounds are transitive.
        let bound = bound.and_then(|bound| self.upper_bound(bound));
        self.bounds.insert(local, bound);
        self.program.pool.local(local)
    }

    /// True if the expression depends on launch parameters only.
    pub(super) fn is_of_launch(&self, expr: ExprId) -> bool {
        let mut all = true;
        self.program.pool.walk(expr, &mut |_, e| {
            all &= match e {
                Expr::Load(..) => false,
                Expr::Local(l) => self.program.locals[l].kind == LocalKind::Size,
                _ => true,
            };
        });
        all
    }

    /// An upper bound of a size in terms of launch parameters.
    pub(super) fn upper_bound(&mut self, size: ExprId) -> Option<ExprId> {
        // Slices to the end have the largest number as their limit. It bounds nothing, and a sum with
        // it would wrap.
        if self.program.pool.as_int(size).is_some_and(|n| n >= END) {
            return None;
        }
        if self.is_of_launch(size) {
            return Some(size);
        }
        match self.program.pool[size] {
            Expr::Local(l) => self.bounds.get(&l).copied().flatten(),
            Expr::Binary(op, DType::I64, a, b) => self.bound_of_binary(op, a, b),
            Expr::Select(DType::I64, _, a, b) => {
                let (a, b) = (self.upper_bound(a)?, self.upper_bound(b)?);
                Some(self.program.pool.binary(BinaryOp::Max, DType::I64, a, b))
            }
            Expr::Cast(from, DType::I64, a) if from.is_int() => self.upper_bound(a),
            _ => None,
        }
    }

    fn bound_of_binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> Option<ExprId> {
        let known = self.program.pool.as_int(b);
        match op {
            BinaryOp::Add | BinaryOp::Max => {
                let (a, b) = (self.upper_bound(a)?, self.upper_bound(b)?);
                Some(self.program.pool.binary(op, DType::I64, a, b))
            }
            // Each operand is an upper bound of a minimum.
            BinaryOp::Min => match (self.upper_bound(a), self.upper_bound(b)) {
                (Some(a), Some(b)) => Some(self.program.pool.binary(op, DType::I64, a, b)),
                (a, b) => a.or(b),
            },
            BinaryOp::Mul if self.is_size(a) && self.is_size(b) => {
                let (a, b) = (self.upper_bound(a)?, self.upper_bound(b)?);
                Some(self.program.pool.product(a, b))
            }
            BinaryOp::Sub if self.is_of_launch(b) => {
                let a = self.upper_bound(a)?;
                Some(self.program.pool.difference(a, b))
            }
            BinaryOp::Sub if self.is_size(b) => self.upper_bound(a),
            BinaryOp::Div if known.is_some_and(|n| n > 0) => {
                let a = self.upper_bound(a)?;
                Some(self.program.pool.binary(op, DType::I64, a, b))
            }
            _ => None,
        }
    }

    /// True if it is provably not negative.
    pub(super) fn is_size(&self, expr: ExprId) -> bool {
        match self.program.pool[expr] {
            Expr::Num(DType::I64, bits) => bits as i64 >= 0,
            Expr::Local(l) => {
                self.bounds.contains_key(&l) || self.sizes.values().any(|&s| s == expr)
            }
            Expr::Binary(BinaryOp::Add | BinaryOp::Mul | BinaryOp::Min, _, a, b) => {
                self.is_size(a) && self.is_size(b)
            }
            Expr::Binary(BinaryOp::Max, _, a, b) => self.is_size(a) || self.is_size(b),
            Expr::Binary(BinaryOp::Div, _, a, b) => {
                self.is_size(a) && self.program.pool.as_int(b).is_some_and(|n| n > 0)
            }
            Expr::Select(_, _, a, b) => self.is_size(a) && self.is_size(b),
            _ => false,
        }
    }
}
