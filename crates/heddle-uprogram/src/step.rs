//! How far an expression moves along an axis: what loops are merged by, and along which of them code is vectorised.

use crate::expr::{Expr, ExprId};
use crate::program::{Local, UProgram};
use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

/// What one place along an axis adds to an offset: a constant times sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    constant: i64,
    sizes: Vec<ExprId>,
}

impl Step {
    /// None at all.
    pub const STILL: Step = Step::by(0);

    /// So many elements.
    pub const fn by(constant: i64) -> Step {
        Step {
            constant,
            sizes: vec![],
        }
    }

    /// So many elements as a size says.
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

    /// The step of an `i64` along an axis, where it is the same at all places.
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

    /// The number, if it is known.
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

/// The offsets of all elements that an expression loads; `None` if it refers to one of these axes in another way, too.
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
