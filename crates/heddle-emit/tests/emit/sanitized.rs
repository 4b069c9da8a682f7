//! The emitted programs under ThreadSanitizer: no race with the synchronisations that were placed,
//! and a race without any one of them.

use crate::harness::{Case, PROGRAMS, drawn, sanitized};
use heddle_runtime::{Sanitizer, Standalone, StandaloneError};

const SYNC: &str = "HEDDLE_TRY(heddle_barrier(env, worker, workers));";

/// Teams of so many workers.
const TEAMS: [(usize, usize); 3] = [(2, 2), (3, 5), (5, 5)];

#[test]
fn no_program_has_a_race() {
    for (name, text) in PROGRAMS {
        let case = case(name, text);
        if !sanitized::check(name, &case, Sanitizer::Thread, &TEAMS, 6) {
            return;
        }
    }
}

#[test]
fn every_synchronisation_is_needed() {
    for (name, text) in PROGRAMS
        .iter()
        .filter(|p| ["loops", "reductions"].contains(&p.0))
    {
        let mut case = case(name, text);
        let whole = case.source.text.clone();
        for (place, _) in whole.match_indices(SYNC) {
            let (before, after) = whole.split_at(place);
            case.source.text = format!("{before}{}", &after[SYNC.len()..]);
            let Some(program) = sanitized::build(&case.source, Sanitizer::Thread) else {
                return;
            };
            assert!(
                races(&program, &case, name),
                "{name} has no race without this:\n{}",
                &whole[..place + SYNC.len()]
            );
        }
    }
}

/// True if a race is found. On few cores a late worker may already have seen the others' next
/// synchronisation, and so be in order by luck, but not every time.
fn races(program: &Standalone, case: &Case, name: &str) -> bool {
    (0..40).any(|_| match sanitized::run(program, case, (3, 3), 20) {
        Err(StandaloneError::Stopped { report, .. }) => {
            assert!(report.contains("data race"), "{name}: {report}");
            true
        }
        Ok(_) => false,
        Err(e) => panic!("{name}: {e}"),
    })
}

fn case(name: &str, text: &str) -> Case {
    let (module, inputs) = drawn(name, text, 70, 1);
    Case::new(name, module, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"))
}
