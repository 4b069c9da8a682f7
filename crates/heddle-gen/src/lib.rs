//! Random programs for tests: well-typed, with nested control flow, and so made that they always
//! run to their end.
//!
//! Every value that a program computes has at most 3 axes (scalars stacked in loops included) of at
//! most 5 elements; axes may be empty, and sizes are symbolic or unknown as often as not. What
//! could go wrong at run time is made right by construction: indices are taken modulo the axis,
//! which is padded so that it is not empty, operands are *fitted* (flattened, padded, cut and
//! reshaped) to the shape that an op wants, and loops and recursion have counters beside their
//! other conditions. The same seed and configuration give the same program and inputs.

mod body;
mod control;
mod data;
mod elementwise;
mod fit;
mod indexing;
mod maps;
mod order;
mod program;
mod sequences;
mod shapes;
mod windows;

use heddle_ir::{Datum, Module};

pub use maps::maps;

/// Limits on the size of programs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Functions beside the entry, at most.
    pub functions: usize,
    /// Steps (an op with what makes its operands fit, or a control-flow construct) in each body, at
    /// most.
    pub steps: usize,
    /// Depth of nested control flow within a function.
    pub depth: usize,
    /// Budget of a run in instructions.
    pub cost: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            functions: 3,
            steps: 16,
            depth: 3,
            cost: 800,
        }
    }
}

/// The program of a seed, with inputs for its default entry. Some programs have a second entry,
/// which a body may also call.
pub fn generate(seed: u64, config: &Config) -> (Module, Vec<Datum>) {
    program::generate(seed, config)
}
