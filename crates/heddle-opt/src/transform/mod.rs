//! Transformations: passes that trade memory, code or redundant work for speed.
//!
//! They run after [`optimize`](crate::optimize), for devices that compile; the interpreter runs the program without them and so
//! stays the oracle of what they do. Each decides by an estimate of costs whether it pays, has a name by which it can be left out,
//! and keeps results up to rounding.

mod cost;
mod distribute_loops;
mod drop_zeros;
mod foresight;
mod hoist_invariant;
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

use crate::pipeline::{Pass, Report};

pub use cost::CostModel;
pub use distribute_loops::{distribute_loops, distribute_loops_by};
pub use drop_zeros::{drop_zeros, drop_zeros_by};
pub use hoist_invariant::hoist_invariant;
pub use level_loops::level_loops;
pub use level_recursion::{LevelOptions, level_recursion};
pub use merge_branches::merge_branches;
pub use open_sequences::open_sequences;
pub use slice_updates::slice_updates;
pub use stack_dots::stack_dots;
pub use tabulate_products::tabulate_products;
pub use unroll_loops::unroll_loops;

/// All transformations, in the order in which they run.
pub const TRANSFORMATIONS: &[Pass] = &[
    Pass {
        name: "open_sequences",
        run: open_sequences,
        about: "replace sequences of known length by their elements",
    },
    Pass {
        name: "level_recursion",
        run: |module| level_recursion(module, &LevelOptions::default()),
        about: "evaluate the calls of a recursion over a tree or graph in batches, level by level",
    },
    Pass {
        name: "merge_branches",
        run: merge_branches,
        about: "compute once, before a branch, what both of its arms compute",
    },
    Pass {
        name: "slice_updates",
        run: slice_updates,
        about: "write an update in one piece where its indices are those of a box",
    },
    Pass {
        name: "hoist_invariant",
        run: hoist_invariant,
        about: "compute once what is the same in every iteration of a loop",
    },
    Pass {
        name: "level_loops",
        run: |module| level_loops(module, &LevelOptions::default()),
        about: "run the iterations of a loop over a tree or graph in batches, level by level",
    },
    Pass {
        name: "unroll_loops",
        run: unroll_loops,
        about: "put the iterations of small loops one after the other",
    },
    Pass {
        name: "stack_dots",
        run: stack_dots,
        about: "multiply one operand with several constant matrices at once",
    },
    Pass {
        name: "tabulate_products",
        run: tabulate_products,
        about: "look up rows of a product of constants instead of multiplying looked-up rows",
    },
    Pass {
        name: "distribute_loops",
        run: distribute_loops,
        about: "split loops so that contractions run for all iterations at once",
    },
    Pass {
        name: "drop_zeros",
        run: drop_zeros,
        about: "leave out products with zeros, also those of a loop's first iteration",
    },
];

/// The transformation of this name.
pub fn find_transformation(name: &str) -> Option<&'static Pass> {
    TRANSFORMATIONS.iter().find(|p| p.name == name)
}

/// What is transformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformOptions {
    /// Names of transformations that are left out.
    pub without: Vec<String>,
    /// How many units may work on different layers of a stacked recurrence at the same time ([`PIPELINE_LAYERS`]); 1: none.
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

/// Runs the transformations, and after each that changed something the [pipeline](crate::optimize), which clears up.
pub fn transform(module: &mut Module, options: &TransformOptions) -> Report {
    let mut report = Report::default();
    let without = |pass: &str| options.without.iter().any(|name| name == pass);
    let costs = CostModel {
        units: if without(PIPELINE_LAYERS.0) {
            1
        } else {
            options.units
        },
        ..CostModel::default()
    };
    for pass in TRANSFORMATIONS {
        if without(pass.name) {
            continue;
        }
        let start = Instant::now();
        let stats = match pass.name {
            "distribute_loops" => distribute_loops_by(module, &costs),
            _ => (pass.run)(module),
        };
        let edits = stats.total();
        report.runs.push((pass.name, stats, start.elapsed()));
        if edits > 0 {
            report.runs.extend(crate::optimize(module).runs);
        }
    }
    report
}
