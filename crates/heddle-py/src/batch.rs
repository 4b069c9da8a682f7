//! Programs for many instances.

use std::collections::HashMap;

use heddle::batch::{Batch, Finished, Form};
use heddle::{Model, Value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::{detached, exception, input_error};
use crate::model::PyModel;
use crate::options::{Compiling, Running};
use crate::program::{PyProgram, watched};
use crate::values::object;

/// A program for many instances: `heddle.BatchProgram` is made of it.
#[pyclass(frozen, name = "Batch", module = "heddle")]
pub struct PyBatch {
    batch: Batch,
    program: Py<PyProgram>,
    inputs: Vec<(String, Form)>,
}

/// The forms by their names.
const FORMS: [(&str, Form); 3] = [
    ("stacked", Form::Stacked),
    ("ragged", Form::Ragged),
    ("flat", Form::Flat),
];

/// Compiles a model for many instances, which differ in the inputs that `forms` names. A form is "stacked", "ragged" or "flat"; `None` is
/// the one that follows from the input's type.
#[pyfunction]
pub fn compile_batch(
    py: Python<'_>,
    model: &Bound<'_, PyModel>,
    forms: HashMap<String, Option<String>>,
    options: Compiling,
) -> PyResult<PyBatch> {
    let options = options.options(py)?;
    let mut stated = vec![];
    for (name, form) in &forms {
        let Some(form) = form.as_deref() else {
            continue;
        };
        let Some((_, form)) = FORMS.into_iter().find(|(known, _)| *known == form) else {
            let known = FORMS.map(|(known, _)| format!("{known:?}")).join(", ");
            let text = format!("{name}: {form:?} is no form; there are {known}");
            return Err(input_error(py, text, None));
        };
        stated.push((name.clone(), form));
    }
    let model: Model = model.get().0.clone();
    let (batch, program, inputs) = detached(py, || {
        let names: Vec<String> = forms.into_keys().collect();
        let mut forms = model.batch_forms(&names)?;
        forms.extend(stated);
        let batch = model.batched_within(&forms, options.max_frames)?;
        let program = heddle::compile(&batch.model, &options)?;
        Ok((batch, program, forms.into_iter().collect()))
    })?;
    Ok(PyBatch {
        batch,
        program: Py::new(py, PyProgram::of(program))?,
        inputs,
    })
}

fn named(forms: impl Iterator<Item = (String, Form)>) -> HashMap<String, &'static str> {
    let name = |form| FORMS.into_iter().find(|(_, known)| *known == form);
    forms
        .filter_map(|(port, form)| Some((port, name(form)?.0)))
        .collect()
}

#[pymethods]
impl PyBatch {
    /// The program on batched inputs.
    #[getter]
    fn program(&self, py: Python<'_>) -> Py<PyProgram> {
        self.program.clone_ref(py)
    }

    /// Forms of the inputs that differ by instance.
    #[getter]
    fn inputs(&self) -> HashMap<String, &'static str> {
        named(self.inputs.iter().cloned())
    }

    /// Forms of the outputs.
    #[getter]
    fn outputs(&self) -> HashMap<String, &'static str> {
        named(self.batch.outputs.clone().into_iter())
    }

    /// Pairs of a node that is evaluated for one instance after the other, and the reason.
    #[getter]
    fn one_by_one(&self) -> Vec<(String, String)> {
        let all = self.batch.one_by_one.iter();
        all.map(|one| (one.node.clone(), one.reason.clone()))
            .collect()
    }

    /// Runs on batched inputs. Results by name, the numbers of the instances that they are of, and pairs of the number and the error of
    /// the others. Without `keep_going` an instance that stops the run is an error.
    #[allow(clippy::type_complexity)]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyDict>,
        options: Running<'py>,
        keep_going: bool,
    ) -> PyResult<(
        Bound<'py, PyDict>,
        Option<Vec<usize>>,
        Vec<(usize, Bound<'py, PyAny>)>,
    )> {
        let options = options.options(py)?;
        let program = self.program.bind(py).get();
        let inputs = program.inputs_of(py, &PyTuple::empty(py), Some(inputs))?;
        let inputs = || inputs.iter().cloned().collect();
        let (run, instances, failed) = watched(py, &options, |options| match keep_going {
            true => {
                let finished = self
                    .batch
                    .run_finishing(&program.program, inputs(), options)?;
                let Finished {
                    run,
                    instances,
                    failed,
                } = finished;
                Ok((run, Some(instances), failed))
            }
            false => {
                let run = self.batch.run(&program.program, inputs(), options)?;
                Ok((run, None, vec![]))
            }
        })?;
        let failed = failed.iter().map(|one| {
            (
                one.instance,
                exception(py, &one.error)
                    .into_value(py)
                    .into_bound(py)
                    .into_any(),
            )
        });
        let results = PyDict::new(py);
        for (name, value) in run.outputs {
            results.set_item(name, object(py, value, false)?)?;
        }
        Ok((results, instances, failed.collect()))
    }

    /// Steps of the blocks of a run on these inputs: block, steps, activations, whether it runs one by one.
    fn activity<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyDict>,
        options: Running<'py>,
    ) -> PyResult<Vec<(String, u64, u64, bool)>> {
        let options = options.options(py)?;
        let program = self.program.bind(py).get();
        let inputs: Vec<(String, Value)> =
            program.inputs_of(py, &PyTuple::empty(py), Some(inputs))?;
        let activity = watched(py, &options, |options| {
            self.batch
                .activity(&inputs.iter().cloned().collect(), options)
        })?;
        let blocks = activity.blocks.into_iter();
        Ok(blocks
            .map(|b| (b.block, b.steps, b.activations, b.is_one_by_one))
            .collect())
    }
}
