//! Emitted C and CUDA of small programs, checked in, so that a diff shows what a change does to the
//! code. `HEDDLE_BLESS=1` writes the files anew.
//!
//! Each program of `snapshots/` is scheduled by the cost model for a fixed number of units, so that
//! its text is the same on every machine: for an H100, or one of its clusters where the first line says `// in a cluster of N`. The prelude, which is a file of its own, is left out.

use std::path::Path;

use heddle_emit::{C, CUDA, Dialect};
use heddle_machine::Machine;

#[test]
fn emitted_text_is_as_checked_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let entries = std::fs::read_dir(&folder).expect("the folder of programs");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "heddle"));
    files.sort();
    assert!(files.len() >= 12);
    let bless = std::env::var_os("HEDDLE_BLESS").is_some();
    let mut stale = vec![];
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a text file");
        let targets = [
            ("c", Machine::reference_host(4), &C),
            ("cu", gpu_of(&text), &CUDA),
        ];
        for (extension, machine, dialect) in targets {
            let (path, found) = (
                file.with_extension(extension),
                emitted(&text, &machine, dialect),
            );
            if bless {
                std::fs::write(&path, &found).expect("can be written");
                continue;
            }
            let expected = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(line) = difference(&expected, &found) {
                let name = path.file_name().unwrap_or_default().display().to_string();
                stale.push(format!("{name}, {line}"));
            }
        }
    }
    assert!(
        stale.is_empty(),
        "HEDDLE_BLESS=1 writes these anew:\n{}",
        stale.join("\n")
    );
}

/// The GPU that a program's first line asks for.
fn gpu_of(text: &str) -> Machine {
    let first = text.lines().next().unwrap_or_default();
    match first.strip_prefix("// in a cluster of ") {
        None => Machine::h100(),
        Some(units) => {
            let units = units.parse().expect("a number of units");
            let machine = Machine::h100().with_grid(units, 256).in_clusters(units);
            machine.expect("a cluster of that size")
        }
    }
}

/// The source without its prelude.
fn emitted(text: &str, machine: &Machine, dialect: &Dialect) -> String {
    let mut module = heddle_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    heddle_opt::optimize(&mut module);
    let mut program = heddle_lower::lower(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
    heddle_schedule::fuse(&mut program);
    heddle_schedule::simplify_indices(&mut program, machine);
    heddle_schedule::select_kernels(&mut program, machine);
    heddle_schedule::schedule(&mut program, machine);
    heddle_uprogram::verify_schedule(&program, machine.synced_lanes()).expect("a sound schedule");
    let layout = heddle_uprogram::layout(&program).expect("a plan");
    let source = heddle_emit::write(&program, &layout, dialect).source;
    let own = source.rfind("HEDDLE_PROGRAM(").map(|at| &source[at..]);
    format!("{}\n", own.expect("a program").trim())
}

/// The first line in which two texts differ.
fn difference(expected: &str, found: &str) -> Option<String> {
    if expected == found {
        return None;
    }
    let lines = expected.lines().zip(found.lines()).enumerate();
    let first = lines.into_iter().find(|(_, (a, b))| a != b);
    Some(match first {
        Some((k, (a, b))) => format!("line {}:\n- {a}\n+ {b}", k + 1),
        None => "of another length".into(),
    })
}
