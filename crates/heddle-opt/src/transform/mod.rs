//! Transformations: passes that trade memory, code or redundant work for speed.
//!
//! They run after [`optimize`](crate::optimize), for devices that compile; the interpreter runs the program without them and so
//! stays their oracle. Each applies only if a cost estimate says that it pays, can be left out by name, and keeps results up to
//! rounding.

mod cost;
mod distribute_loops;
mod drop_zeros;
mod hoist_invariant;
mod index_precompute;
mod level_loops;
mod level_recursion;
mod merge_branches;
mod open_sequences;
mod order;
mod rebuild;
mod slice_updates;
mod stack_dots;
mod tabulate_products;
mod unroll_loops;

use std::time::Instant;

use heddle_ir::Module;

use heddle_machine::Machine;

use crate::pipeline::Report;
use heddle_ir::patch::Stats;

pub use cost::CostModel;
pub use distribute_loops::distribute_loops;
pub use drop_zeros::drop_zeros;
pub use hoist_invariant::hoist_invariant;
pub use level_loops::level_loops;
pub use level_recursion::{LevelOptions, level_recursion};
pub use merge_branches::merge_branches;
pub use open_sequences::open_sequences;
pub use slice_updates::slice_updates;
pub use stack_dots::stack_dots;
pub use tabulate_products::tabulate_products;
pub use unroll_loops::unroll_loops;

/// A transformation, as `heddle opt --pass NAME` knows it.
#[derive(Clone, Copy, Debug)]
pub struct Transformation {
    /// Its name.
    pub name: &'static str,
    /// Its function, which decides by these costs.
    pub run: fn(&mut Module, &CostModel) -> Stats,
    /// One line for lists.
    pub about: &'static str,
}

/// All transformations, in the order in which they run.
pub const TRANSFORMATIONS: &[Transformation] = &[
    Transformation {
        name: "open_sequences",
        run: |module, _| open_sequences(module),
        about: "replace sequences of known length by their elements",
    },
    Transformation {
        name: "level_recursion",
        run: |module, costs| level_recursion(module, &LevelOptions::USUAL, costs),
        about: "evaluate the calls of a recursion over a tree or graph in batches, level by level",
    },
    Transformation {
        name: "merge_branches",
        run: |module, _| merge_branches(module),
        about: "compute once, before a branch, what both of its arms compute",
    },
    Transformation {
        name: "slice_updates",
        run: |module, _| slice_updates(module),
        about: "write an update in one piece where its indices are those of a box",
    },
    Transformation {
        name: "hoist_invariant",
        run: |module, _| hoist_invariant(module),
        about: "compute once what is the same in every iteration of a loop",
    },
    Transformation {
        name: "level_loops",
        run: |module, costs| level_loops(module, &LevelOptions::USUAL, costs),
        about: "run the iterations of a loop over a tree or graph in batches, level by level",
    },
    Transformation {
        name: "unroll_loops",
        run: |module, _| unroll_loops(module),
        about: "put the iterations of small loops one after the other",
    },
    Transformation {
        name: "stack_dots",
        run: |module, _| stack_dots(module),
        about: "multiply one operand with several constant matrices at once",
    },
    Transformation {
        name: "tabulate_products",
        run: |module, _| tabulate_products(module),
        about: "look up rows of a product of constants instead of multiplying looked-up rows",
    },
    Transformation {
        name: "distribute_loops",
        run: distribute_loops,
        about: "split loops so that contractions run for all iterations at once",
    },
    Transformation {
        name: "drop_zeros",
        run: drop_zeros,
        about: "leave out products with zeros, also those of a loop's first iteration",
    },
];

/// The transformation of this name.
pub fn find_transformation(name: &str) -> Option<&'static Transformation> {
    TRANSFORMATIONS.iter().find(|p| p.name == name)
}

/// Choice of transformations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformOptions {
    /// Names of transformations that are left out.
    pub without: Vec<String>,
    /// Units that may work on different layers of a stacked recurrence at the same time ([`PIPELINE_LAYERS`]); 1: none.
    pub units: usize,
}

impl Default for TransformOptions {
    fn default() -> Self {
        Self {
            without: vec![],
            units: 1,
        }
    }
}

/// The name of a part of `distribute_loops` that can be left out by itself, and what it does.
pub const PIPELINE_LAYERS: (&str, &str) = (
    "pipeline_layers",
    "let workers work on different layers of a stack, each a chunk of steps behind the one before",
);

/// Runs the transformations for a machine, and after each that changed something the [pipeline](crate::optimize), which clears up.
pub fn transform(module: &mut Module, options: &TransformOptions, machine: &Machine) -> Report {
    let mut report = Report::default();
    let without = |pass: &str| options.without.iter().any(|name| name == pass);
    let costs = CostModel {
        units: if without(PIPELINE_LAYERS.0) {
            1
        } else {
            options.units
        },
        ..CostModel::of(machine)
    };
    for pass in TRANSFORMATIONS {
        if without(pass.name) {
            continue;
        }
        let start = Instant::now();
        let stats = (pass.run)(module, &costs);
        let edits = stats.total();
        report.runs.push((pass.name, stats, start.elapsed()));
        if edits > 0 {
            report.runs.extend(crate::pipeline::optimize(module).runs);
        }
    }
    report
}
