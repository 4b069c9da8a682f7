//! Schedules a uProgram: assigns work to units and places synchronisations.
//!
//! Layers, each of which imports only from those above it:
//!
//! 1. facts: `linear` (offsets as sums of products), `largest` (bounds of indices), `partition` (the unit that touches an
//!    element), `reach` (the elements that an access touches at most), `effects` (memory that calls touch), `trips` (trip counts), `on_chip` (room in the
//!    units' shared memory), `cost` (the cost model);
//! 2. times of operators: `latency`, `candidates` (kernels to choose from), `memo` (a cache of
//!    times and partitions); from these `common_partitions` and `independent_parts`;
//! 3. `place_syncs`, and `spans` (live ranges);
//! 4. `total`, the time of a whole program with its synchronisations, and `trials`, which update it
//!    for changes of few operators;
//! 5. the passes, one file each;
//! 6. tools around a scheduled program: `print`, `trace`, `choices`, `benchmark`.
//!
//! Architecture invariant: nothing here knows what a unit is; a
//! [`Machine`](heddle_machine::Machine) states the number of units and all costs.

mod align_gathered;
mod align_splits;
mod benchmark;
mod candidates;
mod choices;
mod choose_kernels;
mod choose_levels;
mod clip_windows;
mod coalesce_arms;
mod coalesce_copies;
mod common_partitions;
mod cost;
mod cut_shares;
mod effects;
mod fork_calls;
pub mod fuse;
mod gather_state;
mod independent_parts;
mod join_lanes;
mod keep_resident;
mod keep_state;
mod largest;
mod latency;
mod linear;
mod memo;
mod merge_variables;
mod mirror_state;
mod narrow_weights;
mod on_chip;
mod order_waves;
mod partition;
mod place_resizes;
mod place_syncs;
mod plan_memory;
pub mod print;
mod proposals;
mod reach;
mod read_rows;
mod replicate;
mod round_products;
mod select_kernels;
mod simplify_indices;
mod spans;
mod split_axes;
mod split_depths;
mod spread_shares;
mod stretches;
mod sync_everywhere;
mod total;
pub mod trace;
mod trials;
mod trips;
mod version_rows;

pub use align_gathered::align_gathered;
pub use align_splits::align_splits;
pub use benchmark::benchmark;
pub use candidates::{are_alike, candidates};
pub use choices::{Choice, Choices, choices};
pub use choose_kernels::choose_kernels;
pub use choose_levels::choose_levels;
pub use clip_windows::clip_windows;
pub use coalesce_arms::coalesce_arms;
pub use coalesce_copies::coalesce_copies;
pub use cost::time;
pub use cut_shares::cut_shares;
pub use fork_calls::fork_calls;
pub use fuse::fuse;
pub use gather_state::gather_state;
pub use join_lanes::{join_lanes, join_lanes_of};
pub use keep_resident::keep_resident;
pub use keep_state::keep_state;
pub use latency::Latency;
pub use merge_variables::merge_variables;
pub use mirror_state::mirror_state;
pub use narrow_weights::narrow_weights;
pub use order_waves::order_waves;
use place_resizes::place_resizes;
pub use place_syncs::place_syncs;
pub use plan_memory::plan_memory;
pub use print::print;
pub use read_rows::read_rows;
pub use replicate::replicate;
pub use round_products::{has_cores, round_products};
pub use select_kernels::{Layouts, Transforms, packs_weights, select_kernels, select_kernels_in};
pub use simplify_indices::simplify_indices;
pub use split_depths::split_depths;
pub use spread_shares::spread_shares;
pub use sync_everywhere::sync_everywhere;
pub use total::total;
pub use trace::{TraceError, record_decisions, replay};
pub use version_rows::version_rows;

use heddle_ir::DType;
use heddle_uprogram::contract::Rounding;
use heddle_uprogram::program::UProgram;

/// A pass on uPrograms.
#[derive(Clone, Copy)]
pub struct Pass {
    /// The name on the command line.
    pub name: &'static str,
    /// One line for the help text.
    pub about: &'static str,
    /// Changes the program for the machine of a cost model or profiler.
    pub run: fn(&mut UProgram, &dyn Latency),
}

impl PartialEq for Pass {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The passes in the order in which they run. [`merge_variables`](fn@merge_variables), [`fuse`](fn@fuse),
/// [`simplify_indices`](fn@simplify_indices), [`read_rows`](fn@read_rows) and [`select_kernels`](fn@select_kernels) run before constants are packed; [`schedule`] runs the
/// others.
pub const PASSES: &[Pass] = &[
    MERGE_VARIABLES,
    FUSE,
    SIMPLIFY_INDICES,
    READ_ROWS,
    SELECT_KERNELS,
    Pass {
        name: "clip_windows",
        about: "cut windows off at the border of maps that are not copied for it",
        run: |program, latency| clip_windows(program, latency.machine()),
    },
    Pass {
        name: "coalesce_copies",
        about: "alias copies with their sources and destinations",
        run: |program, _| coalesce_copies(program),
    },
    Pass {
        name: "coalesce_arms",
        about: "update in place what another arm of a branch passes on",
        run: |program, _| coalesce_arms(program),
    },
    Pass {
        name: "align_splits",
        about: "split operators so that data stays on its worker",
        run: align_splits,
    },
    Pass {
        name: "version_rows",
        about: "split many rows of a set by rows, and few by columns",
        run: version_rows,
    },
    Pass {
        name: "order_waves",
        about: "order straight-line code so that independent chains share synchronisations",
        run: order_waves,
    },
    Pass {
        name: "split_depths",
        about: "split the depth of products with too few results for all workers",
        run: split_depths,
    },
    Pass {
        name: "choose_kernels",
        about: "choose between the fastest kernels and those that leave workers free",
        run: choose_kernels,
    },
    Pass {
        name: "choose_levels",
        about: "run on one worker what would take longer split",
        run: choose_levels,
    },
    Pass {
        name: "spread_shares",
        about: "run small operators side by side, on different units",
        run: spread_shares,
    },
    Pass {
        name: "fork_calls",
        about: "run independent calls in parallel, each on a part of the workers",
        run: fork_calls,
    },
    Pass {
        name: "cut_shares",
        about: "cut long shares into pieces, which workers take from each other",
        run: cut_shares,
    },
    Pass {
        name: "replicate",
        about: "let every worker compute for itself what all read, where that beats a wait",
        run: replicate,
    },
    Pass {
        name: "align_gathered",
        about: "split operators as their readers are, where gathered arrays leave no other wait",
        run: align_gathered,
    },
    Pass {
        name: "join_lanes",
        about: "let lanes of a unit work on a point together where points are few",
        run: |program, latency| join_lanes(program, latency.machine()),
    },
    Pass {
        name: "keep_resident",
        about: "keep weights that a loop reads again in shared memory",
        run: |program, latency| keep_resident(program, latency.machine()),
    },
    Pass {
        name: "keep_state",
        about: "keep arrays that a unit alone touches in its shared memory",
        run: |program, latency| keep_state(program, latency.machine()),
    },
    Pass {
        name: "mirror_state",
        about: "keep a copy of what a cluster's units exchange in the shared memory of each",
        run: |program, latency| mirror_state(program, latency.machine()),
    },
    Pass {
        name: "gather_state",
        about: "have units give each other what all read, number by number, in place of a wait",
        run: gather_state,
    },
    Pass {
        name: "plan_memory",
        about: "share memory between buffers whose live ranges are disjoint",
        run: plan_memory,
    },
    PLACE_SYNCS,
];

const MERGE_VARIABLES: Pass = Pass {
    name: "merge_variables",
    about: "make one of the sizes that are always equal",
    run: |program, _| merge_variables(program),
};

const FUSE: Pass = Pass {
    name: "fuse",
    about: "merge operators where that saves memory traffic",
    run: |program, _| fuse(program),
};

const SIMPLIFY_INDICES: Pass = Pass {
    name: "simplify_indices",
    about: "leave out divisions of indices that the ranges of axes decide",
    run: |program, latency| simplify_indices(program, latency.machine()),
};

const READ_ROWS: Pass = Pass {
    name: "read_rows",
    about: "read the rows of products by index, where that beats a copy of them",
    run: |program, latency| read_rows(program, latency.machine()),
};

/// Chooses kernels.
pub const SELECT_KERNELS: Pass = Pass {
    name: "select_kernels",
    about: "choose kernels and operand layouts of products",
    run: |program, latency| select_kernels(program, latency.machine()),
};

/// [`select_kernels`](fn@select_kernels) for weights in fewer bytes, which transformed filters would not be.
pub const PLAIN_KERNELS: Pass = Pass {
    name: "select_kernels_plain",
    about: "the same, with convolutions that sum their windows",
    run: |program, latency| forced(program, latency, (Layouts::ByPrice, Transforms::Never)),
};

/// [`select_kernels`](fn@select_kernels) with one choice for all convolutions, in its place; for tests of each.
pub const FORCED: [Pass; 5] = [
    PLAIN_KERNELS,
    Pass {
        name: "select_kernels_given",
        about: "the same, with maps of convolutions as they are given",
        run: |program, latency| forced(program, latency, (Layouts::Given, Transforms::Never)),
    },
    Pass {
        name: "select_kernels_channels_last",
        about: "the same, with channels of maps innermost wherever that is possible",
        run: |program, latency| {
            forced(program, latency, (Layouts::ChannelsLast, Transforms::Never));
        },
    },
    Pass {
        name: "select_kernels_winograd_2",
        about: "the same, with convolutions in tiles of 2x2 results wherever that is possible",
        run: |program, latency| {
            forced(program, latency, (Layouts::ByPrice, Transforms::Always(2)));
        },
    },
    Pass {
        name: "select_kernels_winograd_4",
        about: "the same, with convolutions in tiles of 4x4 results wherever that is possible",
        run: |program, latency| {
            forced(program, latency, (Layouts::ByPrice, Transforms::Always(4)));
        },
    },
];

fn forced(
    program: &mut UProgram,
    latency: &dyn Latency,
    (layouts, transforms): (Layouts, Transforms),
) {
    select_kernels_in(program, latency.machine(), layouts, transforms);
}

/// [`narrow_weights`](fn@narrow_weights) for each type, which runs behind [`select_kernels`](fn@select_kernels) where that is asked for.
pub const NARROW_WEIGHTS: [Pass; 3] = [
    Pass {
        name: "narrow_weights_bf16",
        about: "store packed constants that hold no more in bf16",
        run: |program, _| drop(narrow_weights(program, DType::Bf16)),
    },
    Pass {
        name: "narrow_weights_f16",
        about: "store packed constants that hold no more in f16",
        run: |program, _| drop(narrow_weights(program, DType::F16)),
    },
    Pass {
        name: "narrow_weights_i8",
        about: "store packed constants that hold no more in bytes, with a scale for each column",
        run: |program, _| drop(narrow_weights(program, DType::I8)),
    },
];

/// [`round_products`](fn@round_products) for each type, which runs behind [`select_kernels`](fn@select_kernels) where that is asked for.
pub const ROUND_PRODUCTS: [Pass; 3] = [
    Pass {
        name: "round_products_tf32",
        about: "allow tensor cores to round operands of products to tf32",
        run: |program, _| round_products(program, Rounding::Tf32),
    },
    Pass {
        name: "round_products_bf16",
        about: "allow tensor cores to round operands of products to bf16",
        run: |program, _| round_products(program, Rounding::Bf16),
    },
    Pass {
        name: "round_products_f16",
        about: "allow tensor cores to round operands of products to f16",
        run: |program, _| round_products(program, Rounding::F16),
    },
];

/// Passes that come before scheduling.
const EARLY: [Pass; 5] = [
    MERGE_VARIABLES,
    FUSE,
    SIMPLIFY_INDICES,
    READ_ROWS,
    SELECT_KERNELS,
];

/// Places synchronisations.
pub const PLACE_SYNCS: Pass = Pass {
    name: "place_syncs",
    about: "synchronise where data crosses workers, not before every operator",
    run: |program, latency| {
        place_syncs(program, latency.machine());
        place_resizes(program, latency.machine());
    },
};

/// Replaces [`PLACE_SYNCS`] if that is left out.
pub const SYNC_EVERYWHERE: Pass = Pass {
    name: "sync_everywhere",
    about: "synchronise before every operator",
    run: |program, _| sync_everywhere(program),
};

/// The pass of this name.
pub fn find_pass(name: &str) -> Option<&'static Pass> {
    PASSES
        .iter()
        .chain([&SYNC_EVERYWHERE])
        .chain(&FORCED)
        .chain(&NARROW_WEIGHTS)
        .chain(&ROUND_PRODUCTS)
        .find(|pass| pass.name == name)
}

impl Pass {
    /// Runs the pass. Debug builds check that it leaves the program well-formed.
    pub fn apply(&self, program: &mut UProgram, latency: &dyn Latency) {
        (self.run)(program, latency);
        debug_assert_eq!(
            heddle_uprogram::verify_program(program),
            Ok(()),
            "after {}",
            self.name
        );
    }
}

/// The passes that shape operators, without some. After them constants and their
/// layouts are final.
pub fn kernel_passes(without: &[Pass]) -> impl Iterator<Item = &'static Pass> {
    let passes = PASSES.iter().filter(|pass| EARLY.contains(pass));
    passes.filter(|pass| !without.contains(pass))
}

/// The passes that schedule, without some. Without [`place_syncs`], a barrier
/// precedes every operator.
pub fn schedule_passes(without: &[Pass]) -> impl Iterator<Item = &'static Pass> {
    let passes = PASSES.iter().filter(|pass| !EARLY.contains(pass));
    passes.filter_map(|pass| match without.contains(pass) {
        false => Some(pass),
        true => (*pass == PLACE_SYNCS).then_some(&SYNC_EVERYWHERE),
    })
}

/// Schedules a program for the machine of a cost model or profiler.
pub fn schedule(program: &mut UProgram, latency: &dyn Latency) {
    schedule_without(program, latency, &[]);
}

/// Schedules a program without some passes.
pub fn schedule_without(program: &mut UProgram, latency: &dyn Latency, without: &[Pass]) {
    for pass in schedule_passes(without) {
        pass.apply(program, latency);
    }
    program.drop_idle_operators();
}
