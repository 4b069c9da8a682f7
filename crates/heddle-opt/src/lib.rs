//! Graph passes, one file each.

mod bounds;
mod callgraph;
mod facts;
mod infer_shapes;
mod patch;
mod stats;

pub use infer_shapes::infer_shapes;
pub use patch::{CopyTypes, Patch, PatchError};
pub use stats::Stats;
