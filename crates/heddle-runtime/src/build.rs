//! Options and result of a build.

use std::sync::Arc;
use std::time::Duration;

use crate::cache::{CacheChoice, Key};
use crate::libraries::Libraries;

/// Options of a build. Everything but the cache and the libraries is part of the key.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The language of the text.
    pub language: Language,
    /// The compiler to use, optionally with leading arguments. Without it `HEDDLE_CC` decides, then
    /// [`crate::compiler::CANDIDATES`] are tried.
    pub compiler: Option<String>,
    /// The cache.
    pub cache: CacheChoice,
    /// Limit on the bytes of the cache.
    pub cache_limit: u64,
    /// The optimisation level, 0 to 3. Without it `HEDDLE_BUILD_LEVEL` decides, but simulated programs have at least 1; then it is 3 for C and 1 for these.
    pub optimize: Option<u8>,
    /// Allows fused products and sums.
    pub contract: bool,
    /// Keeps debug information.
    pub debug: bool,
    /// Flags appended to the others.
    pub extra_flags: Vec<String>,
    /// Checks at run time; only in [`crate::Standalone`] programs, because a sanitizer must own its
    /// process.
    pub sanitize: Option<Sanitizer>,
    /// Blocks of a program for a GPU tell the host which operator they are in, to find that of a fault. Such a program is slow.
    pub notes: bool,
    /// Libraries that are loaded instead of being built, and to which built ones are added. Not part of the key.
    pub libraries: Option<Arc<Libraries>>,
}

/// Languages of emitted text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Language {
    /// C, against `include/heddle.h`.
    #[default]
    C,
    /// CUDA, which `include/sim.h` makes C++ that simulates a launch. Sessions run it with a [`Grid`](crate::Grid).
    Simulated,
}

/// Checks that a compiler builds into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitizer {
    /// Data races.
    Thread,
    /// Accesses out of bounds, misaligned or after freeing.
    Address,
}

impl Default for BuildOptions {
    fn default() -> BuildOptions {
        BuildOptions {
            language: Language::default(),
            compiler: None,
            cache: CacheChoice::Default,
            cache_limit: 2 << 30,
            optimize: None,
            contract: true,
            debug: false,
            extra_flags: Vec::new(),
            sanitize: None,
            notes: false,
            libraries: None,
        }
    }
}

/// The result of a build.
#[derive(Clone, Debug)]
pub struct BuildReport {
    /// The compiler and its version.
    pub compiler: String,
    /// The key in the cache.
    pub key: Key,
    /// The cache's part in it.
    pub cache: CacheUse,
    /// Time to find or build the program and to load it.
    pub elapsed: Duration,
}

/// Use of the cache for a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheUse {
    /// The program was cached.
    Hit,
    /// It was built and cached.
    Stored,
    /// It was built and not cached, for this reason.
    Uncached(String),
}
