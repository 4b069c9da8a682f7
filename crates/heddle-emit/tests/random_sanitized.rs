//! A sample of the random programs under ThreadSanitizer and AddressSanitizer: no race, no access
//! beyond the end of an array, and the interpreter's results. And that the sanitizers would say so.
//!
//! `HEDDLE_SANITIZED` says how many; `HEDDLE_SEED` runs one alone.

mod harness;

use harness::{random, sanitized};
use heddle_runtime::{Sanitizer, StandaloneError};

/// The text of a barrier.
const SYNC: &str = "HEDDLE_TRY(heddle_barrier(env, worker, workers));";

#[test]
fn no_random_program_is_objected_to() {
    random::check_all(random::seeds("HEDDLE_SANITIZED", 96), |seed, case| {
        let name = format!("seed {seed}");
        sanitized::check(&name, &case, Sanitizer::Thread, &[2, 5], 10);
        sanitized::check(&name, &case, Sanitizer::Address, &[2, 5], 2);
    });
}

/// Instead of the first wait for all there is a delay, so that no unit is ahead of the others when
/// it comes to the next one, where they would be brought into order by luck.
#[test]
fn a_missing_synchronisation_is_found() {
    let delay = "{ usleep(2000); }";
    let found = broken(Sanitizer::Thread, |text| {
        text.contains(SYNC).then(|| text.replacen(SYNC, delay, 1))
    });
    assert!(found.is_none_or(|report| report.contains("data race")));
}

#[test]
fn a_store_beyond_the_end_is_found() {
    let place = "env->outputs[0].data;";
    let found = broken(Sanitizer::Address, |text| {
        let beyond = "env->outputs[0].data + 64;";
        text.contains(place)
            .then(|| text.replacen(place, beyond, 1))
    });
    assert!(found.is_none_or(|report| report.contains("heap-buffer-overflow")));
}

/// The sanitizer's report on a random program that was broken; some touch nothing in the broken
/// place. `None` if there is no sanitizer.
fn broken(sanitizer: Sanitizer, change: impl Fn(&str) -> Option<String>) -> Option<String> {
    const TRIED: usize = 12;
    let cases = (0..).filter_map(|seed| {
        let mut case = random::case(seed).ok()?;
        case.source.text = change(&case.source.text)?;
        Some(case)
    });
    for case in cases.take(TRIED) {
        let program = sanitized::build(&case.source, sanitizer)?;
        if let Err(StandaloneError::Stopped { report, .. }) = sanitized::run(&program, &case, 3, 10)
        {
            return Some(report);
        }
    }
    panic!("{TRIED} broken programs passed the {sanitizer:?} sanitizer")
}
