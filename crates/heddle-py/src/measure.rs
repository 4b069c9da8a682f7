//! Times of runs, and comparisons of results.

use std::time::Instant;

use heddle::{Mismatch, Tolerance, Value, compare as compare_values};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::input_error;
use crate::options::{self, Running};
use crate::program::{PyProgram, watched};
use crate::values::value;

/// Runs on inputs by name until so many seconds are over and so many runs are done, after a first one. The seconds of each run, in order:
/// of taking the workers and the program itself, up to its results in memory.
#[pyfunction]
pub fn bench<'py>(
    py: Python<'py>,
    program: &Bound<'py, PyProgram>,
    inputs: &Bound<'py, PyDict>,
    options: Running<'py>,
    seconds: f64,
    runs: usize,
) -> PyResult<Vec<f64>> {
    let options = options.options(py)?;
    let least = options::seconds(py, "seconds", seconds)?.ok_or_else(|| {
        let text = format!("seconds={seconds}: runs need an end");
        input_error(py, text, None)
    })?;
    let program = program.get();
    let inputs = program.inputs_of(py, &PyTuple::empty(py), Some(inputs))?;
    watched(py, &options, |options| {
        let mut repeat = program
            .program
            .repeat(inputs.iter().cloned().collect(), options)?;
        // It finds cold caches, and memory that is not there yet.
        repeat.run()?;
        let (start, mut times) = (Instant::now(), vec![]);
        while times.len() < runs.max(1) || start.elapsed() < least {
            times.push(repeat.run()?.as_secs_f64());
        }
        Ok(times)
    })
}

/// A comparison: the output's name, agreement, elements, largest absolute and relative differences, and the difference in words.
type Compared = (
    String,
    bool,
    usize,
    Option<f64>,
    Option<f64>,
    Option<String>,
);

/// Compares results with expected values, output by output.
#[pyfunction]
pub fn compare<'py>(
    py: Python<'py>,
    program: &Bound<'py, PyProgram>,
    results: &Bound<'py, PyDict>,
    expected: &Bound<'py, PyDict>,
    rtol: f64,
    atol: f64,
) -> PyResult<Vec<Compared>> {
    if !(rtol >= 0.0 && atol >= 0.0) {
        let text = format!("rtol={rtol}, atol={atol}: a tolerance is a number from 0 on");
        return Err(input_error(py, text, None));
    }
    let tolerance = Tolerance {
        rtol,
        atol,
        exact_integers: true,
        any_float: true,
    };
    let mut compared = vec![];
    for port in &program.get().signature.outputs {
        let name = &port.name;
        let read = |values: &Bound<'py, PyDict>| -> PyResult<Option<Value>> {
            let found = values.get_item(name)?;
            found
                .map(|object| value(name, &port.ty, &object))
                .transpose()
        };
        let (Some(got), Some(want)) = (read(results)?, read(expected)?) else {
            continue;
        };
        compared.push(match compare_values(&got, &want, &tolerance) {
            Ok(close) => {
                let (abs, rel) = (Some(close.max_abs), Some(close.max_rel));
                (name.clone(), true, close.elements, abs, rel, None)
            }
            Err(mismatch) => {
                let elements = match &mismatch {
                    Mismatch::Values { total, .. } => *total,
                    Mismatch::Kind { .. } => 0,
                };
                (
                    name.clone(),
                    false,
                    elements,
                    None,
                    None,
                    Some(mismatch.to_string()),
                )
            }
        });
    }
    Ok(compared)
}
