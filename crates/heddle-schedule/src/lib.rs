//! Schedules a uProgram: which unit runs what, and where units wait for each other.
//!
//! Architecture invariant: nothing here knows what a unit is; a [`Machine`](heddle_machine::Machine) says
//! how many there are and what things cost.

mod align_splits;
mod benchmark;
mod candidates;
mod choices;
mod choose_kernels;
mod choose_levels;
mod coalesce_copies;
mod common_deals;
mod cost;
mod deal;
mod effects;
mod fork_calls;
pub mod fuse;
mod independent_parts;
mod latency;
mod linear;
mod memo;
mod order_waves;
mod place_syncs;
mod plan_memory;
pub mod print;
mod procedures;
mod select_kernels;
mod spans;
mod split_depths;
mod sync_everywhere;
pub mod trace;
mod trials;

pub use align_splits::align_splits;
pub use benchmark::benchmark;
pub use candidates::{are_alike, candidates};
pub use choices::{Choice, Choices, choices};
pub use choose_kernels::choose_kernels;
pub use choose_levels::choose_levels;
pub use coalesce_copies::coalesce_copies;
pub use cost::time;
pub use fork_calls::fork_calls;
pub use fuse::fuse;
pub use latency::{Latency, total};
pub use order_waves::order_waves;
pub use place_syncs::place_syncs;
pub use plan_memory::plan_memory;
pub use print::print;
pub use select_kernels::select_kernels;
pub use split_depths::split_depths;
pub use sync_everywhere::sync_everywhere;
pub use trace::{TraceError, record_decisions, replay};

use heddle_uprogram::program::UProgram;

/// A pass on uPrograms.
#[derive(Clone, Copy)]
pub struct Pass {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Changes a program that is to run on the machine of a cost model or profiler.
    pub run: fn(&mut UProgram, &dyn Latency),
}

/// The passes in the order in which they run. [`fuse`](fn@fuse) and [`select_kernels`](fn@select_kernels) run before constants are
/// packed; [`schedule`] runs the others.
pub const PASSES: &[Pass] = &[
    FUSE,
    SELECT_KERNELS,
    Pass {
        name: "coalesce_copies",
        about: "let what copies another array be that array",
        run: |program, _| coalesce_copies(program),
    },
    Pass {
        name: "align_splits",
        about: "deal operators out so that data stays on its worker",
        run: align_splits,
    },
    Pass {
        name: "order_waves",
        about: "order straight-line code so that independent parts share their synchronisations",
        run: order_waves,
    },
    Pass {
        name: "split_depths",
        about: "share out the depth of products that have too few results to share",
        run: split_depths,
    },
    Pass {
        name: "choose_kernels",
        about: "choose between kernels that are fastest alone and those that leave workers to others",
        run: choose_kernels,
    },
    Pass {
        name: "choose_levels",
        about: "leave to one worker what would take longer to share",
        run: choose_levels,
    },
    Pass {
        name: "fork_calls",
        about: "run calls that are independent on workers of their own",
        run: fork_calls,
    },
    Pass {
        name: "plan_memory",
        about: "let what is not needed at the same time lie in the same memory",
        run: plan_memory,
    },
    Pass {
        name: "place_syncs",
        about: "synchronise where data crosses workers, not before every operator",
        run: |program, latency| place_syncs(program, latency.machine()),
    },
];

const FUSE: Pass = Pass {
    name: "fuse",
    about: "make one operator of several where that saves memory traffic",
    run: |program, _| fuse(program),
};

const SELECT_KERNELS: Pass = Pass {
    name: "select_kernels",
    about: "give products kernels, and lay their operands out for them",
    run: |program, latency| select_kernels(program, latency.machine()),
};

/// Passes that come before scheduling.
const EARLY: [&str; 2] = [FUSE.name, SELECT_KERNELS.name];

/// Runs instead of the last of [`PASSES`] where that is left out.
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

/// The passes that shape operators, but those of these names. Behind them constants and their layouts are final.
pub fn kernel_passes(without: &[String]) -> impl Iterator<Item = &'static Pass> {
    let passes = PASSES.iter().filter(|pass| EARLY.contains(&pass.name));
    passes.filter(|pass| without.iter().all(|name| name != pass.name))
}

/// The passes that schedule, but those of these names. Without [`place_syncs`], units wait for each other before every
/// operator.
pub fn schedule_passes(without: &[String]) -> impl Iterator<Item = &'static Pass> {
    let passes = PASSES.iter().filter(|pass| !EARLY.contains(&pass.name));
    passes.filter_map(|pass| {
        let left_out = without.iter().any(|name| name == pass.name);
        match (left_out, pass.name) {
            (false, _) => Some(pass),
            (true, "place_syncs") => Some(&SYNC_EVERYWHERE),
            (true, _) => None,
        }
    })
}

/// Schedules a program for the machine of a cost model or profiler.
pub fn schedule(program: &mut UProgram, latency: &dyn Latency) {
    schedule_without(program, latency, &[]);
}

/// Schedules a program without the passes of these names.
pub fn schedule_without(program: &mut UProgram, latency: &dyn Latency, without: &[String]) {
    for pass in schedule_passes(without) {
        pass.apply(program, latency);
    }
    program.drop_idle_operators();
}
