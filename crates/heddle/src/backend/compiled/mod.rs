//! Compiled programs, for every device that runs text of ours: the processor's workers, a GPU, a simulated one.

pub(crate) mod marshal;
mod noted;
mod sanitized;
mod session;
mod spare;
mod variants;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heddle_emit::{Dialect, Emitted};
use heddle_ir::{Datum, Signature};
use heddle_runtime::cuda::{DeviceError, Gpu};
use heddle_runtime::{
    BuildError, BuildOptions, Constant, Executable, Pool, PoolOptions, Program, RunError,
    SessionOptions, Source, Standalone,
};
use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Size, Stmt, for_each_stmt};

use super::interface::{Artifact, Lowered, Machine, Scheduled, Session};
use crate::ports::Ports;
use crate::{Baseline, Device, Error, Interpreted, RunOptions};

use session::CompiledSession;
use spare::Spares;

/// The device of compiled programs: how they are written, built and run.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) device: Device,
    pub(crate) dialect: &'static Dialect,
    /// The machine that other forms of a program are scheduled for.
    pub(crate) machine: Machine,
    pub(crate) pool: PoolOptions,
    pub(crate) session: SessionOptions,
    pub(crate) build: BuildOptions,
    /// The GPU that programs are built for, in the place of this process.
    pub(crate) gpu: Option<Gpu>,
    /// Is each program that is made of another one proven sound before it is built?
    pub(crate) verify: bool,
}

/// A program that worker threads run, or one that is launched on a GPU, which may be simulated.
#[derive(Debug)]
pub(crate) struct Compiled {
    executable: Executable,
    /// The same for a sanitizer, in processes of their own, which runs take if it is there.
    sanitized: Option<Standalone>,
    /// The program that was emitted, without the contents of constants.
    program: UProgram,
    /// Its constants.
    constants: Vec<Constant>,
    /// The model's inputs and results.
    sig: Arc<Signature>,
    /// The launch's named sizes, in order.
    sizes: Vec<Size>,
    /// Its text, kept only where errors name lines of it, on GPUs, with the model's nodes by the numbers that errors carry.
    emitted: Emitted,
    /// The program's arrays for the model's inputs and outputs.
    ports: Ports,
    /// Memory of results that were dropped.
    spares: Spares,
    /// Dims of a run before.
    checked: Checked,
    /// A remark on how it was built.
    remark: Option<String>,
    /// Its device.
    setup: Setup,
}

impl Compiled {
    /// Builds a scheduled program.
    pub(crate) fn of(program: Scheduled, setup: &Setup) -> Result<Self, Error> {
        let Scheduled { module, lowered } = program;
        let lowered =
            lowered.ok_or_else(|| Error::Internal("the program is not scheduled".into()))?;
        Self::build(lowered, module.entry().sig.clone(), setup)
    }

    /// Builds a program as it was emitted.
    fn build(lowered: Lowered, sig: Arc<Signature>, setup: &Setup) -> Result<Self, Error> {
        let mut emitted = lowered.emitted;
        let source = Source {
            name: sig.name.clone(),
            text: std::mem::take(&mut emitted.source),
            constants: lowered.constants.clone(),
            plan: lowered.layout.plan,
        };
        let mut remark = None;
        let built = Arc::new(match &setup.gpu {
            Some(gpu) => {
                let built = Program::build_for(&source, gpu, &setup.build)?;
                check_resident(&built, setup)?;
                remark = too_few_registers(&built)?;
                built
            }
            None => Program::build(&source, &setup.build)?,
        });
        let sanitized = match setup.build.sanitize {
            Some(_) => Some(Standalone::build(&source, &setup.build)?),
            None => None,
        };
        // Programs that share a pool take turns. Those that are launched as a grid compete for no cores.
        let pool = match setup.session.grid {
            Some(_) => Pool::new(&setup.pool).map(Arc::new),
            None => Pool::shared_with(&setup.pool),
        };
        let pool = pool.map_err(|e| Error::Internal(format!("no threads: {e}")))?;
        if setup.session.grid.is_some() {
            emitted.source = source.text;
        }
        let mut program = lowered.program;
        program.drop_contents();
        Ok(Self {
            executable: Executable::new(built, pool, setup.session.clone()),
            sanitized,
            sizes: program.sizes.iter().map(|(size, _)| size.clone()).collect(),
            emitted,
            spares: Spares::new(program.outputs.len()),
            checked: Checked::default(),
            program,
            constants: lowered.constants,
            sig,
            ports: lowered.ports,
            remark,
            setup: setup.clone(),
        })
    }

    /// The error of a run, with the model's node.
    fn stopped(&self, mut error: RunError) -> Error {
        let site = match &mut error {
            RunError::Program { site, .. } => self.emitted.sites.get(*site as usize).cloned(),
            RunError::Simulated { line, text, .. } => {
                if let Some(code) = self.line(*line) {
                    *text += &format!("; line {line} reads `{}`", code.trim());
                }
                self.emitted.node_at(*line).map(str::to_owned)
            }
            RunError::Stuck { lines, text, .. } => {
                let places: Vec<_> = lines.iter().map(|line| vec![*line]).collect();
                self.quote(&places, text)
            }
            RunError::Sanitized { lines, text, .. } => self.quote(lines, text),
            _ => None,
        };
        Error::Compiled {
            site,
            place: None,
            failure: None,
            error: Box::new(error),
        }
    }

    /// Adds the lines of places to a message, with their nodes but for that of the first one, which it gives. The lines of a place lead
    /// from the innermost call to the outermost, which is that of the operator.
    fn quote(&self, places: &[Vec<usize>], text: &mut String) -> Option<String> {
        let node = |lines: &Vec<usize>| {
            let mut outside_in = lines.iter().rev();
            outside_in.find_map(|line| self.emitted.node_at(*line))
        };
        for (number, lines) in places.iter().enumerate() {
            let Some(line) = lines.first() else {
                continue;
            };
            let code = self.line(*line).unwrap_or_default().trim();
            let of = match node(lines).filter(|_| number > 0) {
                Some(node) => format!(", of {node},"),
                None => String::new(),
            };
            *text += &format!("; line {line}{of} reads `{code}`");
        }
        places.first().and_then(node).map(str::to_owned)
    }

    /// A line of the text, from 1.
    fn line(&self, number: usize) -> Option<&str> {
        self.emitted.source.lines().nth(number.checked_sub(1)?)
    }
}

impl Artifact for Compiled {
    fn device(&self) -> Device {
        self.setup.device
    }

    fn threads(&self) -> usize {
        self.executable.pool().threads()
    }

    fn remark(&self) -> Option<String> {
        self.remark.clone()
    }

    fn key(&self) -> Option<String> {
        Some(self.executable.program().report().key.to_string())
    }

    fn held_bytes(&self) -> usize {
        self.executable.held_bytes() + self.spares.held_bytes()
    }

    /// Memory may be planned for more than there is by numbers among the inputs, or for the iterations of a loop that may
    /// end early.
    fn leaves_to_interpreter(&self, error: &Error) -> bool {
        let Error::Compiled { error, .. } = error else {
            return false;
        };
        let memory = matches!(
            **error,
            RunError::Plan { .. } | RunError::MemoryLimit { .. }
        );
        let by_element = |size: &Size| matches!(size, Size::Element { .. } | Size::RunKey);
        memory && (self.sizes.iter().any(by_element) || may_end_early(&self.program))
    }

    fn variant(
        &self,
        kind: Baseline,
        args: &[Datum],
        options: &RunOptions,
    ) -> Option<Result<Arc<dyn Artifact>, Error>> {
        let variant = match kind {
            // A GPU's operators are no tasks that a host dispatches.
            Baseline::Host if self.setup.session.grid.is_some() => {
                let why = "a GPU runs the control flow itself, whoever launches it";
                Err(Error::NotCompiled(Interpreted::whole(None, why.into())))
            }
            Baseline::Host => self.on_host(),
            Baseline::Trace => self.traced(args, options),
        };
        Some(variant.map(|compiled| Arc::new(compiled) as Arc<dyn Artifact>))
    }

    fn session(self: Arc<Self>, options: &RunOptions) -> Box<dyn Session> {
        Box::new(CompiledSession::new(self, options))
    }
}

/// Bytes of a thread's memory that are no cause for a remark: what a call of a function may need.
const USUAL_LOCAL: usize = 16;

/// A remark on a kernel whose threads keep values in memory.
fn too_few_registers(program: &Program) -> Result<Option<String>, Error> {
    let bytes = program.local_bytes().map_err(BuildError::from)?;
    let bytes = bytes.filter(|bytes| *bytes > USUAL_LOCAL);
    Ok(bytes.map(|bytes| {
        format!(
            "each thread of the kernel keeps {bytes} bytes in the device's memory, since its registers do not hold them: some operator is slower than it \
             could be (please report the model)"
        )
    }))
}

/// That all blocks of a program can be on its device at once: they wait for each other.
fn check_resident(program: &Program, setup: &Setup) -> Result<(), Error> {
    let (blocks, threads) = (setup.machine.units(), setup.machine.lanes());
    let fits = program.resident_blocks(threads).map_err(BuildError::from)?;
    match (fits, &setup.gpu) {
        (Some(fits), Some(gpu)) if fits < blocks => {
            let device = gpu.device.facts().name.clone();
            Err(BuildError::from(DeviceError::Resident {
                blocks,
                threads,
                fits,
                device,
            })
            .into())
        }
        _ => Ok(()),
    }
}

/// Dims of arrays that a run on the caller's memory was given, and the launch's sizes for them.
#[derive(Debug)]
struct Dims {
    /// By input.
    pub arrays: Vec<Vec<i64>>,
    /// In the program's order.
    pub sizes: Vec<i64>,
}

/// Dims that were checked, so that runs on the same ones need no second check. One session has them at a time.
#[derive(Debug, Default)]
struct Checked(Mutex<Option<Dims>>);

impl Checked {
    /// The dims that wait for a session.
    fn take(&self) -> Option<Dims> {
        self.lock().take()
    }

    /// Keeps those of a session that ends.
    fn keep(&self, dims: Dims) {
        *self.lock() = Some(dims);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Dims>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has a program a loop whose condition may end it before its trip count?
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
