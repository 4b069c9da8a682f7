//! Right results: any number of workers, any number of callers.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{
    ADD, LOOP, RING, add_plan, build, bytes, executable, fixed, fixed_plan, integer,
};
use crate::common::{loop_plan, ring_plan, source, vector};
use heddle_runtime::{
    Buffer, Executable, Input, Program, RunError, RunOptions, Session, SessionOptions,
};

const THREADS: [usize; 4] = [1, 2, 3, 64];

fn check_add(executable: &Executable, n: usize) {
    let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..n).map(|i| 0.5 * i as f32).collect();
    let (a, b, dims) = (bytes(&a), bytes(&b), [n as i64]);
    let inputs = [vector(&a, &dims), vector(&b, &dims)];
    let mut run = executable
        .run(&inputs, &[n as i64], &RunOptions::default())
        .unwrap();
    let outputs = run.outputs();
    assert_eq!(outputs.dims(0), [n as i64]);
    let expected: Vec<f32> = (0..n).map(|i| 1.5 * i as f32).collect();
    assert_eq!(outputs.data(0)[..4 * n], bytes(&expected));
}

#[test]
fn vectors_are_added_by_any_number_of_workers() {
    let program = build("add", ADD, add_plan());
    for threads in THREADS {
        let executable = executable(&program, threads);
        for n in [0, 1, 5, 1000, 100_000, 7, 1000] {
            check_add(&executable, n);
        }
    }
}

#[test]
fn a_loop_with_barriers_is_right_with_any_number_of_workers() {
    let program = build("loop", LOOP, loop_plan());
    for threads in THREADS {
        let executable = executable(&program, threads);
        // Two barriers each. 64 threads on a few cores take turns, which costs tens of
        // microseconds.
        let trips: i64 = if threads > 8 { 1_000 } else { 10_000 };
        let mut run = executable
            .run(&[], &[trips], &RunOptions::default())
            .unwrap();
        let workers = threads as i64;
        let expected = trips * (trips + 1) / 2 * (workers * (workers + 1) / 2);
        assert_eq!(integer(run.outputs().data(0)), expected);
    }
}

#[test]
fn workers_sleep_and_are_woken() {
    // Worker 0 is late for each barrier, so that the others go to sleep.
    const LATE: &str = r#"
HEDDLE_PROGRAM(0, 0, 0, 1, 0);
HEDDLE_MAIN {
  for (int64_t i = 0; i < env->sizes[0]; i++) {
    if (worker == i % workers) usleep(2000);
    HEDDLE_TRY(heddle_barrier(env, worker, workers));
    if (worker == i % workers) { usleep(2000); heddle_signal(env, worker, i + 1); }
    else HEDDLE_TRY(heddle_wait(env, i % workers, i + 1));
  }
  return 0;
}
"#;
    let program = build("late", LATE, fixed_plan(1, &[], &[], 0));
    for threads in [2, 5] {
        let executable = executable(&program, threads);
        for _ in 0..3 {
            executable.run(&[], &[20], &RunOptions::default()).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn workers_wait_for_named_workers() {
    let program = build("ring", RING, ring_plan());
    for threads in THREADS {
        let executable = executable(&program, threads);
        let rounds = 20_000 / threads as i64;
        for _ in 0..2 {
            let mut run = executable
                .run(&[], &[rounds], &RunOptions::default())
                .unwrap();
            assert_eq!(integer(run.outputs().data(0)), rounds * threads as i64);
        }
    }
}

#[test]
fn several_programs_run_from_several_threads() {
    let (add, count) = (
        build("add", ADD, add_plan()),
        build("loop", LOOP, loop_plan()),
    );
    let shared = fixed(2);
    let on_shared =
        |p: &Arc<Program>| Executable::new(p.clone(), shared.clone(), SessionOptions::default());
    for (add, count) in [
        (on_shared(&add), on_shared(&count)),
        (executable(&add, 2), executable(&count, 3)),
    ] {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..100).for_each(|i| check_add(&add, 100 * i)));
                scope.spawn(|| {
                    for _ in 0..50 {
                        let mut run = count.run(&[], &[100], &RunOptions::default()).unwrap();
                        let workers = count.pool().threads() as i64;
                        let expected = 5050 * (workers * (workers + 1) / 2);
                        assert_eq!(integer(run.outputs().data(0)), expected);
                    }
                });
            }
        });
    }
}

#[test]
fn constants_are_aligned_and_inputs_may_lie_anywhere() {
    const SCALE: &str = r#"
HEDDLE_PROGRAM(1, 1, 2, 0, 0);
HEDDLE_MAIN {
  for (int i = 0; i < 2; i++)
    if ((uintptr_t)env->constants[i] % 64) return heddle_fail(env, 310, 0, i, 0);
  if ((uintptr_t)env->inputs[0].data % 8) return heddle_fail(env, 311, 0, 0, 0);
  if (worker) return 0;
  const float *scale = env->constants[1];
  *(float *)env->outputs[0].data = *(float *)env->inputs[0].data * scale[2];
  return 0;
}
"#;
    let mut held = Buffer::zeroed(12).unwrap();
    held.copy_from_slice(&bytes(&[1.0, 2.0, 3.0]));
    let mut source = source("scale", SCALE, fixed_plan(0, &[4], &[4], 0));
    source.constants = vec![vec![0; 5].into(), held.into()];
    let options = heddle_runtime::BuildOptions {
        cache: heddle_runtime::cache::CacheChoice::Off,
        ..Default::default()
    };
    let program = Arc::new(Program::build(&source, &options).unwrap());
    let executable = executable(&program, 2);
    let mut unaligned = [0; 16];
    for shift in 0..8 {
        unaligned[shift..shift + 4].copy_from_slice(&5.0f32.to_ne_bytes());
        let input = Input {
            data: &unaligned[shift..shift + 4],
            dims: &[],
        };
        let mut run = executable
            .run(&[input], &[], &RunOptions::default())
            .unwrap();
        assert_eq!(run.outputs().data(0)[..4], 15.0f32.to_ne_bytes());
    }
}

#[test]
fn outputs_are_taken_without_a_copy() {
    let pool = fixed(2);
    let mut session = Session::new(
        build("loop", LOOP, loop_plan()),
        pool,
        SessionOptions::default(),
    );
    let mut addresses = Vec::new();
    for trips in 0..4 {
        let mut outputs = session.run(&[], &[trips], &RunOptions::default()).unwrap();
        let taken = outputs.take(0);
        assert_eq!(integer(&taken), trips * (trips + 1) / 2 * 3);
        addresses.push(taken.as_ptr());
        session.recycle(0, taken);
    }
    assert!(addresses.windows(2).all(|w| w[0] == w[1]), "{addresses:?}");
}

#[test]
fn the_host_may_dispatch_parts() {
    const PARTS: &str = r#"
HEDDLE_PROGRAM(0, 1, 0, 0, 0);
HEDDLE_MAIN { return 0; }
HEDDLE_ENTRY(begin) {
  if (worker == 0) *(int64_t *)env->scratch = 0;
  return heddle_barrier(env, worker, workers);
}
HEDDLE_ENTRY(step) {
  HEDDLE_TRY(heddle_barrier(env, worker, workers));
  if (worker == workers - 1) *(int64_t *)env->scratch += 1;
  return 0;
}
HEDDLE_ENTRY(end) {
  if (worker == 0) {
    env->outputs[0].rank = 0;
    *(int64_t *)env->outputs[0].data = *(int64_t *)env->scratch;
  }
  return 0;
}
"#;
    let plan = || fixed_plan(0, &[8], &[], 8);
    let program = build("parts", PARTS, plan());
    assert!(program.entry("nothing").is_none() && program.entry("main").is_none());
    let [begin, step, end] = ["begin", "step", "end"].map(|name| program.entry(name).unwrap());
    let foreign = build("parts", PARTS, plan()).entry("step").unwrap();
    let pool = fixed(2);
    let mut session = Session::new(program, pool, SessionOptions::default());
    let options = RunOptions::default();
    let mut staged = session.stage(&[], &[], &options).unwrap();
    assert!(matches!(
        staged.dispatch(foreign),
        Err(RunError::ForeignEntry)
    ));
    staged.dispatch(begin).unwrap();
    while integer(staged.scratch()) < 10_000 {
        staged.dispatch(step).unwrap();
    }
    staged.dispatch(end).unwrap();
    let outputs = staged.finish().unwrap();
    assert_eq!(integer(outputs.data(0)), 10_000);
}

#[test]
fn outputs_may_lie_in_the_callers_memory() {
    let pool = fixed(2);
    let options = RunOptions::default();
    let mut session = Session::new(
        build("add", ADD, add_plan()),
        pool,
        SessionOptions::default(),
    );
    let a = bytes(&[1.0, 2.0, 3.0]);
    let mut words = [0u64; 4];
    let memory = words.as_mut_ptr().cast::<u8>();
    // SAFETY: the words are 32 bytes.
    let memory = unsafe { std::slice::from_raw_parts_mut(memory, 32) };
    let mut run = |n: usize, memory: &mut [u8]| {
        let dims = [n as i64];
        let inputs = [vector(&a[..4 * n], &dims), vector(&a[..4 * n], &dims)];
        let inputs = inputs.into_iter();
        let outputs = std::iter::once(memory);
        let run = session.run_into(inputs, outputs, &dims, &options);
        run.map(|outputs| (outputs.dims(0).to_vec(), outputs.data(0).len()))
    };
    for n in [3, 1, 2] {
        memory.fill(0);
        assert_eq!(run(n, memory).unwrap(), (vec![n as i64], 0));
        assert_eq!(memory[..4 * n], bytes(&[2.0, 4.0, 6.0])[..4 * n]);
        assert!(memory[4 * n..].iter().all(|b| *b == 0));
    }
    for (from, to) in [(0, 8), (1, 32)] {
        let error = run(3, &mut memory[from..to]).unwrap_err();
        assert!(matches!(
            error,
            RunError::OutputData {
                output: 0,
                needed: 12,
                ..
            }
        ));
    }
    let mut none = [];
    assert_eq!(run(0, &mut none).unwrap(), (vec![0], 0));
    let inputs = [vector(&a, &[3]), vector(&a, &[3])];
    let two = [&mut [][..], &mut [][..]].into_iter();
    let error = session.run_into(inputs.into_iter(), two, &[3], &options);
    assert!(matches!(
        error,
        Err(RunError::Count {
            what: "outputs",
            ..
        })
    ));
}
