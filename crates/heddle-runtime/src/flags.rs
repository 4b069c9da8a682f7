//! The compiler's flags. All of them are ours: results must not depend on a user's `CFLAGS`.
//!
//! - `-O3` (`-O1` where a launch is simulated), or the level that a user names, which changes the speed alone; and the processor at hand.
//! - `-fno-math-errno -fno-trapping-math`: `errno` and floating-point flags are never read, and
//!   both prevent vectorisation.
//! - `-ffp-contract=fast`: a product and a sum become one fused operation, rounded once. Kernels
//!   need it to reach the processor's peak; it never rounds more often than separate operations,
//!   and it is GCC's default. Where separate rounding matters, [`BuildOptions::contract`] turns it
//!   off.
//! - `-fwrapv`: the IR's integers wrap. `-fno-strict-aliasing`: buffers of different types share
//!   scratch memory.
//! - `-fno-predictive-commoning`, and for clang `-mprefer-vector-width=512`, where the compiler accepts it (see `compiler.rs`).
//! - Never `-ffast-math`: it changes results beyond rounding (NaN, infinities, order of sums), and
//!   when linking it adds code that turns denormals off in the whole process.
//! - No stack protector and no fortification, which some distributions turn on by default.

use crate::abi;
use crate::build::{BuildOptions, Language, Sanitizer};
use crate::error::BuildError;
use crate::simulation;

/// The variable that names the optimisation level where options do not.
const LEVEL: &str = "HEDDLE_BUILD_LEVEL";

/// The kind of build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    /// A library to load.
    Library,
    /// An executable: the emitted program with `include/driver.c`.
    Standalone,
}

/// The flags of one build.
#[derive(Clone, Debug)]
pub(crate) struct Flags {
    language: Language,
    product: Product,
    list: Vec<String>,
}

const COMMON: &[&str] = &[
    "-pipe",
    "-w",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-fvisibility=hidden",
    "-I.",
];

const C: &[&str] = &["-std=gnu11"];

/// CUDA text as C++. Everything before the program's file is C++, too, which there is none of.
const SIMULATED: &[&str] = &["-std=gnu++17", "-fno-exceptions", "-fno-rtti", "-x", "c++"];

const DRIVER: &str = include_str!("../include/driver.c");

impl Flags {
    pub(crate) fn new(options: &BuildOptions, product: Product) -> Result<Flags, BuildError> {
        let language = options.language;
        let own = match language {
            Language::C => C,
            Language::Simulated => SIMULATED,
        };
        let mut list: Vec<String> = COMMON.iter().chain(own).map(|f| (*f).to_owned()).collect();
        let (header, _) = header_file(language, product);
        list.extend(["-include".to_owned(), header.to_owned()]);
        list.push(format!("-O{}", level(options)?));
        let contract = if options.contract { "fast" } else { "off" };
        list.push(format!("-ffp-contract={contract}"));
        if options.debug || product == Product::Standalone {
            list.push("-g".to_owned());
        }
        let product_flags: &[&str] = match product {
            Product::Library => &["-fPIC", "-shared", "-fno-semantic-interposition"],
            Product::Standalone => &["-pthread"],
        };
        list.extend(product_flags.iter().map(|f| (*f).to_owned()));
        if let (Product::Standalone, Some(sanitizer)) = (product, options.sanitize) {
            list.push(
                match sanitizer {
                    Sanitizer::Thread => "-fsanitize=thread",
                    // Integers wrap, and the emitter guards shifts: the remaining undefined
                    // behaviour is bounds and alignment.
                    Sanitizer::Address => "-fsanitize=address,bounds,alignment,null",
                }
                .to_owned(),
            );
        }
        list.extend(options.extra_flags.iter().cloned());
        Ok(Flags {
            language,
            product,
            list,
        })
    }

    /// All flags but the output, with those that not every compiler accepts.
    pub(crate) fn list(&self, accepted: &[String]) -> Vec<String> {
        let mut list = [&self.list, accepted].concat();
        list.push("program.c".to_owned());
        list.extend(
            self.more_sources()
                .iter()
                .map(|(file, _)| (*file).to_owned()),
        );
        list.push("-lm".to_owned());
        list
    }

    /// The header that the program is compiled with.
    pub(crate) fn header(&self) -> &'static str {
        self.header_file().1
    }

    /// Its name and text.
    pub(crate) fn header_file(&self) -> (&'static str, &'static str) {
        header_file(self.language, self.product)
    }

    /// Files besides the program.
    pub(crate) fn more_sources(&self) -> &'static [(&'static str, &'static str)] {
        match (self.product, self.language) {
            (Product::Standalone, Language::C) => &[("driver.c", DRIVER)],
            // The driver of CUDA text follows it, where the types are.
            (Product::Library, _) | (_, Language::Simulated) => &[],
        }
    }
}

/// The header of a program: its name and text.
fn header_file(language: Language, product: Product) -> (&'static str, &'static str) {
    match (language, product) {
        (Language::C, _) => ("heddle.h", abi::HEADER),
        (Language::Simulated, Product::Library) => ("sim.h", simulation::HEADER),
        (Language::Simulated, Product::Standalone) => ("threads.h", simulation::THREADS),
    }
}

/// The optimisation level that options or the environment name.
fn level(options: &BuildOptions) -> Result<u8, BuildError> {
    if let Some(level) = options.optimize {
        return Ok(level.min(3));
    }
    let Some(given) = std::env::var_os(LEVEL).filter(|given| !given.is_empty()) else {
        // A simulated program runs once or a few times, and mostly switches between threads.
        return Ok(match options.language {
            Language::C => 3,
            Language::Simulated => 1,
        });
    };
    let level = given.to_str().and_then(|given| given.parse().ok());
    let level = level.filter(|level| *level <= 3);
    // Without, switching between threads takes more than ten times as long.
    let level = level.map(|level: u8| match options.language {
        Language::C => level,
        Language::Simulated => level.max(1),
    });
    level.ok_or(BuildError::Level {
        variable: LEVEL,
        given: given.to_string_lossy().into_owned(),
    })
}
