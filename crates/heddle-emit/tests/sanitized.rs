//! The emitted programs under ThreadSanitizer: no race with the synchronisations that were placed, and a race without any one
//! of them.

mod harness;

use harness::{Case, PROGRAMS, drawn};
use heddle_runtime::cache::CacheChoice;
use heddle_runtime::{
    BuildError, BuildOptions, RunOptions, Sanitizer, Standalone, StandaloneError,
};

const SYNC: &str = "HEDDLE_TRY(heddle_barrier(env, worker, workers));";

#[test]
fn no_program_has_a_race() {
    for (name, text) in PROGRAMS {
        let case = case(name, text);
        let Some(program) = build(&case) else { return };
        for workers in [2, 5] {
            let outputs = run(&program, &case, workers);
            let outputs = outputs.unwrap_or_else(|e| panic!("{name}: {e}\n{}", case.source.text));
            for (i, output) in outputs.iter().enumerate() {
                case.compare(
                    i,
                    &output.dims,
                    &output.data,
                    &format!("{name}, output {i}"),
                );
            }
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
            let Some(program) = build(&case) else { return };
            assert!(
                races(&program, &case, name),
                "{name} has no race without this:\n{}",
                &whole[..place + SYNC.len()]
            );
        }
    }
}

/// Whether a race is found. On few cores a worker that comes late has seen the next synchronisation of the others already, and
/// is in order by luck; not every time, though.
fn races(program: &Standalone, case: &Case, name: &str) -> bool {
    (0..40).any(|_| match run(program, case, 3) {
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

fn run(
    program: &Standalone,
    case: &Case,
    workers: usize,
) -> Result<Vec<heddle_runtime::OwnedOutput>, StandaloneError> {
    program.run(
        &case.inputs(),
        &case.sizes,
        workers,
        20,
        &RunOptions::default(),
    )
}

/// `None` where the compiler has no sanitizers.
fn build(case: &Case) -> Option<Standalone> {
    let options = BuildOptions {
        cache: CacheChoice::Off,
        sanitize: Some(Sanitizer::Thread),
        optimize: 1,
        ..Default::default()
    };
    match Standalone::build(&case.source, &options) {
        Ok(program) => Some(program),
        Err(BuildError::Compile { stderr, .. }) => {
            eprintln!("skipped, no sanitizer: {stderr}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}
