//! Counts of the steps in which a program for many instances runs.

use heddle_opt::{Block, Counted};

use super::{Batch, offsets_name, shapes_name};
use crate::options::interpreter_options;
use crate::stack::on_large_stack;
use crate::{Error, Inputs, RunOptions, inputs};

/// Steps of a run of many instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The parts of the program, in its order, and behind these its recursions.
    pub blocks: Vec<BlockRuns>,
    /// The inputs that all instances share.
    pub shared: Vec<String>,
}

/// The steps of a block: a part of the program without control flow that differs by instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRuns {
    /// Its name and place in the model.
    pub block: String,
    /// The number of steps. Those of a recursion are its levels: calls of one height are evaluated together.
    pub steps: u64,
    /// The activations, each of which is the block for one instance.
    pub activations: u64,
    /// A step is one activation, since something in the block has no rule for many.
    pub is_one_by_one: bool,
}

impl BlockRuns {
    /// Activations in a step, in the mean.
    pub fn mean_rows(&self) -> f64 {
        self.activations as f64 / self.steps.max(1) as f64
    }
}

impl Batch {
    /// Counts the steps of a run on these inputs, those of one instance as those of many. The interpreter runs it, which takes long for a large model: it keeps the
    /// limits of `options`.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::check`], and [`Error::Run`] if the run stops.
    pub fn activity(&self, inputs: &Inputs, options: &RunOptions) -> Result<Activity, Error> {
        self.check(inputs)?;
        let mut module = self.model.module.clone();
        if let (Some((_, entry)), Some(many)) = (module.entries.first_mut(), self.many) {
            *entry = many;
        }
        let module = &module;
        let args = inputs::in_order(&module.entry().sig, inputs.clone())?;
        let watched: Vec<_> = self.blocks.iter().map(|b| (b.within, b.size)).collect();
        let options = interpreter_options(options);
        let run = || heddle_interp::run_counted(module, &args, &options, &watched);
        let counts = on_large_stack(run)??;
        let runs = |counted: &Counted| {
            let tally = counts.values.get(&(counted.within, counted.size));
            let tally = tally.copied().unwrap_or_default();
            BlockRuns {
                block: described(&counted.block),
                steps: tally.steps,
                activations: tally.rows,
                is_one_by_one: counted.block.is_one_by_one,
            }
        };
        let mut blocks: Vec<BlockRuns> = vec![];
        for own in self.blocks.iter().map(runs) {
            // The last instance of a loop runs in a copy of it.
            let same =
                |b: &&mut BlockRuns| (&b.block, b.is_one_by_one) == (&own.block, own.is_one_by_one);
            match blocks.iter_mut().find(same) {
                Some(known) => {
                    known.steps += own.steps;
                    known.activations += own.activations;
                }
                None => blocks.push(own),
            }
        }
        let functions = module.functions.iter().filter_map(|(id, f)| {
            let tally = counts.calls.get(&id)?;
            let has_blocks = self.blocks.iter().any(|b| b.within == id);
            (Some(id) != module.entry_id() && !has_blocks).then(|| BlockRuns {
                block: format!("calls of @{}", f.sig.name),
                steps: tally.steps,
                activations: tally.rows,
                is_one_by_one: false,
            })
        });
        blocks.extend(functions);
        Ok(Activity {
            blocks,
            shared: self.shared(),
        })
    }

    /// The inputs that all instances share.
    pub fn shared(&self) -> Vec<String> {
        let names = self.inputs.keys();
        let parting: Vec<String> = names
            .flat_map(|n| [offsets_name(n), shapes_name(n)])
            .collect();
        let names = self.model.signature().inputs.into_iter();
        let names = names.map(|port| port.name);
        let differs = |name: &String| self.inputs.contains_key(name) || parting.contains(name);
        names.filter(|name| !differs(name)).collect()
    }
}

fn described(block: &Block) -> String {
    if let Some(function) = &block.function {
        return format!("calls of @{function}");
    }
    let place = block.loc.as_ref().map(|loc| format!(" ({loc})"));
    let arm = match block.arm {
        None => "",
        Some(0) => ", then",
        Some(_) => ", else",
    };
    format!("{}{}{arm}", block.op, place.unwrap_or_default())
}
