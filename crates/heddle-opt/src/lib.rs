//! Graph passes, one file each.

mod bounds;
mod callgraph;
mod effects;
mod facts;
mod infer_shapes;
mod inline_calls;
mod literal;
mod merge_common;
mod patch;
mod remove_dead;
mod stats;

pub use infer_shapes::infer_shapes;
pub use inline_calls::inline_calls;
pub use merge_common::merge_common;
pub use patch::{CopyTypes, Patch, PatchError};
pub use remove_dead::remove_dead;
pub use stats::Stats;
