//! Programs and their runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heddle_ir::{Datum, Module};
use heddle_lang::Structure;
use indexmap::IndexMap;

use crate::Error;
use crate::backend::{self, ArrayView, Artifact, interpret, interpreted};
use crate::draw;
use crate::dump::{self, Dump, Emit};
use crate::inputs::{self, InputError, Inputs};
use crate::options::{CompileOptions, Device, RunOptions, Target};
use crate::pipeline::{Origin, with_rounded_weights};
use crate::report::{Interpreted, Report};
use crate::session::Session;
use crate::signature::Signature;
use crate::structures;
use crate::value::Value;

/// Values by the names of a program's outputs, in their order.
pub type Outputs = IndexMap<String, Value>;

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The outputs.
    pub outputs: Outputs,
    /// Times and device.
    pub report: Report,
}

/// A program that is ready to run. Threads may share it: each run has memory of its own.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) module: Arc<Module>,
    pub(crate) artifact: Arc<dyn Artifact>,
    pub(crate) report: Report,
    /// Inputs that are tables and graphs, which runs check.
    pub(crate) structures: Vec<Structure>,
    /// Options with which it was compiled.
    pub(crate) options: Arc<CompileOptions>,
}

/// Time that the interpreter may take to find the node at fault.
const NAMING: Duration = Duration::from_secs(3);

impl Program {
    /// Names and types of the inputs and outputs.
    pub fn signature(&self) -> Signature {
        Signature::of(self.sig())
    }

    pub(crate) fn sig(&self) -> &heddle_ir::Signature {
        &self.module.entry().sig
    }

    /// Times of loading and compiling, and parts left to the interpreter.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The device that runs it: the interpreter where the one that was asked for has no compiled form.
    pub fn device(&self) -> Device {
        self.artifact.device()
    }

    /// Is it compiled as a whole, with nothing left to the interpreter?
    pub fn is_whole(&self) -> bool {
        self.device() != Device::Interp && self.report.interpreted.is_none()
    }

    /// The graph IR, for tools that inspect programs; not part of the stable interface.
    #[doc(hidden)]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Runs the program. Optionals need not be wrapped, and may be left out when they are empty.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if names do not fit, and [`Error::Run`] or [`Error::Compiled`] if types or sizes do not, or the run
    /// reached a limit.
    pub fn run(&self, inputs: Inputs, options: &RunOptions) -> Result<Run, Error> {
        structures::check(&self.structures, &inputs)?;
        let args = inputs::in_order(self.sig(), inputs)?;
        self.run_args(&args, options)
            .map_err(|error| self.named(error, &args, options))
    }

    /// [`Program::run`] on inputs in the order of the signature. Optionals at the end may be left out.
    ///
    /// # Errors
    ///
    /// As for [`Program::run`].
    pub fn run_in_order(&self, inputs: Vec<Value>, options: &RunOptions) -> Result<Run, Error> {
        let params = &self.sig().params;
        if inputs.len() > params.len() {
            return Err(InputError::TooMany {
                given: inputs.len(),
                inputs: params.iter().map(|p| p.0.clone()).collect(),
            }
            .into());
        }
        let names = params.iter().map(|p| p.0.clone());
        self.run(names.zip(inputs).collect(), options)
    }

    /// Runs the program on arrays in the caller's memory, in the order of the signature, without names and times: what many short runs
    /// need. Results are in the order of the signature, and their memory is their own.
    ///
    /// `None` where [`Program::run`] is the way: the interpreter has a part in the program or is left the run, an input is no plain array,
    /// or is a table or graph.
    ///
    /// # Errors
    ///
    /// As for [`Program::run`].
    pub fn run_on(
        &self,
        inputs: &[ArrayView<'_>],
        options: &RunOptions,
    ) -> Result<Option<Vec<Value>>, Error> {
        let is_array = |(_, ty): &(String, heddle_ir::Type)| ty.as_tensor().is_some();
        let takes_arrays = self.sig().params.iter().all(is_array) && self.structures.is_empty();
        if !self.is_whole() || options.f64 || !takes_arrays {
            return Ok(None);
        }
        match self.session(options).run_on(inputs) {
            Ok(results) => Ok(Some(results.into_iter().map(Value::from).collect())),
            Err(error) if self.artifact.leaves_to_interpreter(&error) => Ok(None),
            Err(error) => {
                let args = inputs
                    .iter()
                    .map(|array| array.to_tensor().map(Datum::from));
                let args = args.collect::<Result<Vec<_>, _>>()?;
                Err(self.named(options.of_frames(error), &args, options))
            }
        }
    }

    /// [`Program::run`] on inputs in the order of the parameters. An error of compiled code names the fused operator.
    pub(crate) fn run_args(&self, args: &[Datum], options: &RunOptions) -> Result<Run, Error> {
        let start = Instant::now();
        let mut interpreted = self.report.interpreted.clone();
        let interpret = || {
            let results = interpret(&self.graph(), args, options, None)?;
            Ok((results, Some(start.elapsed())))
        };
        let results = match options.f64 && self.device() != Device::Interp {
            true => {
                let why = "double precision is the interpreter's";
                interpreted = Some(Interpreted::whole(None, why.into()));
                interpret()
            }
            false => match backend::run(&self.artifact, args, options) {
                Err(error) if self.artifact.leaves_to_interpreter(&error) => {
                    interpreted = Some(Interpreted::whole(None, error.to_string()));
                    interpret()
                }
                results => results,
            },
        };
        let (results, interpreter) = results.map_err(|error| options.of_frames(error))?;
        Ok(Run {
            outputs: self.named_outputs(results),
            report: Report {
                run: start.elapsed(),
                interpreter,
                interpreted,
                ..self.report.clone()
            },
        })
    }

    /// Results under their names.
    pub(crate) fn named_outputs(&self, results: Vec<Datum>) -> Outputs {
        let names = self.sig().results.iter().map(|(name, _)| name.clone());
        names.zip(results.into_iter().map(Value::from)).collect()
    }

    /// A random value for every input: floats from -1 to 1, integers from 0 to 3, fair bools, letters. Named sizes are taken
    /// from `sizes`, else 2, moved into the size's bounds. The same seed draws the same values. Tables and graphs of a program of the
    /// language are sound: children come before parents, offsets rise.
    ///
    /// # Errors
    ///
    /// [`Error::Draw`] if no input has a size of this name, or an input would be larger than 4 GiB.
    pub fn draw(&self, seed: u64, sizes: &BTreeMap<String, u64>) -> Result<Inputs, Error> {
        Ok(draw::draw(self.sig(), &self.structures, seed, sizes)?)
    }

    /// The named sizes that these inputs fix.
    pub fn sizes_of(&self, inputs: &Inputs) -> BTreeMap<String, u64> {
        draw::sizes_of(self.sig(), inputs)
    }

    /// Memory to run the program in again and again, also on the caller's arrays.
    pub fn session(&self, options: &RunOptions) -> Session {
        // In double precision the interpreter runs it.
        let artifact = match options.f64 && self.device() != Device::Interp {
            true => interpreted(self.graph()),
            false => self.artifact.clone(),
        };
        Session::new(artifact, options)
    }

    /// The emitted program's key, if it is compiled: programs of the same key are the same.
    pub fn key(&self) -> Option<String> {
        self.artifact.key()
    }

    /// Bytes of scratch and outputs that the program keeps for its next run. A [`Session`] has memory of its own.
    pub fn held_bytes(&self) -> usize {
        self.artifact.held_bytes()
    }

    /// The same program in another compiled form.
    pub(crate) fn with(&self, artifact: Arc<dyn Artifact>, compile: Duration) -> Self {
        let report = Report {
            compile,
            ..self.report.clone()
        };
        Self {
            module: self.module.clone(),
            artifact,
            report,
            structures: self.structures.clone(),
            options: self.options.clone(),
        }
    }

    /// The program at a stage of its compilation; see [`emit`](crate::emit).
    ///
    /// # Errors
    ///
    /// As for [`emit`](crate::emit).
    pub fn emit(&self, target: Target, emit: Emit) -> Result<Dump, Error> {
        let origin = Origin::Optimized(self.module.clone());
        dump::emit_from(origin, self.report.load, &self.options, target, emit)
    }

    /// The same graph on the interpreter, whose results a compiled program is to have.
    pub fn on_interpreter(&self) -> Self {
        self.with(interpreted(self.graph()), Duration::ZERO)
    }

    /// The graph that the interpreter runs in the program's place, with its weights rounded.
    fn graph(&self) -> Arc<Module> {
        match with_rounded_weights(&self.module, &self.options) {
            Some((rounded, _)) => Arc::new(rounded),
            None => self.module.clone(),
        }
    }

    /// The workers that run the compiled form; 1 on the interpreter.
    pub fn threads(&self) -> usize {
        self.artifact.threads()
    }

    /// The interpreter's error in place of compiled code's, which knows the fused operator and not the node in it;
    /// where the interpreter takes long to come to it, the error as it is.
    pub(crate) fn named(&self, error: Error, args: &[Datum], options: &RunOptions) -> Error {
        if !error.is_of_compiled_code() {
            return error.placed(&self.module);
        }
        interpreted_error(&self.graph(), args, options)
            .unwrap_or_else(|| error.placed(&self.module))
    }
}

/// The error with which the interpreter stops, if it comes to one within a short time.
pub(crate) fn interpreted_error(
    module: &Module,
    args: &[Datum],
    options: &RunOptions,
) -> Option<Error> {
    let limited = RunOptions {
        timeout: Some(options.timeout.unwrap_or(NAMING).min(NAMING)),
        ..options.clone()
    };
    match interpret(module, args, &limited, None) {
        Err(Error::Run(named)) if !named.is_timeout() => Some(options.of_frames(Error::Run(named))),
        _ => None,
    }
}
