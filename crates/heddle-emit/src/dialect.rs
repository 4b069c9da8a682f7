//! Differences between targets.

use heddle_ir::DType;
use heddle_uprogram::program::{BufferData, BufferKind};

use crate::prelude;

/// The table of a target's words.
#[derive(Debug)]
pub struct Dialect {
    /// Its name on the command line.
    pub name: &'static str,
    /// The target's own words, which begin each program.
    pub words: &'static str,
    /// Routines that emitted code may call, in terms of the words.
    pub routines: &'static str,
    /// The type for arithmetic on an element type.
    pub type_name: fn(DType) -> &'static str,
    /// Prefix of the types of elements at any address.
    pub unaligned: &'static str,
    /// Prefix of internal functions.
    pub function: &'static str,
    /// The same of functions that are inlined.
    pub inlined: &'static str,
    /// The qualifier for pointers without aliases.
    pub restrict: &'static str,
    /// A macro of an array, a statement that it lies in the device's memory; empty: there is no other. Otherwise each access finds that out.
    pub global: &'static str,
    /// The same of an array that lies in a unit's shared memory.
    pub on_chip: &'static str,
    /// A statement: barrier of all units.
    pub sync: &'static str,
    /// A statement: barrier of this team's units.
    pub team_sync: &'static str,
    /// A statement: waits until the units from number `from` to before `to` have signalled this `epoch`.
    pub wait_for: &'static str,
    /// A statement: barrier of the units of this cluster; empty where launches have none.
    pub cluster_sync: &'static str,
    /// A statement: barrier of the lanes of this warp; empty where a unit has none.
    pub warp_sync: &'static str,
    /// A statement: barrier of this unit's lanes; empty where a unit is one thread.
    pub unit_sync: &'static str,
    /// A line before a loop that the target's compiler would write out as often as its constant trip count says; empty: none.
    pub rolled: &'static str,
    /// The same where it may write out a few iterations.
    pub rolled_in_part: &'static str,
    /// Are addresses of arrays that stay where they are looked up at each use? They are variables otherwise, of which large programs have
    /// more than a lane of a GPU has registers.
    pub looks_up: bool,
    /// The macro that a call of an operator is an argument of; empty: none. Builds that look for the operator of a fault define it.
    pub run: &'static str,
    /// Can the number of units change during a launch? Otherwise resizes are left out.
    pub resizes: bool,
    /// Can a running program commit memory? Otherwise it ends where it lacks some, and goes on there in the next launch.
    pub commits: bool,
    /// Can units take pieces of each other's shares? Otherwise shares are whole.
    pub pieces: bool,
    /// The lanes of a unit; `None` where a unit is one thread.
    pub lanes: Option<Lanes>,
    /// The kernels of contractions, a template instantiated for each type (`prelude/contract.h`);
    /// without them, contractions are plain loops.
    pub contract: Option<&'static str>,
}

/// The distribution of points over lanes: lane `i` takes `i, i + N, …`.
#[derive(Debug)]
pub struct Lanes {
    /// The number of this lane within the unit.
    pub index: &'static str,
    /// The number of lanes.
    pub count: &'static str,
}

/// The routines that all targets have.
macro_rules! routines {
    () => {
        concat!(
            include_str!("prelude/teams.h"),
            "\n",
            include_str!("prelude/integer.h"),
            "\n",
            include_str!("prelude/random.h"),
            "\n",
            include_str!("prelude/float.h"),
            "\n",
            include_str!("prelude/math.h"),
            "\n",
            include_str!("prelude/small.h"),
            "\n",
            include_str!("prelude/rows.h")
        )
    };
}

/// C for the CPU: all workers run one function.
pub const C: Dialect = Dialect {
    name: "cpu",
    words: include_str!("prelude/c.h"),
    routines: concat!(
        routines!(),
        "\n",
        include_str!("prelude/turned.h"),
        "\n",
        include_str!("prelude/vectors.h"),
        "\n",
        include_str!("prelude/pieces.h")
    ),
    type_name: c_type,
    unaligned: "heddle_unaligned_",
    function: "HEDDLE_OUTLINE void",
    inlined: "HEDDLE_INLINE void",
    restrict: "restrict",
    global: "",
    on_chip: "",
    sync: "HEDDLE_TRY(heddle_barrier(env, worker, workers));",
    team_sync: "HEDDLE_TRY(heddle_meet(env, first, workers));",
    wait_for: "for (int32_t u = from; u < to; u++) HEDDLE_TRY(heddle_wait(env, u, epoch));",
    cluster_sync: "",
    warp_sync: "",
    unit_sync: "",
    looks_up: false,
    rolled: "",
    rolled_in_part: "",
    run: "",
    resizes: true,
    commits: true,
    pieces: true,
    lanes: None,
    contract: Some(include_str!("prelude/contract.h")),
};

/// CUDA: one persistent kernel, whose blocks are the units.
pub const CUDA: Dialect = Dialect {
    name: "cuda",
    words: include_str!("prelude/cuda.h"),
    routines: concat!(
        routines!(),
        "\n",
        include_str!("prelude/lanes.h"),
        "\n",
        include_str!("prelude/gather.h")
    ),
    type_name: c_type,
    // The device has aligned copies.
    unaligned: "",
    function: "HEDDLE_FUNCTION void",
    inlined: "HEDDLE_INLINE void",
    restrict: "__restrict__",
    global: "HEDDLE_GLOBAL",
    on_chip: "HEDDLE_ON_CHIP",
    sync: "HEDDLE_TRY(heddle_barrier(env, worker, workers));",
    team_sync: "HEDDLE_TRY(heddle_meet(env, first, workers));",
    wait_for: "HEDDLE_TRY(heddle_wait_for(env, from, to, epoch));",
    cluster_sync: "HEDDLE_CLUSTER_SYNC;",
    warp_sync: "HEDDLE_WARP_SYNC;",
    unit_sync: "HEDDLE_UNIT_SYNC;",
    looks_up: true,
    rolled: "HEDDLE_ROLLED",
    rolled_in_part: "HEDDLE_ROLLED_IN_PART",
    run: "HEDDLE_RUN",
    resizes: false,
    commits: false,
    pieces: false,
    lanes: Some(Lanes {
        index: "heddle_lane",
        count: "heddle_lanes",
    }),
    contract: None,
};

fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int32_t",
        DType::I64 => "int64_t",
        DType::U8 => "uint8_t",
        DType::U16 => "uint16_t",
        DType::U32 => "uint32_t",
        DType::U64 => "uint64_t",
        DType::F16 | DType::Bf16 => "float",
        DType::C64 => "uint64_t",
        // Codes of elements of at most 8 bits.
        _ => "uint8_t",
    }
}

impl Dialect {
    /// All words and routines, for text that is written by hand.
    pub fn prelude(&self) -> String {
        format!("{}\n{}", self.words, self.routines)
    }

    /// The words, and those routines that a program's text names, with those that they name.
    pub fn prelude_of(&self, program: &str) -> String {
        let routines = prelude::used(self.routines, program);
        format!("{}\n{routines}", self.words)
    }

    /// The type that an element has in memory.
    pub fn stored(&self, dtype: DType) -> &'static str {
        match dtype {
            DType::F16 | DType::Bf16 => "uint16_t",
            _ => (self.type_name)(dtype),
        }
    }

    /// The word that says in which memory a buffer lies, if there are several.
    pub fn memory(&self, buffer: &BufferData) -> Option<&'static str> {
        let word = match buffer.kind {
            BufferKind::Resident(_) | BufferKind::Mirrored(_) | BufferKind::Gathered(_) => {
                self.on_chip
            }
            _ => self.global,
        };
        (!word.is_empty()).then_some(word)
    }

    /// The type of a buffer's elements.
    pub fn in_memory(&self, buffer: &BufferData) -> String {
        let prefix = match buffer.kind {
            BufferKind::Table(_) => self.unaligned,
            _ => "",
        };
        format!("{prefix}{}", self.stored(buffer.dtype))
    }
}
