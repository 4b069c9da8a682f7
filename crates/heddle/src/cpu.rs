//! The cpu device: lowers, writes, builds and runs.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::{panic, thread};

use heddle_emit::{Constants, Dialect, Emitted};
use heddle_ir::tensor::element_count;
use heddle_ir::{Datum, Module, Signature, Tensor};
use heddle_lower::LowerError;
use heddle_machine::Machine;
use heddle_runtime::{
    BuildError, BuildOptions, Constant, Executable, Input, Lent, MemoryError, Pool, Program,
    RunError, Session, SessionOptions, Source,
};
use heddle_schedule::Latency;
use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Size, Stmt, for_each_stmt};

use crate::profile::Profiler;
use crate::results::Results;
use crate::{Error, RunOptions, Tune, border};

/// Lowers a module to uOperators and schedules them for a machine, without the [steps](crate::STEPS) of these names.
pub(crate) fn schedule(
    module: &Module,
    machine: &Machine,
    without: &[String],
    tune: Tune,
) -> Result<UProgram, LowerError> {
    let mut program = lower(module, without)?;
    schedule_lowered(&mut program, machine, without, tune);
    Ok(program)
}

/// How long the scheduled program of a module takes by the cost model, in nanoseconds; without end if it has no compiled form.
pub(crate) fn estimated(module: &Module, machine: &Machine, without: &[String]) -> f64 {
    let mut module = module.clone();
    Results::open(&mut module);
    let scheduled = schedule(&module, machine, without, Tune::Off);
    scheduled.map_or(f64::INFINITY, |program| {
        heddle_schedule::total(&program, machine)
    })
}

fn lower(module: &Module, without: &[String]) -> Result<UProgram, LowerError> {
    let mut program = heddle_lower::lower(module)?;
    if without.iter().all(|name| name != "fuse") {
        heddle_schedule::fuse(&mut program);
    }
    Ok(program)
}

fn schedule_lowered(program: &mut UProgram, machine: &Machine, without: &[String], tune: Tune) {
    let profiler = match tune {
        Tune::Off => None,
        Tune::On => Profiler::new(program, machine),
    };
    let latency: &dyn Latency = profiler.as_ref().map_or(machine, |p| p);
    heddle_schedule::schedule_without(program, latency, without);
}

/// Constants as a program reads them, at aligned addresses. Those that are so in the model's file are not copied.
fn load(constants: &Constants) -> Result<Vec<Constant>, Error> {
    let aligned = constants.packed().map(|c| Constant::from(c).aligned());
    let aligned: Result<Vec<_>, MemoryError> = aligned.collect();
    Ok(aligned.map_err(BuildError::from)?)
}

/// The number of threads that is taken where none is asked for.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What came of compiling a module: the inner error says what has no compiled form, the outer one that building failed.
pub(crate) type Built = Result<Result<Compiled, LowerError>, Error>;

/// A program that worker threads run.
#[derive(Debug)]
pub(crate) struct Compiled {
    executable: Executable,
    /// What was emitted.
    program: UProgram,
    /// What the program is given besides its inputs, in this order.
    sizes: Vec<Size>,
    /// The model's nodes by the numbers that errors carry.
    sites: Vec<String>,
    /// How what it gives makes the model's results.
    results: Results,
    /// Whether each program that is made of this one is proven sound before it is built.
    verify: bool,
}

impl Compiled {
    /// Compiles a module.
    pub(crate) fn new(
        module: &Module,
        machine: &Machine,
        threads: usize,
        without: &[String],
        tune: Tune,
        verify: bool,
    ) -> Built {
        let mut module = module.clone();
        let results = Results::open(&mut module);
        let mut program = match lower(&module, without) {
            Ok(program) => program,
            Err(reason) => return Ok(Err(reason)),
        };
        let name = &module.entry().sig.name;
        let constants = Constants::of(&program);
        thread::scope(|scope| {
            // Large weights take as long to copy and pack as all else that a program from the cache needs.
            let loading = thread::Builder::new().spawn_scoped(scope, || load(&constants));
            schedule_lowered(&mut program, machine, without, tune);
            prove(verify, "the program", &program, threads)?;
            let emitted = heddle_emit::write(&program, &heddle_emit::C);
            let constants = match loading {
                Ok(loading) => (loading.join()).unwrap_or_else(|p| panic::resume_unwind(p)),
                // The system has no thread left for it.
                Err(_) => load(&constants),
            }?;
            Self::build(name, program, results, threads, verify, emitted, constants).map(Ok)
        })
    }

    /// Writes a scheduled program and builds it.
    fn write(
        name: &str,
        program: UProgram,
        results: Results,
        threads: usize,
        verify: bool,
        write: fn(&UProgram, &Dialect) -> Emitted,
    ) -> Result<Self, Error> {
        let emitted = write(&program, &heddle_emit::C);
        let constants = load(&Constants::of(&program))?;
        Self::build(name, program, results, threads, verify, emitted, constants)
    }

    /// Builds a program as it was written.
    fn build(
        name: &str,
        program: UProgram,
        results: Results,
        threads: usize,
        verify: bool,
        emitted: Emitted,
        constants: Vec<Constant>,
    ) -> Result<Self, Error> {
        let source = Source {
            name: name.into(),
            text: emitted.source,
            constants,
        };
        let built = Arc::new(Program::build(&source, &BuildOptions::default())?);
        let pool =
            Pool::shared(threads).map_err(|e| Error::Internal(format!("no threads: {e}")))?;
        Ok(Self {
            executable: Executable::new(
                built,
                pool,
                memory(heddle_interp::Options::default().max_memory),
            ),
            sizes: program.sizes.iter().map(|(size, _)| size.clone()).collect(),
            sites: emitted.sites,
            program,
            results,
            verify,
        })
    }

    /// The same operators, with control flow that the calling thread runs: it dispatches one operator after the other to
    /// all workers.
    pub(crate) fn on_host(&self) -> Result<Self, Error> {
        let (name, threads) = (self.executable.program().name(), self.threads());
        if self.verify {
            // A dispatch begins when all units have done the one before.
            let mut dispatched = self.program.clone();
            heddle_schedule::sync_everywhere(&mut dispatched);
            prove(true, "the program that the host runs", &dispatched, threads)?;
        }
        let (program, results) = (self.program.clone(), self.results.clone());
        Self::write(
            name,
            program,
            results,
            threads,
            self.verify,
            heddle_emit::write_hosted,
        )
    }

    /// The same operators without control flow: in the order in which a run of this call executes them.
    pub(crate) fn traced(&self, call: &Call, options: &RunOptions) -> Result<Self, Error> {
        let (name, threads) = (self.executable.program().name(), self.threads());
        let machine = Machine::host(threads);
        let mut recording = self.program.clone();
        let own = recording.outputs.len();
        heddle_schedule::record_decisions(&mut recording);
        heddle_schedule::place_syncs(&mut recording, &machine);
        prove(self.verify, "the program that records", &recording, threads)?;
        let build = |program: UProgram| {
            let (results, write) = (self.results.clone(), heddle_emit::write);
            Self::write(name, program, results, threads, self.verify, write)
        };
        let recording = build(recording)?;
        let mut session = recording.lend(options);
        let outputs = recording.run_in(&mut session, call, options)?;
        let count = outputs.data(own + 1).first_chunk().copied();
        let count = count.map_or(0, i64::from_le_bytes);
        let mut traced = heddle_schedule::replay(&self.program, outputs.data(own), count)?;
        heddle_schedule::place_syncs(&mut traced, &machine);
        prove(self.verify, "the traced program", &traced, threads)?;
        build(traced)
    }

    /// What the program was built from: programs of the same key are the same.
    pub(crate) fn key(&self) -> String {
        self.executable.program().report().key.to_string()
    }

    /// Whether a run ended because of memory that may be planned for more than there is: by numbers among the inputs, or for
    /// the iterations of a loop that may end early.
    pub(crate) fn plans_too_much(&self, error: &Error) -> bool {
        let Error::Compiled { error, .. } = error else {
            return false;
        };
        let memory = matches!(
            **error,
            RunError::Plan { .. } | RunError::MemoryLimit { .. }
        );
        let by_element = |size: &Size| matches!(size, Size::Element { .. });
        memory && (self.sizes.iter().any(by_element) || may_end_early(&self.program))
    }

    /// How many workers run it.
    pub(crate) fn threads(&self) -> usize {
        self.executable.pool().threads()
    }

    /// Checks inputs, which are in order.
    pub(crate) fn call(&self, sig: &Signature, args: &[Datum]) -> Result<Call, Error> {
        let names = heddle_interp::check_inputs(sig, args, false)
            .map_err(|e| Error::Run(heddle_interp::RunError::Input(e)))?;
        let tensors = args.iter().filter_map(|d| match d {
            Datum::Tensor(t) => Some(t),
            _ => None,
        });
        let tensors: Vec<&Tensor> = tensors.collect();
        let size = |size: &Size| match size {
            Size::Named(name) => names.get(name.as_str()).copied().unwrap_or(0),
            Size::Axis { input, axis } => tensors[*input].shape()[*axis] as i64,
            Size::Element { input, place } => border::element(tensors[*input], *place),
        };
        let inputs = tensors.iter().map(|t| {
            let dims = t.shape().iter().map(|&d| d as i64).collect();
            (border::unpacked(t), dims)
        });
        Ok(Call {
            inputs: inputs.collect(),
            sizes: self.sizes.iter().map(size).collect(),
        })
    }

    /// Runs a call.
    pub(crate) fn run(&self, call: &Call, options: &RunOptions) -> Result<Vec<Datum>, Error> {
        let mut session = self.lend(options);
        let outputs = self.run_in(&mut session, call, options)?;
        self.data_of(&outputs)
    }

    /// What a run left in its session, copied.
    pub(crate) fn data_of(
        &self,
        outputs: &heddle_runtime::Outputs<'_>,
    ) -> Result<Vec<Datum>, Error> {
        let ports = self.program.outputs.iter().enumerate();
        let arrays = ports.map(|(i, port)| {
            let dims = outputs.dims(i).iter().map(|&d| d as usize);
            let dims: Vec<_> = dims.collect();
            let dtype = self.program.buffers[port.buffer].dtype;
            let wrong = || Error::Internal(format!("output `{}` came out wrong", port.name));
            // Of an empty array the other sizes may be anything.
            let count = element_count(&dims).ok_or_else(wrong)?;
            let bytes = &outputs.data(i)[..count * dtype.bits().div_ceil(8)];
            let tensor = Tensor::new(dtype, dims, border::packed(dtype, bytes).into());
            tensor.map_err(|_| wrong())
        });
        let arrays: Result<Vec<Tensor>, Error> = arrays.collect();
        Ok(self.results.group(arrays?))
    }

    /// A session whose memory is limited as the options say.
    pub(crate) fn lend(&self, options: &RunOptions) -> AnySession<'_> {
        match options.max_memory {
            Some(max_memory) => {
                let (program, pool) = (self.executable.program(), self.executable.pool());
                let session = Session::new(program.clone(), pool.clone(), memory(max_memory));
                AnySession::Own(session)
            }
            None => AnySession::Lent(self.executable.lend()),
        }
    }

    /// Runs a call in a session, where the outputs stay.
    pub(crate) fn run_in<'s>(
        &self,
        session: &'s mut Session,
        call: &Call,
        options: &RunOptions,
    ) -> Result<heddle_runtime::Outputs<'s>, Error> {
        let defaults = heddle_runtime::RunOptions::default();
        let limits = heddle_runtime::RunOptions {
            timeout: options.timeout,
            max_depth: i64::try_from(options.depth_limit()).unwrap_or(i64::MAX),
            max_iterations: options
                .max_iterations
                .map_or(defaults.max_iterations, |n| n.min(i64::MAX as u64) as i64),
            ..defaults
        };
        let inputs = call.inputs.iter().map(|(tensor, dims)| Input {
            data: data(tensor),
            dims,
        });
        let inputs: Vec<_> = inputs.collect();
        session
            .run(&inputs, &call.sizes, &limits)
            .map_err(|e| self.stopped(e))
    }

    fn stopped(&self, error: RunError) -> Error {
        let site = match error {
            RunError::Program { site, .. } => self.sites.get(site as usize).cloned(),
            _ => None,
        };
        Error::Compiled {
            site,
            error: Box::new(error),
        }
    }
}

/// Whether a program has a loop that does fewer iterations than its trip count if a condition says so.
fn may_end_early(program: &UProgram) -> bool {
    let procedures = program.procedures.iter().map(|(_, p)| &p.body);
    let mut found = false;
    for body in procedures.chain([&program.body]) {
        for_each_stmt(body, &mut |stmt| {
            let Stmt::Loop { trip, cond, .. } = stmt else {
                return;
            };
            found |= trip.is_some() && cond.is_some();
        });
    }
    found
}

/// Has the verifier prove a scheduled program sound, if that is wanted.
fn prove(
    wanted: bool,
    what: &'static str,
    program: &UProgram,
    threads: usize,
) -> Result<(), Error> {
    if !wanted {
        return Ok(());
    }
    heddle_uprogram::verify_schedule(program, Machine::host(threads).synced_lanes())
        .map_err(|error| Error::Schedule { what, error })
}

/// Inputs that were found to fit, and the sizes that follow from them.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The arrays with their dims.
    inputs: Vec<(Tensor, Vec<i64>)>,
    sizes: Vec<i64>,
}

/// A session of the program's own, or one that is made for a limit.
#[derive(Debug)]
pub(crate) enum AnySession<'a> {
    Lent(Lent<'a>),
    Own(Session),
}

impl Deref for AnySession<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        match self {
            AnySession::Lent(session) => session,
            AnySession::Own(session) => session,
        }
    }
}

impl DerefMut for AnySession<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        match self {
            AnySession::Lent(session) => session,
            AnySession::Own(session) => session,
        }
    }
}

/// The limit on scratch memory and outputs.
fn memory(max_memory: u64) -> SessionOptions {
    SessionOptions {
        max_memory,
        ..Default::default()
    }
}

/// An array's bytes; at an address that may be loaded from even if there are none.
fn data(tensor: &Tensor) -> &[u8] {
    static NOTHING: [u64; 8] = [0; 8];
    match tensor.is_empty() {
        true => &bytemuck::cast_slice(&NOTHING)[..0],
        false => tensor.bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Model};

    /// Each element of the second product needs a row and a column of the first one, so other units'.
    const TEXT: &str = "\
fn @main(%x: f32[64,64]) -> (%y: f32[64,64]) {
  %h = dot(%x, %x)
  %y = dot(%h, %h)
  return %y
}
";

    #[test]
    fn a_broken_schedule_is_refused() {
        let model = Model::parse("m", TEXT).unwrap();
        // Synchronising costs nothing here, so that both products are dealt out.
        let machine = Machine::reference_host(3).with_barrier_ns(0.0);
        let mut program = schedule(&model.module, &machine, &[], Tune::Off).unwrap();
        prove(true, "the program", &program, 3).unwrap();
        let whole = program.body.len();
        program.body.retain(|stmt| !matches!(stmt, Stmt::Sync(_)));
        assert!(program.body.len() < whole, "nothing was removed");
        prove(false, "the program", &program, 3).unwrap();
        let error = prove(true, "the program", &program, 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        let (text, hint) = (error.to_string(), error.hint().unwrap());
        for part in ["the schedule of the program", "op0 (", "op1 (", "b1 of "] {
            assert!(text.contains(part), "{text}");
        }
        assert!(
            hint.contains("report") && hint.contains("--device interp"),
            "{hint}"
        );
    }
}
