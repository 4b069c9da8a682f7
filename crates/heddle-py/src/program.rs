//! Programs.

use std::path::PathBuf;
use std::time::Instant;

use heddle::{
    CancelToken, Device, Emit, Error, ErrorKind, Program, Run, RunOptions, Signature, Target, Value,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::arrays::descr;
use crate::errors::{detached, exception, input_error};
use crate::interrupt::{self, Watch};
use crate::model::{PyModel, ports};
use crate::options::{Compiling, Opening, Running};
use crate::outputs;
use crate::values::{object, value};
use crate::views::Views;

/// Stops runs that it is given to: `heddle.Cancel`.
#[pyclass(frozen, name = "Cancel", module = "heddle")]
pub struct PyCancel(pub CancelToken);

#[pymethods]
impl PyCancel {
    #[new]
    fn new() -> Self {
        Self(CancelToken::new())
    }

    /// Stops the runs, now and later, until `reset`.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// One that this one cancels, too, and that leaves this one as it is.
    fn child(&self) -> Self {
        Self(self.0.child())
    }

    /// Makes it usable again.
    fn reset(&self) {
        self.0.reset();
    }

    /// Was it cancelled?
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// A program that is ready to run: `heddle.Program` is made of it.
#[pyclass(frozen, name = "Program", module = "heddle")]
pub struct PyProgram {
    pub program: Program,
    pub signature: Signature,
}

/// Compiles a model. The dictionary holds all of the options.
#[pyfunction]
pub fn compile(
    py: Python<'_>,
    model: &Bound<'_, PyModel>,
    options: Compiling,
) -> PyResult<PyProgram> {
    let options = options.options(py)?;
    let model = model.get().0.clone();
    let program = detached(py, || heddle::compile(&model, &options))?;
    Ok(PyProgram::of(program))
}

#[pymethods]
impl PyProgram {
    /// The inputs, as pairs of a name and a type.
    #[getter]
    fn inputs(&self) -> Vec<(String, String)> {
        ports(&self.signature.inputs)
    }

    /// The outputs, likewise.
    #[getter]
    fn outputs(&self) -> Vec<(String, String)> {
        ports(&self.signature.outputs)
    }

    /// The device: the interpreter where the one that was asked for has no compiled form.
    #[getter]
    fn device(&self) -> &'static str {
        self.program.device().name()
    }

    /// The most worker threads.
    #[getter]
    fn threads(&self) -> usize {
        self.program.threads()
    }

    /// Bytes that the program keeps for its next run.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.program.held_bytes()
    }

    /// Seconds of each stage of compiling, and what the interpreter runs with the reasons.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = self.program.report();
        let stages = PyDict::new(py);
        for (stage, time) in &report.stages {
            stages.set_item(stage, time.as_secs_f64())?;
        }
        let dict = PyDict::new(py);
        dict.set_item("load", report.load.as_secs_f64())?;
        dict.set_item("compile", report.compile.as_secs_f64())?;
        dict.set_item("stages", stages)?;
        dict.set_item("verified", report.verified)?;
        dict.set_item(
            "compiled_parts",
            report.interpreted.as_ref().map(|all| all.compiled_parts),
        )?;
        let interpreted = report.interpreted.iter().flat_map(|all| &all.uncompiled);
        let interpreted = interpreted.map(|one| {
            let one = (one.node.clone(), one.reason.clone(), one.change);
            one.into_pyobject(py)
        });
        dict.set_item("interpreted", interpreted.collect::<PyResult<Vec<_>>>()?)?;
        Ok(dict)
    }

    /// The program at a stage: `c`, `cuda`, `ir` or `schedule`.
    fn source(&self, py: Python<'_>, stage: &str) -> PyResult<String> {
        let (target, emit) = match stage {
            "c" => (Target::Cpu, Emit::Source),
            "cuda" => (Target::Cuda, Emit::Source),
            "ir" => (Target::Cpu, Emit::Ir),
            "schedule" => (Target::Cpu, Emit::Schedule),
            other => {
                let text = format!(
                    "source({other:?}): the stages are \"c\", \"cuda\", \"ir\" and \"schedule\""
                );
                return Err(input_error(py, text, None));
            }
        };
        detached(py, || {
            let dump = self.program.emit(target, emit)?;
            Ok(dump.to_string())
        })
    }

    /// Runs on inputs by position and name, with default options. The result, or a tuple if there are several: arrays of PyTorch or JAX if
    /// such came in, else of NumPy.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = RunOptions::default();
        if let Some((views, results)) = self.run_on(py, args, kwargs, &options)? {
            return views.results(py, results);
        }
        let run = self.execute(py, args, kwargs, options)?;
        let is_own = self.is_own(&run);
        let objects = run.outputs.into_values();
        let objects = objects.map(|value| object(py, value, is_own));
        let mut objects = objects.collect::<PyResult<Vec<_>>>()?;
        let results = match objects.pop() {
            Some(only) if objects.is_empty() => only,
            last => {
                objects.extend(last);
                PyTuple::new(py, objects)?.into_any()
            }
        };
        let values = py.import("heddle._values")?;
        values.call_method1("like_inputs", (args, kwargs, results))
    }

    /// Runs on inputs by name. Results by name, and the seconds that the run took. `out` are arrays of NumPy by the names of outputs, which
    /// take these results.
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyDict>,
        options: Running<'py>,
        out: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<(Bound<'py, PyDict>, f64)> {
        let options = options.options(py)?;
        let given = match out {
            Some(out) => outputs::given(&self.signature, out)?,
            None => vec![],
        };
        if !given.is_empty() {
            let inputs = self.inputs_of(py, &PyTuple::empty(py), Some(inputs))?;
            let mut direct = outputs::direct(&self.signature, &given, &inputs)?;
            if let Some(direct) = direct.as_mut().filter(|_| self.is_whole(&options)) {
                let start = Instant::now();
                let ran = watched(py, &options, |options| direct.run(&self.program, options))?;
                if ran {
                    let results = PyDict::new(py);
                    for (name, array) in &given {
                        results.set_item(name, array)?;
                    }
                    return Ok((results, start.elapsed().as_secs_f64()));
                }
            }
        }
        let (start, none) = (Instant::now(), PyTuple::empty(py));
        if given.is_empty()
            && let Some((_, values)) = self.run_on(py, &none, Some(inputs), &options)?
        {
            let (results, time) = (PyDict::new(py), start.elapsed());
            for (port, value) in self.signature.outputs.iter().zip(values) {
                results.set_item(&port.name, object(py, value, true)?)?;
            }
            return Ok((results, time.as_secs_f64()));
        }
        let run = self.execute(py, &none, Some(inputs), options)?;
        let (results, is_own) = (PyDict::new(py), self.is_own(&run));
        for (name, value) in run.outputs {
            let value = object(py, value, is_own)?;
            match given.iter().find(|(given, _)| *given == name) {
                Some((_, array)) => {
                    outputs::copy(&name, &value, array)?;
                    results.set_item(name, array)?;
                }
                None => results.set_item(name, value)?,
            }
        }
        Ok((results, run.report.run.as_secs_f64()))
    }

    /// The same graph on the interpreter.
    fn on_interpreter(&self) -> PyProgram {
        PyProgram::of(self.program.on_interpreter())
    }

    /// Writes the program to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.program.save(&path))
    }

    /// Inputs, outputs, operators and the tree of control flow with what the interpreter runs, as a dictionary.
    fn outline<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let outline = detached(py, || heddle_cli::program_outline(&self.program))?;
        py.import("json")?
            .call_method1("loads", (outline.to_string(),))
    }

    /// The program as bytes, without the binary.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = detached(py, || self.program.to_bytes())?;
        Ok(PyBytes::new(py, &bytes))
    }
}

/// Opens a program that was saved: a file, or the bytes of one.
#[pyfunction]
#[pyo3(name = "open")]
pub fn open_program(
    py: Python<'_>,
    path: PathBuf,
    bytes: Option<Vec<u8>>,
    opening: Opening,
) -> PyResult<PyProgram> {
    let options = opening.options(py)?;
    let program = detached(py, || match bytes {
        None => Program::open(&path, &options),
        Some(bytes) => Program::from_bytes(&path.to_string_lossy(), bytes, &options),
    })?;
    Ok(PyProgram::of(program))
}

/// Runs work of the main thread that Ctrl-C ends. What a signal ended that raises nothing is done again.
pub fn watched<T: Send>(
    py: Python<'_>,
    options: &RunOptions,
    mut work: impl FnMut(&RunOptions) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let is_main = interrupt::is_main_thread(py)?;
    let ends = options.timeout.and_then(|t| Instant::now().checked_add(t));
    loop {
        // Ctrl-C ends this run, and none that shares the caller's token.
        let token = match &options.cancel {
            Some(cancel) => cancel.child(),
            None => CancelToken::new(),
        };
        let options = RunOptions {
            cancel: Some(token.clone()),
            timeout: ends.map(|ends| ends.saturating_duration_since(Instant::now())),
            ..options.clone()
        };
        let watch = is_main.then(|| Watch::start(&token)).flatten();
        // A signal from before the watch began is Python's alone, who would look at it behind the run.
        py.check_signals()?;
        let done = detached(py, || match work(&options) {
            Err(error) if error.kind() == ErrorKind::Cancelled => Ok(Err(error)),
            done => done.map(Ok),
        })?;
        let is_signalled = watch.is_some_and(|watch| watch.was_signalled());
        let error = match done {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if !is_signalled {
            return Err(exception(py, &error));
        }
        py.check_signals()?;
    }
}

impl PyProgram {
    pub fn of(program: Program) -> Self {
        let signature = program.signature();
        Self { program, signature }
    }

    fn execute(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
        options: RunOptions,
    ) -> PyResult<Run> {
        let inputs = self.inputs_of(py, args, kwargs)?;
        self.can_hold_results(py)?;
        watched(py, &options, |options| {
            self.program.run(inputs.iter().cloned().collect(), options)
        })
    }

    /// Runs on arrays where they are, if all inputs are such and the program is compiled as a whole. Results are in order, and their memory
    /// is their own.
    fn run_on(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
        options: &RunOptions,
    ) -> PyResult<Option<(Views, Vec<Value>)>> {
        if !self.is_whole(options) {
            return Ok(None);
        }
        let Some(views) = Views::of(&self.signature, args, kwargs)? else {
            return Ok(None);
        };
        self.can_hold_results(py)?;
        let arrays = views.arrays();
        let ran = watched(py, options, |options| self.program.run_on(&arrays, options))?;
        Ok(ran.map(|results| (views, results)))
    }

    /// Refuses results that no array can hold, before the run.
    fn can_hold_results(&self, py: Python<'_>) -> PyResult<()> {
        for port in &self.signature.outputs {
            if let heddle::Type::Tensor { dtype, .. } = port.ty {
                descr(py, dtype)?;
            }
        }
        Ok(())
    }

    /// Is it compiled as a whole, and run so?
    fn is_whole(&self, options: &RunOptions) -> bool {
        self.program.is_whole() && !options.f64
    }

    /// Has each result memory of its own? A program that is compiled as a whole writes them to different buffers; in the interpreter a
    /// result may be an input or a constant.
    fn is_own(&self, run: &Run) -> bool {
        self.program.device() != Device::Interp && run.report.interpreted.is_none()
    }

    /// Inputs by name.
    pub fn inputs_of(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<(String, Value)>> {
        let ports = &self.signature.inputs;
        if args.len() > ports.len() {
            let (given, takes) = (args.len(), ports.len());
            let names: Vec<String> = ports.iter().map(|port| port.to_string()).collect();
            let text = format!("{given} inputs are given, the program takes {takes}");
            return Err(input_error(py, text, Some(names.join(", "))));
        }
        let mut inputs = Vec::with_capacity(ports.len());
        for (port, object) in ports.iter().zip(args) {
            inputs.push((port.name.clone(), value(&port.name, &port.ty, &object)?));
        }
        for (key, object) in kwargs.into_iter().flatten() {
            let key = key.cast_into::<PyString>()?;
            let name = key.to_str()?;
            if inputs.iter().any(|(given, _)| given == name) {
                let text = format!("input `{name}` is given by position and by name");
                return Err(input_error(py, text, None));
            }
            let ty = ports.iter().find(|port| port.name == name);
            let ty = ty.map_or(&UNKNOWN, |port| &port.ty);
            inputs.push((name.to_owned(), value(name, ty, &object)?));
        }
        Ok(inputs)
    }
}

/// The type of a name that no input has, which the library then names in its error.
static UNKNOWN: heddle::Type = heddle::Type::Tensor {
    dtype: heddle::DType::F32,
    dims: None,
};
