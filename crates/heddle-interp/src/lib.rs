//! The reference interpreter: the oracle for everything else.
//!
//! It executes the IR directly, instruction by instruction, in program order. It is meant to be
//! obviously right, not fast: each op has one kernel of plain loops, without vector code, blocking
//! or threads. It is deterministic (random numbers are a function of a key) and never reassociates: each
//! kernel documents its one order of accumulation. Floats of 16 bits are computed in `f32` and
//! rounded once per op; with [`Options::f64`] all floats are computed and kept in double.
//!
//! Limits on the memory of live values, iterations of a loop, depth of calls and wall time stop a
//! run with an error that names the instruction. Modules must have passed the verifier; an index
//! out of range or shapes that do not fit, which types cannot rule out, are errors too.
//!
//! Layers, each of which uses only those before it:
//! - `error`, `context` (limits), `value` (arrays), `marshal` (arrays of callers and modules);
//! - `kernels`: the value of each op;
//! - `plan` (last uses), `check` (types), `natives` (compiled calls), `counts`, `exec` (control flow), `fold`.

#![forbid(unsafe_code)]

mod check;
mod context;
mod counts;
mod error;
mod exec;
mod fold;
mod kernels;
mod marshal;
mod natives;
mod plan;
mod value;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use heddle_ir::{Datum, FuncId, Module, Value};

pub use check::check_inputs;
pub use counts::{Counts, Profile, Tally};
pub use error::{Fault, InputError, Place, RunError};
pub use fold::{evaluate, fold};
pub use natives::{Budget, Natives};

/// Precision and limits of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Compute and keep all floats in double: casts among floats of 16 bits and more do nothing,
    /// inputs and constants are widened exactly, float outputs come as `f64`.
    pub f64: bool,
    /// Limit on the bytes of all live values.
    pub max_memory: u64,
    /// Limit on the iterations of one execution of a loop.
    pub max_iterations: u64,
    /// Limit on the depth of nested calls.
    pub max_depth: usize,
    /// Limit on wall time.
    pub timeout: Option<Duration>,
    /// Stops the run with [`Fault::Cancelled`] once it is not 0.
    pub cancel: Option<Arc<AtomicU32>>,
    /// The run's key ([`heddle_ir::Op::RunKey`]).
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
            cancel: None,
            seed: 0,
            check_types: cfg!(debug_assertions),
        }
    }
}

/// Runs a module's default entry on these inputs, in the order of its parameters, and returns its
/// results. [`Module::with_entry`] makes another entry the default.
///
/// Inputs are checked against the parameters' types: number, element types, ranks and dims, with
/// named sizes bound consistently and within their bounds. With [`Options::f64`] a float input may
/// also be given as `f64`.
pub fn run(module: &Module, inputs: &[Datum], options: &Options) -> Result<Vec<Datum>, RunError> {
    exec::run(module, inputs, options, None, None)
}

/// [`run`] with compiled functions.
pub fn run_with(
    module: &Module,
    inputs: &[Datum],
    options: &Options,
    natives: &dyn Natives,
) -> Result<Vec<Datum>, RunError> {
    exec::run(module, inputs, options, Some(natives), None)
}

/// [`run`] that counts calls, and the definitions of these `i64[]` of functions.
pub fn run_counted(
    module: &Module,
    inputs: &[Datum],
    options: &Options,
    watched: &[(FuncId, Value)],
) -> Result<Counts, RunError> {
    let mut counter = counts::Counter::new(watched);
    exec::run(module, inputs, options, None, Some(&mut counter))?;
    Ok(counter.counts)
}

/// [`run`] that gives the mean sizes of all arrays and the mean trip counts of all loops.
pub fn run_profiled(
    module: &Module,
    inputs: &[Datum],
    options: &Options,
) -> Result<Profile, RunError> {
    let mut counter = counts::Counter::new(&[]);
    counter.sums = Some(counts::Sums::default());
    exec::run(module, inputs, options, None, Some(&mut counter))?;
    Ok(counter.sums.map(counts::Sums::means).unwrap_or_default())
}
