//! Simulated launches of GPU programs: `include/sim.h` runs the blocks and threads of emitted CUDA text on the calling thread.

use std::fmt;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU64, Ordering};

use crate::error::RunError;
use crate::grid::Grid;

/// The header of simulated programs, which defines the words of CUDA text for C++.
pub const HEADER: &str = include_str!("../include/sim.h");

/// The header of simulated programs that a sanitizer watches: each thread is one of the system's.
pub(crate) const THREADS: &str = include_str!("../include/threads.h");

/// The main function of these, which follows the text.
pub(crate) const THREADS_MAIN: &str = include_str!("../include/threads.cc");

/// Bytes of a finding's text, its end included.
const TEXT: usize = 512;

/// The kinds of fault that the simulator finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Threads of a block are at different barriers, or some of them have ended.
    Divergence,
    /// No thread can go on.
    Deadlock,
    /// All threads that run wait for words in memory that none of them writes.
    Livelock,
    /// The system refuses memory for the threads' stacks.
    Memory,
    /// A thread reads or writes outside of an array that its block, or another one of its cluster, shares.
    Bounds,
    /// A thread touches an element that an asynchronous copy is still to write.
    Copy,
    /// A product of tensor cores and another access to its operands in shared memory are in no order.
    Product,
}

impl Finding {
    /// Reads `heddle_sim::Finding`.
    fn of(number: i32) -> Option<Finding> {
        Some(match number {
            1 => Finding::Divergence,
            2 => Finding::Deadlock,
            3 => Finding::Livelock,
            4 => Finding::Memory,
            5 => Finding::Bounds,
            6 => Finding::Copy,
            7 => Finding::Product,
            _ => return None,
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Finding::Divergence => "divergence",
            Finding::Deadlock => "deadlock",
            Finding::Livelock => "livelock",
            Finding::Memory => "out of memory",
            Finding::Bounds => "out of bounds",
            Finding::Copy => "asynchronous copy",
            Finding::Product => "asynchronous product",
        })
    }
}

/// `heddle_simulation`: what a launch is asked for, and what it finds. `env->arguments` points to it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Simulation {
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    pub(crate) warp: u32,
    pub(crate) finding: AtomicI32,
    pub(crate) seed: u64,
    pub(crate) line: AtomicI64,
    pub(crate) looks: [AtomicU64; 2],
    pub(crate) patient: u32,
    pub(crate) cluster: u32,
    pub(crate) text: [AtomicU8; TEXT],
}

impl Simulation {
    pub(crate) fn new(grid: Grid) -> Simulation {
        Simulation {
            blocks: grid.blocks,
            threads: grid.threads,
            warp: grid.warp,
            finding: AtomicI32::new(0),
            seed: grid.seed,
            line: AtomicI64::new(0),
            looks: [const { AtomicU64::new(0) }; 2],
            patient: 0,
            cluster: grid.cluster,
            text: [const { AtomicU8::new(0) }; TEXT],
        }
    }

    /// Forgets the finding of the launch before.
    pub(crate) fn rewind(&self) {
        self.finding.store(0, Ordering::Relaxed);
    }

    /// The finding of the last launch as an error.
    pub(crate) fn found(&self) -> Option<RunError> {
        let finding = Finding::of(self.finding.load(Ordering::Relaxed))?;
        let bytes = self.text.iter().map(|byte| byte.load(Ordering::Relaxed));
        let text: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        Some(RunError::Simulated {
            finding,
            line: usize::try_from(self.line.load(Ordering::Relaxed)).unwrap_or(0),
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;
    use crate::abi::ABI;
    use crate::build::{BuildOptions, Language};
    use crate::cache::CacheChoice;
    use crate::program::Program;
    use crate::source::Source;

    /// The C++ compiler refuses a structure that differs.
    #[test]
    fn header_and_rust_agree() {
        let mut text = format!(
            "HEDDLE_SYMBOL int64_t heddle_program[6] = {{{ABI}}};
extern \"C\" __attribute__((visibility(\"default\"))) int32_t heddle_main(const void *, int32_t, int32_t) {{ return 0; }}
static_assert(sizeof(heddle_simulation) == {}, \"size\");\n",
            size_of::<Simulation>()
        );
        for (field, offset) in [
            ("blocks", offset_of!(Simulation, blocks)),
            ("threads", offset_of!(Simulation, threads)),
            ("warp", offset_of!(Simulation, warp)),
            ("finding", offset_of!(Simulation, finding)),
            ("seed", offset_of!(Simulation, seed)),
            ("line", offset_of!(Simulation, line)),
            ("looks", offset_of!(Simulation, looks)),
            ("patient", offset_of!(Simulation, patient)),
            ("cluster", offset_of!(Simulation, cluster)),
            ("text", offset_of!(Simulation, text)),
        ] {
            text += &format!(
                "static_assert(__builtin_offsetof(heddle_simulation, {field}) == {offset}, \"{field}\");\n"
            );
        }
        let source = Source {
            name: "layout".into(),
            text,
            ..Source::default()
        };
        let options = BuildOptions {
            language: Language::Simulated,
            cache: CacheChoice::Off,
            ..BuildOptions::default()
        };
        Program::build(&source, &options).unwrap();
    }
}
