//! Compiled programs give what the interpreter gives, with any number of workers.

use crate::harness::{Case, PROGRAMS, drawn, run_text};
use heddle_runtime::BuildOptions;

#[test]
fn programs_by_hand() {
    for (name, text) in PROGRAMS {
        for (threads, seed) in [(1, 1), (2, 2), (5, 3)] {
            run_text(name, text, threads, seed);
        }
    }
}

#[test]
fn draws_are_the_same_for_any_size_and_number_of_workers() {
    let text = include_str!("../programs/draws.heddle");
    for size in [0, 1, 2, 3, 7, 97] {
        let (module, inputs) = drawn("draws", text, size, 1);
        let case = Case::new("draws", module, &inputs).unwrap_or_else(|e| panic!("{e}"));
        case.check("draws", &BuildOptions::default(), &[1, 2, 3, 5]);
    }
}

#[test]
fn segments_of_all_sizes() {
    let text = include_str!("../programs/segments.heddle");
    for size in [0, 1, 2, 5, 13, 97, 1009] {
        let (module, inputs) = drawn("segments", text, size, 1);
        let case = Case::new("segments", module, &inputs).unwrap_or_else(|e| panic!("{e}"));
        case.check("segments", &BuildOptions::default(), &[1, 2, 3, 5]);
    }
}
