//! The processor: programs in C, built by the system's compiler and run by worker threads.

mod compiled;
pub(crate) mod marshal;
mod profile;
mod session;
mod spare;
mod variants;

use std::sync::Arc;

use heddle_emit::Emitted;
use heddle_runtime::{BuildOptions, Libraries, PoolOptions};
use heddle_schedule::Latency;
use heddle_uprogram::UProgram;

use super::interface::{Artifact, Backend, Layout, Machine, Scheduled};
use crate::{CompileOptions, Error, Pin, Target};

use compiled::Compiled;
use profile::Profiler;

/// Builds programs for so many worker threads.
#[derive(Clone, Debug)]
pub(super) struct Cpu {
    machine: Machine,
    /// Was the machine asked for by name?
    is_named: bool,
    pool: PoolOptions,
    build: BuildOptions,
    verify: bool,
}

impl Cpu {
    pub(super) fn new(options: &CompileOptions) -> Self {
        Self {
            machine: options.machine(Target::Cpu),
            is_named: options.machine.is_some(),
            pool: PoolOptions {
                pin: options.pin == Pin::Auto,
                ..PoolOptions::new(options.threads())
            },
            build: options.build(),
            verify: options.verify,
        }
    }

    pub(super) fn with_libraries(mut self, libraries: Arc<Libraries>) -> Self {
        self.build.libraries = Some(libraries);
        self
    }
}

impl Backend for Cpu {
    fn machine(&self) -> Machine {
        self.machine.clone()
    }

    fn lowers(&self) -> bool {
        true
    }

    fn measured(&self, program: &mut UProgram) -> Option<Box<dyn Latency>> {
        let profiler = Profiler::new(program, &self.machine, &self.build)?;
        Some(Box::new(profiler))
    }

    fn pipelined_units(&self) -> usize {
        self.machine.units()
    }

    fn single(&self) -> Option<Box<dyn Backend>> {
        let single = Self {
            machine: Machine::host(1),
            pool: PoolOptions {
                threads: 1,
                ..self.pool.clone()
            },
            ..self.clone()
        };
        (self.pool.threads > 1 && !self.is_named).then(|| Box::new(single) as Box<dyn Backend>)
    }

    fn emit(&self, program: &UProgram, layout: &Layout) -> Result<Emitted, Error> {
        Ok(heddle_emit::write(program, layout, &heddle_emit::C))
    }

    fn build(&self, program: Scheduled) -> Result<Arc<dyn Artifact>, Error> {
        let Scheduled { module, lowered } = program;
        let lowered =
            lowered.ok_or_else(|| Error::Internal("the program is not scheduled".into()))?;
        let sig = module.entry().sig.clone();
        let compiled = Compiled::build(lowered, sig, &self.pool, &self.build, self.verify)?;
        Ok(Arc::new(compiled))
    }
}
