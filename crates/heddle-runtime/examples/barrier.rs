//! Measures the cost of synchronisation on this machine: `cargo run --release -p heddle-runtime --example barrier`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heddle_runtime::{
    BuildOptions, Plan, Pool, PoolOptions, Program, RunOptions, Session, SessionOptions, Source,
};

/// `sizes[0]` times: 0 barriers, 1 waits for the next worker, 2 polls.
const TEXT: &str = r#"
HEDDLE_PROGRAM(0, 0, 0, 2, 0);
HEDDLE_MAIN {
  int64_t n = env->sizes[0];
  if (env->sizes[1] == 0)
    for (int64_t i = 0; i < n; i++) HEDDLE_TRY(heddle_barrier(env, worker, workers));
  if (env->sizes[1] == 1)
    for (int64_t i = 1; i <= n; i++) {
      heddle_signal(env, worker, i);
      HEDDLE_TRY(heddle_wait(env, (worker + 1) % workers, i));
    }
  if (env->sizes[1] == 2)
    for (int64_t i = 0; i < n; i++) HEDDLE_TRY(heddle_iteration(env, 0, i));
  return 0;
}
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let source = Source {
        name: "barrier".to_owned(),
        text: TEXT.to_owned(),
        constants: Vec::new(),
        plan: Plan::new(2),
    };
    let program = Arc::new(Program::build(&source, &BuildOptions::default())?);
    let report = program.report();
    println!(
        "{}; {:?} in {:?}",
        report.compiler, report.cache, report.elapsed
    );
    println!(
        "threads  pinned  barrier ns  signal+wait ns  poll ns  dispatch ns  after 10 ms idle ns"
    );
    for threads in [1, 2, 3, 64] {
        let pool = Arc::new(Pool::new(&PoolOptions::new(threads))?);
        let pinned = pool.is_pinned();
        let mut session = Session::new(program.clone(), pool, SessionOptions::default());
        let few = if threads > 2 { 100 } else { 1 };
        let mut time = |kind: i64, count: i64| -> Result<f64, Box<dyn std::error::Error>> {
            let mut best = Duration::MAX;
            for _ in 0..100 {
                let outputs = session.run(&[], &[count, kind], &RunOptions::default())?;
                best = best.min(outputs.elapsed());
            }
            Ok(best.as_nanos() as f64 / count as f64)
        };
        let (barrier, wait, poll) = (
            time(0, 10_000 / few)?,
            time(1, 10_000 / few)?,
            time(2, 1_000_000)?,
        );
        // Batches so short that some are not disturbed.
        let mut dispatch = f64::MAX;
        for _ in 0..100 {
            let start = Instant::now();
            for _ in 0..100 {
                session.run(&[], &[0, 0], &RunOptions::default())?;
            }
            dispatch = dispatch.min(start.elapsed().as_nanos() as f64 / 100.0);
        }
        let mut cold = Vec::new();
        for _ in 0..21 {
            std::thread::sleep(Duration::from_millis(10));
            let start = Instant::now();
            session.run(&[], &[0, 0], &RunOptions::default())?;
            cold.push(start.elapsed().as_nanos());
        }
        cold.sort_unstable();
        println!(
            "{threads:7}  {pinned:6}  {barrier:10.1}  {wait:14.1}  {poll:7.2}  {dispatch:11.0}  {:20}",
            cold[10]
        );
    }
    Ok(())
}
