//! A child of a process has none of its threads: programs that the parent compiled run there nevertheless.
//!
//! A program of its own: a lock that another test's thread holds while the process forks stays locked in the child.

use std::time::{Duration, Instant};

use heddle::{CompileOptions, Inputs, Model, Program, RunOptions, Tensor, compile};

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// With other sizes, how large products are shared, and a loop that only a limit ends.
const TEXT: &str = "\
fn @main(%x: f32[64,64], %k: i64[]) -> (%y: f32[64,64]) {
  %y = loop trip %k carry (%h: f32[64,64] = %x) {
    continue carry tanh(dot(%h, %x))
  }
  return %y
}
";

fn inputs(k: i64) -> Inputs {
    let x: Vec<f32> = (0..64 * 64).map(|i| (i % 7) as f32 / 7.0 - 0.5).collect();
    let x = Tensor::from_slice(vec![64, 64], &x);
    Inputs::from_iter([
        ("x".to_string(), x.into()),
        ("k".to_string(), Tensor::scalar(k).into()),
    ])
}

/// Right results, and a timeout that ends a run.
fn works(program: &Program, want: &heddle::Outputs) -> bool {
    let plain = RunOptions::default();
    let limited = RunOptions {
        timeout: Some(Duration::from_millis(50)),
        max_iterations: Some(u64::MAX),
        ..plain.clone()
    };
    let runs = (0..3).all(|_| {
        program
            .run(inputs(5), &plain)
            .is_ok_and(|r| r.outputs == *want)
    });
    let error = program.run(inputs(1 << 40), &limited).err();
    runs && error.and_then(|e| e.limit()) == Some(heddle::Limit::Timeout)
}

/// Does the work return true in a child?
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child does the work and ends, without running anything that the test harness left.
    let child = unsafe { fork() };
    assert!(child >= 0, "the system does not fork");
    if child == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: it ends this process.
        unsafe { _exit(i32::from(!matches!(done, Ok(true)))) };
    }
    let start = Instant::now();
    let mut status = -1;
    // SAFETY: a child of this process; 1: without waiting.
    while unsafe { waitpid(child, &mut status, 1) } == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "the child hangs");
        std::thread::sleep(Duration::from_millis(5));
    }
    status == 0
}

/// One test, so that no other thread of this program holds a lock while it forks.
#[test]
fn programs_run_in_children() {
    for threads in [1, 2, 3] {
        let options = CompileOptions {
            threads: Some(threads),
            ..Default::default()
        };
        let program = compile(&Model::parse("m", TEXT).unwrap(), &options).unwrap();
        let want = program
            .run(inputs(5), &RunOptions::default())
            .unwrap()
            .outputs;
        assert!(works(&program, &want));
        // A child of a child, too; and one that drops the program.
        assert!(in_child(
            || works(&program, &want) && in_child(|| works(&program, &want))
        ));
        let copy = program.clone();
        assert!(in_child(|| {
            let is_right = works(&copy, &want);
            drop(copy);
            is_right
        }));
        // While another thread of the parent runs it.
        let busy = RunOptions {
            timeout: Some(Duration::from_millis(400)),
            max_iterations: Some(u64::MAX),
            ..Default::default()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| program.run(inputs(1 << 40), &busy).unwrap_err());
            std::thread::sleep(Duration::from_millis(50));
            assert!(in_child(|| works(&program, &want)));
        });
        assert!(works(&program, &want));
    }
}
