//! The binary interface of emitted programs: `include/heddle.h` in Rust, field by field.
//!
//! The header is the reference; a test compiles it and compares sizes and offsets with these types.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

/// The C header that every emitted program is compiled with.
pub const HEADER: &str = include_str!("../include/heddle.h");

/// The version of the interface; `HEDDLE_ABI` in the header.
pub const ABI: i64 = 1;

/// The highest rank of an input or output.
pub const MAX_RANK: usize = 8;

/// The words of `sizes` that the runtime adds after the program's own: workers, depth limit.
pub const EXTRA_SIZES: usize = 2;

/// `heddle_plan`: sizes, table to fill; returns the bytes of scratch.
pub type PlanFn = unsafe extern "C" fn(*const i64, *mut i64) -> i64;

/// `heddle_main` and other entries: environment, worker, number of workers; returns an error code.
pub type EntryFn = unsafe extern "C" fn(*const Env, i32, i32) -> i32;

/// `heddle_host_main`: environment, dispatcher; returns an error code.
pub type HostFn = unsafe extern "C" fn(*const Env, *const Host) -> i32;

/// `heddle_about`: the counts that the runtime allocates by.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The interface version that the program was compiled against.
    pub abi: i64,
    /// Number of inputs.
    pub inputs: i64,
    /// Number of outputs.
    pub outputs: i64,
    /// Number of constant blobs.
    pub constants: i64,
    /// Number of named sizes.
    pub sizes: i64,
    /// Words of the launch table.
    pub table_len: i64,
}

/// `heddle_tensor`: a row-major tensor without gaps.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawTensor {
    /// The first element.
    pub data: *mut c_void,
    /// Sizes of the axes; those beyond the rank mean nothing.
    pub dims: [i64; MAX_RANK],
    /// Number of axes.
    pub rank: i32,
    /// Keeps the size a multiple of eight.
    pub reserved: i32,
}

impl RawTensor {
    /// A tensor that points nowhere.
    pub const EMPTY: RawTensor = RawTensor {
        data: std::ptr::null_mut(),
        dims: [0; MAX_RANK],
        rank: 0,
        reserved: 0,
    };
}

/// `heddle_error`: what went wrong first.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ErrorCell {
    /// Zero, or the code of the first error.
    pub code: AtomicU32,
    /// The program's site table says what stands there.
    pub site: AtomicU32,
    /// Details; their meaning depends on the code.
    pub values: [AtomicI64; 2],
}

/// `heddle_lane`: one worker's counter that others wait on.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Lane {
    /// The last epoch signalled.
    pub signalled: AtomicU64,
    /// Workers asleep on it.
    pub sleepers: AtomicU32,
    /// What only its own worker uses.
    pub private: LanePrivate,
    /// The barrier of a team whose middle this worker is.
    pub meeting: Line<Meeting>,
}

/// The line of a [`Lane`] that is the barrier of a team of workers.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Meeting {
    /// How often the team has met.
    pub met: AtomicU64,
    /// How many have come this time.
    pub come: AtomicU64,
    /// Workers asleep on `met`.
    pub asleep: AtomicU32,
}

/// The line of a [`Lane`] that only its own worker uses.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct LanePrivate {
    /// Barriers that this worker has passed in this dispatch.
    pub round: AtomicU64,
}

/// A value on cache lines of its own.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Line<T>(pub T);

/// `heddle_sync`: the barrier of all workers.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Sync {
    /// Arrivals in this dispatch.
    pub arrived: Line<AtomicU64>,
    /// Workers asleep on it.
    pub sleepers: Line<AtomicU32>,
}

/// `heddle_env`: everything that a run hands to the program.
#[repr(C)]
#[derive(Debug)]
pub struct Env {
    /// One for each input.
    pub inputs: *const RawTensor,
    /// One for each output; the program sets dims and rank.
    pub outputs: *mut RawTensor,
    /// One pointer for each constant blob.
    pub constants: *const *const c_void,
    /// Named sizes, number of workers, depth limit.
    pub sizes: *const i64,
    /// What `heddle_plan` wrote.
    pub table: *const i64,
    /// Memory for everything that is neither input, output nor constant.
    pub scratch: *mut u8,
    /// The barrier of all workers.
    pub sync: *const Sync,
    /// One for each worker.
    pub lanes: *const Lane,
    /// The first error.
    pub error: *const ErrorCell,
    /// Not zero: stop.
    pub cancel: *const AtomicU32,
    /// Recursion goes this deep.
    pub max_depth: i64,
    /// A loop runs this often.
    pub max_iterations: i64,
    /// How often a wait looks before it yields its core.
    pub spins: u32,
    /// How often it then yields before it sleeps.
    pub yields: u32,
    /// Those of a task that a host dispatches.
    pub arguments: *const c_void,
}

/// `heddle_host`: how a host that runs the control flow dispatches tasks.
#[repr(C)]
#[derive(Debug)]
pub struct Host {
    /// Runs a task on all workers: `state`, the task, its arguments; returns an error code.
    pub dispatch: unsafe extern "C" fn(*mut c_void, EntryFn, *const c_void) -> i32,
    /// What `dispatch` takes first: `self` in the header.
    pub state: *mut c_void,
}

/// The error codes that the interface fixes.
pub mod code {
    /// The run was cancelled.
    pub const CANCELLED: u32 = 1;
    /// The run took longer than allowed.
    pub const TIMEOUT: u32 = 2;
    /// An index is out of range: index, size of the axis.
    pub const INDEX: u32 = 3;
    /// Two sizes disagree: one, the other.
    pub const SHAPE: u32 = 4;
    /// Recursion is too deep: depth reached, limit.
    pub const DEPTH: u32 = 5;
    /// A loop runs too often: iterations done, limit.
    pub const ITERATIONS: u32 = 6;
    /// A size exceeds the bound planned for it: size, bound.
    pub const BOUND: u32 = 7;
}
