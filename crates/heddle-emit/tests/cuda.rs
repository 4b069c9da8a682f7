//! Kernels by hand on the fake CUDA driver: faults of a kernel end its run and the context, and no later run.
//!
//! A program of its own: the driver is looked for once in a process, by the environment.

use std::sync::Arc;

use fake_cuda::in_child;
use heddle_abi::plan::{Array, Plan};
use heddle_emit::CUDA;
use heddle_runtime::cuda::{DeviceError, Gpu};
use heddle_runtime::{
    BuildError, BuildOptions, Grid, Pool, PoolOptions, Program, RunError, RunOptions, Session,
    SessionOptions, Source, Stops,
};

#[allow(dead_code)] // Tests of this crate use a part of it.
#[path = "../../../tests/fake-cuda/mod.rs"]
mod fake_cuda;

const GRID: Grid = Grid {
    blocks: 4,
    threads: 64,
    warp: 32,
    cluster: 1,
    seed: 0,
};

/// A program with a segment whose only output has 256 elements, one for each thread; `body` is what a thread does.
fn build(body: &str) -> Result<Program, BuildError> {
    let mut plan = Plan::new(0);
    plan.segments = 1;
    let bytes = plan.int(8 * 256);
    plan.outputs.push(Array {
        name: "out".into(),
        bytes,
        grows: None,
        shape: vec![],
    });
    let text = format!(
        "{}
HEDDLE_PROGRAM(0, 1, 0, 0, 0);
HEDDLE_MAIN {{
  int64_t *out = (int64_t *)env->outputs[0].data;
  const int64_t own = worker * heddle_lanes + heddle_lane;
  {body}
  if (own == 0) env->outputs[0].rank = 1, env->outputs[0].dims[0] = 256;
  return heddle_poll(env);
}}
",
        CUDA.prelude()
    );
    let source = Source {
        name: "by hand".into(),
        text,
        plan,
        ..Source::default()
    };
    let gpu = Gpu::open(None).unwrap();
    Program::build_for(&source, &gpu, &BuildOptions::default())
}

fn session(body: &str) -> Session {
    let program = Arc::new(build(body).unwrap());
    let pool = Arc::new(Pool::new(&PoolOptions::new(1)).unwrap());
    let options = SessionOptions {
        grid: Some(GRID),
        ..SessionOptions::default()
    };
    Session::new(program, pool, options)
}

fn run(session: &mut Session) -> Result<Vec<u8>, RunError> {
    let outputs = session.run(&[], &[], &RunOptions::default())?;
    Ok(outputs.data(0).to_vec())
}

const RIGHT: &str = "HEDDLE_TRY(heddle_barrier(env, worker, workers)); out[own] = own;";

#[test]
fn faults_of_a_kernel_end_its_run_and_no_later_one() {
    let name = "faults_of_a_kernel_end_its_run_and_no_later_one";
    let Some(log) = in_child(name, "") else {
        let wanted: Vec<u8> = (0..256i64).flat_map(i64::to_le_bytes).collect();
        let mut right = session(RIGHT);
        assert_eq!(run(&mut right).unwrap(), wanted);
        for (body, status) in [
            // Behind the output, memory of nobody, and a barrier that not all lanes come to.
            ("out[own + 256] = 1;", 700),
            ("if (own == 77) *(volatile int64_t *)16 = 1;", 700),
            ("if (heddle_lane < 3) HEDDLE_UNIT_SYNC;", 719),
        ] {
            let mut wrong = session(body);
            for _ in 0..2 {
                let error = run(&mut wrong).unwrap_err();
                let RunError::Device(DeviceError::Lost { failed, what, .. }) = &error else {
                    panic!("{body}: {error}");
                };
                assert_eq!(failed.code, status, "{error}");
                assert!(what.contains("4 blocks of 64 threads"), "{error}");
                // The session's memory and its program were in the context that was lost.
                assert_eq!(run(&mut right).unwrap(), wanted);
            }
        }
        return;
    };
    assert_eq!(log["cuDevicePrimaryCtxReset_v2"], 6, "{log:?}");
}

#[test]
fn a_kernel_that_left_is_told_where() {
    let name = "a_kernel_that_left_is_told_where";
    let Some(log) = in_child(name, "") else {
        let all = |n: i64| -> Vec<u8> { [n; 256].iter().flat_map(|n| n.to_le_bytes()).collect() };
        let resumed = |resumed, anew| Stops { resumed, anew };
        for (leaves, point, stops) in [
            (
                "HEDDLE_TRY(heddle_grow(env, 0, env->segments, 3 << 20));",
                0,
                resumed(0, 1),
            ),
            (
                "if (heddle_lacks(env, env->segments, 3 << 20))
                   return heddle_leave(env, 0, 70000, env->segments, 3 << 20);",
                70000,
                resumed(1, 0),
            ),
        ] {
            let mut session = session(&format!("{leaves} out[own] = env->sync->point;"));
            assert_eq!(run(&mut session).unwrap(), all(point));
            assert_eq!(session.stops(), stops);
            // The memory is there now.
            assert_eq!(run(&mut session).unwrap(), all(0));
            assert_eq!(session.stops(), Stops::default());
        }
        return;
    };
    assert_eq!(log["cuLaunchKernelEx"], 2 * (2 + 1), "{log:?}");
}

#[test]
fn more_blocks_than_fit_are_refused_and_never_wait() {
    let name = "more_blocks_than_fit_are_refused_and_never_wait";
    if in_child(name, "sms=3,blocks=1").is_some() {
        return;
    }
    let mut session = session(RIGHT);
    let error = run(&mut session).unwrap_err();
    let RunError::Device(DeviceError::Resident { blocks, fits, .. }) = error else {
        panic!("{error}");
    };
    assert_eq!((blocks, fits), (4, 3));
}

#[test]
fn a_text_that_does_not_compile_comes_with_the_log() {
    let name = "a_text_that_does_not_compile_comes_with_the_log";
    if in_child(name, "").is_some() {
        return;
    }
    let error = build("sesame;").unwrap_err();
    let BuildError::Compile { stderr, .. } = &error else {
        panic!("{error}");
    };
    assert!(stderr.contains("sesame"), "{error}");
}
