//! Runs what was compiled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heddle_ir::{Datum, Module, Signature};
use indexmap::IndexMap;

use crate::cpu::Compiled;
use crate::mixed::Mixed;
use crate::options::{Device, RunOptions, interpreter_options};
use crate::report::{Interpreted, Report};
use crate::stack::on_large_stack;
use crate::{Error, inputs};

/// Values by the names of a program's inputs.
pub type Inputs = IndexMap<String, Datum>;
/// Values by the names of a program's outputs, in their order.
pub type Outputs = IndexMap<String, Datum>;

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// The results.
    pub outputs: Outputs,
    /// How it went.
    pub report: Report,
}

/// A program that is ready to run.
#[derive(Clone, Debug)]
pub struct Executable {
    pub(crate) module: Module,
    pub(crate) form: Form,
    pub(crate) report: Report,
}

/// What a program was made into.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// The interpreter runs it.
    Interpreted,
    /// Worker threads run it.
    Compiled(Arc<Compiled>),
    /// The interpreter runs it, and worker threads parts of it.
    Mixed(Arc<Mixed>),
}

/// How long the interpreter may look for the node that is to blame.
const NAMING: Duration = Duration::from_secs(3);

impl Executable {
    /// Names and types of the inputs and outputs.
    pub fn signature(&self) -> &Signature {
        &self.module.entry().sig
    }

    /// How the stages before a run went.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// What runs it: the interpreter where the device that was asked for has no compiled form.
    pub fn device(&self) -> Device {
        match self.form {
            Form::Compiled(_) | Form::Mixed(_) => Device::Cpu,
            Form::Interpreted => Device::Interp,
        }
    }

    /// The program as it is run.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Runs the program. Optionals need not be wrapped, and may be left out when they are empty.
    pub fn run(&self, inputs: Inputs, options: &RunOptions) -> Result<Run, Error> {
        let args = inputs::in_order(self.signature(), inputs)?;
        let start = Instant::now();
        let mut interpreted = self.report.interpreted.clone();
        let results = match self.form {
            Form::Compiled(ref program) if !options.f64 => {
                let call = program.call(self.signature(), &args)?;
                match program.run(&call, options) {
                    // Memory is planned by what sizes may become; the interpreter takes what they do become.
                    Err(error) if program.plans_too_much(&error) => {
                        interpreted = Some(Interpreted::whole(None, error.to_string()));
                        on_large_stack(|| self.interpret(&args, options))?
                    }
                    results => results,
                }
            }
            Form::Mixed(_) if !options.f64 => match self.evaluate(&args, options) {
                // Between parts arrays are copied.
                Err(error) if error.is_of_memory() => {
                    interpreted = Some(Interpreted::whole(None, error.to_string()));
                    on_large_stack(|| self.interpret(&args, options))?
                }
                results => results,
            },
            Form::Compiled(_) | Form::Mixed(_) => {
                let why = "double precision is the interpreter's";
                interpreted = Some(Interpreted::whole(None, why.into()));
                self.evaluate(&args, options)
            }
            Form::Interpreted => self.evaluate(&args, options),
        };
        let results = match results {
            Err(error) if error.is_of_compiled_code() => {
                return Err(self.named(error, &args, options));
            }
            results => results?,
        };
        let names = self
            .signature()
            .results
            .iter()
            .map(|(name, _)| name.clone());
        Ok(Run {
            outputs: names.zip(results).collect(),
            report: Report {
                run: start.elapsed(),
                interpreted,
                ..self.report.clone()
            },
        })
    }

    /// The emitted program's key, if it is compiled: programs of the same key are the same.
    pub fn key(&self) -> Option<String> {
        self.compiled().map(Compiled::key)
    }

    /// The same program in another compiled form.
    pub(crate) fn with(&self, compiled: Compiled, compile: Duration) -> Self {
        let report = Report {
            compile,
            ..self.report.clone()
        };
        Self {
            module: self.module.clone(),
            form: Form::Compiled(Arc::new(compiled)),
            report,
        }
    }

    /// The compiled form of all of it, if there is one.
    pub(crate) fn compiled(&self) -> Option<&Compiled> {
        match &self.form {
            Form::Compiled(compiled) => Some(compiled),
            Form::Mixed(_) | Form::Interpreted => None,
        }
    }

    /// The workers that run the compiled form; 1 on the interpreter.
    pub fn threads(&self) -> usize {
        match &self.form {
            Form::Compiled(compiled) => compiled.threads(),
            Form::Mixed(mixed) => mixed.threads(),
            Form::Interpreted => 1,
        }
    }

    /// The interpreter's error in place of a compiled program's, which knows the fused operator and not the node in it;
    /// where the interpreter takes long to come to it, the error as it is.
    fn named(&self, error: Error, args: &[Datum], options: &RunOptions) -> Error {
        let options = RunOptions {
            timeout: Some(options.timeout.unwrap_or(NAMING).min(NAMING)),
            ..options.clone()
        };
        match on_large_stack(|| self.interpret(args, &options)) {
            Ok(Err(Error::Run(named))) if !named.is_timeout() => Error::Run(named),
            _ => error,
        }
    }

    /// Runs what has no compiled form as a whole: the interpreter, with what parts of it are compiled.
    pub(crate) fn evaluate(
        &self,
        args: &[Datum],
        options: &RunOptions,
    ) -> Result<Vec<Datum>, Error> {
        on_large_stack(|| match &self.form {
            Form::Mixed(mixed) if !options.f64 => mixed.run(args, options),
            _ => self.interpret(args, options),
        })?
    }

    fn interpret(&self, args: &[Datum], options: &RunOptions) -> Result<Vec<Datum>, Error> {
        Ok(heddle_interp::run(
            &self.module,
            args,
            &interpreter_options(options),
        )?)
    }
}
