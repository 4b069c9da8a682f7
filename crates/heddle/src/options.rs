//! What a model is compiled for, and how it is run.

use std::time::Duration;

use heddle_machine::Machine;

/// What a program runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// The reference interpreter: slow and obviously right.
    #[default]
    Interp,
    /// The processor: control flow and data flow compiled into one program that all worker threads run.
    Cpu,
}

impl Device {
    /// All devices.
    pub const ALL: &'static [Device] = &[Device::Interp, Device::Cpu];

    /// The name that the command line takes.
    pub const fn name(self) -> &'static str {
        match self {
            Device::Interp => "interp",
            Device::Cpu => "cpu",
        }
    }
}

/// How a model is compiled.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// What it is to run on.
    pub device: Device,
    /// Whether the graph passes run. They compute constants in the types that the program states: a
    /// run that is to compute in `f64` throughout takes the program without them.
    pub optimize: bool,
    /// Which [steps](crate::STEPS) a device that compiles leaves out. The interpreter runs the program without any.
    pub transform: heddle_opt::TransformOptions,
    /// Worker threads of the cpu device; `None`: as many as the machine runs at once.
    pub threads: Option<usize>,
    /// The machine that decisions are made for; `None`: this computer with that many threads, or an H100 for
    /// [`Target::Cuda`]. A program runs on any number of threads.
    pub machine: Option<Machine>,
    /// Whether the scheduler measures.
    pub tune: Tune,
    /// Whether each scheduled program is proven sound before it is built: that no unit touches what another one may still be at.
    pub verify: bool,
}

/// Where the scheduler's times come from.
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
            optimize: true,
            transform: heddle_opt::TransformOptions::default(),
            threads: None,
            machine: None,
            tune: Tune::default(),
            verify: false,
        }
    }
}

impl CompileOptions {
    /// The number of worker threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(default_threads)
    }

    /// The machine that decisions for a target are made for.
    pub(crate) fn machine(&self, target: Target) -> Machine {
        self.machine.clone().unwrap_or_else(|| match target {
            Target::Cpu => Machine::host(self.threads()),
            Target::Cuda => Machine::h100(),
        })
    }
}

/// How a program is run, and what it may use.
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
    /// Wall time.
    pub timeout: Option<Duration>,
    /// The seed of random operators that have none of their own ([`heddle_ir::Op::RunKey`]).
    pub seed: u64,
}

/// A language that programs are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// C, which the cpu device builds.
    #[default]
    Cpu,
    /// CUDA: one persistent kernel. There is no device for it yet.
    Cuda,
}

impl RunOptions {
    /// The limit of nested calls. Its default is the interpreter's, which all devices follow.
    pub(crate) fn depth_limit(&self) -> usize {
        let default = || heddle_interp::Options::default().max_depth;
        self.max_depth.unwrap_or_else(default)
    }
}

/// What a compiled program is compared with. Operators, their kernels and the workers are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The host runs the control flow and dispatches one operator after the other to all workers: what Cocktailer §5
    /// calls CocktailerBase.
    Host,
    /// There is no control flow: the operators stand in the order in which the run on these inputs executed them. The bound
    /// of what can be had without changing operators.
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
        seed: options.seed,
        ..defaults
    }
}

/// The number of threads, if none is asked for: as many as the machine runs at once.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
