//! The native part of the Python package `heddle`: models, programs, arrays and errors of the Rust library as Python objects.
//!
//! - `arrays`, `strided`, `values`, `outputs`: arrays of Python as tensors and back, without copies where memory allows it;
//! - `views`, `dlpack`: the short way of calls on plain arrays and tensors of PyTorch;
//! - `options`: keyword arguments as options;
//! - `model`, `program`, `batch`: the classes; `describe`: what an ONNX file says of itself;
//! - `measure`: times and comparisons of results;
//! - `interrupt`: Ctrl-C ends a run;
//! - `errors`: errors as exceptions, whose classes `heddle/_errors.py` defines.
//!
//! Architecture invariant: no meaning of an operator is here or in the Python package; both only move values, options and errors.

mod arrays;
mod batch;
mod describe;
mod dlpack;
mod errors;
mod interrupt;
mod measure;
mod model;
mod options;
mod outputs;
mod program;
mod strided;
mod values;
mod views;

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the `heddle` command with these arguments, of which the first is the program's name; its exit code.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| heddle_cli::run(arguments))
}

/// Classes and functions that `heddle/__init__.py` gives names.
///
/// Nothing here relies on the interpreter's lock: classes are frozen and hold what threads may share, what is made once is in a `PyOnceLock`,
/// and the watch over Ctrl-C belongs to the main thread. Arrays that a thread changes while another one gives them to a run are the caller's
/// part, with the lock, too, since runs let go of it.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<model::PyModel>()?;
    module.add_class::<program::PyProgram>()?;
    module.add_class::<program::PyCancel>()?;
    module.add_class::<batch::PyBatch>()?;
    module.add_function(wrap_pyfunction!(batch::compile_batch, module)?)?;
    module.add_function(wrap_pyfunction!(model::load, module)?)?;
    module.add_function(wrap_pyfunction!(model::load_trace, module)?)?;
    module.add_function(wrap_pyfunction!(model::trace_targets, module)?)?;
    module.add_function(wrap_pyfunction!(program::compile, module)?)?;
    module.add_function(wrap_pyfunction!(program::open_program, module)?)?;
    module.add_function(wrap_pyfunction!(model::model_of_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(describe::describe, module)?)?;
    module.add_function(wrap_pyfunction!(measure::bench, module)?)?;
    module.add_function(wrap_pyfunction!(measure::compare, module)?)?;
    module.add_function(wrap_pyfunction!(options::add_compiler, module)?)?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    module.add("version", env!("CARGO_PKG_VERSION"))
}
