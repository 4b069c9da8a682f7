//! Back ends: machines that programs are compiled for, and the ways to run programs on them.
//!
//! ```text
//! Backend   a machine, and how a program is built for it
//! Artifact  a program that was built; any number of sessions run it
//! Session   the memory of one run at a time
//! Memory    where the arrays of an artifact lie
//! ```
//!
//! A device is one file here. It says which machine programs are scheduled for, writes their text in its dialect and
//! builds an artifact of it; nothing else names it but [`of`] and [`of_target`]. Those that build text share `compiled`.

mod compiled;
mod cpu;
mod cuda;
#[cfg(test)]
#[allow(dead_code)] // Tests of this crate use a part of it.
#[path = "../../../../tests/fake-cuda/mod.rs"]
mod fake_cuda;
pub(crate) mod interface;
mod interp;
mod memory;
mod parts;
mod sim;
#[cfg(test)]
mod wrong;

use std::sync::Arc;

use heddle_runtime::Libraries;

use crate::{CompileOptions, Device, Error, Target};

pub use interface::{ArrayView, Required};
pub(crate) use interface::{Artifact, Backend, Built, Lowered, Scheduled, Session, run};
pub(crate) use interp::{interpret, interpreted};
pub use memory::{Block, HostMemory, Memory, Space};
pub(crate) use parts::Parts;

/// The back end of a device.
///
/// # Errors
/// [`Error::Build`] if the device is not there, or nothing that builds for it.
pub(crate) fn of(options: &CompileOptions) -> Result<Box<dyn Backend>, Error> {
    Ok(match options.device {
        Device::Interp => interpreter(),
        Device::Cpu => Box::new(cpu::Cpu::new(options)),
        Device::Sim => Box::new(sim::Sim::new(options)),
        Device::Cuda => {
            let cuda = cuda::Cuda::new(options)?;
            cuda.check_compiler()?;
            Box::new(cuda)
        }
    })
}

/// The back end of a device, which loads libraries that are given instead of building them, and keeps those that it builds if it is asked
/// to.
///
/// # Errors
/// [`Error::Build`] if the device is not there.
pub(crate) fn with_libraries(
    options: &CompileOptions,
    libraries: Arc<Libraries>,
) -> Result<Box<dyn Backend>, Error> {
    Ok(match options.device {
        Device::Interp => interpreter(),
        Device::Cpu => Box::new(cpu::Cpu::new(options).with_libraries(libraries)),
        Device::Sim => Box::new(sim::Sim::new(options).with_libraries(libraries)),
        Device::Cuda => Box::new(cuda::Cuda::new(options)?.with_libraries(libraries)),
    })
}

/// The back end that runs graphs.
pub(crate) fn interpreter() -> Box<dyn Backend> {
    Box::new(interp::Interpreter)
}

/// The back end of a language.
pub(crate) fn of_target(target: Target, options: &CompileOptions) -> Box<dyn Backend> {
    match target {
        Target::Cpu => Box::new(cpu::Cpu::new(options)),
        Target::Cuda => Box::new(cuda::Writer::new(options)),
    }
}
