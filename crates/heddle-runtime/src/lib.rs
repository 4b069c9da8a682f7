//! Devices: builds emitted programs, allocates their memory and runs them.
//!
//! A [`Source`] (text with constants) becomes a [`Program`] through the system's C compiler and a
//! cache on disk. C text is for the cpu: a [`Session`] runs it on the workers of a [`Pool`], and
//! `include/heddle.h` is the contract between text and runtime. CUDA text is built with
//! `include/sim.h`, which simulates a launch on the calling thread, or by NVRTC for a GPU ([`cuda`]).
//!
//! This crate knows nothing of graphs; it is the only one that loads and calls foreign code.

pub mod abi;
mod buffer;
mod build;
pub mod cache;
mod cancel;
pub mod compiler;
pub mod cpu;
pub mod cuda;
mod error;
mod executable;
mod flags;
mod fork;
mod grid;
mod libraries;
mod loading;
mod pool;
mod program;
mod sanitized;
mod session;
pub mod simulation;
mod slab;
mod source;
mod standalone;
mod watchdog;
pub mod weights;

pub use buffer::{ALIGNMENT, Buffer};
pub use build::{BuildOptions, BuildReport, CacheUse, Language, Sanitizer};
pub use cancel::CancelToken;
pub use error::{BuildError, Fault, MemoryError, RunError};
pub use executable::{Executable, Finished, Lent};
pub use grid::{Grid, GridError};
pub use heddle_abi::{Plan, PlanError, PlanFault, plan};
pub use libraries::{KeptLibrary, Libraries};
pub use pool::{Pool, PoolOptions, default_threads};
pub use program::{Entry, Program};
pub use session::{Input, Outputs, RunOptions, Session, SessionOptions, Staged, Stops};
pub use simulation::Finding;
pub use slab::Slabs;
pub use source::{Constant, Source};
pub use standalone::{OwnedOutput, Standalone, StandaloneError};
