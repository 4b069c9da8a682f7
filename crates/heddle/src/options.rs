//! Options of compiling and running.

use std::fmt;
use std::time::Duration;

use heddle_ir::DType;
use heddle_runtime::cache::{Cache, CacheChoice};
use heddle_runtime::{BuildOptions, CancelToken, Grid, Sanitizer};
use heddle_uprogram::contract::Rounding;

use crate::{Error, Inputs, Limit, Machine, Remedy, Step};

/// Device that a program runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// The reference interpreter: slow and obviously right. It needs no C compiler.
    Interp,
    /// The processor: control flow and data flow compiled into one program that all worker threads run.
    /// [Compiling](crate::compile) needs a C compiler on this computer.
    #[default]
    Cpu,
    /// A simulated GPU: the [CUDA text](Target::Cuda) of the program as it would be launched on [`CompileOptions::grid`], built for this
    /// computer. It finds faults of the text that a GPU would hang or err on, and is slow. Compiling needs a C++ compiler.
    Sim,
    /// An NVIDIA GPU, the first that the driver finds: the program is one kernel, control flow included, that all of it runs. It needs the
    /// driver and NVRTC, the CUDA compiler; their libraries are found at run time.
    Cuda,
}

impl Device {
    /// All devices.
    pub const ALL: &'static [Device] = &[Device::Interp, Device::Cpu, Device::Sim, Device::Cuda];

    /// The devices that every computer has, given a compiler of C and C++.
    pub const EVERYWHERE: &'static [Device] = &[Device::Interp, Device::Cpu, Device::Sim];

    /// The name, as in `heddle run --device`.
    pub const fn name(self) -> &'static str {
        match self {
            Device::Interp => "interp",
            Device::Cpu => "cpu",
            Device::Sim => "sim",
            Device::Cuda => "cuda",
        }
    }
}

/// Options of compiling.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The device to run on.
    pub device: Device,
    /// The grid that [`Device::Sim`] simulates.
    pub grid: Grid,
    /// The sanitizer that watches each run on [`Device::Sim`], in a process of its own with a thread of the system for each of the grid's,
    /// up to 16 blocks of 256: a race, or an access out of bounds, is an error of kind [`ErrorKind::Internal`](crate::ErrorKind::Internal).
    /// Such runs are slow; memory is not limited.
    pub sanitize: Option<Sanitizer>,
    /// The architecture that programs for [`Device::Cuda`] are built for, as `sm_90`; `None`: that of the device, with the instructions
    /// that only it has (`sm_90a`).
    pub arch: Option<String>,
    /// Do the graph passes run? They compute constants in the types that the program states: a
    /// run that is to compute in `f64` throughout takes the program without them.
    pub optimize: bool,
    /// [Steps](crate::STEPS) that a device that compiles leaves out. The interpreter runs the program without any.
    pub without: Vec<Step>,
    /// The most worker threads of the cpu device; `None`: one for each physical core that this process may use, or fewer by a
    /// quota. While other threads want the cores, fewer take part in a run.
    pub threads: Option<usize>,
    /// The most activations of a recursion whose frames are kept at once; if it has more, they are evaluated depth first, as calls
    /// of each other. [`RunOptions::max_frames`] limits these.
    pub max_frames: Option<usize>,
    /// May worker threads be bound to cores?
    pub pin: Pin,
    /// The type that weights of products are stored in. All devices compute with the numbers of this type, in `f32`.
    pub weights: Weights,
    /// The type in which tensor cores may multiply `f32`. Devices without them multiply in `f32`.
    pub precision: Precision,
    /// The place of packed weights.
    pub packed: Packed,
    /// The C compiler, optionally with leading arguments. `None`: what the environment's `HEDDLE_CC` names, else the first that works
    /// of `gcc`, `clang`, `cc`, and those of [`add_compiler`].
    pub compiler: Option<String>,
    /// The place of what is kept from one compilation to the next: built programs, packed weights, measured times.
    pub cache: CacheChoice,
    /// The machine that decisions are made for; `None`: this computer with that many threads, or an H100 for
    /// [`Target::Cuda`], with [`CompileOptions::grid`] on [`Device::Sim`] and the device's multiprocessors on [`Device::Cuda`]. A program
    /// runs on any number of threads.
    pub machine: Option<Machine>,
    /// Source of the scheduler's times.
    pub tune: Tune,
    /// Inputs whose run the program is compiled for: the interpreter counts the trips of loops and the sizes of arrays, by which the
    /// cost model weighs its choices. The results are the same for all inputs. Counts are cached by program and inputs.
    pub profile: Option<Inputs>,
    /// Is each scheduled program proven sound before it is built? No unit then touches data that another one may still use.
    pub verify: bool,
    /// Is each scheduled program printed and read back, to give the same text and the same source? A test of the text form.
    pub check_text: bool,
}

/// The most worker threads of a program: what each of them needs is taken before the first run.
pub const MAX_THREADS: usize = 1024;

/// Binding of worker threads to cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// Each to a core of its own while it runs, if there are enough; the cores are claimed, so that other programs of this
    /// user take others.
    #[default]
    Auto,
    /// None: the system moves them.
    Off,
}

/// The type of constants that are `f32` and weights of products or convolutions. Those whose kernels pack constants are stored in it; weights
/// that kernels seldom or never pack stay as they are, with a note in the [`Report`](crate::Report). GPUs have no such kernels yet: compiling
/// for one is an error of kind [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Weights {
    /// That of the model.
    #[default]
    F32,
    /// The upper half of an `f32`, rounded to nearest, ties to even.
    Bf16,
    /// Half precision, rounded to nearest, ties to even. Constants with numbers beyond 65,504 stay.
    F16,
    /// Whole multiples, up to 127, of a scale for each output column (output channel of a convolution), which is the largest number of the column by
    /// 127, rounded up to 17 bits.
    Int8,
}

impl Weights {
    /// All of them.
    pub const ALL: &'static [Weights] = &[Weights::F32, Weights::Bf16, Weights::F16, Weights::Int8];

    /// The name, as in `heddle run --weights`.
    pub const fn name(self) -> &'static str {
        match self {
            Weights::F32 => "f32",
            Weights::Bf16 => "bf16",
            Weights::F16 => "f16",
            Weights::Int8 => "int8",
        }
    }

    /// The element type, if it is another one than the model's.
    pub(crate) fn stored(self) -> Option<DType> {
        match self {
            Weights::F32 => None,
            Weights::Bf16 => Some(DType::Bf16),
            Weights::F16 => Some(DType::F16),
            Weights::Int8 => Some(DType::I8),
        }
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type in which products of `f32` and convolutions may be multiplied, on a GPU with tensor cores. Operands are rounded to it; sums and
/// all else stay `f32`. Products that gain nothing by tensor cores, and devices without them, multiply in `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// That of the model.
    #[default]
    F32,
    /// 10 bits of the mantissa, rounded to nearest, ties away from zero: errors of about 5e-4.
    Tf32,
    /// 7 bits of the mantissa, rounded to nearest, ties to even: errors of about 4e-3.
    Bf16,
    /// Half precision, rounded to nearest, ties to even: errors of about 5e-4; numbers beyond 65,504 become infinite.
    F16,
}

impl Precision {
    /// All of them.
    pub const ALL: &'static [Precision] = &[
        Precision::F32,
        Precision::Tf32,
        Precision::Bf16,
        Precision::F16,
    ];

    /// The name, as in `heddle run --precision`.
    pub const fn name(self) -> &'static str {
        match self.rounding() {
            None => "f32",
            Some(rounding) => rounding.name(),
        }
    }

    /// The type that operands may be rounded to, if it is another one than the model's.
    pub(crate) const fn rounding(self) -> Option<Rounding> {
        match self {
            Precision::F32 => None,
            Precision::Tf32 => Some(Rounding::Tf32),
            Precision::Bf16 => Some(Rounding::Bf16),
            Precision::F16 => Some(Rounding::F16),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The place of packed weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packed {
    /// The process's memory, in large pages where the system has them.
    #[default]
    Memory,
    /// Files in the cache folder, mapped read-only: a second start packs nothing, and processes share their pages. Weights that
    /// cannot be stored there stay in memory.
    Cache,
}

/// Source of the scheduler's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tune {
    /// A cost model: the same program always compiles to the same schedule.
    #[default]
    Off,
    /// Runs of the program's operators on this machine. Times are cached by content and processor.
    On,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            device: Device::default(),
            grid: Grid::default(),
            sanitize: None,
            arch: None,
            optimize: true,
            without: vec![],
            threads: None,
            max_frames: None,
            pin: Pin::default(),
            weights: Weights::default(),
            precision: Precision::default(),
            packed: Packed::default(),
            compiler: None,
            cache: CacheChoice::default(),
            machine: None,
            tune: Tune::default(),
            profile: None,
            verify: false,
            check_text: false,
        }
    }
}

impl CompileOptions {
    /// The number of worker threads that are asked for.
    pub(crate) fn threads(&self) -> usize {
        self.threads
            .unwrap_or_else(|| default_threads().min(MAX_THREADS))
    }

    /// Options of building programs.
    pub(crate) fn build(&self) -> BuildOptions {
        BuildOptions {
            compiler: self.compiler.clone(),
            cache: self.cache.clone(),
            ..Default::default()
        }
    }

    /// The machine that decisions for a target are made for.
    pub(crate) fn machine(&self, target: Target) -> heddle_machine::Machine {
        match (&self.machine, target) {
            (Some(machine), _) => machine.0.clone(),
            (None, Target::Cpu) => heddle_machine::Machine::host(self.threads()),
            (None, Target::Cuda) => heddle_machine::Machine::h100(),
        }
    }
}

/// Adds a C compiler, optionally with leading arguments, to those that are tried when the system has none that works: one that a package
/// brings along. [`CompileOptions::compiler`] and `HEDDLE_CC` go before it.
pub fn add_compiler(command: &str) {
    heddle_runtime::compiler::add_candidate(command);
}

/// Options and limits of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Compute floats in `f64`; inputs may then be `f64`, and float outputs are.
    pub f64: bool,
    /// Bytes that values may take together.
    pub max_memory: Option<u64>,
    /// Iterations that a single loop may take.
    pub max_iterations: Option<u64>,
    /// Depth of nested calls, the entry counted as 1; `None`: 10,000, on every device.
    pub max_depth: Option<usize>,
    /// The most frames of a recursion at once, in calls that nest: with [`CompileOptions::max_frames`], also of one that is evaluated
    /// level by level.
    pub max_frames: Option<usize>,
    /// Wall time.
    pub timeout: Option<Duration>,
    /// The longest that a block of a GPU may wait for another one; `None`: 10 seconds. Then the run ends with an error of kind
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal), which says which block waits where for which one. On [`Device::Sim`] a round
    /// of all threads takes a microsecond of that time. Other devices have no blocks.
    pub watchdog: Option<Duration>,
    /// Stops the run, from another thread, with an error of kind [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    pub cancel: Option<CancelToken>,
    /// The seed of random operators that have none of their own. Runs with equal seeds draw equal numbers, on every device and
    /// with any number of threads.
    pub seed: u64,
}

/// A language that programs are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// C, which the cpu device builds.
    #[default]
    Cpu,
    /// CUDA: one persistent kernel, which [`Device::Cuda`] runs and [`Device::Sim`] simulates.
    Cuda,
}

impl RunOptions {
    /// The limit of nested calls. Its default is the interpreter's, which all devices follow.
    pub(crate) fn depth_limit(&self) -> usize {
        let frames = self.max_frames.map(|n| n.saturating_add(1));
        self.calls_limit().min(frames.unwrap_or(usize::MAX))
    }

    fn calls_limit(&self) -> usize {
        let default = || heddle_interp::Options::default().max_depth;
        self.max_depth.unwrap_or_else(default)
    }

    /// An error that names the limit of frames, if that is what nested calls ran into.
    pub(crate) fn of_frames(&self, error: Error) -> Error {
        let is_of_depth = error.remedy() == Some(Remedy::Raise(Limit::Depth));
        match is_of_depth && self.depth_limit() < self.calls_limit() {
            true => Error::Frames(Box::new(error)),
            false => error,
        }
    }
}

/// Baseline for a compiled program. Operators, their kernels and the workers are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The host runs the control flow and dispatches one operator after the other to all workers: CocktailerBase in
    /// Cocktailer §5.
    Host,
    /// There is no control flow: the operators stand in the order in which the run on these inputs executed them. The bound
    /// of any gain that leaves operators as they are.
    Trace,
}

/// The interpreter's options.
pub(crate) fn interpreter_options(options: &RunOptions) -> heddle_interp::Options {
    let defaults = heddle_interp::Options::default();
    heddle_interp::Options {
        f64: options.f64,
        max_memory: options.max_memory.unwrap_or(defaults.max_memory),
        max_iterations: options.max_iterations.unwrap_or(defaults.max_iterations),
        max_depth: options.depth_limit(),
        timeout: options.timeout.or(defaults.timeout),
        cancel: options.cancel.as_ref().map(CancelToken::shared),
        seed: options.seed,
        ..defaults
    }
}

/// The cache of what is built with these options.
pub(crate) fn cache(build: &BuildOptions) -> Cache {
    Cache::open(&build.cache, build.cache_limit)
}

pub(crate) use heddle_runtime::default_threads;
