//! Teams: fewer workers while other threads want the cores, all of them again afterwards.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{build, executable, fixed_plan, integer};
use heddle_runtime::{Executable, Pool, PoolOptions, Program, RunOptions, SessionOptions};

/// So many barriers with work between them; the output is the number of workers.
const WORK: &str = r#"
HEDDLE_PROGRAM(0, 1, 0, 1, 0);
HEDDLE_MAIN {
  for (int64_t i = 0; i < env->sizes[0]; i++) {
    volatile int work = 0;
    for (int k = 0; k < 5000 / workers; k++) work++;
    HEDDLE_TRY(heddle_barrier(env, worker, workers));
  }
  if (worker == 0) *(int64_t *)env->outputs[0].data = workers;
  return 0;
}
"#;

fn program() -> Arc<Program> {
    build("work", WORK, fixed_plan(1, &[8], &[], 0))
}

/// The team of a run of many barriers.
fn team(executable: &Executable, options: &RunOptions<'_>) -> i64 {
    let mut run = executable.run(&[], &[300], options).unwrap();
    integer(run.outputs().data(0))
}

/// Threads that want all cores until this is dropped.
struct Competitors(Arc<AtomicBool>);

impl Competitors {
    fn start(count: usize) -> Competitors {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..count {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Competitors(stop)
    }
}

impl Drop for Competitors {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs until a team has the size that is waited for.
fn until(executable: &Executable, what: &str, wanted: impl Fn(i64) -> bool) {
    let start = Instant::now();
    while !wanted(team(executable, &RunOptions::default())) {
        let passed = start.elapsed();
        assert!(passed < Duration::from_secs(120), "{what}");
    }
}

#[test]
fn a_team_shrinks_beside_competitors_and_grows_after_them() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = Arc::new(Pool::new(&PoolOptions::new(cores)).unwrap());
    let executable = Executable::new(program(), pool, SessionOptions::default());
    if cores == 1 || std::fs::metadata("/proc/self/schedstat").is_err() {
        eprintln!("skipped: one core, or a system that does not count lost time");
        return;
    }
    for _ in 0..2 {
        let competitors = Competitors::start(cores);
        until(&executable, "it never shrinks", |team| team < cores as i64);
        drop(competitors);
        until(&executable, "it never grows", |team| team == cores as i64);
    }
}

#[test]
fn a_fixed_team_stays_whole() {
    let executable = executable(&program(), 2);
    let _competitors = Competitors::start(2);
    for _ in 0..20 {
        assert_eq!(team(&executable, &RunOptions::default()), 2);
    }
}

#[test]
fn a_run_may_ask_for_fewer() {
    for threads in [1, 2, 5] {
        let executable = executable(&program(), threads);
        for most in 0..=threads + 1 {
            let options = RunOptions {
                team: most,
                ..RunOptions::default()
            };
            assert_eq!(team(&executable, &options) as usize, most.clamp(1, threads));
        }
    }
}

#[test]
fn a_pool_may_leave_its_workers_to_the_system() {
    let options = PoolOptions {
        pin: false,
        ..PoolOptions::new(2)
    };
    let pool = Arc::new(Pool::new(&options).unwrap());
    assert!(!pool.is_pinned());
    let executable = Executable::new(program(), pool, SessionOptions::default());
    assert!((1..=2).contains(&team(&executable, &RunOptions::default())));
}
