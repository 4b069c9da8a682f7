//! CUDA text: one persistent kernel. There is no device for it yet.

use std::sync::Arc;

use heddle_emit::Emitted;
use heddle_uprogram::UProgram;

use super::interface::{Artifact, Backend, Layout, Machine, Scheduled};
use crate::{Error, Interpreted};

/// Writes programs for NVIDIA GPUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cuda;

impl Backend for Cuda {
    fn machine(&self) -> Machine {
        Machine::gpu()
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
