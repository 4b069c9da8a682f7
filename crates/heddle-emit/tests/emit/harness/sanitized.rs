//! Programs in a process of their own, which a sanitizer watches.

use heddle_runtime::cache::CacheChoice;
use heddle_runtime::{
    BuildError, BuildOptions, OwnedOutput, Program, RunOptions, Sanitizer, Source, Standalone,
    StandaloneError,
};

use super::Case;

/// The program as a process under a sanitizer; `None` where the compiler has none.
pub fn build(source: &Source, sanitizer: Sanitizer) -> Option<Standalone> {
    let plain = BuildOptions {
        cache: CacheChoice::Off,
        optimize: Some(1),
        ..Default::default()
    };
    let options = BuildOptions {
        sanitize: Some(sanitizer),
        ..plain.clone()
    };
    match Standalone::build(source, &options) {
        Ok(program) => Some(program),
        Err(BuildError::Compile { stderr, .. }) => {
            if let Err(e) = Program::build(source, &plain) {
                panic!(
                    "it is no C without a sanitizer, either: {e}\n{}",
                    source.text
                );
            }
            eprintln!("skipped, no sanitizer: {stderr}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// The program's outputs after this many runs in one process, with a team of the workers.
pub fn run(
    program: &Standalone,
    case: &Case,
    (team, workers): (usize, usize),
    runs: usize,
) -> Result<Vec<OwnedOutput>, StandaloneError> {
    // Frames for deeper recursion would only have to be cleared.
    let limits = RunOptions {
        max_depth: 100,
        team,
        resize: true,
        ..Default::default()
    };
    program.run(&case.inputs(), &case.sizes, workers, runs, &limits)
}

/// The program passes under the sanitizer and gives what the interpreter gives. `false` if there is
/// no sanitizer.
pub fn check(
    name: &str,
    case: &Case,
    sanitizer: Sanitizer,
    teams: &[(usize, usize)],
    runs: usize,
) -> bool {
    let Some(program) = build(&case.source, sanitizer) else {
        return false;
    };
    for &(team, workers) in teams {
        let what = format!("{name}, {sanitizer:?} sanitizer, {team} of {workers} threads");
        let outputs = run(&program, case, (team, workers), runs);
        let outputs = outputs.unwrap_or_else(|e| panic!("{what}: {e}\n{}", case.source.text));
        for (i, output) in outputs.iter().enumerate() {
            let what = format!("{what}, output {i}\n{}", case.source.text);
            case.compare(i, &output.dims, &output.data, &what);
        }
    }
    true
}
