//! Transformations: passes that trade memory, code or redundant work for speed.
//!
//! They run after [`optimize`](crate::optimize), for devices that compile; the interpreter runs the
//! program without them and so stays their oracle. Each applies only if a cost estimate says that
//! it pays, can be left out by name, and keeps results up to rounding.

mod cost;
mod distribute_loops;
mod drop_zeros;
mod expand;
mod flatten_sequences;
mod flatten_text;
mod hoist_invariant;
mod index_precompute;
mod level_loops;
mod level_recursion;
mod list_scans;
mod merge_branches;
mod open_optionals;
mod open_sequences;
mod order;
pub(crate) mod rebuild;
mod reduce_folds;
mod sequence_lengths;
mod sink_appends;
mod slice_updates;
mod split_dots;
mod split_transposed;
mod stack_dots;
mod tabulate_products;
mod unroll_loops;
mod unstack_carried;

use std::time::Instant;

use heddle_ir::Module;

use heddle_machine::Machine;

use crate::pipeline::Report;
use heddle_ir::patch::Stats;

pub use cost::CostModel;
pub use distribute_loops::distribute_loops;
pub use drop_zeros::drop_zeros;
pub(crate) use flatten_sequences::flatten_equal;
pub use flatten_sequences::{
    FlatPorts, SequenceForm, SequenceLayout, flatten_ports, flatten_sequences,
};
pub use flatten_text::{TextPorts, flatten_text, flatten_text_ports};
pub use hoist_invariant::hoist_invariant;
pub use level_loops::level_loops;
pub use level_recursion::{LevelOptions, Pace, level_recursion};
pub use list_scans::list_scans;
pub use merge_branches::merge_branches;
pub use open_optionals::{OptionalPorts, open_optional_ports, open_optionals};
pub use open_sequences::open_sequences;
pub use reduce_folds::reduce_folds;
pub use sink_appends::sink_appends;
pub use slice_updates::slice_updates;
pub use split_dots::split_dots;
pub use split_transposed::split_transposed;
pub use stack_dots::stack_dots;
pub use tabulate_products::tabulate_products;
pub use unroll_loops::unroll_loops;
pub use unstack_carried::unstack_carried;

/// Defines [`Transformation`] by a table: variant, name, description, and the call.
macro_rules! transformations {
    ($module:ident, $costs:ident; $($variant:ident, $name:ident, $about:literal, $run:expr;)*) => {
        /// A transformation, as `heddle opt --pass NAME` knows it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Transformation {
            $(#[doc = $about] $variant,)*
        }

        impl Transformation {
            /// All transformations, in the order in which they run.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($name),)* }
            }

            /// One line for lists.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }

            /// Transforms a module, with decisions by these costs.
            pub fn run(self, $module: &mut Module, $costs: &CostModel) -> Stats {
                match self { $(Self::$variant => $run,)* }
            }
        }
    };
}

transformations! {
    module, costs;
    ListScans, list_scans, "collect stacked results of computed sizes in sequences",
        list_scans(module);
    OpenOptionals, open_optionals, "replace optionals by a flag and a value",
        open_optionals(module);
    OpenSequences, open_sequences, "replace sequences of known length by their elements",
        open_sequences(module);
    FlattenSequences, flatten_sequences, "replace sequences of unknown length by arrays that grow",
        flatten_sequences(module);
    FlattenText, flatten_text, "replace arrays of text by bytes, offsets and numbers",
        flatten_text(module);
    UnstackCarried, unstack_carried, "let loops carry the parts of a stack that iterations take apart and stack again",
        unstack_carried(module);
    SinkAppends, sink_appends, "append behind a branch what its arms append to an array that a loop carries",
        sink_appends(module);
    LevelRecursion, level_recursion, "evaluate the calls of a recursion over a tree or graph in batches, level by level",
        level_recursion(module, &LevelOptions { frames: costs.frames, ..LevelOptions::USUAL }, costs);
    MergeBranches, merge_branches, "compute once, before a branch, what both of its arms compute",
        merge_branches(module);
    SliceUpdates, slice_updates, "write an update in one piece where its indices are those of a box",
        slice_updates(module);
    HoistInvariant, hoist_invariant, "compute once what is the same in every iteration of a loop",
        hoist_invariant(module);
    ReduceFolds, reduce_folds, "reduce the terms of all iterations where a loop only adds them up",
        reduce_folds(module, costs.chunk);
    LevelLoops, level_loops, "run the iterations of a loop over a tree or graph in batches, level by level",
        level_loops(module, &LevelOptions::USUAL, costs);
    UnrollLoops, unroll_loops, "put the iterations of small loops one after the other",
        unroll_loops(module);
    SplitDots, split_dots, "multiply matrices side by side one after the other, where they lie",
        split_dots(module);
    SplitTransposed, split_transposed, "compute transposed convolutions by phases, without the zeros between elements",
        split_transposed(module);
    StackDots, stack_dots, "multiply one operand with several constant matrices at once",
        stack_dots(module);
    TabulateProducts, tabulate_products, "look up rows of a product of constants instead of multiplying looked-up rows",
        tabulate_products(module);
    DistributeLoops, distribute_loops, "split loops so that contractions run for all iterations at once",
        distribute_loops(module, costs);
    DropZeros, drop_zeros, "leave out products with zeros, also those of a loop's first iteration",
        drop_zeros(module, costs);
}

impl Transformation {
    /// The transformation of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|t| t.name() == name)
    }
}

/// Choice of transformations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformOptions {
    /// Transformations that are left out.
    pub without: Vec<Transformation>,
    /// Units that [`distribute_loops`] may have work on different layers of a stacked recurrence at
    /// the same time; 1: none.
    pub units: usize,
    /// Maximum number of a recursion's calls whose results are kept at once.
    pub frames: Option<usize>,
}

impl Default for TransformOptions {
    fn default() -> Self {
        Self {
            without: vec![],
            units: 1,
            frames: None,
        }
    }
}

/// Runs the transformations for a machine, and after each that changed something the
/// [pipeline](crate::optimize), which clears up.
pub fn transform(module: &mut Module, options: &TransformOptions, machine: &Machine) -> Report {
    let mut report = Report::default();
    let costs = CostModel {
        units: options.units,
        // Schedules do not run early work and a level at the same time: the checks between both
        // separate their waves.
        streamed: 1,
        frames: options.frames,
        ..CostModel::of(machine)
    };
    let chosen = Transformation::ALL.iter();
    for pass in chosen.filter(|pass| !options.without.contains(pass)) {
        let start = Instant::now();
        let stats = pass.run(module, &costs);
        let edits = stats.total();
        report.runs.push((pass.name(), stats, start.elapsed()));
        if edits > 0 {
            report.runs.extend(crate::pipeline::optimize(module).runs);
        }
    }
    report
}
