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

/// Schedules a program for the machine of a cost model or profiler.
pub fn schedule(program: &mut UProgram, latency: &dyn Latency) {
    schedule_without(program, latency, &[]);
}

/// Schedules a program without the passes of these names. Without [`place_syncs`], units wait for each other before
/// every operator.
pub fn schedule_without(program: &mut UProgram, latency: &dyn Latency, without: &[String]) {
    let with = |pass: &str| without.iter().all(|name| name != pass);
    if with("coalesce_copies") {
        coalesce_copies(program);
    }
    if with("align_splits") {
        align_splits(program, latency);
    }
    if with("order_waves") {
        order_waves(program, latency);
    }
    if with("split_depths") {
        split_depths(program, latency);
    }
    if with("choose_kernels") {
        choose_kernels(program, latency);
    }
    if with("choose_levels") {
        choose_levels(program, latency);
    }
    if with("fork_calls") {
        fork_calls(program, latency);
    }
    if with("plan_memory") {
        plan_memory(program, latency);
    }
    match with("place_syncs") {
        true => place_syncs(program, latency.machine()),
        false => sync_everywhere(program),
    }
}
