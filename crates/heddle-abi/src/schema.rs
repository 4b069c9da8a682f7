//! The structures that emitted programs and the runtime share, once for all languages.
//!
//! Each is a Rust type here and a row of [`STRUCTS`]. [`declarations`] writes them in C; `heddle.h` and the CUDA prelude hold
//! that text between markers, and tests compare it (`HEDDLE_BLESS=1` rewrites it). Padding is explicit, so that all
//! compilers agree.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicPtr, AtomicU32, AtomicU64};

/// The version of the interface.
pub const ABI: i64 = 7;

/// The highest rank of an input or output.
pub const MAX_RANK: usize = 64;

/// Decides on the team of a run: `crew`, the question; called by any worker.
pub type Decide = unsafe extern "C" fn(*const c_void, i32) -> i32;

/// Commits bytes of the segment in a slot, in total: the slot, the bytes, the values of an error; called by any worker.
pub type Grow = unsafe extern "C" fn(*const c_void, i64, i64, *mut i64) -> i32;

/// The questions of a [`Decide`].
pub mod ask {
    /// Somebody waited for long: does the team have to change? Any worker.
    pub const WAITED: i32 = 0;
    /// The time of `tick` has come: does the team have to change? The first worker.
    pub const TICK: i32 = 1;
    /// `wanted` is 1: sets `share` of all workers, `ready` of those that join, and `next`; the number of workers of both teams, or 0 if the team stays.
    pub const CHANGE: i32 = 2;
}

/// The kinds of waits that blocks note.
pub mod waits {
    /// It did not wait.
    pub const NOTHING: u32 = 0;
    /// At the barrier of all blocks.
    pub const BARRIER: u32 = 1;
    /// For a signal of one block.
    pub const SIGNAL: u32 = 2;
    /// At the barrier of a team.
    pub const MEETING: u32 = 3;
    /// It has ended.
    pub const ENDED: u32 = 4;
    /// For numbers that all blocks gather.
    pub const NUMBERS: u32 = 5;
}

/// The kinds of waits by their names in C.
pub const WAITS: &[(&str, u32)] = &[
    ("NOTHING", waits::NOTHING),
    ("BARRIER", waits::BARRIER),
    ("SIGNAL", waits::SIGNAL),
    ("MEETING", waits::MEETING),
    ("ENDED", waits::ENDED),
    ("NUMBERS", waits::NUMBERS),
];

/// A structure, as C sees it.
#[derive(Clone, Copy, Debug)]
pub struct Struct {
    /// Its name.
    pub name: &'static str,
    /// Its purpose.
    pub doc: &'static str,
    /// Its bytes.
    pub size: usize,
    /// Its fields, in order.
    pub fields: &'static [Field],
}

/// A field of a [`Struct`].
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in C.
    pub name: &'static str,
    /// Its declaration in C.
    pub declaration: &'static str,
    /// Its purpose.
    pub doc: &'static str,
    /// Bytes before it.
    pub offset: usize,
}

macro_rules! structs {
    ($(
        #[doc = $doc:literal]
        $(#[$attribute:meta])*
        struct $name:ident = $c_name:literal {
            $(
                #[doc = $field_doc:literal]
                $field:ident: $ty:ty = $declaration:literal,
            )*
        }
    )*) => {
        $(
            #[doc = $doc]
            #[repr(C)]
            $(#[$attribute])*
            #[derive(Debug)]
            pub struct $name {
                $(
                    #[doc = $field_doc]
                    pub $field: $ty,
                )*
            }
        )*

        /// All structures, in an order in which C takes them.
        pub const STRUCTS: &[Struct] = &[$(
            Struct {
                name: $c_name,
                doc: $doc,
                size: size_of::<$name>(),
                fields: &[$(
                    Field {
                        name: c_name($declaration),
                        declaration: $declaration,
                        doc: $field_doc,
                        offset: std::mem::offset_of!($name, $field),
                    },
                )*],
            },
        )*];
    };
}

structs! {
    /// A row-major tensor without gaps. Dims beyond the rank are unspecified.
    #[derive(Clone, Copy)]
    struct RawTensor = "heddle_tensor" {
        /// The first element.
        data: *mut c_void = "void *data",
        /// Sizes of the axes.
        dims: [i64; MAX_RANK] = "int64_t dims[HEDDLE_MAX_RANK]",
        /// Number of axes.
        rank: i32 = "int32_t rank",
        /// Keeps the size a multiple of 8.
        reserved: i32 = "int32_t reserved",
    }

    /// The first error of a run. Whoever turns the code non-zero, once, writes the rest.
    #[derive(Default)]
    struct ErrorCell = "heddle_error" {
        /// Zero, or the code of the first error.
        code: AtomicU32 = "uint32_t code",
        /// A row of the emitted program's site table.
        site: AtomicU32 = "uint32_t site",
        /// Details; their meaning depends on the code.
        values: [AtomicI64; 2] = "int64_t values[2]",
    }

    /// One unit, a worker or a block, with what others wait for on lines of its own. All zero before a dispatch.
    #[derive(Default)]
    #[repr(align(128))]
    struct UnitState = "heddle_unit" {
        /// The last epoch signalled.
        signalled: AtomicU64 = "HEDDLE_ALIGNED(128) uint64_t signalled",
        /// Workers asleep on it.
        sleepers: AtomicU32 = "uint32_t sleepers",
        /// Ends the line.
        pad: [u32; 13] = "uint32_t pad[13]",
        /// Barriers that this unit has passed in this dispatch; nobody else looks at it.
        round: AtomicU64 = "uint64_t round",
        /// Points passed in this dispatch at which the team may change. A block of a GPU sets it as it ends: it stores to no other one's memory any more.
        passed: AtomicU64 = "uint64_t passed",
        /// Pieces of its share that were taken, and the phase in the high half.
        taken: AtomicU64 = "uint64_t taken",
        /// Time at which a block looked at `cancel`.
        looked: AtomicU64 = "uint64_t looked",
        /// Number of the barrier, epoch or meeting that the block waited for as the run ended.
        awaited: AtomicU64 = "uint64_t awaited",
        /// Line of the program's text at which it waited; 0: at none.
        line: AtomicU32 = "uint32_t line",
        /// The kind of the wait, one of `waits`.
        waits: AtomicU32 = "uint32_t waits",
        /// The first block that it waited for.
        first: AtomicI32 = "int32_t first",
        /// The number of blocks that it waited for, from there on.
        count: AtomicI32 = "int32_t count",
        /// Ends the line.
        pad_round: u64 = "uint64_t pad_round",
        /// How often the team has met whose middle this unit is.
        met: AtomicU64 = "uint64_t met",
        /// Units of it that have come this time.
        come: AtomicU64 = "uint64_t come",
        /// Workers asleep on `met`.
        asleep: AtomicU32 = "uint32_t asleep",
        /// Number of the worker's own memory, by its number in the team at the start.
        slot: AtomicI32 = "int32_t slot",
        /// Its number in the next team, or -1, for even and odd changes. By slot, as the next.
        share: [AtomicI32; 2] = "int32_t share[2]",
        /// 1: it is ready to join; 2: it belongs to the next team.
        ready: AtomicU32 = "uint32_t ready",
        /// Ends the line.
        pad_met: [u32; 23] = "uint32_t pad_met[23]",
    }

    /// The barrier of all units. All zero before a dispatch.
    #[derive(Default)]
    #[repr(align(128))]
    struct Sync = "heddle_sync" {
        /// Arrivals in this dispatch.
        arrived: AtomicU64 = "HEDDLE_ALIGNED(128) uint64_t arrived",
        /// Ends the line.
        pad: [u64; 15] = "uint64_t pad[15]",
        /// Workers asleep on it.
        sleepers: AtomicU32 = "uint32_t sleepers",
        /// Not zero: a worker has waited longer than `patience`.
        overdue: AtomicU32 = "uint32_t overdue",
        /// Ends the line.
        pad_sleepers: [u32; 30] = "uint32_t pad_sleepers[30]",
        /// 0, or 1 while the next team is decided on, or 1 more than the point at which it takes over.
        wanted: AtomicU64 = "uint64_t wanted",
        /// Not 0: the time at which the first of the team asks whether it should change.
        tick: AtomicU64 = "uint64_t tick",
        /// Not 0: a worker has left the program, so that the team does not change any more.
        ended: AtomicU32 = "uint32_t ended",
        /// Not 0: workers were called to join. For the runtime.
        recalls: AtomicU32 = "uint32_t recalls",
        /// Ends the line.
        pad_wanted: [u32; 26] = "uint32_t pad_wanted[26]",
        /// Changes of the team.
        moved: AtomicU64 = "uint64_t moved",
        /// Workers asleep on it.
        asleep: AtomicU32 = "uint32_t asleep",
        /// Workers of the team.
        workers: AtomicI32 = "int32_t workers",
        /// Workers of the next one.
        next: AtomicI32 = "int32_t next",
        /// Workers of both, each counted once.
        awaited: AtomicI32 = "int32_t awaited",
        /// Workers that have come to the point of the change.
        come: AtomicI32 = "int32_t come",
        /// The point's number in the program.
        point: AtomicU32 = "uint32_t point",
        /// The variables of the program there, for those that join.
        state: AtomicPtr<c_void> = "const void *state",
        /// Ends the line.
        pad_moved: [u64; 11] = "uint64_t pad_moved[11]",
    }

    /// The environment of a launch.
    struct Env = "heddle_env" {
        /// One for each input.
        inputs: *const RawTensor = "const heddle_tensor *inputs",
        /// One for each output; the program sets dims and rank.
        outputs: *mut RawTensor = "heddle_tensor *outputs",
        /// One pointer for each constant blob.
        constants: *const *const c_void = "const void *const *constants",
        /// Named sizes, number of units, depth limit.
        sizes: *const i64 = "const int64_t *sizes",
        /// The words that the memory plan says.
        table: *const i64 = "const int64_t *table",
        /// Memory for everything that is neither input, output nor constant.
        scratch: *mut u8 = "uint8_t *scratch",
        /// The first slot of segments: memory that is committed as it is used.
        segments: *mut u8 = "uint8_t *segments",
        /// The first slot of each segment.
        slots: *const i64 = "const int64_t *slots",
        /// Bytes of the segment that begins in each slot that may be used.
        committed: *const AtomicI64 = "const int64_t *committed",
        /// Bytes of a slot, as a power of two.
        slot_bits: u32 = "uint32_t slot_bits",
        /// Ends the word.
        pad: u32 = "uint32_t pad",
        /// Commits more bytes of a segment; any worker, at any time.
        grow: Option<Grow> = "heddle_commit *grow",
        /// Its first argument.
        growth: *const c_void = "void *growth",
        /// The barrier of all units.
        sync: *const Sync = "heddle_sync *sync",
        /// One for each unit.
        units: *const UnitState = "heddle_unit *units",
        /// The first error.
        error: *const ErrorCell = "heddle_error *error",
        /// Not zero: stop. In the host's memory.
        cancel: *const AtomicU32 = "const uint32_t *cancel",
        /// Nanoseconds that a block may wait for another one.
        watchdog: u64 = "uint64_t watchdog",
        /// For each block the line of the last operator that it began, of programs that note it. In the host's memory.
        notes: *const AtomicU32 = "uint32_t *notes",
        /// The limit on recursion depth.
        max_depth: i64 = "int64_t max_depth",
        /// The limit on iterations of a loop.
        max_iterations: i64 = "int64_t max_iterations",
        /// Nanoseconds for which a waiting worker keeps its core, looking.
        patience: u32 = "uint32_t patience",
        /// Yields of the core after that, before it sleeps.
        yields: u32 = "uint32_t yields",
        /// Decides on the team; null: it never changes.
        decide: Option<Decide> = "heddle_decide *decide",
        /// Its first argument.
        crew: *const c_void = "void *crew",
        /// Arguments of a task that the host dispatches.
        arguments: *const c_void = "const void *arguments",
    }

    /// The counts of a program; once per program.
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct About = "heddle_about" {
        /// The interface version that the program was compiled against.
        abi: i64 = "int64_t abi",
        /// Number of inputs.
        inputs: i64 = "int64_t inputs",
        /// Number of outputs.
        outputs: i64 = "int64_t outputs",
        /// Number of constant blobs.
        constants: i64 = "int64_t constants",
        /// Number of named sizes.
        sizes: i64 = "int64_t sizes",
        /// Words of the launch table.
        table_len: i64 = "int64_t table_len",
    }
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

/// The error codes that the interface fixes, with the two values of each.
pub const CODES: &[(&str, u32, &str)] = &[
    ("CANCELLED", code::CANCELLED, "no values"),
    ("TIMEOUT", code::TIMEOUT, "no values; raised by the runtime"),
    ("INDEX", code::INDEX, "index, size of the axis"),
    (
        "SHAPE",
        code::SHAPE,
        "one size, the other that should agree with it",
    ),
    ("DEPTH", code::DEPTH, "depth reached, limit"),
    ("ITERATIONS", code::ITERATIONS, "iterations done, limit"),
    (
        "BOUND",
        code::BOUND,
        "size, the bound that was planned for it",
    ),
    (
        "MEMORY",
        code::MEMORY,
        "bytes needed in all, the limit, or 0: the system refuses",
    ),
    (
        "SEGMENT",
        code::SEGMENT,
        "slot, bytes needed; raised by the runtime, and by a kernel that needs more of a segment",
    ),
    (
        "STUCK",
        code::STUCK,
        "block that waited longer than `watchdog`; no second value",
    ),
    (
        "UNWATCHED",
        code::UNWATCHED,
        "no error: block 0 has ended, so that the others look at `cancel` themselves",
    ),
    (
        "UNITS",
        code::UNITS,
        "units of the launch, units that the program is scheduled for",
    ),
    (
        "FIRST_CUSTOM",
        code::FIRST_CUSTOM,
        "from here on the program's own, any values",
    ),
];

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
    /// Memory that grows exceeds the limit: bytes needed in all, the limit; 0: the system refuses.
    pub const MEMORY: u32 = 8;
    /// A segment exceeds the addresses reserved for it: slot, bytes needed.
    pub const SEGMENT: u32 = 9;
    /// A block waited longer than the watchdog allows: its number.
    pub const STUCK: u32 = 10;
    /// No error: the block that looks at the host's word has ended, so that the others look themselves.
    pub const UNWATCHED: u32 = 11;
    /// The launch has other units than the program is scheduled for: their number, the wanted one.
    pub const UNITS: u32 = 12;
    /// The program's own codes begin here.
    pub const FIRST_CUSTOM: u32 = 256;
}

/// The name that a declaration declares.
const fn c_name(declaration: &'static str) -> &'static str {
    let bytes = declaration.as_bytes();
    let mut end = 0;
    while end < bytes.len() && bytes[end] != b'[' {
        end += 1;
    }
    let mut start = end;
    while bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'_' {
        start -= 1;
    }
    declaration.split_at(end).0.split_at(start).1
}

const BEGIN: &str = "/* The launch interface, from heddle-abi's schema.rs; HEDDLE_BLESS=1 in tests rewrites it. */\n";
const END: &str = "/* The end of the launch interface. */\n";

/// The interface in C, for a dialect that defines `HEDDLE_ALIGNED(bytes)`.
pub fn declarations() -> String {
    let mut text = format!("{BEGIN}#define HEDDLE_ABI {ABI}\n#define HEDDLE_MAX_RANK {MAX_RANK}\n");
    text += "\n/* Error codes, with their two values. */\nenum {\n  HEDDLE_OK = 0,\n";
    for (name, code, values) in CODES {
        text += &format!("  HEDDLE_{name} = {code}, /* {values} */\n");
    }
    text += "};\n\n/* Kinds of waits of a block. */\nenum {\n";
    for (name, number) in WAITS {
        text += &format!("  HEDDLE_WAITS_{name} = {number},\n");
    }
    text += "};\n";
    for Struct {
        name, doc, fields, ..
    } in STRUCTS
    {
        text += &format!("\n/*{doc} */\ntypedef struct {name} {{\n");
        for field in *fields {
            text += &format!("  {}; /*{} */\n", field.declaration, field.doc);
        }
        text += &format!("}} {name};\n");
    }
    text + END
}

/// A file's text with [`declarations`] in the place of those that it holds; `None` if it has no place for them.
pub fn with_declarations(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, &declarations(), after].concat())
}
