//! Results of branches whose arms may yield arrays of different sizes.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, Type, Value};

use super::branch::Carried;
use super::wanted::is_open;
use super::{Cause, Lowerer, Result};
use crate::value::Val;
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Buffer, BufferKind, Stmt};

impl Lowerer<'_> {
    /// True if a value's type has dynamic sizes.
    pub(super) fn is_open(&self, value: Value) -> bool {
        is_open(self.f, value)
    }

    /// The place of a result with dynamic sizes, which the arms determine.
    pub(super) fn open_result(&mut self, value: Value) -> Result<(Carried, Val)> {
        let Type::Tensor(t) = self.f.ty(value) else {
            return self.fail(Cause::Container("gives"));
        };
        let (dtype, none) = (t.dtype, self.program.pool.int(0));
        let name = self.name.clone();
        let buffer = self.buffer(dtype, &[none], BufferKind::Scratch, &name)?;
        let val = Val::Stored {
            buffer,
            dtype,
            shape: vec![none],
        };
        Ok((Carried::Cell(buffer), val))
    }

    /// States for the operators of an arm that write a result what they need.
    fn grow_in(&mut self, arm: &mut Vec<Stmt>, buffer: Buffer, shape: &[ExprId]) {
        let outside = std::mem::take(&mut self.block);
        let len = self.length(shape);
        let lets = std::mem::replace(&mut self.block, outside);
        let writes = |stmt: &Stmt| match stmt {
            Stmt::Run(id) if self.program.operators[*id].body.store().buffer == buffer => Some(*id),
            _ => None,
        };
        let Some((place, id)) = (0..arm.len()).find_map(|k| Some((k, writes(&arm[k])?))) else {
            return;
        };
        self.program.operators[id].grow = Some(len);
        arm.splice(place..place, lets);
    }

    /// A result with dynamic sizes after the arms, which yielded these shapes. A size that differs
    /// is a choice of launch values if possible, otherwise a variable that the arms assign; memory
    /// then has the larger bound.
    pub(super) fn joined(
        &mut self,
        value: Value,
        result: &Val,
        cond: ExprId,
        sides: [Vec<ExprId>; 2],
        arms: &mut [Vec<Stmt>],
    ) -> Result<Val> {
        let Val::Stored { buffer, dtype, .. } = *result else {
            return self.fail(Cause::Form("a result of a branch has no place"));
        };
        let [then, otherwise] = &sides;
        if then.len() != otherwise.len() {
            return self.fail(Cause::Branches);
        }
        let dims = self.f.ty(value).as_tensor().and_then(|t| t.shape.clone());
        let (mut shape, mut most) = (vec![], vec![]);
        for (k, (&a, &b)) in then.iter().zip(otherwise).enumerate() {
            let known = [cond, a, b].iter().all(|&e| self.is_of_launch(e));
            let size = match () {
                _ if a == b => a,
                _ if known => {
                    let size = self.program.pool.select(DType::I64, cond, a, b);
                    self.settle_expr(DType::I64, size)
                }
                _ => {
                    let stated = match dims.as_ref().map(|d| &d[k]) {
                        Some(Dim::Unknown(Some(n))) => i64::try_from(*n).ok(),
                        _ => None,
                    };
                    let bounds = (self.upper_bound(a), self.upper_bound(b), stated);
                    let bound = match bounds {
                        (.., Some(stated)) => Some(self.program.pool.int(stated)),
                        (Some(a), Some(b), _) => {
                            Some(self.program.pool.binary(BinaryOp::Max, DType::I64, a, b))
                        }
                        _ => None,
                    };
                    let local = self.variable(DType::I64, "size");
                    self.bounds.insert(local, bound);
                    for (arm, size) in arms.iter_mut().zip([a, b]) {
                        arm.push(Stmt::Let(local, size));
                    }
                    self.program.pool.local(local)
                }
            };
            most.push(self.upper_bound(size));
            shape.push(size);
        }
        match most.into_iter().collect::<Option<Vec<_>>>() {
            Some(most) => {
                self.program.buffers[buffer].len = self.program.pool.product_of(&most);
            }
            None => {
                self.make_segment(buffer);
                for (arm, shape) in arms.iter_mut().zip(&sides) {
                    self.grow_in(arm, buffer, shape);
                }
            }
        }
        Ok(Val::Stored {
            buffer,
            dtype,
            shape,
        })
    }
}
