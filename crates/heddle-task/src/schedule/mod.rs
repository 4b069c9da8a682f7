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
mod sync_everywhere;

pub use align_splits::{align_splits, total};
pub use device::Device;
pub use place_syncs::place_syncs;
pub use plan_memory::plan_memory;
pub use sync_everywhere::sync_everywhere;

use crate::coalesce_copies;
use crate::program::UProgram;

/// Schedules a program for a device.
pub fn schedule(program: &mut UProgram, device: &Device) {
    schedule_without(program, device, &[]);
}

/// Schedules a program without the passes of these names. Without [`place_syncs`], units wait for each other before
/// every operator.
pub fn schedule_without(program: &mut UProgram, device: &Device, without: &[String]) {
    let with = |pass: &str| without.iter().all(|name| name != pass);
    if with("coalesce_copies") {
        coalesce_copies(program);
    }
    if with("align_splits") {
        align_splits(program, device);
    }
    if with("plan_memory") {
        plan_memory(program, device);
    }
    match with("place_syncs") {
        true => place_syncs(program, device),
        false => sync_everywhere(program),
    }
}
