//! Errors of building and running programs, with remedies.

use std::path::PathBuf;
use std::time::Duration;

use heddle_abi::PlanError;

use crate::abi::{ABI, MAX_RANK, code};
use crate::build::Language;
use crate::cuda::DeviceError;
use crate::simulation::Finding;

/// The reasons for which a program cannot be built or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No candidate compiles and links a small test program.
    #[error("{}", no_compiler(*.language, .probed))]
    NoCompiler {
        /// The language of the program.
        language: Language,
        /// Each candidate with the reason why it is not used.
        probed: Vec<(String, String)>,
    },
    /// The environment names no optimisation level.
    #[error(
        "{variable} is `{given}`: it takes 0, 1, 2 or 3, of which 3 gives the fastest programs and is the default"
    )]
    Level {
        /// The variable's name.
        variable: &'static str,
        /// Its value.
        given: String,
    },
    /// The compiler rejected the emitted program.
    #[error(
        "`{compiler}` does not compile the program emitted for {name} ({status}). This is a fault of \
         Heddle's or of the compiler; please report it with this text:\n{stderr}"
    )]
    Compile {
        /// The program's name.
        name: String,
        /// The compiler's path.
        compiler: String,
        /// Its exit status.
        status: String,
        /// Its messages.
        stderr: String,
    },
    /// The build's files fit neither into the cache nor into the folder for temporary files.
    #[error(
        "{action} {} failed while building in a temporary folder: {source}. Free some space there, or \
         let TMPDIR name another folder",
        path.display()
    )]
    Io {
        /// The failed action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The built library cannot be loaded.
    #[error(
        "the built program {} can't be loaded: {message}. If its folder is mounted noexec, let \
         HEDDLE_CACHE or TMPDIR name another",
        path.display()
    )]
    Load {
        /// The library.
        path: PathBuf,
        /// The loader's message.
        message: String,
    },
    /// The program lacks a symbol of the interface.
    #[error("the program {name} does not define `{symbol}`, which include/heddle.h asks for")]
    Symbol {
        /// The program's name.
        name: String,
        /// The missing symbol.
        symbol: &'static str,
    },
    /// The program was emitted for another version of the interface.
    #[error(
        "the program {name} is for version {found} of the interface, this runtime has {ABI}: emit it again"
    )]
    Abi {
        /// The program's name.
        name: String,
        /// Its version.
        found: i64,
    },
    /// The program's counts do not fit its plan and constants.
    #[error("the program {name} says that it has {stated} {what}, but {given} are given")]
    Counts {
        /// The program's name.
        name: String,
        /// The counted item.
        what: &'static str,
        /// The count that the program states.
        stated: i64,
        /// The count in the plan, or of the constants given.
        given: usize,
    },
    /// Constants could not be copied to aligned memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A device or its compiler is missing, or does not do.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

fn no_compiler(language: Language, probed: &[(String, String)]) -> String {
    let tried = probed
        .iter()
        .map(|(name, why)| format!("\n  {name}: {}", why.trim().replace('\n', "\n    ")));
    let tried: String = tried.collect();
    match language {
        Language::C => format!(
            "no working C compiler, needed to build programs for the cpu device. Tried:{tried}\n\
             Install one (Debian, Ubuntu: `apt install gcc`; Fedora: `dnf install gcc`; Alpine: `apk \
             add gcc musl-dev`), or name one in HEDDLE_CC"
        ),
        Language::Simulated => format!(
            "no working C++ compiler, needed to build programs for the sim device. Tried, with `-x \
             c++`:{tried}\nInstall one (Debian, Ubuntu: `apt install g++`; Fedora: `dnf install \
             gcc-c++`; Alpine: `apk add g++`), or name one in HEDDLE_CC"
        ),
    }
}

/// The system refuses the memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the system does not give {bytes} bytes of memory ({reason}): use smaller inputs or free memory"
)]
pub struct MemoryError {
    /// The requested size.
    pub bytes: usize,
    /// The system's error.
    pub reason: String,
}

/// The reasons for which a run fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A wrong number of inputs, sizes or the like.
    #[error("the program takes {expected} {what}, {given} are given")]
    Count {
        /// The counted item.
        what: &'static str,
        /// The program's count.
        expected: usize,
        /// The caller's count.
        given: usize,
    },
    /// An input's shape is not usable.
    #[error(
        "input {input} has the dims {dims:?}: a program takes up to {MAX_RANK} axes, none negative"
    )]
    InputDims {
        /// The input's index.
        input: usize,
        /// Its dims.
        dims: Vec<i64>,
    },
    /// An input has less data than the program reads at these sizes.
    #[error(
        "input {input} has {given} bytes, but the program reads up to {needed} of it: its shape and the sizes given disagree"
    )]
    InputData {
        /// The input's index.
        input: usize,
        /// The most that the program reads.
        needed: u64,
        /// Its size.
        given: usize,
    },
    /// The caller's memory for an output is too short or not aligned.
    #[error(
        "output {output} takes {needed} bytes at an address that is a multiple of 8, but {given} are given: give more memory, or let the session allocate it"
    )]
    OutputData {
        /// The output's index.
        output: usize,
        /// Bytes that the program may write.
        needed: u64,
        /// Bytes available.
        given: usize,
    },
    /// The memory of a node is too large to address at these sizes.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The run needs more memory than allowed.
    #[error(
        "the run needs {needed} bytes for temporaries and outputs, the limit is {limit}: raise the limit, or use smaller inputs"
    )]
    MemoryLimit {
        /// The bytes needed.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// The system refuses the memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// The run exceeded its time limit.
    #[error("the run did not end within {} s: raise the timeout, or look for a loop that never ends", .0.as_secs_f64())]
    Timeout(Duration),
    /// The timeout thread could not be started.
    #[error(
        "no thread to watch over the timeout ({0}): run without a timeout, or end other threads"
    )]
    NoWatchdog(String),
    /// The process was forked, and the system gives the child no threads.
    #[error("no threads to run on ({0}): end other threads")]
    NoWorkers(String),
    /// The program stopped with an error.
    #[error("{fault} (site {site} of the program)")]
    Program {
        /// The error.
        fault: Fault,
        /// The row of the emitted program's site table.
        site: u32,
    },
    /// The simulator of GPU programs found a fault of the program's.
    #[error("{finding}: {text}")]
    Simulated {
        /// Its kind.
        finding: Finding,
        /// The line of the program's text, from 1; 0 if unknown.
        line: usize,
        /// The thread, where it is, and what the others of its block do.
        text: String,
    },
    /// A sanitizer found a fault of the program's.
    #[error("{finding}: {text}")]
    Sanitized {
        /// Its name for the fault.
        finding: String,
        /// The lines of each access, from the innermost call to the outermost.
        lines: Vec<Vec<usize>>,
        /// The threads, and what they do at which line.
        text: String,
    },
    /// A program in a process of its own ended in another way than by itself or its sanitizer.
    #[error("the process of the program: {0}")]
    Separate(String),
    /// A block of a launch waited longer than [`RunOptions::watchdog`](crate::RunOptions::watchdog).
    #[error(
        "a block waited longer than {} s: {text}. If another one computes for that long, raise the limit of the watchdog",
        .limit.as_secs_f64()
    )]
    Stuck {
        /// The limit.
        limit: Duration,
        /// The lines of the program's text at which blocks wait; first that of the one whose time was over.
        lines: Vec<usize>,
        /// The blocks that wait, where, and for whom.
        text: String,
    },
    /// A CUDA program was run without a grid, or another one with it.
    #[error("{}", match .needed {
        true => "the program is launched as a grid, which a session of it needs",
        false => "the program runs on workers: a session of it takes no grid",
    })]
    Grid {
        /// Is the program one that is launched as a grid?
        needed: bool,
    },
    /// The program wrote invalid dims of an output.
    #[error(
        "the program gave output {output} rank {rank} and dims {dims:?}: a fault of the emitter's"
    )]
    OutputDims {
        /// The output's index.
        output: usize,
        /// The rank that the program wrote.
        rank: i32,
        /// The dims that it wrote.
        dims: Vec<i64>,
    },
    /// A device fails, or has not enough memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Entries of a program on a device were to be dispatched.
    #[error("a program on a device is launched as a whole: it has no entries to dispatch")]
    NoEntries,
    /// The dispatched entry belongs to another program.
    #[error("an entry of another program was dispatched: take entries from the session's program")]
    ForeignEntry,
}

/// The errors that stop a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// An index is out of range.
    #[error("index {index} is out of range for an axis of size {size}")]
    Index {
        /// The index.
        index: i64,
        /// The axis' size.
        size: i64,
    },
    /// Two sizes should be equal.
    #[error("sizes {left} and {right} should agree")]
    Shape {
        /// One of them.
        left: i64,
        /// The other.
        right: i64,
    },
    /// Recursion went too deep.
    #[error("a call would nest {depth} deep, over the limit of {limit}")]
    Depth {
        /// Depth that the call would be at.
        depth: i64,
        /// The limit.
        limit: i64,
    },
    /// Frame memory ended before the recursion limit.
    #[error(
        "a call would nest {depth} deep, which memory has no frames for (the limit is {limit})"
    )]
    Frames {
        /// Depth that the call would be at.
        depth: i64,
        /// The limit.
        limit: i64,
    },
    /// A loop exceeded the iteration limit.
    #[error(
        "a loop did {done} iterations, the limit is {limit}: raise the limit if it is meant to run longer"
    )]
    Iterations {
        /// Iterations done.
        done: i64,
        /// The limit.
        limit: i64,
    },
    /// A size is above the bound that memory was planned for.
    #[error("a size came out as {size}, above the bound {bound} that was planned for it")]
    Bound {
        /// The size.
        size: i64,
        /// Its bound.
        bound: i64,
    },
    /// An array that grows exceeds the memory limit.
    #[error(
        "growing arrays need {needed} bytes, the limit leaves {limit} for them: raise the limit, or look for a loop that never ends"
    )]
    Memory {
        /// The bytes of all growing arrays.
        needed: i64,
        /// The limit, less the memory planned for other arrays.
        limit: i64,
    },
    /// The system refuses memory for an array that grows.
    #[error("growing arrays need {needed} bytes, which the system does not give: free memory")]
    OutOfMemory {
        /// The bytes of all growing arrays.
        needed: i64,
    },
    /// An array that grows exceeds the addresses reserved for it.
    #[error("a growing array needs {needed} bytes, more than addresses are reserved for it")]
    Segment {
        /// The first slot of its segment.
        slot: i64,
        /// Its bytes.
        needed: i64,
        /// The place at which the next launch goes on; 0: it begins anew.
        point: u32,
    },
    /// The launch has other units than the program is scheduled for.
    #[error("the program is scheduled for {wanted} units, and was launched with {units}")]
    Units {
        /// Units of the launch.
        units: i64,
        /// Units that the program is scheduled for.
        wanted: i64,
    },
    /// A code of the program's own.
    #[error("the program stopped with code {code} ({}, {})", values[0], values[1])]
    Custom {
        /// The code.
        code: u32,
        /// Its details.
        values: [i64; 2],
    },
}

impl Fault {
    /// Reads an error as `heddle_fail` leaves it.
    pub(crate) fn new(code: u32, [a, b]: [i64; 2]) -> Fault {
        match code {
            code::INDEX => Fault::Index { index: a, size: b },
            code::SHAPE => Fault::Shape { left: a, right: b },
            code::DEPTH => Fault::Depth { depth: a, limit: b },
            code::ITERATIONS => Fault::Iterations { done: a, limit: b },
            code::BOUND => Fault::Bound { size: a, bound: b },
            code::MEMORY if b == 0 => Fault::OutOfMemory { needed: a },
            code::MEMORY => Fault::Memory {
                needed: a,
                limit: b,
            },
            code::SEGMENT => Fault::Segment {
                slot: a & i64::from(u32::MAX),
                needed: b,
                point: (a >> 32) as u32,
            },
            code::UNITS => Fault::Units {
                units: a,
                wanted: b,
            },
            code => Fault::Custom {
                code,
                values: [a, b],
            },
        }
    }
}
