//! The reference interpreter: the oracle for everything else.
//!
//! It executes the IR directly, instruction by instruction, in the order in which they are written. It is
//! deterministic (random numbers come from a seed), runs on one thread and never reassociates: every kernel has one
//! simple, fixed order of accumulation. Floats of 16 bits are computed in `f32` and rounded once per op; with
//! [`Options::f64`] all floats are computed and kept in double.
//!
//! A run is guarded: memory of live values, iterations of a loop, depth of calls and wall time have limits, which stop
//! the run with an error that names the instruction. Modules must have passed the verifier; what types cannot rule
//! out (an index out of range, shapes that do not fit) is an error too.

#![forbid(unsafe_code)]

mod check;
mod context;
mod error;
mod exec;
mod fold;
mod kernels;
mod marshal;
mod natives;
mod plan;
mod value;

use std::time::Duration;

use heddle_ir::{Datum, Module};

pub use check::check_inputs;
pub use error::{Fault, InputError, Place, RunError};
pub use fold::{evaluate, fold};
pub use natives::{Left, Natives};

/// How to run, and when to stop.
#[derive(Clone, Debug)]
pub struct Options {
    /// Compute and keep all floats in double: casts among floats of 16 bits and more do nothing, inputs and constants are
    /// widened exactly, float outputs come as `f64`.
    pub f64: bool,
    /// Bytes that live values may take together.
    pub max_memory: u64,
    /// How often a loop may iterate each time it is run.
    pub max_iterations: u64,
    /// How deep calls may nest.
    pub max_depth: usize,
    /// How long the run may take.
    pub timeout: Option<Duration>,
    /// What random numbers are drawn from, where an instruction has no seed of its own.
    pub seed: u64,
    /// Check every result against the type that its value states; for tests of inference.
    pub check_types: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            f64: false,
            max_memory: 16 << 30,
            max_iterations: 100_000_000,
            max_depth: 10_000,
            timeout: None,
            seed: 0,
            check_types: cfg!(debug_assertions),
        }
    }
}

/// Runs a module's entry function on these inputs, in the order of its parameters, and returns its results.
///
/// Inputs are checked against the parameters' types: number, element types, ranks and dims, with named sizes bound
/// consistently and within their bounds. With [`Options::f64`] a float input may also be given as `f64`.
pub fn run(module: &Module, inputs: &[Datum], options: &Options) -> Result<Vec<Datum>, RunError> {
    exec::run(module, inputs, options, None)
}

/// The same as [`run`], with some functions evaluated elsewhere.
pub fn run_with(
    module: &Module,
    inputs: &[Datum],
    options: &Options,
    natives: &dyn Natives,
) -> Result<Vec<Datum>, RunError> {
    exec::run(module, inputs, options, Some(natives))
}
