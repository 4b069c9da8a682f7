//! The processor: programs in C, built by the system's compiler and run by worker threads.

mod profile;

use std::sync::Arc;

use heddle_emit::Emitted;
use heddle_runtime::{Libraries, PoolOptions, SessionOptions};
use heddle_schedule::Latency;
use heddle_uprogram::UProgram;

use super::compiled::{Compiled, Setup};
use super::interface::{Artifact, Backend, Layout, Machine, Scheduled};
use crate::{CompileOptions, Device, Error, Pin, Target};

use profile::Profiler;

/// Builds programs for so many worker threads.
#[derive(Clone, Debug)]
pub(super) struct Cpu {
    machine: Machine,
    /// Was the machine asked for by name?
    is_named: bool,
    setup: Setup,
}

impl Cpu {
    pub(super) fn new(options: &CompileOptions) -> Self {
        Self {
            machine: options.machine(Target::Cpu),
            is_named: options.machine.is_some(),
            setup: Setup {
                device: Device::Cpu,
                dialect: &heddle_emit::C,
                machine: Machine::host(options.threads()),
                pool: PoolOptions {
                    pin: options.pin == Pin::Auto,
                    ..PoolOptions::new(options.threads())
                },
                session: SessionOptions::default(),
                build: options.build(),
                gpu: None,
                verify: options.verify,
            },
        }
    }

    pub(super) fn with_libraries(mut self, libraries: Arc<Libraries>) -> Self {
        self.setup.build.libraries = Some(libraries);
        self
    }
}

impl Backend for Cpu {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn machine(&self) -> Machine {
        self.machine.clone()
    }

    fn lowers(&self) -> bool {
        true
    }

    fn measured(&self, program: &mut UProgram) -> Option<Box<dyn Latency>> {
        let profiler = Profiler::new(program, &self.machine, &self.setup.build)?;
        Some(Box::new(profiler))
    }

    fn single(&self) -> Option<Box<dyn Backend>> {
        let single = Self {
            machine: Machine::host(1),
            setup: Setup {
                machine: Machine::host(1),
                pool: PoolOptions {
                    threads: 1,
                    ..self.setup.pool.clone()
                },
                ..self.setup.clone()
            },
            ..self.clone()
        };
        (self.setup.pool.threads > 1 && !self.is_named)
            .then(|| Box::new(single) as Box<dyn Backend>)
    }

    fn emit(&self, program: &UProgram, layout: &Layout) -> Result<Emitted, Error> {
        Ok(heddle_emit::write(program, layout, self.setup.dialect))
    }

    fn build(&self, program: Scheduled) -> Result<Arc<dyn Artifact>, Error> {
        Ok(Arc::new(Compiled::of(program, &self.setup)?))
    }
}
