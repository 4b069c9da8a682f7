//! Schedules of the same program on different machines, as text files: the machines in the first
//! line, the program, and below it the schedule for each. `HEDDLE_BLESS=1` writes the expected
//! schedules anew.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use crate::common::lowered_for;
use heddle_machine::Machine;
use heddle_schedule::{print, schedule};
use heddle_uprogram::verify_schedule;

const OUTPUT: &str = "\n// ---- output\n";

#[test]
fn machines_change_schedules() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let entries = std::fs::read_dir(folder).expect("the folder of tests");
    let files: BTreeSet<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    assert!(!files.is_empty());
    let bless = std::env::var_os("HEDDLE_BLESS").is_some();
    for file in &files {
        let content = std::fs::read_to_string(file).expect("a text file");
        let parts = content.split_once(OUTPUT);
        let (input, expected) = parts.unwrap_or((content.trim_end(), ""));
        let output = schedules(input);
        match bless {
            true => std::fs::write(file, format!("{input}{OUTPUT}{output}")).expect("written"),
            false => assert_eq!(output, expected, "{}", file.display()),
        }
    }
}

/// The schedule of a program for each machine that its first line names.
fn schedules(input: &str) -> String {
    let first = input.lines().next().unwrap_or_default();
    let names = first.strip_prefix("// test schedule --machine ");
    let names = names.expect("the first line says `// test schedule --machine NAME,…`");
    let mut output = String::new();
    for name in names.split(',') {
        let machine = Machine::named(name).unwrap_or_else(|e| panic!("{e}"));
        let mut program = lowered_for(input, &machine);
        schedule(&mut program, &machine);
        verify_schedule(&program, machine.synced_lanes()).unwrap_or_else(|e| panic!("{name}: {e}"));
        writeln!(output, "\n// {name}").expect("a string can be written to");
        // Buffers and the candidates that were not taken say nothing about the machine.
        let text = print(&program, &machine);
        let taken = |line: &&str| {
            let line = line.trim_start();
            !line.starts_with("or ") && !line.starts_with('b') && !line.is_empty()
        };
        for line in text.lines().filter(taken) {
            writeln!(output, "{line}").expect("a string can be written to");
        }
    }
    output
}
