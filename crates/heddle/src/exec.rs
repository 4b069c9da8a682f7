//! Compiles a model for a device, and runs it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heddle_ir::{Datum, Module, Signature};
use heddle_task::LowerError;
use indexmap::IndexMap;

use crate::cpu::{self, Built, Compiled};
use crate::inputs;
use crate::mixed::Mixed;
use crate::results::Results;
use crate::stack::on_large_stack;
use crate::{Error, Model};

/// Values by the names of a program's inputs.
pub type Inputs = IndexMap<String, Datum>;
/// Values by the names of a program's outputs, in their order.
pub type Outputs = IndexMap<String, Datum>;

/// What a program runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// The reference interpreter: slow and obviously right.
    #[default]
    Interp,
    /// The processor: control flow and data flow compiled into one program that all worker threads run.
    Cpu,
}

impl Device {
    /// All devices.
    pub const ALL: &'static [Device] = &[Device::Interp, Device::Cpu];

    /// The name that the command line takes.
    pub const fn name(self) -> &'static str {
        match self {
            Device::Interp => "interp",
            Device::Cpu => "cpu",
        }
    }
}

/// How a model is compiled.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// What it is to run on.
    pub device: Device,
    /// Whether the graph passes run. They compute constants in the types that the program states: a
    /// run that is to compute in `f64` throughout takes the program without them.
    pub optimize: bool,
    /// Which [steps](crate::STEPS) a device that compiles leaves out. The interpreter runs the program without any.
    pub transform: heddle_opt::TransformOptions,
    /// Worker threads of the cpu device; `None`: as many as the machine runs at once.
    pub threads: Option<usize>,
    /// Whether the scheduler measures.
    pub tune: Tune,
    /// Whether each scheduled program is proven sound before it is built: that no unit touches what another one may still be at.
    pub verify: bool,
}

/// Where the scheduler's times come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tune {
    /// A cost model: the same program always compiles to the same schedule.
    #[default]
    Off,
    /// Runs of the program's operators on this machine. Times are cached by content and processor.
    On,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            device: Device::default(),
            optimize: true,
            transform: heddle_opt::TransformOptions::default(),
            threads: None,
            tune: Tune::default(),
            verify: false,
        }
    }
}

/// How a program is run, and what it may use.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Compute floats in `f64`; inputs may then be `f64`, and float outputs are.
    pub f64: bool,
    /// Bytes that values may take together.
    pub max_memory: Option<u64>,
    /// Iterations that a single loop may take.
    pub max_iterations: Option<u64>,
    /// How deep calls may nest.
    pub max_depth: Option<usize>,
    /// Wall time.
    pub timeout: Option<Duration>,
    /// The seed of random operators that have none of their own.
    pub seed: u64,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// The results.
    pub outputs: Outputs,
    /// How it went.
    pub report: Report,
}

/// The time that each graph pass took, by name.
pub type PassTimes = Vec<(&'static str, Duration)>;

/// Times of the stages on the way to a result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Reading the model.
    pub load: Duration,
    /// Compiling it.
    pub compile: Duration,
    /// The graph passes, which are part of compiling.
    pub passes: PassTimes,
    /// Running it.
    pub run: Duration,
    /// Whether its schedule was proven sound.
    pub verified: bool,
    /// Why the interpreter runs it, or some of it, although a device that compiles was asked for.
    pub interpreted: Option<Interpreted>,
}

/// Why a program, a run of it, or a part of it is left to the interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreted {
    /// What has no compiled form.
    pub uncompiled: Vec<Uncompiled>,
    /// How many parts of the program are compiled all the same; 0 if the interpreter runs all of it.
    pub compiled_parts: usize,
}

/// Something that has no compiled form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncompiled {
    /// The node, if it is one node.
    pub node: Option<String>,
    /// What it has that is not compiled.
    pub reason: String,
}

impl Interpreted {
    /// How much of the program it is, to begin a sentence.
    pub fn what(&self) -> &'static str {
        match self.compiled_parts {
            0 => "this",
            _ => "part of this",
        }
    }

    /// The interpreter runs all of it.
    pub(crate) fn whole(node: Option<String>, reason: String) -> Self {
        Self {
            uncompiled: vec![Uncompiled { node, reason }],
            compiled_parts: 0,
        }
    }
}

impl std::fmt::Display for Interpreted {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        const SHOWN: usize = 8;
        for (k, what) in self.uncompiled.iter().take(SHOWN).enumerate() {
            write!(f, "{}{what}", if k > 0 { "; " } else { "" })?;
        }
        match self.uncompiled.len().saturating_sub(SHOWN) {
            0 => {}
            more => write!(f, "; and {more} more")?,
        }
        match self.compiled_parts {
            0 => Ok(()),
            1 => f.write_str(" (1 part around or in it is compiled)"),
            n => write!(f, " ({n} parts around or in it are compiled)"),
        }
    }
}

impl From<LowerError> for Uncompiled {
    fn from(error: LowerError) -> Self {
        Self {
            node: Some(error.node).filter(|node| !node.is_empty()),
            reason: error.reason,
        }
    }
}

impl std::fmt::Display for Uncompiled {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        if let Some(node) = &self.node {
            write!(f, "{node}: ")?;
        }
        f.write_str(&self.reason)
    }
}

/// A program that is ready to run.
#[derive(Clone, Debug)]
pub struct Executable {
    module: Module,
    form: Form,
    report: Report,
}

/// What a program was made into.
#[derive(Clone, Debug)]
enum Form {
    /// The interpreter runs it.
    Interpreted,
    /// Worker threads run it.
    Compiled(Arc<Compiled>),
    /// The interpreter runs it, and worker threads parts of it.
    Mixed(Arc<Mixed>),
}

/// A language that programs are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// C, which the cpu device builds.
    #[default]
    Cpu,
    /// CUDA: one persistent kernel. There is no device for it yet.
    Cuda,
}

/// The source text of a model's program for a target; nothing is built.
///
/// # Errors
///
/// [`Error::Lower`] names the node that has no compiled form, [`Error::Schedule`] what the verifier found if it was asked.
pub fn source(model: &Model, options: &CompileOptions, target: Target) -> Result<String, Error> {
    let (program, _) = scheduled(model, options, target)?;
    let dialect = match target {
        Target::Cpu => &heddle_emit::C,
        Target::Cuda => &heddle_emit::CUDA,
    };
    Ok(heddle_emit::write(&program, dialect).source)
}

/// The schedule of a model's program for a target, as text for people, once the verifier has proven it sound.
///
/// # Errors
///
/// [`Error::Lower`] names the node that has no compiled form, [`Error::Schedule`] what the verifier found.
pub fn schedule(model: &Model, options: &CompileOptions, target: Target) -> Result<String, Error> {
    let options = CompileOptions {
        verify: true,
        ..options.clone()
    };
    let (program, device) = scheduled(model, &options, target)?;
    Ok(heddle_task::print(&program, &device))
}

/// A model's program for a target, with the device that it is scheduled for.
fn scheduled(
    model: &Model,
    options: &CompileOptions,
    target: Target,
) -> Result<(heddle_task::UProgram, heddle_task::Device), Error> {
    let threads = options.threads.unwrap_or_else(cpu::default_threads);
    let device = match target {
        Target::Cpu => heddle_task::Device::cpu(threads),
        Target::Cuda => heddle_task::Device::gpu(),
    };
    // What working on several layers at the same time brings was measured on processors only.
    let units = match target {
        Target::Cpu => threads,
        Target::Cuda => 1,
    };
    let (module, mut passes) = optimized(model.module.clone(), options)?;
    let (mut transformed, _) = transformed(&module, options, units, &mut passes)?;
    Results::open(&mut transformed);
    let tune = match target {
        Target::Cpu => options.tune,
        Target::Cuda => Tune::Off,
    };
    let program =
        on_large_stack(|| cpu::schedule(&transformed, &device, &options.transform.without, tune))??;
    if options.verify {
        let what = "the program";
        on_large_stack(|| heddle_task::verify_schedule(&program, &device))?
            .map_err(|error| Error::Schedule { what, error })?;
    }
    Ok((program, device))
}

/// Compiles a model: optimises the graph and prepares it for the device.
pub fn compile(model: &Model, options: &CompileOptions) -> Result<Executable, Error> {
    compile_module(model.module.clone(), model.load_time(), options)
}

/// Compiles a program that took so long to load.
pub(crate) fn compile_module(
    module: Module,
    load: Duration,
    options: &CompileOptions,
) -> Result<Executable, Error> {
    let start = Instant::now();
    let (module, mut passes) = optimized(module, options)?;
    let (mut form, mut interpreted) = (Form::Interpreted, None);
    if options.device == Device::Cpu {
        match build(&module, options, &mut passes)? {
            Ok(program) => form = Form::Compiled(Arc::new(program)),
            Err(error) => {
                let part = |module: &Module| build(module, options, &mut vec![]);
                let mixed = on_large_stack(|| Mixed::new(&module, &part))??;
                interpreted = match &mixed {
                    // It only had to begin anew where sizes are known.
                    Some(mixed) if mixed.left.is_empty() => None,
                    Some(mixed) => Some(Interpreted {
                        uncompiled: mixed.left.clone(),
                        compiled_parts: mixed.len(),
                    }),
                    None => Some(Interpreted::whole(Some(error.node), error.reason)),
                };
                form = mixed.map_or(Form::Interpreted, |mixed| Form::Mixed(Arc::new(mixed)));
            }
        }
    }
    let report = Report {
        load,
        compile: start.elapsed(),
        passes,
        run: Duration::ZERO,
        verified: options.verify && !matches!(form, Form::Interpreted),
        interpreted,
    };
    Ok(Executable {
        module,
        form,
        report,
    })
}

/// Transforms a program and builds what the worker threads run.
fn build(module: &Module, options: &CompileOptions, passes: &mut PassTimes) -> Built {
    let threads = options.threads.unwrap_or_else(cpu::default_threads);
    let (transformed, changed) = transformed(module, options, threads, passes)?;
    let build = |module: &Module| {
        let (threads, without) = (options.threads, &options.transform.without);
        let (tune, verify) = (options.tune, options.verify);
        on_large_stack(|| Compiled::new(module, threads, without, tune, verify))?
    };
    let built = build(&transformed)?;
    if changed && built.is_err() {
        // What a transformation made may have no compiled form where the program as it was has one.
        return build(module);
    }
    Ok(built)
}

/// The model's program after the graph passes, if they are to run, and the time that each took.
fn optimized(mut module: Module, options: &CompileOptions) -> Result<(Module, PassTimes), Error> {
    let mut passes = vec![];
    if options.optimize {
        let optimized = on_large_stack(|| {
            passes = heddle_opt::optimize(&mut module).times();
            heddle_ir::verify(&module)
        })?;
        optimized.map_err(|errors| Error::invalid("a graph pass", &errors))?;
    }
    Ok((module, passes))
}

/// The program as devices that compile take it, and whether it is another one. Layers are pipelined over units where the scheduled
/// program then takes less time by the cost model.
fn transformed(
    module: &Module,
    options: &CompileOptions,
    units: usize,
    passes: &mut PassTimes,
) -> Result<(Module, bool), Error> {
    if !options.optimize {
        return Ok((module.clone(), false));
    }
    let transformed = |units| {
        let options = heddle_opt::TransformOptions {
            units,
            ..options.transform.clone()
        };
        let mut module = module.clone();
        let report = heddle_opt::transform(&mut module, &options);
        heddle_ir::verify(&module).map(|()| (module, report))
    };
    let (module, report) = on_large_stack(|| {
        let (pipelined, report) = transformed(units)?;
        if report.total().count("layers pipelined") == 0 {
            return Ok((pipelined, report));
        }
        let plain = transformed(1)?;
        let without = &options.transform.without;
        let [new, old] = [&pipelined, &plain.0].map(|m| cpu::estimated(m, units, without));
        Ok(match new < old {
            true => (pipelined, report),
            false => plain,
        })
    })?
    .map_err(|errors: Vec<_>| Error::invalid("a transformation", &errors))?;
    passes.extend(report.times());
    let changed = report.total().total() > 0;
    Ok((module, changed))
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
            Form::Mixed(_) if !options.f64 => self.evaluate(&args, options),
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

/// The interpreter's options.
pub(crate) fn interpreter_options(options: &RunOptions) -> heddle_interp::Options {
    let defaults = heddle_interp::Options::default();
    heddle_interp::Options {
        f64: options.f64,
        max_memory: options.max_memory.unwrap_or(defaults.max_memory),
        max_iterations: options.max_iterations.unwrap_or(defaults.max_iterations),
        max_depth: options.max_depth.unwrap_or(defaults.max_depth),
        timeout: options.timeout.or(defaults.timeout),
        seed: options.seed,
        ..defaults
    }
}
