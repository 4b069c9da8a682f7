//! CUDA text: one persistent kernel. A GPU does not run it yet, the simulator does (`sim.rs`).

use std::sync::Arc;

use heddle_emit::Emitted;
use heddle_uprogram::UProgram;

use super::interface::{Artifact, Backend, Layout, Machine, Scheduled};
use crate::{CompileOptions, Device, Error, Interpreted, Target};

/// Writes programs for NVIDIA GPUs.
#[derive(Clone, Debug)]
pub(super) struct Cuda {
    machine: Machine,
}

impl Cuda {
    pub(super) fn new(options: &CompileOptions) -> Self {
        Self {
            machine: options.machine(Target::Cuda),
        }
    }
}

impl Backend for Cuda {
    /// The one that runs the same text.
    fn device(&self) -> Device {
        Device::Sim
    }

    fn machine(&self) -> Machine {
        self.machine.clone()
    }

    fn lowers(&self) -> bool {
        true
    }

    fn emit(&self, program: &UProgram, layout: &Layout) -> Result<Emitted, Error> {
        Ok(heddle_emit::write(program, layout, &heddle_emit::CUDA))
    }

    fn build(&self, _: Scheduled) -> Result<Arc<dyn Artifact>, Error> {
        let why = "CUDA programs are written and not built";
        Err(Error::NotCompiled(Interpreted::whole(None, why.into())))
    }
}
