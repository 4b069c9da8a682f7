//! Emitted text compiles without warnings that point to a mistake, with gcc and with clang-19.
//! Programs are built with `-w`.
//!
//! `HEDDLE_WARNED` sets the number of random programs; `HEDDLE_SEED` picks one.

use std::fs;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Case, PROGRAMS, drawn, random, run_text};
use crate::prelude::ROUTINES;

const COMPILERS: &[&str] = &["gcc", "clang-19"];

/// Accepted by every compiler. Generated code may define what it does not use (parameters that
/// operators share, derived sizes, labels of the last return), compare counts of either sign, ask
/// in code for all integers if an unsigned one is negative, and compare a value with itself where
/// the model does.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-fsyntax-only",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused",
    "-Wno-sign-compare",
    "-Wno-type-limits",
    "-Wno-tautological-compare",
    "-include",
    "heddle.h",
];

/// Passed to compilers that know them: the processor, and the mistakes that newer compilers make
/// errors whatever the warnings.
const OPTIONAL: &[&str] = &[
    "-march=native",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
    "-Werror=implicit-function-declaration",
    "-Werror=implicit-int",
    "-Werror=return-mismatch",
    "-Werror=return-type",
    "-Werror=declaration-missing-parameter-type",
    "-Werror=incompatible-function-pointer-types",
    "-Werror=strict-prototypes",
    "-Werror=pointer-arith",
    "-Werror=vla",
];

#[test]
fn programs_by_hand() {
    for (name, text) in PROGRAMS {
        let (module, inputs) = drawn(name, text, 70, 1);
        let case = Case::new(name, module, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        check(name, case);
    }
}

#[test]
fn random_programs() {
    let seeds = random::seeds("HEDDLE_WARNED", 60);
    random::check_all(seeds, random::case, |seed, case| {
        check(&format!("seed {seed}"), case);
    });
}

/// Arrays of each type in frames, as parameters and results, kept over calls, in a chain and in
/// calls that fork.
#[test]
fn recursion_of_each_float_type() {
    for dtype in ["f16", "bf16", "f32", "f64"] {
        let text = RECURSION.replace("TYPE", dtype);
        let (module, inputs) = drawn(dtype, &text, 70, 1);
        let case = Case::new(dtype, module, &inputs).unwrap_or_else(|e| panic!("{dtype}: {e}"));
        check(dtype, case);
        for threads in [1, 2, 5] {
            run_text(dtype, &text, threads, 1);
        }
    }
}

const RECURSION: &str = "
fn @main(%x: f32[n]) -> (%y: f32[n], %z: f32[n]) {
  %t = cast(%x, to=TYPE)
  %count = const 5
  %chain = call @chain(%t, %count)
  %tree = call @tree(%t, %count)
  return cast(%chain, to=f32), cast(%tree, to=f32)
}

fn @chain(%x: TYPE[n], %left: i64[]) -> (%y: TYPE[n]) {
  %y = if le(%left, 0) {
    yield %x
  } else {
    %own = tanh(mul(%x, %x))
    %rest = call @chain(sub(%x, %own), sub(%left, 1))
    yield add(%rest, %own)
  }
  return %y
}

fn @tree(%x: TYPE[n], %left: i64[]) -> (%y: TYPE[n]) {
  %y = if le(%left, 0) {
    yield tanh(%x)
  } else {
    %half = mul(%x, %x)
    %p = call @tree(%half, sub(%left, 1))
    %q = call @tree(neg(%half), sub(%left, 2))
    yield tanh(add(add(%p, %q), %half))
  }
  return %y
}
";

/// Parts of the prelude, each by itself.
#[test]
fn routines_lack_nothing() {
    for (name, _) in ROUTINES {
        let text = heddle_emit::C.prelude_of(name);
        for compiler in &*FOUND {
            if let Some(said) = compiler.refuses(&text) {
                panic!("{name}, {}:\n{said}\n{text}", compiler.name);
            }
        }
    }
}

/// A program whose text is wrong in the way that was once hidden is refused.
#[test]
fn a_wrong_pointer_is_found() {
    for compiler in &*FOUND {
        let broken = "void f(void) { uint16_t *a = 0; float *b = a; (void)b; }\n";
        let said = compiler.refuses(broken).expect("a wrong pointer");
        assert!(said.contains("incompatible"), "{said}");
    }
}

/// Both forms of a program.
fn check(name: &str, case: Case) {
    let text = case.source.text.clone();
    for text in [text, case.hosted().source.text] {
        for compiler in &*FOUND {
            if let Some(said) = compiler.refuses(&text) {
                panic!("{name}, {}:\n{said}\n{text}", compiler.name);
            }
        }
    }
}

struct Compiler {
    name: &'static str,
    flags: Vec<&'static str>,
}

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("warnings");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("heddle.h"), heddle_runtime::abi::HEADER).expect("the header");
    folder
});

/// The compilers that are installed. Those that are not are named on the terminal: cargo would keep
/// what a test prints to itself.
static FOUND: LazyLock<Vec<Compiler>> = LazyLock::new(|| {
    let found = COMPILERS.iter().filter_map(|name| {
        let mut compiler = Compiler {
            name,
            flags: FLAGS.to_vec(),
        };
        // One that is there and refuses an empty text would check nothing.
        if let Err(error) = Command::new(name).arg("--version").output() {
            let _ = writeln!(
                stderr(),
                "warnings: {name} is missing, emitted text is not checked with it: {error}"
            );
            return None;
        }
        if let Some(said) = compiler.refuses("") {
            panic!("{name} refuses the header alone:\n{said}");
        }
        for flag in OPTIONAL {
            compiler.flags.push(flag);
            if compiler.refuses("").is_some() {
                compiler.flags.pop();
            }
        }
        Some(compiler)
    });
    let found: Vec<_> = found.collect();
    assert!(!found.is_empty(), "none of {COMPILERS:?} works");
    found
});

impl Compiler {
    /// Objections to a text, if there are any.
    fn refuses(&self, text: &str) -> Option<String> {
        static TEXTS: AtomicUsize = AtomicUsize::new(0);
        let number = TEXTS.fetch_add(1, Ordering::Relaxed);
        let file = format!("{}-{number}.c", std::process::id());
        fs::write(FOLDER.join(&file), text).expect("a file");
        let output = Command::new(self.name)
            .args(&self.flags)
            .arg(&file)
            .current_dir(&*FOLDER)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output();
        let _ = fs::remove_file(FOLDER.join(&file));
        match output {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(e) => Some(e.to_string()),
        }
    }
}
