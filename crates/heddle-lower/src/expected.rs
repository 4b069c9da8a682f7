//! Estimates of sizes and trip counts, from runs that a program is compiled for.

use std::collections::HashMap;

use heddle_ir::{FuncId, Inst, Value};
use heddle_uprogram::expr::Expr;
use heddle_uprogram::program::{Local, LocalKind};

use super::Lowerer;
use crate::value::Val;

/// Means over runs of a module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// The size of each axis of an array.
    pub sizes: HashMap<(FuncId, Value), Vec<f64>>,
    /// The trip count of a loop.
    pub trips: HashMap<(FuncId, Inst), f64>,
}

impl<'m> Lowerer<'m> {
    /// Notes what to expect of the variables that are sizes of this value.
    pub(super) fn expect_sizes(&mut self, value: Value, val: &Val) {
        let Some((expected, id)) = self.expected() else {
            return;
        };
        let Some(sizes) = expected.sizes.get(&(id, value)) else {
            return;
        };
        for (&size, &mean) in val.shape().iter().zip(sizes) {
            let Expr::Local(local) = self.program.pool[size] else {
                continue;
            };
            let kind = self.program.locals[local].kind;
            if matches!(kind, LocalKind::Size | LocalKind::Variable) {
                self.program.expected.entry(local).or_insert(mean);
            }
        }
    }

    /// Notes what to expect of a loop with this iteration number.
    pub(super) fn expect_trips(&mut self, inst: Inst, iteration: Local) {
        let Some((expected, id)) = self.expected() else {
            return;
        };
        if let Some(&mean) = expected.trips.get(&(id, inst)) {
            self.program.expected.insert(iteration, mean);
        }
    }

    /// The estimates, and the current function.
    fn expected(&self) -> Option<(&'m Expected, FuncId)> {
        let expected = self.expected?;
        let mut functions = self.module.functions.iter();
        let (id, _) = functions.find(|(_, f)| std::ptr::eq(*f, self.f))?;
        Some((expected, id))
    }
}
