//! A row loop of one instance by levels: for programs that are not for many.

use std::collections::HashMap;

use heddle_ir::{Dim, FuncBuilder, Function, Inst, LoopView, Module, Op, Value};

use super::analyze::RowReads;
use super::heights::{self, Order};
use super::{Activations, BatchOptions, Context, Functions, Lane, Ragged, Set};
use crate::batch::{Refusal, Result};

/// A row loop whose order of iterations is known.
pub struct LeveledLoop<'a> {
    module: &'a Module,
    source: &'a Function,
    view: LoopView,
    arrays: Vec<Ragged>,
    all: Activations,
    order: Order,
}

impl<'a> LeveledLoop<'a> {
    /// Appends the search for the order; none if it is no such loop, or calls functions. `values` are
    /// those of the source in the function that is built.
    pub fn inspect(
        b: &mut FuncBuilder,
        module: &'a Module,
        source: &'a Function,
        inst: Inst,
        values: &HashMap<Value, Value>,
    ) -> Result<Option<Self>> {
        let (Some(reads), Some(view)) = (RowReads::of(source, inst), LoopView::of(source, inst))
        else {
            return Ok(None);
        };
        let mut calls = false;
        source.for_each_inst_in(view.body, &mut |_, data| {
            calls |= matches!(data.op, Op::Call(_));
        });
        if calls {
            return Ok(None);
        }
        alone(b, module, source, values, |set, b| {
            let mut arrays = vec![];
            for init in &view.inits {
                let Lane::Same(data) = set.value(*init)? else {
                    return Err(Refusal::NotEvaluated);
                };
                let (starts, size) = (b.i64s(&[0]), b.size(data, 0)?);
                arrays.push(Ragged::packed(data, starts, b.vector_of(size)?));
            }
            let all = set.activations(b, &view, &arrays)?;
            let needs = set.needs(b, &view, &reads, &arrays, &all)?;
            let order = heights::order(b, &all, &needs)?;
            Ok(Some(LeveledLoop {
                module,
                source,
                view,
                arrays,
                all,
                order,
            }))
        })
    }

    /// `i64[]`: the number of iterations.
    pub fn iterations(&self) -> Value {
        self.all.total
    }

    /// `i64[]`: the number of levels.
    pub fn levels(&self) -> Value {
        self.order.heights
    }

    /// Appends the loop over levels; gives the final arrays.
    pub fn evaluate(
        &self,
        b: &mut FuncBuilder,
        values: &HashMap<Value, Value>,
    ) -> Result<Vec<Value>> {
        alone(b, self.module, self.source, values, |set, b| {
            set.steps(b, &self.view, &self.arrays, &self.all, &self.order)
        })
    }
}

/// Evaluates with a set of one instance, in which nothing may go row by row.
fn alone<'a, T>(
    b: &mut FuncBuilder,
    module: &'a Module,
    source: &'a Function,
    values: &HashMap<Value, Value>,
    evaluate: impl FnOnce(&Set, &mut FuncBuilder) -> Result<T>,
) -> Result<T> {
    let functions = Functions::default();
    let context = Context::new(module, &functions, BatchOptions::default());
    let one = b.i64(1);
    let mut set = Set::new(source, &context, one, Dim::constant(1));
    let values = values.iter().map(|(&from, &to)| (from, Lane::Same(to)));
    set.values.extend(values);
    let found = evaluate(&set, b)?;
    let row_by_row = context
        .one_by_one
        .borrow()
        .first()
        .map(|o| o.refusal.clone());
    match row_by_row {
        Some(refusal) => Err(refusal),
        None => Ok(found),
    }
}
