//! Strides of expressions along axes, by which loops are merged and vectorised.

use crate::expr::{Expr, ExprId};
use crate::program::{Local, UProgram};
use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

/// The stride of an offset along an axis: a constant times sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    constant: i64,
    sizes: Vec<ExprId>,
}

impl Step {
    /// Stride 0.
    pub const STILL: Step = Step::by(0);

    /// A constant stride.
    pub const fn by(constant: i64) -> Step {
        Step {
            constant,
            sizes: vec![],
        }
    }

    /// A size as a stride.
    pub fn size(program: &UProgram, size: ExprId) -> Option<Step> {
        match program.pool[size] {
            Expr::Num(DType::I64, bits) => Some(Step::by(bits as i64)),
            Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
                Step::size(program, a)?.times(&Step::size(program, b)?)
            }
            _ => Some(Step {
                constant: 1,
                sizes: vec![size],
            }),
        }
    }

    /// The stride of an `i64` expression along an axis, if it is uniform.
    pub fn of(program: &UProgram, expr: ExprId, axis: Local) -> Option<Step> {
        match program.pool[expr] {
            Expr::Local(local) if local == axis => Some(Step::by(1)),
            Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), DType::I64, a, b) => {
                let sign = if op == BinaryOp::Add { 1 } else { -1 };
                Step::of(program, a, axis)?.plus(sign, &Step::of(program, b, axis)?)
            }
            Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
                let steps = (Step::of(program, a, axis)?, Step::of(program, b, axis)?);
                match steps {
                    (a, b) if a == Step::STILL && b == Step::STILL => Some(a),
                    (step, still) if still == Step::STILL => step.times(&Step::size(program, b)?),
                    (still, step) if still == Step::STILL => step.times(&Step::size(program, a)?),
                    _ => None,
                }
            }
            _ => (!program.locals_of(expr).contains(&axis)).then_some(Step::STILL),
        }
    }

    /// The stride, if static.
    pub fn as_int(&self) -> Option<i64> {
        self.sizes.is_empty().then_some(self.constant)
    }

    /// The product.
    pub fn times(&self, other: &Step) -> Option<Step> {
        let constant = self.constant.checked_mul(other.constant)?;
        if constant == 0 {
            return Some(Step::STILL);
        }
        let mut sizes = [self.sizes.as_slice(), &other.sizes].concat();
        sizes.sort_unstable();
        Some(Step { constant, sizes })
    }

    fn plus(self, sign: i64, other: &Step) -> Option<Step> {
        let constant = other.constant.checked_mul(sign)?;
        if *other == Step::STILL {
            return Some(self);
        }
        if self == Step::STILL || self.sizes == other.sizes {
            let constant = self.constant.checked_add(constant)?;
            return Step::by(constant).times(&Step {
                constant: 1,
                sizes: other.sizes.clone(),
            });
        }
        None
    }
}

/// The offset where all variables are 0; `None` if more than sums, differences and products of them and numbers decide it.
pub fn origin(program: &UProgram, offset: ExprId) -> Option<i64> {
    match program.pool[offset] {
        Expr::Local(_) => Some(0),
        Expr::Num(..) => program.pool.as_int(offset),
        Expr::Binary(op, _, a, b) => {
            let (a, b) = (origin(program, a)?, origin(program, b)?);
            match op {
                BinaryOp::Add => a.checked_add(b),
                BinaryOp::Sub => a.checked_sub(b),
                BinaryOp::Mul => a.checked_mul(b),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The offsets of all loads in an expression; `None` if it uses one of these axes outside of
/// offsets.
pub fn offsets(program: &UProgram, expr: ExprId, axes: &[Local]) -> Option<Vec<ExprId>> {
    let mut seen = std::collections::HashSet::new();
    let mut open = vec![expr];
    let mut offsets = vec![];
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        match program.pool[id] {
            Expr::Local(local) if axes.contains(&local) => return None,
            Expr::Load(_, offset) => offsets.push(offset),
            other => open.extend(other.operands()),
        }
    }
    Some(offsets)
}
