//! Sums of a tile stay in registers.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{Case, drawn};

/// Vectors of 64 bytes, and 32 registers for them.
const PROCESSOR: &str = "-march=x86-64-v4";

const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O3",
    "-w",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-ffp-contract=fast",
    "-mprefer-vector-width=512",
    "-fPIC",
    "-S",
    "-include",
    "heddle.h",
    "program.c",
    "-o",
    "program.s",
];

/// Clang 19 loads the factors of several steps before it computes the sums of the first, unless the text orders them, and has then more
/// factors than registers.
#[test]
fn clang_spills_no_factors() {
    let text = "fn @main(%x: f32[m,k], %y: f32[k,n]) -> (%p: f32[m,n]) {
  %p = dot(%x, %y)
  return %p
}
";
    let (module, inputs) = drawn("registers", text, 70, 1);
    let case = Case::new("registers", module, &inputs).expect("it is compiled");
    let Some(whole) = assembly(&case.source.text) else {
        return;
    };
    let begin = whole.find("\nheddle_tile8_f32:").expect("a tile");
    let tile = &whole[begin..];
    let tile = &tile[..tile.find("# -- End function").expect("an end")];
    let products = tile.lines().filter(|line| line.contains("vfmadd"));
    assert!(products.count() >= 4 * 8 * 2, "sums of a tile:\n{tile}");
    let spilled = |line: &&str| line.contains("%zmm") && line.contains("(%rsp)");
    let spilled: Vec<_> = tile.lines().filter(spilled).collect();
    assert!(spilled.is_empty(), "vectors on the stack: {spilled:#?}");
}

/// A program as clang's assembly; `None` without clang 19, or on another kind of processor.
fn assembly(text: &str) -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("registers");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("heddle.h"), heddle_runtime::abi::HEADER).expect("the header");
    fs::write(folder.join("program.c"), text).expect("a file");
    let output = Command::new("clang-19")
        .arg(PROCESSOR)
        .args(FLAGS)
        .current_dir(&folder)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: clang-19 is missing");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(fs::read_to_string(folder.join("program.s")).expect("assembly"))
}
