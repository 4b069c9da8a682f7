//! Values that take the place of sizes with bounds.
//!
//! A named size may stand where a bounded one is expected: its form is taken to be as bounded
//! ([`Dim::accepts`]). Sizes that differ by instance have no names in a program for many, so there the
//! bound is tested when the program runs.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{Dim, FuncBuilder, Op, Type, Value};

use super::set::Set;
use crate::batch::{Batched, Refusal, Result};

impl Set<'_> {
    /// The value where this type is expected. A size that is not known to be within the bound that
    /// the type states is compared with it, and a greater one stops the run.
    pub(super) fn bounded(&self, b: &mut FuncBuilder, value: Value, ty: &Type) -> Result<Value> {
        if ty.accepts(b.ty(value)) {
            return Ok(value);
        }
        let wanted = ty.as_tensor().and_then(|t| t.shape.clone());
        let given = b.ty(value).as_tensor().and_then(|t| t.shape.clone());
        let (Some(wanted), Some(given)) = (wanted, given) else {
            return Ok(value);
        };
        let mut wrong = None;
        for (axis, (wanted, given)) in wanted.iter().zip(&given).enumerate() {
            let (&Dim::Unknown(Some(most)), false) = (wanted, wanted.accepts(given)) else {
                continue;
            };
            let (size, most) = (
                b.size(value, axis)?,
                b.i64(most.min(i64::MAX as u64) as i64),
            );
            let above = b.compare(CompareOp::Gt, size, most)?;
            wrong = Some(match wrong {
                None => above,
                Some(others) => b.binary(BinaryOp::Or, others, above)?,
            });
        }
        let Some(wrong) = wrong else {
            return Ok(value);
        };
        if self.may_be_empty {
            return Err(Refusal::MayFail);
        }
        let met = b.ty(value).meet(ty).ok_or(Refusal::UnknownSize)?;
        let value = self.unless(b, wrong, TOO_LARGE, value)?;
        b.refine_type(value, met)?;
        Ok(value)
    }

    /// The operands of an op that puts elements into a list, which have the type that the list states.
    pub(super) fn as_elements(
        &self,
        b: &mut FuncBuilder,
        op: &Op,
        mut args: Vec<Batched>,
    ) -> Result<Vec<Batched>> {
        let (elem, elements) = match (op, &mut args[..]) {
            (Op::SeqNew { elem }, elements) => (elem.clone(), elements),
            (Op::SeqInsert, [list, element, ..]) => match b.ty(list.value()) {
                Type::Seq(elem) => ((**elem).clone(), std::slice::from_mut(element)),
                _ => return Ok(args),
            },
            _ => return Ok(args),
        };
        for element in elements {
            if let Batched::Same(value) = element {
                *value = self.bounded(b, *value, &elem)?;
            }
        }
        Ok(args)
    }
}

const TOO_LARGE: &str = "an array of an instance is larger than its type states";
