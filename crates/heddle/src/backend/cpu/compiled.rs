//! A program that worker threads run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heddle_ir::{Datum, Signature};
use heddle_runtime::{
    BuildOptions, Constant, Executable, Pool, PoolOptions, Program, RunError, SessionOptions,
    Source,
};
use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Size, Stmt, for_each_stmt};

use super::session::CpuSession;
use super::spare::Spares;
use crate::backend::interface::{Artifact, Lowered, Session};
use crate::ports::Ports;
use crate::{Baseline, Device, Error, RunOptions};

/// A program that worker threads run.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) executable: Executable,
    /// The program that was emitted, without the contents of constants.
    pub(super) program: UProgram,
    /// Its constants.
    pub(super) constants: Vec<Constant>,
    /// The model's inputs and results.
    pub(super) sig: Arc<Signature>,
    /// The launch's named sizes, in order.
    pub(super) sizes: Vec<Size>,
    /// The model's nodes by the numbers that errors carry.
    sites: Vec<String>,
    /// The program's arrays for the model's inputs and outputs.
    pub(super) ports: Ports,
    /// Memory of results that were dropped.
    pub(super) spares: Spares,
    /// Dims of a run before.
    pub(super) checked: Checked,
    /// Is each program that is made of this one proven sound before it is built?
    pub(super) verify: bool,
    /// Options with which it was built.
    pub(super) build: BuildOptions,
}

impl Compiled {
    /// Builds a program as it was emitted.
    pub(super) fn build(
        lowered: Lowered,
        sig: Arc<Signature>,
        pool: &PoolOptions,
        build: &BuildOptions,
        verify: bool,
    ) -> Result<Self, Error> {
        let source = Source {
            name: sig.name.clone(),
            text: lowered.emitted.source,
            constants: lowered.constants.clone(),
            plan: lowered.layout.plan,
        };
        let built = Arc::new(Program::build(&source, build)?);
        let pool =
            Pool::shared_with(pool).map_err(|e| Error::Internal(format!("no threads: {e}")))?;
        let mut program = lowered.program;
        program.drop_contents();
        Ok(Self {
            executable: Executable::new(built, pool, SessionOptions::default()),
            sizes: program.sizes.iter().map(|(size, _)| size.clone()).collect(),
            sites: lowered.emitted.sites,
            spares: Spares::new(program.outputs.len()),
            checked: Checked::default(),
            program,
            constants: lowered.constants,
            sig,
            ports: lowered.ports,
            verify,
            build: build.clone(),
        })
    }

    /// The error of a run, with the model's node.
    pub(super) fn stopped(&self, error: RunError) -> Error {
        let site = match error {
            RunError::Program { site, .. } => self.sites.get(site as usize).cloned(),
            _ => None,
        };
        Error::Compiled {
            site,
            place: None,
            failure: None,
            error: Box::new(error),
        }
    }
}

impl Artifact for Compiled {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn threads(&self) -> usize {
        self.executable.pool().threads()
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
            Baseline::Host => self.on_host(),
            Baseline::Trace => self.traced(args, options),
        };
        Some(variant.map(|compiled| Arc::new(compiled) as Arc<dyn Artifact>))
    }

    fn session(self: Arc<Self>, options: &RunOptions) -> Box<dyn Session> {
        Box::new(CpuSession::new(self, options))
    }
}

/// Dims of arrays that a run on the caller's memory was given, and the launch's sizes for them.
#[derive(Debug)]
pub(super) struct Dims {
    /// By input.
    pub arrays: Vec<Vec<i64>>,
    /// In the program's order.
    pub sizes: Vec<i64>,
}

/// Dims that were checked, so that runs on the same ones need no second check. One session has them at a time.
#[derive(Debug, Default)]
pub(super) struct Checked(Mutex<Option<Dims>>);

impl Checked {
    /// Those that wait for a session.
    pub(super) fn take(&self) -> Option<Dims> {
        self.lock().take()
    }

    /// Keeps those of a session that ends.
    pub(super) fn keep(&self, dims: Dims) {
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
