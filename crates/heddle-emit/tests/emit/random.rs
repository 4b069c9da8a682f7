//! Random programs, compiled, give what the interpreter gives, with 1, 2 and 5 workers.
//!
//! `HEDDLE_PROGRAMS` says how many; `HEDDLE_SEED` runs one alone.

use crate::harness::random;
use heddle_runtime::BuildOptions;
use heddle_runtime::cache::CacheChoice;

#[test]
fn random_programs() {
    let seeds = random::seeds("HEDDLE_PROGRAMS", 60);
    random::check_all(seeds, random::case, |seed, case| {
        // One in four is built as programs are by default, the others faster.
        let level = match seed % 8 {
            0..4 => 0,
            4 | 5 => 1,
            _ => 3,
        };
        let options = BuildOptions {
            cache: CacheChoice::Off,
            optimize: Some(level),
            ..Default::default()
        };
        case.check(&format!("seed {seed}"), &options, &[1, 2, 5]);
    });
}
