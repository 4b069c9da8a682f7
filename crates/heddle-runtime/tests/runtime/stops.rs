//! Runs that do not end well: each ends soon, with the right error, and the next run works.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{
    ADD, LOOP, add_plan, build, executable, fixed_plan, integer, loop_plan, vector,
};
use heddle_runtime::plan::IntOp;
use heddle_runtime::{
    CancelToken, Executable, Fault, Plan, Pool, PoolOptions, RunError, RunOptions, SessionOptions,
    abi,
};

/// Limit on the time of a stop, on a busy machine: far above the usual time.
const SOON: Duration = Duration::from_secs(20);

/// `sizes[0]`: 0 a loop without barriers, 1 with barriers, 2 waits that nobody answers, 3 ends at
/// once.
const ENDLESS: &str = r#"
HEDDLE_PROGRAM(0, 0, 0, 1, 0);
HEDDLE_MAIN {
  for (int64_t i = 0; env->sizes[0] != 3; i++) {
    if (env->sizes[0] == 0) HEDDLE_TRY(heddle_iteration(env, 4, i));
    if (env->sizes[0] == 1) HEDDLE_TRY(heddle_barrier(env, worker, workers));
    if (env->sizes[0] == 2) HEDDLE_TRY(heddle_wait(env, (worker + 1) % workers, i + 1));
  }
  return 0;
}
"#;

fn works_again(executable: &Executable) {
    executable.run(&[], &[3], &RunOptions::default()).unwrap();
}

#[test]
fn endless_loops_time_out() {
    let program = build("endless", ENDLESS, fixed_plan(1, &[], &[], 0));
    for threads in [1, 2, 5] {
        let executable = executable(&program, threads);
        for kind in 0..3 {
            let start = Instant::now();
            let timeout = Duration::from_millis(30);
            let options = RunOptions {
                timeout: Some(timeout),
                ..RunOptions::default()
            };
            let error = executable.run(&[], &[kind], &options).unwrap_err();
            assert!(
                matches!(error, RunError::Timeout(t) if t == timeout),
                "{error}"
            );
            assert!(start.elapsed() >= timeout && start.elapsed() < SOON);
            works_again(&executable);
        }
    }
}

#[test]
fn a_timeout_that_is_not_reached_changes_nothing() {
    let executable = executable(&build("endless", ENDLESS, fixed_plan(1, &[], &[], 0)), 2);
    for millis in [5, 1000, 1] {
        let timeout = Some(Duration::from_millis(millis));
        let options = RunOptions {
            timeout,
            ..RunOptions::default()
        };
        for _ in 0..50 {
            match executable.run(&[], &[3], &options) {
                Ok(_) => {}
                // The machine may be that busy.
                Err(RunError::Timeout(_)) if millis < 1000 => {}
                Err(e) => panic!("{e}"),
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    works_again(&executable);
}

#[test]
fn runs_are_cancelled_from_another_thread() {
    let program = build("endless", ENDLESS, fixed_plan(1, &[], &[], 0));
    for threads in [1, 2, 5] {
        let executable = executable(&program, threads);
        for kind in 0..3 {
            let token = CancelToken::new();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    token.cancel();
                });
                let options = RunOptions {
                    cancel: Some(&token),
                    ..RunOptions::default()
                };
                let error = executable.run(&[], &[kind], &options).unwrap_err();
                assert!(matches!(error, RunError::Cancelled), "{error}");
                assert!(matches!(
                    executable.run(&[], &[3], &options),
                    Err(RunError::Cancelled)
                ));
                token.reset();
                executable.run(&[], &[3], &options).unwrap();
            });
            works_again(&executable);
        }
    }
}

#[test]
fn who_waits_for_a_busy_pool_gives_up() {
    let pool = Arc::new(Pool::new(&PoolOptions::new(2)).unwrap());
    let executable = Executable::new(
        build("endless", ENDLESS, fixed_plan(1, &[], &[], 0)),
        pool,
        SessionOptions::default(),
    );
    let (endless, waiter) = (CancelToken::new(), CancelToken::new());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let options = RunOptions {
                cancel: Some(&endless),
                ..RunOptions::default()
            };
            executable.run(&[], &[1], &options).map(|_| ())
        });
        std::thread::sleep(Duration::from_millis(50));
        let timeout = Some(Duration::from_millis(20));
        let options = RunOptions {
            timeout,
            ..RunOptions::default()
        };
        assert!(matches!(
            executable.run(&[], &[3], &options),
            Err(RunError::Timeout(_))
        ));
        let second = scope.spawn(|| {
            let options = RunOptions {
                cancel: Some(&waiter),
                ..RunOptions::default()
            };
            executable.run(&[], &[3], &options).map(|_| ())
        });
        std::thread::sleep(Duration::from_millis(20));
        waiter.cancel();
        assert!(matches!(second.join().unwrap(), Err(RunError::Cancelled)));
        let third = scope.spawn(|| {
            executable
                .run(&[], &[3], &RunOptions::default())
                .map(|_| ())
        });
        endless.cancel();
        assert!(matches!(first.join().unwrap(), Err(RunError::Cancelled)));
        third.join().unwrap().unwrap();
    });
}

/// In iteration 100 worker `sizes[0]` raises the error 3 + `sizes[1]`, all others go on for ever.
const FAIL: &str = r#"
HEDDLE_PROGRAM(0, 0, 0, 2, 0);
HEDDLE_MAIN {
  for (int64_t i = 0;; i++) {
    if (i == 100 && (worker == env->sizes[0] || env->sizes[0] < 0))
      return heddle_fail(env, HEDDLE_INDEX + env->sizes[1], 42, 11, -12);
    HEDDLE_TRY(heddle_barrier(env, worker, workers));
  }
}
"#;

#[test]
fn an_error_of_one_worker_stops_all() {
    let program = build("fail", FAIL, fixed_plan(2, &[], &[], 0));
    let faults = [
        Fault::Index {
            index: 11,
            size: -12,
        },
        Fault::Shape {
            left: 11,
            right: -12,
        },
        Fault::Depth {
            depth: 11,
            limit: -12,
        },
        Fault::Iterations {
            done: 11,
            limit: -12,
        },
        Fault::Bound {
            size: 11,
            bound: -12,
        },
        Fault::Memory {
            needed: 11,
            limit: -12,
        },
        Fault::Custom {
            code: 300,
            values: [11, -12],
        },
    ];
    for threads in [1, 2, 5] {
        let executable = executable(&program, threads);
        for (number, expected) in faults.into_iter().enumerate() {
            for worker in -1..threads as i64 {
                let code = match expected {
                    Fault::Custom { code, .. } => i64::from(code - abi::code::INDEX),
                    _ => number as i64,
                };
                let sizes = [worker, code];
                match executable
                    .run(&[], &sizes, &RunOptions::default())
                    .map(|_| ())
                {
                    Err(RunError::Program { fault, site: 42 }) => assert_eq!(fault, expected),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_loop_stops_at_its_limit() {
    let executable = executable(&build("loop", LOOP, loop_plan()), 2);
    let options = RunOptions {
        max_iterations: 10,
        ..RunOptions::default()
    };
    assert_eq!(
        integer(
            executable
                .run(&[], &[10], &options)
                .unwrap()
                .outputs()
                .data(0)
        ),
        165
    );
    let fault = Fault::Iterations {
        done: 10,
        limit: 10,
    };
    match executable.run(&[], &[11], &options).map(|_| ()) {
        Err(RunError::Program { fault: f, site: 7 }) => assert_eq!(f, fault),
        other => panic!("{other:?}"),
    }
}

/// One frame of 64 bytes for each level, planned by the depth limit that the runtime adds to the
/// sizes.
const DEEP: &str = r#"
HEDDLE_PROGRAM(0, 0, 0, 1, 0);
HEDDLE_MAIN {
  for (int64_t depth = 1; depth <= env->sizes[0]; depth++) {
    HEDDLE_TRY(heddle_depth(env, 9, depth));
    if (worker == 0) *(int64_t *)(env->scratch + (depth - 1) * 64) = depth;
  }
  return 0;
}
"#;

fn deep_plan() -> Plan {
    let mut plan = fixed_plan(1, &[], &[], 0);
    let (depth, frame) = (plan.depth_limit(), plan.int(64));
    let frames = plan.integer(IntOp::Mul, depth, frame);
    plan.reserve_scratch(frames, "frames");
    plan
}

#[test]
fn recursion_stops_at_its_limit_and_has_memory_up_to_it() {
    let executable = executable(&build("deep", DEEP, deep_plan()), 2);
    for limit in [10, 100_000, 5] {
        let options = RunOptions {
            max_depth: limit,
            ..RunOptions::default()
        };
        executable.run(&[], &[limit], &options).unwrap();
        let fault = Fault::Depth {
            depth: limit + 1,
            limit,
        };
        match executable.run(&[], &[limit + 7], &options).map(|_| ()) {
            Err(RunError::Program { fault: f, site: 9 }) => assert_eq!(f, fault),
            other => panic!("{other:?}"),
        }
    }
}

/// Frames that the memory limit has no room for are left out, and the error tells the two limits
/// apart.
#[test]
fn frames_end_where_memory_ends() {
    let program = build("deep", DEEP, deep_plan());
    let pool = Arc::new(Pool::new(&PoolOptions::new(2)).unwrap());
    let options = SessionOptions {
        max_memory: 64 * 1000,
        ..SessionOptions::default()
    };
    let executable = Executable::new(program, pool, options);
    for max_depth in [1001, 100_000, i64::MAX, 1000] {
        let options = RunOptions {
            max_depth,
            ..RunOptions::default()
        };
        executable.run(&[], &[1000], &options).unwrap();
        let (depth, limit) = (1001, max_depth);
        let expected = match max_depth {
            1000 => Fault::Depth { depth, limit },
            _ => Fault::Frames { depth, limit },
        };
        match executable.run(&[], &[2000], &options).map(|_| ()) {
            Err(RunError::Program { fault, site: 9 }) => assert_eq!(fault, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let executable = executable(&build("add", ADD, add_plan()), 2);
    let data = [0; 40];
    let run = |inputs: &[_], sizes: &[i64]| {
        let error = executable
            .run(inputs, sizes, &RunOptions::default())
            .map(|_| ());
        error.unwrap_err()
    };
    let good = vector(&data, &[10]);
    let count = |e| matches!(e, RunError::Count { .. });
    assert!(count(run(&[good], &[10])));
    assert!(count(run(&[good, good], &[])));
    let short = run(&[good, good], &[11]);
    assert!(
        matches!(
            short,
            RunError::InputData {
                input: 0,
                needed: 44,
                given: 40
            }
        ),
        "{short}"
    );
    let deep = heddle_runtime::Input {
        data: &data,
        dims: &[1; heddle_runtime::abi::MAX_RANK + 1],
    };
    assert!(matches!(
        run(&[good, deep], &[10]),
        RunError::InputDims { input: 1, .. }
    ));
    let negative = vector(&data, &[-10]);
    assert!(matches!(
        run(&[negative, good], &[10]),
        RunError::InputDims { input: 0, .. }
    ));
    assert!(matches!(
        run(&[good, good], &[i64::MAX / 2]),
        RunError::Plan { .. }
    ));
    let vast = run(&[good, good], &[1 << 50]);
    assert!(
        matches!(vast, RunError::MemoryLimit { needed, .. } if needed == 1 << 52),
        "{vast}"
    );
    executable
        .run(&[good, good], &[10], &RunOptions::default())
        .unwrap();
}

#[test]
fn memory_is_bounded_and_given_back() {
    let pool = Pool::shared(2).unwrap();
    let options = SessionOptions {
        max_memory: 1 << 20,
        ..SessionOptions::default()
    };
    let mut session = heddle_runtime::Session::new(build("add", ADD, add_plan()), pool, options);
    let data = vec![0; 4 << 20];
    let mut run = |n: i64| {
        let dims = [n];
        let inputs = [vector(&data, &dims), vector(&data, &dims)];
        let result = session
            .run(&inputs, &[n], &RunOptions::default())
            .map(|_| ());
        (result, session.held_bytes())
    };
    assert!(matches!(run(10), (Ok(()), 40)));
    assert!(matches!(run(1 << 18), (Ok(()), held) if held == 1 << 20));
    assert!(matches!(
        run((1 << 18) + 1),
        (Err(RunError::MemoryLimit { .. }), _)
    ));
    assert!(matches!(run(10), (Ok(()), _)));
    session.release();
    assert_eq!(session.held_bytes(), 0);
}

#[test]
fn outputs_with_impossible_dims_are_refused() {
    const WRONG: &str = r#"
HEDDLE_PROGRAM(0, 1, 0, 1, 0);
HEDDLE_MAIN {
  env->outputs[0].rank = env->sizes[0];
  for (int i = 0; i < 8; i++) env->outputs[0].dims[i] = -1;
  return 0;
}
"#;
    let executable = executable(&build("wrong", WRONG, fixed_plan(1, &[8], &[], 0)), 1);
    for rank in [-1, 2, 9] {
        let error = executable
            .run(&[], &[rank], &RunOptions::default())
            .map(|_| ());
        assert!(matches!(error, Err(RunError::OutputDims { output: 0, .. })));
    }
    executable.run(&[], &[0], &RunOptions::default()).unwrap();
}
