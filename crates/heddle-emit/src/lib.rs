//! The C-family writer: uPrograms as source text.
//!
//! [`write`](fn@write) walks a uProgram once. What differs between targets stands in a [`Dialect`], a table; the walk never asks which
//! target it writes for. Identifiers are generated; names from the model appear in comments only, with everything but
//! plain characters taken out.

mod arg_fold;
mod calls;
mod chain;
mod constants;
mod contract;
mod dialect;
mod fold;
mod functions;
mod host;
mod map;
mod nest;
mod operator;
mod ordered;
mod program;
mod scalar;
mod text;

pub use constants::Constants;
pub use dialect::{C, CUDA, Dialect};
pub use program::{Emitted, write, write_hosted};
