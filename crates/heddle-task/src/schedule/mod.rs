//! Schedules a uProgram: which unit runs what, and where units wait for each other.
//!
//! Architecture invariant: nothing here knows what a unit is; a [`Device`] says how many there are and what things cost.

mod align_splits;
mod deal;
mod device;
mod linear;
mod place_syncs;
mod plan_memory;
mod procedures;
mod spans;

pub use align_splits::{align_splits, total};
pub use device::Device;
pub use place_syncs::place_syncs;
pub use plan_memory::plan_memory;

use crate::coalesce_copies;
use crate::program::UProgram;

/// Schedules a program for a device.
pub fn schedule(program: &mut UProgram, device: &Device) {
    coalesce_copies(program);
    align_splits(program, device);
    plan_memory(program, device);
    place_syncs(program, device);
}
