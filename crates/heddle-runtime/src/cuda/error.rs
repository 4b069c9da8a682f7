//! Errors of devices: what was looked for, where, and the remedy.

use std::fmt;

/// The reasons for which a device cannot be used, or fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The driver's library is not there.
    #[error(
        "no CUDA driver, needed for the cuda device. Tried:{}\nInstall the NVIDIA driver, or let \
         HEDDLE_LIBCUDA name its library",
        listed(.0)
    )]
    NoDriver(Vec<(String, String)>),
    /// The driver's library lacks a function.
    #[error(
        "the CUDA driver {library} ({version}) has no function `{function}`: it is too old. Install \
         a driver for CUDA 12 or later"
    )]
    OldDriver {
        /// The library.
        library: String,
        /// The version of CUDA that it is for, in words.
        version: String,
        /// The missing function.
        function: &'static str,
    },
    /// The driver finds no device.
    #[error(
        "the CUDA driver {library} finds no device: is there an NVIDIA GPU, and does \
         CUDA_VISIBLE_DEVICES hide it?"
    )]
    NoDevice {
        /// The library.
        library: String,
    },
    /// The device cannot do what programs need.
    #[error("the device {device} {lacks}, which programs need: use a newer one")]
    Unable {
        /// The device's name.
        device: String,
        /// The missing ability, as the end of a sentence.
        lacks: &'static str,
    },
    /// The compiler's library is not there.
    #[error(
        "no NVRTC, the CUDA compiler, needed to build programs for the cuda device. Tried:{}\nInstall \
         the CUDA toolkit, or let CUDA_HOME name its folder or HEDDLE_NVRTC the library",
        listed(.0)
    )]
    NoCompiler(Vec<(String, String)>),
    /// The compiler's library lacks a function.
    #[error("{library} has no function `{function}`: it is too old. Install NVRTC 12 or later")]
    OldCompiler {
        /// The library.
        library: String,
        /// The missing function.
        function: &'static str,
    },
    /// The compiler does not know the architecture.
    #[error("{compiler} does not build for `{arch}`; it builds for {}", .known.join(", "))]
    UnknownArch {
        /// The architecture asked for.
        arch: String,
        /// The compiler.
        compiler: String,
        /// All that it knows.
        known: Vec<String>,
    },
    /// The program was built for devices of another architecture.
    #[error("a program for {arch} does not run on {device}, which is {own}: build it for {own}")]
    OtherArch {
        /// The architecture that it was built for.
        arch: String,
        /// The device's name.
        device: String,
        /// The device's architecture.
        own: String,
    },
    /// Blocks wait for each other, and not all of them can be on the device at once.
    #[error(
        "{blocks} blocks of {threads} threads wait for each other, and {fits} of them can be on {device} at once"
    )]
    Resident {
        /// Blocks that the program is scheduled for.
        blocks: usize,
        /// Threads of a block.
        threads: usize,
        /// Blocks that can be resident.
        fits: usize,
        /// The device's name.
        device: String,
    },
    /// The device has not as much memory.
    #[error(
        "{device} does not give {bytes} bytes of memory, {free} of its {total} are free: use smaller inputs, or end other programs on it"
    )]
    Memory {
        /// The requested size.
        bytes: u64,
        /// Bytes that are free.
        free: u64,
        /// Bytes of the device.
        total: u64,
        /// The device's name.
        device: String,
    },
    /// A kernel broke the device's context.
    #[error("{what} on {device}: {failed}. The next run begins with a new context")]
    Lost {
        /// The work that failed.
        what: String,
        /// The device's name.
        device: String,
        /// The first call that said so.
        failed: Failed,
        /// The lines of the operators that blocks were in, in a program [that notes them](crate::BuildOptions::notes).
        lines: Box<[usize]>,
    },
    /// The process was forked after its parent had used the device.
    #[error(
        "a child of a process that used the GPU cannot use it: start it anew (spawn, not fork)"
    )]
    Forked,
    /// A call failed.
    #[error(transparent)]
    Call(#[from] Failed),
}

/// A call of the driver or the compiler that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The function.
    pub function: &'static str,
    /// Its status.
    pub code: i32,
    /// The status in words.
    pub text: String,
}

impl std::error::Error for Failed {}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            function,
            code,
            text,
        } = self;
        write!(f, "{function} failed with status {code}: {text}")
    }
}

/// The places that were tried, a line each.
fn listed(tried: &[(String, String)]) -> String {
    let line = |(name, why): &(String, String)| format!("\n  {name}: {why}");
    tried.iter().map(line).collect()
}
