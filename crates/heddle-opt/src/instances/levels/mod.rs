//! Recursion that follows from tensors, by levels.
//!
//! An activation of a recursive function is parted ([`parts`]): [`before`] its calls all that needs
//! none of their results, which makes the calls' arguments; [`after`] them the rest. Level 0 are the
//! instances. The part in front is evaluated for a whole level at once, and the calls that it makes
//! are the next level, until one is empty; what the other part needs is kept. Then that is evaluated
//! for one level after the other, the last first, so that all results of calls are there.
//!
//! So calls of one activation that need nothing of each other are evaluated together, and those of
//! all instances.

mod after;
mod backward;
mod before;
mod calls;
mod copy;
mod drive;
mod kept;
mod late;
mod parts;
mod saved;

use std::collections::HashSet;

use heddle_ir::{FuncBuilder, FuncId, Value};

use super::lane::{Lane, Ragged};
use super::set::Set;
use super::{Context, Form, parameters, signature};
use crate::batch::{Refusal, Result};
use crate::callgraph;
pub(super) use copy::with_rows;
use drive::Driver;
use parts::Parts;
pub(super) use parts::has_sizes;

/// A function that evaluates calls level by level.
#[derive(Clone)]
pub(super) struct Leveled {
    pub id: FuncId,
    /// The form of each result of the function that is called; the sizes of a ragged one are a
    /// result behind its elements.
    results: Vec<Form>,
}

impl Set<'_> {
    /// A call of a recursive function for all instances, level by level.
    pub(super) fn call_levels(
        &self,
        b: &mut FuncBuilder,
        callee: FuncId,
        args: &[Lane],
    ) -> Result<Vec<Lane>> {
        let form = |lane: &Lane| match lane {
            Lane::Same(_) => Form::Shared,
            Lane::Rows(_) => Form::Stacked,
            Lane::Ragged(_) => Form::Ragged,
        };
        let forms: Vec<Form> = args.iter().map(form).collect();
        let Leveled { id, results: forms } = self.context.levels(callee, &forms)?;
        let mut own: Vec<Value> = vec![];
        for &lane in args {
            match lane {
                Lane::Same(v) | Lane::Rows(v) => own.push(v),
                Lane::Ragged(x) => {
                    let x = self.packed(b, x)?;
                    let total = b.size(x.data, 0)?;
                    let total = b.vector_of(total)?;
                    own.extend([x.data, b.join(&[x.starts, total])?]);
                }
            }
        }
        let sig = self.context.made.borrow().functions[id].sig.clone();
        let mut results = b.call(id, &sig, &own)?.into_iter();
        let mut next = || results.next().ok_or(Refusal::NotEvaluated);
        let mut lanes: Vec<Lane> = vec![];
        for form in forms {
            let data = next()?;
            lanes.push(match form {
                Form::Ragged => {
                    let lens = next()?;
                    let starts = self.sums_before(b, lens)?;
                    Lane::Ragged(Ragged::packed(data, starts, lens))
                }
                _ => Lane::Rows(data),
            });
        }
        Ok(lanes)
    }
}

impl Context<'_> {
    /// The function that evaluates calls of a recursive one for many instances.
    fn levels(&self, callee: FuncId, forms: &[Form]) -> Result<Leveled> {
        let key = (callee, forms.to_vec());
        if let Some(known) = self.levels.borrow().get(&key) {
            return Ok(known.clone());
        }
        let mut components = callgraph::components(self.module).into_iter();
        let own = components.find(|c| c.contains(&callee));
        match own.as_deref() {
            Some([_]) if callgraph::callees(self.module, callee).contains(&callee) => {}
            _ => return Err(Refusal::Call),
        }
        let source = &self.module.functions[callee];
        let parts = Parts::of(source, callee)?;
        let mut context = self.within(HashSet::new());
        let mut sig = signature(&mut context, callee, forms)?;
        sig.name += ".levels";
        sig.origin = None;
        while self.made.borrow().find(&sig.name).is_some() {
            sig.name += "'";
        }
        let mut b = FuncBuilder::new(sig);
        let (values, count, dim) = parameters(&mut b, source, forms)?;
        let mut top = Set::new(source, &context, count, dim);
        top.values = values;
        let early = before::before(self.module, &parts)?;
        let late = after::after(self.module, &parts)?;
        let driver = Driver {
            parts: &parts,
            before: &early,
            after: &late,
            top: &top,
        };
        let results = driver.run(&mut b)?;
        let (mut outputs, mut forms): (Vec<(String, Value)>, _) = (vec![], vec![]);
        for ((name, _), lane) in source.sig.results.iter().zip(results) {
            match lane {
                Lane::Same(v) | Lane::Rows(v) => {
                    outputs.push((name.clone(), v));
                    forms.push(Form::Stacked);
                }
                Lane::Ragged(x) => {
                    outputs.push((name.clone(), x.data));
                    outputs.push((format!("sizes of {name}"), x.lens));
                    forms.push(Form::Ragged);
                }
            }
        }
        let marks = b.marks().to_vec();
        let function = b.finish(&outputs);
        let notes = context.one_by_one.take();
        self.one_by_one.borrow_mut().extend(notes);
        let id = self.made.borrow_mut().functions.push(function);
        self.counted
            .borrow_mut()
            .extend(context.counted(&marks, id));
        let leveled = Leveled { id, results: forms };
        self.levels.borrow_mut().insert(key, leveled.clone());
        Ok(leveled)
    }
}
