//! The C-family writer: uPrograms as source text.
//!
//! [`write`](fn@write) walks a uProgram once. A [`Dialect`], a table, holds all differences between
//! targets; the walk never asks for the target. Identifiers are generated; names from the model
//! appear in comments only, reduced to plain characters.

mod arg_fold;
mod calls;
mod chain;
mod clip;
mod constants;
mod contract;
mod dialect;
mod fold;
mod fold_tiles;
mod functions;
mod gatherings;
mod host;
mod leaving;
mod limits;
mod map;
mod nest;
mod operator;
mod ordered;
mod peel;
mod prelude;
mod program;
mod quads;
mod ranges;
mod residents;
mod resizes;
mod scalar;
mod swapped_pairs;
mod team_loops;
mod text;
mod tiles;
mod turned;
mod warpgroups;
mod windows;

pub use constants::{Constant, Constants, is_constant};
pub use dialect::{C, CUDA, Dialect};
pub use program::{Emitted, write, write_hosted};
