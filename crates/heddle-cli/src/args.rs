//! The command line's grammar.

mod parse;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use heddle::{Grid, Packed, Pin, Precision, Step, Target, Tune, Weights};

use self::parse::{bytes, seconds, size, step, tolerance, weights};

const EXIT_CODES: &str = "\
Exit codes:
  0   all went well
  1   outputs differ, or a test case failed
  2   the command line is wrong
  3   the model or its inputs are wrong
  4   the model uses what Heddle does not support
  5   a limit was reached: memory, iterations, depth, frames, time, error of weights
  6   a file could not be read or written
  7   the device, its driver or its compiler is missing, or does not do
  70  an error inside Heddle, or a device fails; please report it";

const RUN_EXAMPLES: &str = "\
Arrays in the .npz are named as the model's inputs and outputs. A sequence `s` is stored as \
`s.len`, `s.0`, `s.1`, …; an \
optional as what it holds, or not at all. bf16, the 8- and 4-bit floats and the 4-bit integers, \
which NumPy does not \
have, are stored as raw elements, as ml_dtypes does. An input with a default value (an initializer \
that is an input, too) may be left out.

Examples:
  heddle run model.onnx --input in.npz --output out.npz
  heddle run model.onnx --random 0 --size batch=4
  heddle run loop.heddle --random 1 --max-iterations 1000 --timeout 10
  heddle run network.heddle --entry backward --input in.npz
  heddle run one_sentence.onnx --batch sentences.npz --weights weights.npz";

const CHECK_EXAMPLES: &str = "\
Elements agree when |got - want| <= atol + rtol * |want|; NaN agrees with NaN. Integers, bools \
and strings must be equal. \
Expected floats may be of any width, so that references can be kept in float64.

Examples:
  heddle check model.onnx --input in.npz --expect out.npz
  heddle check model.onnx --input in.npz --expect out.npz --f64 --rtol 1e-9 --atol 0";

const TEST_EXAMPLES: &str = "\
A case is a folder with model.onnx (or model.heddle) and test_data_set_N/{input,output}_I.pb; it \
may hold a \
tolerance.json {\"rtol\": 1e-2, \"atol\": 1e-5}. DIR is a case or a folder of cases. Outputs are \
compared as \
ONNX's own runner does: rtol 1e-3, atol 1e-7, shapes and types equal. The last line is \
`N passed, M failed, K unsupported`.

With --known FILE (lines `case_name  reason`, `#` comments) the cases listed there are expected \
not to pass: one that \
passes counts as failed, as does one that is not listed and does not pass; those that do not pass as \
expected count as unsupported.

Examples:
  heddle test onnx-cases/
  heddle test onnx-cases/ --known known.txt --jobs 2
  heddle test onnx-cases/test_add onnx-cases/test_loop11";

const INSPECT_EXAMPLES: &str = "\
Works for models that Heddle cannot run, too: unsupported operators are \
listed, and an invalid model is shown as the file has it, before the error.

Examples:
  heddle inspect model.onnx
  heddle inspect model.onnx --compiled
  heddle inspect model.onnx --json | jq .ops";

const COMPILE_EXAMPLES: &str = "\
Examples:
  heddle compile model.onnx --emit ir
  heddle compile model.onnx --emit ir -o model.heddle   (large constants: model.weights)
  heddle compile model.onnx --emit schedule --threads 8
  heddle compile model.onnx --emit schedule --machine reference:64 --without fuse
  heddle compile model.onnx --emit ir --override scale   (an optional input: see inspect)
  heddle compile model.onnx --emit ir --batch-of words,tags   (one program for many sentences)
  heddle compile model.onnx --emit schedule --batch-of words --profile-blocks all.npz
  heddle compile model.onnx --save model.hprog   (then: heddle run model.hprog --trusted --input in.npz)
  heddle compile model.onnx --save model.hprog --weights int8 --weights-error 0.01 --input in.npz
  heddle compile model.onnx --emit uprogram -o model.uprogram
  heddle compile model.onnx --emit source --target cuda -o model.cu";

const BENCH_EXAMPLES: &str = "\
A run is timed from the call to its results in memory; reading the model, compiling and the first runs are not in it. \
--json writes one object: model, device, threads, runs, median_ms, min_ms, max_ms, compile_s.

--compare host,trace adds objects of these names with their times, and overhead_percent: the cost of control flow over \
the trace, which is the program of the same operators without any.

--turns is for programs that measure several systems in turns: one line of JSON says that all is ready, then each line \
with a number K on standard input is answered by a JSON list of the times of K runs in milliseconds.

Examples:
  heddle bench model.onnx --input in.npz
  heddle bench model.onnx --input in.npz --compare host,trace
  heddle bench model.onnx --random 0 --size batch=4 --threads 1 --seconds 5 --json out.json";

const OPT_EXAMPLES: &str = "\
Examples:
  heddle opt program.heddle --pass fold_constants,merge_common
  heddle opt program.heddle   (all passes, as `compile` runs them)
  heddle compile model.onnx --emit lowered | heddle opt - --from uprogram --pass fuse,align_splits --threads 4
  heddle opt --list";

/// Heddle compiles and runs neural networks with control flow.
#[derive(Debug, Parser)]
#[command(name = "heddle", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a model on given or random inputs.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run a model and compare its outputs with expected ones.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Run test cases in ONNX's layout.
    #[command(after_help = TEST_EXAMPLES)]
    Test(TestArgs),
    /// Show a model's inputs, outputs, operators and control flow.
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(InspectArgs),
    /// Compile a model and write the output of a stage.
    #[command(after_help = COMPILE_EXAMPLES)]
    Compile(Box<CompileArgs>),
    /// Measure the time of runs.
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Apply passes to a program or uProgram in text form.
    #[command(after_help = OPT_EXAMPLES)]
    Opt(OptArgs),
}

/// A model, and the entry to take of it.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// The model: .onnx, .pt2, .heddle, .hl, or a saved program, .hprog.
    #[arg(value_name = "MODEL")]
    pub path: PathBuf,
    /// The entry of a program that has several; default: the first.
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
}

/// A model or saved program to run.
#[derive(Debug, Args)]
pub struct ProgramArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// Load the binary in a .hprog file, where it was made for this kind of processor: for files of people whose programs you would
    /// run. Else the file's graph is compiled.
    #[arg(long)]
    pub trusted: bool,
}

/// `heddle run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub source: Source,
    /// Write the outputs to this .npz file; else a summary of them is printed.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Leave out the instances of --batch that stop the run, and name them: the outputs are those of the others, whose numbers
    /// are in the array batch.instances. Parts of the batch run again, each within the limits. The exit code is that of the first
    /// one's error.
    #[arg(long, requires = "batch", conflicts_with_all = ["fix_sizes", "input"])]
    pub keep_going: bool,
    #[command(flatten)]
    pub exec: Exec,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// `heddle check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub source: Source,
    /// The expected outputs: an .npz file with an array for each output.
    #[arg(short, long, value_name = "FILE")]
    pub expect: PathBuf,
    /// Relative tolerance.
    #[arg(long, default_value_t = 1e-3, value_parser = tolerance, allow_negative_numbers = true)]
    pub rtol: f64,
    /// Absolute tolerance.
    #[arg(long, default_value_t = 1e-7, value_parser = tolerance, allow_negative_numbers = true)]
    pub atol: f64,
    #[command(flatten)]
    pub exec: Exec,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Sources of inputs.
#[derive(Debug, Args)]
pub struct Source {
    /// The inputs: an .npz file with an array for each input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "batch")]
    pub input: Option<PathBuf>,
    /// The inputs of many instances, which run together: an .npz file with an array for each input
    /// that differs by instance, with another axis in front or, where first axes differ in size, one
    /// behind the other with NAME.offsets beside it. Where other axes differ, it has the elements of
    /// all instances along one axis, with NAME.offsets and NAME.shapes beside it. Outputs are written
    /// likewise.
    #[arg(long, value_name = "FILE")]
    pub batch: Option<PathBuf>,
    /// The inputs that all instances share, if `--weights` names a file.
    #[arg(skip)]
    pub weights: Option<PathBuf>,
    /// Print on standard error what the instances of --batch share, the steps in which each block of the program runs, with
    /// their mean number of instances, and what runs for one instance after the other. The interpreter counts these; within
    /// --timeout, or a minute.
    #[arg(long, requires = "batch", conflicts_with = "input")]
    pub report: bool,
    /// Compile for batches like this one, an .npz file as for --batch: the interpreter counts the iterations of loops and the
    /// instances in each step, which weigh the cost model. Results are the same but for rounding, since kernels may add floats in another order. Counts
    /// are cached.
    #[arg(
        long,
        value_name = "FILE",
        requires = "batch",
        conflicts_with_all = ["fix_sizes", "input"]
    )]
    pub profile_blocks: Option<PathBuf>,
    /// Draw the inputs that are not in --input at random; also the default of --seed.
    #[arg(long, value_name = "SEED")]
    pub random: Option<u64>,
    /// The value of a named size for --random (may be repeated); default 2.
    #[arg(long, value_name = "NAME=N", value_parser = size)]
    pub size: Vec<(String, u64)>,
    /// Also compile for the sizes of these inputs alone, and take that program if it is measurably faster. The
    /// answer is cached for each size.
    #[arg(long)]
    pub fix_sizes: bool,
}

/// Options of running.
#[derive(Clone, Debug, Args)]
pub struct Exec {
    /// Device to run on.
    #[arg(long, value_enum, default_value_t = DeviceArg::Cpu)]
    pub device: DeviceArg,
    /// The launch that --device sim simulates, as blocks=4,threads=64,warp=32,cluster=1,seed=1, which are the defaults of keys that are
    /// left out. The program is scheduled for the blocks, and for clusters of more than one; the seed draws the order in which threads run.
    #[arg(long, value_name = "KEY=N,...")]
    pub sim: Option<Grid>,
    /// Run --device sim under a sanitizer, with a thread of the system for each of the grid's, up to 16 blocks of 256: races, or accesses
    /// out of bounds, are errors with line and node. Slow, and without --max-memory; there is no seed.
    #[arg(long, value_enum, value_name = "KIND")]
    pub sanitize: Option<SanitizeArg>,
    /// The architecture that --device cuda builds for, as sm_90; default: that of the device, with the instructions that only it has
    /// (sm_90a).
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<String>,
    #[command(flatten)]
    pub compiling: Compiling,
    /// Compute all floats in double precision, without graph passes; outputs are then float64.
    #[arg(long)]
    pub f64: bool,
    /// Stop when values take more memory together, as 512M or 2G.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub max_memory: Option<u64>,
    /// Stop when a loop takes more iterations.
    #[arg(long, value_name = "N")]
    pub max_iterations: Option<u64>,
    /// Stop when calls nest deeper; default: 10000, on any device.
    #[arg(long, value_name = "N")]
    pub max_depth: Option<usize>,
    /// Keep the frames of at most so many activations of a recursion at once. If it has more, it is not evaluated level by level
    /// but depth first; stop when calls nest deeper.
    #[arg(long, value_name = "N")]
    pub max_frames: Option<usize>,
    /// Seed of random operators that have none of their own; default: 0. Runs with equal seeds draw equal numbers, on any
    /// device and number of threads.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Stop after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub timeout: Option<Duration>,
    /// Stop when a block of --device cuda or sim waits longer for another one, and say which waits where for which; default: 10. A
    /// round of the simulator's threads takes a microsecond.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub watchdog: Option<Duration>,
}

/// Options of compiling.
#[derive(Clone, Debug, Args)]
pub struct Compiling {
    /// Schedule by times measured on this machine, not by the cost model. They are cached.
    #[arg(long, value_enum, default_value_t = TuneArg::Off)]
    pub tune: TuneArg,
    /// The most worker threads of the cpu device; default: one for each physical core, or fewer by a quota. While other
    /// threads want the cores, fewer take part in a run.
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZero<usize>>,
    /// Bind worker threads to cores of their own, which other runs of heddle then leave free.
    #[arg(long, value_enum, default_value_t = PinArg::Auto)]
    pub pin: PinArg,
    /// Type that constant weights of products and convolutions are stored in: f32, bf16, f16, or int8 with a scale for each output
    /// column; they are computed in f32. Any other value is an .npz file with the inputs that all instances share, those that --batch lacks.
    #[arg(long, value_name = "TYPE|FILE", value_parser = weights)]
    pub weights: Vec<WeightsArg>,
    /// Type in which tensor cores of a GPU may multiply f32: operands are rounded to it, sums are not. Devices without tensor cores
    /// multiply in f32.
    #[arg(long, value_enum, default_value_t = PrecisionArg::F32)]
    pub precision: PrecisionArg,
    /// Place of packed weights.
    #[arg(long, value_enum, default_value_t = PackedArg::Memory)]
    pub packed: PackedArg,
    /// Skip the graph passes.
    #[arg(long)]
    pub no_opt: bool,
    /// Prove each scheduled program sound before it is built: no thread touches data that another one may still use. The
    /// interpreter has no schedule.
    #[arg(long)]
    pub verify: bool,
    /// Leave out steps of compiling, by name (see `bench --ablate`).
    #[arg(long, value_name = "STEP", value_delimiter = ',', value_parser = step)]
    pub without: Vec<Step>,
}

impl Compiling {
    /// The type that weights are stored in.
    pub fn stored(&self) -> Weights {
        let stored = self.weights.iter().rev().find_map(|arg| match arg {
            WeightsArg::Stored(weights) => Some(*weights),
            WeightsArg::Shared(_) => None,
        });
        stored.unwrap_or_default()
    }

    /// The file of inputs that instances share.
    pub fn shared(&self) -> Option<&Path> {
        self.weights.iter().rev().find_map(|arg| match arg {
            WeightsArg::Shared(path) => Some(&**path),
            WeightsArg::Stored(_) => None,
        })
    }
}

/// A value of `--weights`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightsArg {
    /// The type that weights are stored in.
    Stored(Weights),
    /// A file of inputs that instances share.
    Shared(PathBuf),
}

/// The devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceArg {
    /// The reference interpreter.
    Interp,
    /// Compiled for the processor; nodes without a compiled form run on the interpreter, with compiled parts around and
    /// in them, and a note names each.
    Cpu,
    /// A simulated GPU: the CUDA text as a launch of --sim would run it, built by a C++ compiler. Slow; for faults of the text, which
    /// it names with line and node.
    Sim,
    /// An NVIDIA GPU, whose driver and compiler (NVRTC) are looked for at run time; HEDDLE_LIBCUDA and HEDDLE_NVRTC name their libraries.
    Cuda,
}

/// The sanitizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SanitizeArg {
    /// Data races: accesses of two threads that nothing puts in order.
    Thread,
    /// Accesses out of bounds of inputs, outputs, constants, shared arrays and scratch memory as a whole.
    Address,
}

/// `heddle test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Cases, or folders of cases.
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Cases that are expected not to pass, with reasons.
    #[arg(long, value_name = "FILE")]
    pub known: Option<PathBuf>,
    /// Number of cases run in parallel; default: one for each core.
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZero<usize>>,
    /// Fail if less than this share of the passing cases ran compiled, in percent.
    #[arg(long, value_name = "PERCENT")]
    pub min_compiled: Option<f64>,
    /// Print each scheduled uProgram and read it back: it has to give the same text and the same source. The number of programs
    /// is printed.
    #[arg(long)]
    pub check_text: bool,
    /// Relative tolerance, where a case has none of its own.
    #[arg(long, default_value_t = 1e-3, value_parser = tolerance, allow_negative_numbers = true)]
    pub rtol: f64,
    /// Absolute tolerance, where a case has none of its own.
    #[arg(long, default_value_t = 1e-7, value_parser = tolerance, allow_negative_numbers = true)]
    pub atol: f64,
    #[command(flatten)]
    pub exec: Exec,
    /// Name the cases that pass, too.
    #[arg(short, long)]
    pub verbose: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// `heddle inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// Also compile it, and show what has a compiled form: each node that is left to the interpreter, why, and what to change in
    /// the model; and the nodes whose memory grows while the program runs.
    #[arg(long)]
    pub compiled: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// `heddle compile`.
#[derive(Debug, Args)]
pub struct CompileArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// The stage whose program is written. A model that is compiled in parts gives the graph that the interpreter runs, and then
    /// each part.
    #[arg(long, value_enum, required_unless_present = "save")]
    pub emit: Option<EmitArg>,
    /// Save the compiled program, which run, check, bench and inspect take as a model: its graph, constants, options, source and
    /// binary.
    #[arg(long, value_name = "FILE.hprog", conflicts_with_all = ["emit", "part", "target", "machine", "output", "batch_of", "profile_blocks"])]
    pub save: Option<PathBuf>,
    /// With --weights of fewer bytes: refuse the program if an output's largest difference from that with weights in f32 exceeds this
    /// part of its largest number. Without, the errors are printed on standard error.
    #[arg(long, value_name = "LIMIT", value_parser = tolerance, allow_negative_numbers = true)]
    pub weights_error: Option<f64>,
    /// The inputs that errors of the weights are measured on: an .npz file with an array for each; default: drawn at random.
    #[arg(short, long, value_name = "FILE", conflicts_with = "batch_of")]
    pub input: Option<PathBuf>,
    /// The value of a named size for drawn inputs (may be repeated); default 2.
    #[arg(long, value_name = "NAME=N", value_parser = size)]
    pub size: Vec<(String, u64)>,
    /// Print the time of each stage on standard error.
    #[arg(long)]
    pub times: bool,
    /// Write this part alone, of a model that is compiled in parts.
    #[arg(long, value_name = "NAME")]
    pub part: Option<String>,
    /// Target of the schedule and the source.
    #[arg(long, value_enum, default_value_t = TargetArg::Cpu)]
    pub target: TargetArg,
    /// Schedule for this machine: host:N (this computer with N threads), reference:N, h100, h200, mi300x, bsp-tiles;
    /// default: host with --threads for the cpu, h100 for cuda.
    #[arg(long, value_name = "NAME", value_parser = heddle::Machine::named, conflicts_with = "threads")]
    pub machine: Option<heddle::Machine>,
    /// Take this input, which has a default value, as an input and not as a constant (may be repeated).
    #[arg(long = "override", value_name = "INPUT")]
    pub overrides: Vec<String>,
    /// Compile for many instances at once, which differ in these inputs and share all others. Arrays with a dynamic first size are
    /// ragged, others stacked (see `run --batch`); NAME:ragged, NAME:stacked and NAME:flat (elements with shapes) say otherwise.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub batch_of: Vec<String>,
    /// Compile for batches like this one, an .npz file as for `run --batch` with the shared inputs, too: the interpreter counts the
    /// iterations of loops and the instances in each step, which weigh the cost model.
    #[arg(long, value_name = "FILE", requires = "batch_of")]
    pub profile_blocks: Option<PathBuf>,
    /// Write it to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub compiling: Compiling,
}

/// Sources of the scheduler's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TuneArg {
    /// The cost model: compiling is quick, and always gives the same.
    Off,
    /// Runs of the program's operators.
    On,
}

/// Binding of threads to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PinArg {
    /// If there is a core for each.
    Auto,
    /// Never: the system moves them.
    Off,
}

impl From<PinArg> for Pin {
    fn from(arg: PinArg) -> Pin {
        match arg {
            PinArg::Auto => Pin::Auto,
            PinArg::Off => Pin::Off,
        }
    }
}

/// Types in which tensor cores may multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PrecisionArg {
    /// That of the model.
    F32,
    /// f32 with 10 bits of its mantissa.
    Tf32,
    /// The upper half of an f32.
    Bf16,
    /// Half precision.
    F16,
}

impl From<PrecisionArg> for Precision {
    fn from(arg: PrecisionArg) -> Precision {
        match arg {
            PrecisionArg::F32 => Precision::F32,
            PrecisionArg::Tf32 => Precision::Tf32,
            PrecisionArg::Bf16 => Precision::Bf16,
            PrecisionArg::F16 => Precision::F16,
        }
    }
}

/// Places of packed weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PackedArg {
    /// The process's memory, in large pages where the system has them.
    Memory,
    /// Files in the cache folder, mapped read-only: a second start packs nothing, and processes share their pages.
    Cache,
}

impl From<PackedArg> for Packed {
    fn from(arg: PackedArg) -> Packed {
        match arg {
            PackedArg::Memory => Packed::Memory,
            PackedArg::Cache => Packed::Cache,
        }
    }
}

impl From<TuneArg> for Tune {
    fn from(arg: TuneArg) -> Tune {
        match arg {
            TuneArg::Off => Tune::Off,
            TuneArg::On => Tune::On,
        }
    }
}

/// The targets of source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TargetArg {
    /// C for the cpu device.
    Cpu,
    /// CUDA: one persistent kernel, to read or to build elsewhere; --device cuda runs it, --device sim simulates it.
    Cuda,
}

/// Forms that `heddle compile` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EmitArg {
    /// The graph IR in text form, behind the graph passes.
    Ir,
    /// The graph IR as it is lowered for the target.
    Transformed,
    /// The uProgram in text form as lowering leaves it, before the passes of `heddle opt --from uprogram`.
    Lowered,
    /// The scheduled uProgram in text form, from which the source is written.
    Uprogram,
    /// The schedule for people: each unit's operators and synchronisations; proven sound by the verifier.
    Schedule,
    /// The program's text in the target's language.
    Source,
}

impl From<EmitArg> for heddle::Emit {
    fn from(arg: EmitArg) -> Self {
        match arg {
            EmitArg::Ir => Self::Ir,
            EmitArg::Transformed => Self::Transformed,
            EmitArg::Lowered => Self::Lowered,
            EmitArg::Uprogram => Self::Uprogram,
            EmitArg::Schedule => Self::Schedule,
            EmitArg::Source => Self::Source,
        }
    }
}

impl From<TargetArg> for Target {
    fn from(arg: TargetArg) -> Target {
        match arg {
            TargetArg::Cpu => Target::Cpu,
            TargetArg::Cuda => Target::Cuda,
        }
    }
}

/// `heddle bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub exec: Exec,
    /// Measure for so many seconds; at least five runs.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "3", allow_negative_numbers = true)]
    pub seconds: Duration,
    /// Write the result as one JSON object to this file, or to standard output if it is -.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Compare with other ways to run the same operators, in turns.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "WITH",
        conflicts_with = "turns"
    )]
    pub compare: Vec<Compare>,
    /// Show the gain of each step of compiling: the operators dispatched one by one by the host, then the control flow in the
    /// program, then one step after the other. With --batch, each instance alone comes first.
    #[arg(long, conflicts_with_all = ["turns", "compare", "fix_sizes"])]
    pub ablate: bool,
    /// Answer each line K on standard input with the times of K runs.
    #[arg(long, conflicts_with = "json")]
    pub turns: bool,
}

/// Baselines of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compare {
    /// The host runs the control flow: one dispatch to all workers for each operator.
    Host,
    /// No control flow: the operators in the order in which these inputs execute them.
    Trace,
}

/// `heddle opt`.
#[derive(Debug, Args)]
pub struct OptArgs {
    /// The program: a .heddle file, a uProgram, or - for standard input.
    #[arg(required_unless_present = "list")]
    pub file: Option<PathBuf>,
    /// The IR in the file.
    #[arg(long, value_enum, default_value_t = OptFrom::Ir)]
    pub from: OptFrom,
    /// Schedule for so many threads of this computer: short for --machine host:N.
    #[arg(long, value_name = "N", conflicts_with = "machine")]
    pub threads: Option<NonZero<usize>>,
    /// Passes to apply, in order, separated by commas; default: all of them.
    #[arg(long = "pass", value_name = "NAME", value_delimiter = ',')]
    pub passes: Vec<String>,
    /// Decide by the costs of this machine: host:N (this computer with N threads), reference:N, h100, h200, mi300x,
    /// bsp-tiles.
    #[arg(long, value_name = "NAME", default_value = "host", value_parser = heddle::Machine::named)]
    pub machine: heddle::Machine,
    /// List the passes.
    #[arg(long)]
    pub list: bool,
    /// Write the program to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The IRs that passes work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OptFrom {
    /// The graph IR.
    Ir,
    /// The uProgram, as `compile --emit lowered` or `--emit uprogram` writes it.
    Uprogram,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn grammar_is_consistent() {
        Cli::command().debug_assert();
    }
}
