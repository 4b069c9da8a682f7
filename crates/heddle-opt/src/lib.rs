//! Graph passes, one file each.

mod patch;
mod stats;

pub use patch::{CopyTypes, Patch, PatchError};
pub use stats::Stats;
