//! The waits of `heddle.h` under sanitizers: nothing is found in right programs, and faults are
//! found.

use crate::common::{
    ADD, LOOP, RING, add_plan, bytes, integer, loop_plan, ring_plan, source, vector,
};
use heddle_runtime::cache::CacheChoice;
use heddle_runtime::{
    BuildError, BuildOptions, Fault, Plan, RunError, RunOptions, Sanitizer, Standalone,
    StandaloneError,
};

/// `None` where the compiler has no sanitizers.
fn build(text: &str, plan: Plan, sanitizer: Sanitizer) -> Option<Standalone> {
    let mut options = BuildOptions {
        cache: CacheChoice::Off,
        sanitize: Some(sanitizer),
        optimize: Some(1),
        ..BuildOptions::default()
    };
    let source = source("sanitized", text, plan);
    match Standalone::build(&source, &options) {
        Ok(program) => Some(program),
        Err(BuildError::Compile { stderr, .. }) => {
            options.sanitize = None;
            Standalone::build(&source, &options).expect("it compiles without");
            eprintln!("skipped, no {sanitizer:?} sanitizer: {stderr}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn barriers_and_waits_have_no_races() {
    for (text, plan) in [(LOOP, loop_plan()), (RING, ring_plan())] {
        let Some(program) = build(text, plan, Sanitizer::Thread) else {
            return;
        };
        for workers in [1, 2, 5] {
            let outputs = program.run(&[], &[300], workers, 3, &RunOptions::default());
            let outputs = outputs.unwrap_or_else(|e| panic!("{workers} workers: {e}"));
            let w = workers as i64;
            let expected = if text == RING {
                300 * w
            } else {
                45150 * (w * (w + 1) / 2)
            };
            assert_eq!(integer(&outputs[0].data), expected);
            assert_eq!(outputs[0].dims, []);
        }
    }
}

#[test]
fn a_missing_barrier_is_found() {
    for (text, plan, wait) in [
        (
            LOOP,
            loop_plan(),
            "HEDDLE_TRY(heddle_barrier(env, worker, workers));",
        ),
        (
            RING,
            ring_plan(),
            "if (worker > 0) HEDDLE_TRY(heddle_wait(env, worker - 1, i + 1));",
        ),
    ] {
        assert!(text.contains(wait));
        // The first one; and without its checks, which would stop the program before.
        let text = text
            .replacen(wait, "if (0) {}", 1)
            .replace("return heddle_fail", "(void)");
        let Some(program) = build(&text, plan, Sanitizer::Thread) else {
            return;
        };
        match program.run(&[], &[300], 4, 3, &RunOptions::default()) {
            Err(StandaloneError::Stopped { report, .. }) => assert!(report.contains("data race")),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_error_is_raised_without_a_race() {
    let Some(program) = build(LOOP, loop_plan(), Sanitizer::Thread) else {
        return;
    };
    let options = RunOptions {
        max_iterations: 50,
        ..RunOptions::default()
    };
    match program.run(&[], &[100], 4, 1, &options) {
        Err(StandaloneError::Run(RunError::Program { fault, site: 7 })) => {
            assert_eq!(
                fault,
                Fault::Iterations {
                    done: 50,
                    limit: 50
                }
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn accesses_beyond_the_end_are_found() {
    let (a, dims) = (bytes(&[1.0; 100]), [100]);
    let inputs = [vector(&a, &dims), vector(&a, &dims)];
    let Some(program) = build(ADD, add_plan(), Sanitizer::Address) else {
        return;
    };
    let outputs = program
        .run(&inputs, &[100], 3, 2, &RunOptions::default())
        .unwrap();
    assert_eq!(
        (&outputs[0].dims[..], &outputs[0].data),
        (&[100][..], &bytes(&[2.0; 100]))
    );
    let beyond = ADD.replace(
        "i < n * (worker + 1) / workers",
        "i <= n * (worker + 1) / workers",
    );
    let Some(program) = build(&beyond, add_plan(), Sanitizer::Address) else {
        return;
    };
    match program.run(&inputs, &[100], 3, 1, &RunOptions::default()) {
        Err(StandaloneError::Stopped { report, .. }) => {
            assert!(report.contains("heap-buffer-overflow"), "{report}");
        }
        other => panic!("{other:?}"),
    }
}
