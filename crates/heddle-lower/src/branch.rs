//! Lowers branches.
//!
//! Conditions are per-unit variables: all units compute them alike and take the same path. Both
//! arms write a result to one place.

use heddle_ir::{DType, Inst, Type};

use super::{Cause, Lowerer, Result};
use crate::value::Val;
use heddle_uprogram::program::{Buffer, Local, Stmt};

/// The place of a carried value in the body, or of a branch's result.
pub(super) enum Carried {
    /// Per-unit variables, one for each element.
    Few(Vec<Local>),
    /// A buffer.
    Cell(Buffer),
}

impl Lowerer<'_> {
    /// Lowers an `if`.
    pub(super) fn branch(&mut self, inst: Inst) -> Result<Vec<Val>> {
        let data = &self.f.insts[inst];
        let cond = self.values[&data.args[0]].clone();
        let cond = self.scalar(&cond)?;
        let cond = self.let_expr(DType::Bool, cond);
        let name = self.name.clone();
        let mut results = vec![];
        for &value in &data.results {
            results.push(match self.is_open(value) {
                true => self.open_result(value)?,
                false => self.arm_result(value)?,
            });
        }
        let (mut arms, mut shapes) = (vec![], vec![]);
        for &region in &data.regions {
            let outside = std::mem::take(&mut self.block);
            let slots = results.iter().zip(&data.results);
            for (&value, (result, &of)) in self.f.regions[region].yields.iter().zip(slots) {
                // Only values computed by the arm itself can be computed in place.
                let made = |inst| self.f.regions[region].insts.contains(&inst);
                if let Carried::Cell(buffer) = result.0
                    && !self.is_open(of)
                    && self.f.def_inst(value).is_some_and(made)
                {
                    self.places.insert(value, buffer);
                }
            }
            let yields = self.region(region)?;
            self.name.clone_from(&name);
            for (value, &of) in yields.iter().zip(&data.results) {
                self.check_stated(of, value);
            }
            for (value, (slot, _)) in yields.iter().zip(&results) {
                match slot {
                    Carried::Cell(buffer) => self.deliver(value, *buffer),
                    Carried::Few(locals) => self.set(locals, value)?,
                }
            }
            arms.push(std::mem::replace(&mut self.block, outside));
            shapes.push(
                yields
                    .iter()
                    .map(|y| y.shape().to_vec())
                    .collect::<Vec<_>>(),
            );
        }
        for (k, &value) in data.results.iter().enumerate() {
            if self.is_open(value) {
                let sides = [shapes[0][k].clone(), shapes[1][k].clone()];
                results[k].1 = self.joined(value, &results[k].1, cond, sides, &mut arms)?;
            }
        }
        let otherwise = arms.pop().unwrap_or_default();
        let then = arms.pop().unwrap_or_default();
        self.block.push(Stmt::If {
            cond,
            then,
            otherwise,
        });
        Ok(results.into_iter().map(|r| r.1).collect())
    }

    /// The place that both arms write a result to, and its value after the branch.
    fn arm_result(&mut self, value: heddle_ir::Value) -> Result<(Carried, Val)> {
        let ty = self.f.ty(value).clone();
        let Type::Tensor(t) = &ty else {
            return self.fail(Cause::Container("gives"));
        };
        let (dtype, shape) = (t.dtype, self.shape_of(&ty)?);
        let Some(count) = self.few_of(&shape) else {
            let buffer = self.place(value, dtype, &shape)?;
            let val = Val::Stored {
                buffer,
                dtype,
                shape,
            };
            return Ok((Carried::Cell(buffer), val));
        };
        let name = self.name.clone();
        let locals: Vec<_> = (0..count).map(|_| self.variable(dtype, &name)).collect();
        let elems = locals.iter().map(|&l| self.program.pool.local(l)).collect();
        let val = Val::Scalars {
            dtype,
            shape,
            elems,
        };
        Ok((Carried::Few(locals), val))
    }

    /// Assigns a value's elements to variables simultaneously.
    pub(super) fn set(&mut self, locals: &[Local], val: &Val) -> Result<()> {
        let Val::Scalars { elems, .. } = self.let_elements(val, locals.len() as i64) else {
            return self.fail(Cause::Form("scalars are needed"));
        };
        for (&local, value) in locals.iter().zip(elems) {
            self.block.push(Stmt::Let(local, value));
        }
        Ok(())
    }
}
