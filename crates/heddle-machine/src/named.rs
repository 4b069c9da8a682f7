//! Machines by name.

use std::num::NonZeroUsize;

use crate::Machine;

/// A name that stands for no machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// There is no such machine.
    #[error("no machine is named `{name}`; there are {}", list())]
    Unknown {
        /// The name.
        name: String,
    },
    /// The part behind the colon is no number of threads.
    #[error("`{count}` in `{name}` is no number of threads from 1 to {MOST_THREADS}")]
    Threads {
        /// The name.
        name: String,
        /// The part behind the colon.
        count: String,
    },
}

/// The most threads that a name may ask for: more than any computer has.
const MOST_THREADS: usize = 4096;

type Make = fn() -> Machine;

const TABLES: &[(&str, Make)] = &[
    ("h100", Machine::h100),
    ("h200", Machine::h200),
    ("mi300x", Machine::mi300x),
    ("bsp-tiles", Machine::bsp_tiles),
];

type MakeThreads = fn(usize) -> Machine;

const PROCESSORS: &[(&str, MakeThreads)] = &[
    ("host", Machine::host),
    ("reference", Machine::reference_host),
];

impl Machine {
    /// The machine of a name: `h100`, `h200`, `mi300x`, `bsp-tiles`; `host`, this computer with all of its threads, and
    /// `host:N`, with `N`; `reference:N`, the fixed processor of the tests.
    ///
    /// # Errors
    ///
    /// [`NameError`] lists the names that there are.
    pub fn named(name: &str) -> Result<Self, NameError> {
        if let Some((_, make)) = TABLES.iter().find(|m| m.0 == name) {
            return Ok(make());
        }
        let (kind, count) = match name.split_once(':') {
            Some((kind, count)) => (kind, Some(count)),
            None => (name, None),
        };
        let Some((_, make)) = PROCESSORS.iter().find(|m| m.0 == kind) else {
            return Err(NameError::Unknown { name: name.into() });
        };
        let threads = match count {
            None => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            Some(count) => {
                let threads = count.parse().ok();
                let threads = threads.filter(|n| (1..=MOST_THREADS).contains(n));
                threads.ok_or_else(|| NameError::Threads {
                    name: name.into(),
                    count: count.into(),
                })?
            }
        };
        Ok(make(threads))
    }

    /// The names that [`Machine::named`] takes; `N` stands for a number of threads.
    pub fn names() -> Vec<String> {
        let tables = TABLES.iter().map(|m| m.0.to_owned());
        let processors = PROCESSORS.iter().map(|m| format!("{}:N", m.0));
        tables.chain(processors).collect()
    }
}

fn list() -> String {
    Machine::names().join(", ")
}
