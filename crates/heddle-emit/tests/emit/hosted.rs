//! Programs whose control flow the host runs give what the interpreter gives: others are compared
//! with them.
//!
//! `HEDDLE_HOSTED` says how many random programs; `HEDDLE_SEED` runs one alone.

use crate::harness::{Case, PROGRAMS, drawn, random};
use heddle_runtime::BuildOptions;
use heddle_runtime::cache::CacheChoice;

#[test]
fn programs_by_hand() {
    for ((name, text), size) in PROGRAMS.iter().zip([3, 70].into_iter().cycle()) {
        let (module, inputs) = drawn(name, text, size, 1);
        let case = Case::new(name, module, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        check(name, case);
    }
}

#[test]
fn random_programs() {
    let seeds = random::seeds("HEDDLE_HOSTED", 60);
    random::check_all(seeds, random::case, |seed, case| {
        check(&format!("seed {seed}"), case);
    });
}

fn check(name: &str, case: Case) {
    let options = BuildOptions {
        cache: CacheChoice::Off,
        optimize: Some(1),
        ..Default::default()
    };
    case.hosted().check(name, &options, &[2, 5]);
}
