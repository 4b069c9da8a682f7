//! uOperators: graph IR lowered to loops over scalar bodies, scheduled on units.
//!
//! [`lower`](fn@lower::lower) turns a module into a [`UProgram`]: control flow that every unit
//! executes itself, and uOperators whose uTasks are dealt out to the units. [`schedule`](fn@schedule::schedule) says
//! how, and adds a synchronisation where, and only where, data crosses units. Nothing here knows what a unit is: an emitter says so.

mod coalesce_copies;
pub mod contract;
pub mod expr;
pub mod fuse;
pub mod live;
pub mod lower;
pub mod print;
pub mod program;
pub mod renamed;
pub mod schedule;
pub mod step;
pub mod trace;
pub mod value;
pub mod verify;

pub use coalesce_copies::coalesce_copies;
pub use expr::{Expr, ExprId, Pool};
pub use fuse::fuse;
pub use live::kept_over_calls;
pub use lower::{LowerError, lower, lower_unfused};
pub use print::print;
pub use program::UProgram;
pub use schedule::{
    Choice, Choices, Latency, align_splits, are_alike, benchmark, candidates, choices,
    choose_kernels, choose_levels, fork_calls, order_waves, place_syncs, plan_memory, schedule,
    schedule_without, sync_everywhere, total,
};
pub use trace::{TraceError, record_decisions, replay};
pub use verify::{ScheduleError, verify_schedule};
