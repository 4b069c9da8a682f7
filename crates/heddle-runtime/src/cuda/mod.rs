//! CUDA devices: text is built by NVRTC, and run by the driver, both found in their libraries at run time.
//!
//! ```text
//! driver.rs, nvrtc.rs   the functions of both libraries; the only unsafe code
//! device.rs             the device, its context, its memory
//! build.rs              text -> cubin, through the cache
//! kernel.rs             a program in a context, its constants
//! segments.rs           arrays that grow
//! launch.rs             a launch, its arguments and results
//! ```
//!
//! `session/device.rs` runs programs with it.

mod build;
mod device;
mod driver;
mod error;
mod kernel;
mod launch;
mod nvrtc;
mod segments;
mod table;

pub use build::Gpu;
pub(crate) use build::build;
pub(crate) use device::{Context, DeviceBuffer};
pub use device::{Device, Facts};
pub use error::{DeviceError, Failed};
pub(crate) use kernel::{Kernel, Loaded};
pub(crate) use launch::{Arguments, Ended, Launcher, Until, pointer};
pub use nvrtc::Nvrtc;
pub(crate) use segments::{DeviceSegments, Shortage};
