//! Many instances at once: a model that is written for one instance runs for many, each with control
//! flow of its own.
//!
//! ```
//! use heddle::batch::Form;
//! use heddle::{CompileOptions, Inputs, Model, RunOptions, Tensor};
//!
//! let model = Model::parse(
//!     "halved",
//!     "fn @main(%x: f32[]) -> (%y: f32[], %steps: i64[]) {
//!        %y, %steps = loop %i while lt(1.0, %x) carry (%h: f32[] = %x, %n: i64[] = 0) {
//!          %half = mul(%h, 0.5)
//!          continue while lt(1.0, %half) carry %half, add(%n, 1)
//!        }
//!        return %y, %steps
//!      }",
//! )?;
//! let batch = model.batched(&[("x".to_string(), Form::Stacked)].into())?;
//! let program = heddle::compile(&batch.model, &CompileOptions::default())?;
//! let x = Tensor::vector(&[0.5f32, 40.0, 3.0]).into();
//! let run = program.run(Inputs::from_iter([("x".to_string(), x)]), &RunOptions::default())?;
//! let steps = run.outputs["steps"].as_tensor().expect("an array");
//! assert_eq!(steps.to_vec::<i64>(), Some(vec![0, 6, 2]));
//! # Ok::<(), heddle::Error>(())
//! ```

mod activity;
mod check;
mod forms;
mod groups;

mod origin;
mod parts;
mod rows;
mod run;
mod sizes;
mod structures;

use std::fmt;

use heddle_ir::{FuncId, Module};
use heddle_lang::Structure;
use heddle_opt::{
    BatchOptions, batch_instances_with, inline_calls_in_batch, reduce_folds, remove_dead,
    seed_as_input,
};
use indexmap::IndexMap;

use crate::stack::on_large_stack;
use crate::stages::has_form_without_calls;
use crate::{Error, Model};

pub use crate::batch_error::{BatchError, FaultyRows};
pub use activity::{Activity, BlockRuns};
pub use heddle_opt::{offsets_name, shapes_name};
pub use run::{Failed, Finished};
use sizes::{Axis, dims};

/// The form in which an input or output of many instances is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// With another axis in front, which has a row for each instance.
    Stacked,
    /// Instances behind each other along the first axis, with an array `NAME.offsets`,
    /// `i64[instances + 1]`, of the first element of each and the end.
    Ragged,
    /// All elements of the instances behind each other, one axis, where other axes than the first differ
    /// in size. `NAME.offsets` has the first element of each and the end, `NAME.shapes`,
    /// `i64[instances, rank]`, the sizes of its axes.
    Flat,
}

/// The inputs that differ by instance, with their forms. All others are shared.
pub type Forms = IndexMap<String, Form>;

/// The name of the input with a seed for each instance, `i64[instances]`. The model for one has no such input: where a batch
/// has it, instance `k` draws the random numbers of a run alone with [`RunOptions::seed`](crate::RunOptions::seed) `seeds[k]`.
/// Without it, all instances have the run's seed.
pub const SEEDS: &str = "batch.seeds";

/// Bytes of the terms of a sum that an instance may evaluate at once.
const FOLDED: f64 = 256.0 * 1024.0;

/// A model for many instances.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The model. It has the instances' inputs and outputs, in their forms.
    pub model: Model,
    /// The outputs' forms.
    pub outputs: Forms,
    /// Nodes that are evaluated for one instance after the other, with reasons.
    pub one_by_one: Vec<OneByOne>,
    inputs: Forms,
    /// The axes of ragged and flat inputs that the instances' offsets and shapes tell.
    axes: IndexMap<String, Vec<Axis>>,
    /// The program for one instance.
    alone: Module,
    /// The function of the program that runs many instances: one of them runs as alone.
    many: Option<FuncId>,
    /// Blocks of the program.
    blocks: Vec<heddle_opt::Counted>,
    /// Inputs that are tables and graphs.
    structures: Vec<Structure>,
    /// The input [`SEEDS`] stands for the seeds of runs; the model for one has no such input.
    seeds_runs: bool,
}

/// A node that is evaluated for one instance after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneByOne {
    /// The node, or the op where the model gives no name.
    pub node: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for OneByOne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.reason)
    }
}

impl Model {
    /// The model for many instances, whose inputs have these forms.
    ///
    /// # Errors
    ///
    /// [`Error::Batch`] if a name is no input's, if there is none, or if an input or output has no
    /// form for many instances: sequences of arrays of different shapes, arrays of unknown rank, text
    /// whose sizes differ.
    pub fn batched(self, forms: &Forms) -> Result<Batch, Error> {
        self.batched_within(forms, None)
    }

    /// [`Model::batched`] where a recursion that follows from tensors has at most so many frames at once: if that is not enough,
    /// instances run one after the other, depth first.
    ///
    /// # Errors
    ///
    /// Those of [`Model::batched`].
    pub fn batched_within(self, forms: &Forms, max_frames: Option<usize>) -> Result<Batch, Error> {
        on_large_stack(|| self.made_for_many(forms, max_frames))?
    }

    fn made_for_many(mut self, forms: &Forms, max_frames: Option<usize>) -> Result<Batch, Error> {
        let seeds_runs = forms.contains_key(SEEDS) && !self.has_input(SEEDS);
        if seeds_runs && forms[SEEDS] != Form::Stacked {
            return Err(BatchError::Seeds.into());
        }
        if seeds_runs {
            self = self.edited(|module| {
                seed_as_input(module, SEEDS);
                Ok(())
            })?;
        }
        let signature = self.signature();
        let known = |name: &&String| signature.inputs.iter().all(|port| port.name != **name);
        if let Some(name) = forms.keys().find(known) {
            return Err(BatchError::Unknown(name.clone()).into());
        }
        if forms.is_empty() {
            return Err(BatchError::NoInstances.into());
        }
        let alone = self.module.clone();
        let (mut outputs, mut one_by_one, mut blocks) = (Forms::new(), vec![], vec![]);
        let mut many = None;
        let structures = std::mem::take(&mut self.structures);
        let model = self.edited(|module| {
            inline_calls_in_batch(module);
            remove_dead(module);
            if reduce_folds(module, FOLDED).total() > 0 {
                remove_dead(module);
            }
            let params = module.entry().sig.params.iter();
            let form = |(name, _): &(String, _)| match forms.get(name) {
                None => heddle_opt::Form::Shared,
                Some(Form::Stacked) => heddle_opt::Form::Stacked,
                Some(Form::Ragged) => heddle_opt::Form::Ragged,
                Some(Form::Flat) => heddle_opt::Form::Flat,
            };
            let of_params: Vec<_> = params.map(form).collect();
            let options = BatchOptions {
                max_frames,
                ..Default::default()
            };
            let batch = batch_instances_with(module, &of_params, options)
                .map_err(|refusal| BatchError::Refused(refusal.to_string()))?;
            let names = module.entry().sig.results.iter().map(|(name, _)| name);
            outputs.extend(
                names
                    .cloned()
                    .zip(batch.results.iter().map(|form| match form {
                        heddle_opt::Form::Ragged => Form::Ragged,
                        heddle_opt::Form::Flat => Form::Flat,
                        _ => Form::Stacked,
                    })),
            );
            one_by_one = batch.one_by_one.iter().map(described).collect();
            let alone = has_form_without_calls(module)
                .then(|| batch.with_one_alone(module, &of_params).ok())
                .flatten();
            many = batch.module.entry_id();
            blocks = batch.blocks;
            *module = alone.unwrap_or(batch.module);
            Ok(())
        })?;
        let axes = |(name, ty): &(String, heddle_ir::Type)| {
            let told = match forms.get(name)? {
                Form::Stacked => return None,
                Form::Ragged => dims(ty).get(..1)?,
                Form::Flat => dims(ty),
            };
            Some((name.clone(), told.iter().map(Axis::of).collect()))
        };
        let axes = alone.entry().sig.params.iter().filter_map(axes).collect();
        Ok(Batch {
            model,
            outputs,
            one_by_one,
            inputs: forms.clone(),
            axes,
            alone,
            many,
            blocks,
            structures,
            seeds_runs,
        })
    }
}

fn described(left: &heddle_opt::OneByOne) -> OneByOne {
    let node = match &left.loc {
        Some(loc) => loc.to_string(),
        None => format!("`{}`", left.op),
    };
    OneByOne {
        node,
        reason: left.refusal.to_string(),
    }
}
