//! Teams: fewer workers while other threads want the cores, all of them again afterwards.
//!
//! A program of its own: teams follow what other threads take of the cores, which only these tests may do meanwhile.

#[allow(dead_code)] // This program uses a part of it.
#[path = "runtime/common/mod.rs"]
mod common;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use common::{build, executable, fixed_plan, integer};
use heddle_runtime::{
    Executable, Pool, PoolOptions, Program, RunOptions, Session, SessionOptions, default_threads,
};

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

/// Held by tests that need the cores for themselves.
static CORES: Mutex<()> = Mutex::new(());

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
    let _alone = CORES.lock().unwrap_or_else(PoisonError::into_inner);
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
    let _alone = CORES.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Names the part that a process of the tests plays.
const PART: &str = "HEDDLE_TEST_TEAMS";

/// A process that plays a part, started by these commands.
fn child(part: &str, within: &[&str]) -> Command {
    let test = std::env::current_exe().unwrap();
    let mut words = within.iter().map(OsStr::new).chain([test.as_os_str()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    command.args(["--exact", "part", "--nocapture"]);
    command.env(PART, part);
    command
}

#[test]
fn part() {
    let run = |pool: Pool| {
        let executable = Executable::new(program(), Arc::new(pool), SessionOptions::default());
        let options = RunOptions::default();
        (0..200).map(|_| team(&executable, &options)).collect()
    };
    let teams: Vec<i64> = match std::env::var(PART).as_deref() {
        Ok("quota") => {
            assert_eq!(default_threads(), 1);
            run(Pool::new(&PoolOptions::new(2)).unwrap())
        }
        Ok("replica") => run(Pool::new(&PoolOptions::default()).unwrap()),
        _ => return,
    };
    println!("{teams:?}");
}

#[test]
fn a_quota_bounds_threads_and_teams() {
    let root = Path::new("/sys/fs/cgroup");
    let v2 = root.join("cgroup.controllers").exists();
    let group = if v2 { root.into() } else { root.join("cpu") };
    let group = group.join(format!("heddle-test-{}", std::process::id()));
    let limit: &[(&str, &str)] = match v2 {
        true => &[("cpu.max", "150000 100000")],
        false => &[
            ("cpu.cfs_period_us", "100000"),
            ("cpu.cfs_quota_us", "150000"),
        ],
    };
    let made = std::fs::create_dir(&group).and_then(|()| {
        let mut limit = limit.iter();
        limit.try_for_each(|(file, text)| std::fs::write(group.join(file), text))
    });
    if let Err(e) = made {
        eprintln!("skipped, no control group: {e}");
        let _ = std::fs::remove_dir(&group);
        return;
    }
    let enter = format!(
        "echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"",
        group.display()
    );
    let output = child("quota", &["sh", "-c", &enter]).output().unwrap();
    std::fs::remove_dir(&group).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // The first run is not known to be long enough for a look at the quota.
    assert!(said.contains(", 1, 1, 1]"), "{said}");
}

#[test]
fn replicas_run_side_by_side() {
    let _alone = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let replicas: Vec<_> = (0..3)
        .map(|_| {
            child("replica", &[])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for replica in replicas {
        let output = replica.wait_with_output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains(']'));
    }
}

/// Goes on until the team has shrunk and is whole again, which the output says: 1, then 2.
const LONG: &str = r#"
HEDDLE_PROGRAM(0, 1, 0, 1, 0);
struct state { uint64_t passed; int64_t i; };
HEDDLE_MAIN {
  const int32_t slot = heddle_slot(env, worker);
  volatile int64_t *phase = env->outputs[0].data, *sums = (int64_t *)env->scratch;
  uint64_t passed = 0;
  int64_t i = 0;
  if (worker < 0) {
    HEDDLE_TRY(heddle_join(env, slot));
    const struct state *state = heddle_state_of(env);
    passed = state->passed;
    i = state->i;
    if (heddle_point_of(env) != 7) return heddle_fail(env, 300, 0, 0, 0);
    HEDDLE_TRY(heddle_poll(env));
    goto join;
  }
  if (worker == 0) *phase = 0;
  HEDDLE_TRY(heddle_barrier(env, worker, workers));
join:
  for (; *phase < 2; i++) {
    HEDDLE_TRY(heddle_iteration(env, 0, i));
    if (worker < 0 || heddle_changes(env, worker, &passed)) {
      const struct state state = {passed, i};
      HEDDLE_TRY(heddle_gather(env, slot, &worker, &workers, passed, 7, &state));
    }
    volatile int work = 0;
    for (int k = 0; k < 5000 / workers; k++) work++;
    sums[8 * worker] = i;
    HEDDLE_TRY(heddle_barrier(env, worker, workers));
    for (int32_t w = 0; w < workers; w++)
      if (sums[8 * w] != i) return heddle_fail(env, 301, 0, sums[8 * w], i);
    HEDDLE_TRY(heddle_barrier(env, worker, workers));
    if (worker == 0 && *phase == (workers == env->sizes[0])) *phase += 1;
    HEDDLE_TRY(heddle_barrier(env, worker, workers));
  }
  return 0;
}
"#;

#[test]
fn a_team_shrinks_and_grows_in_the_middle_of_a_run() {
    let _alone = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores == 1 || std::fs::metadata("/proc/self/schedstat").is_err() {
        eprintln!("skipped: one core, or a system that does not count lost time");
        return;
    }
    let plan = fixed_plan(1, &[8], &[], 64 * cores as i64);
    let pool = Arc::new(Pool::new(&PoolOptions::new(cores)).unwrap());
    let mut session = Session::new(build("long", LONG, plan), pool, SessionOptions::default());
    let mut phase = AtomicI64::new(0);
    let address = phase.as_ptr() as usize;
    for _ in 0..3 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let competitors = Competitors::start(cores);
                // SAFETY: the session is told of the same memory below.
                let phase = unsafe { AtomicI64::from_ptr(address as *mut i64) };
                while phase.load(Ordering::Relaxed) == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                drop(competitors);
            });
            // SAFETY: as above.
            let memory = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, 8) };
            let options = RunOptions {
                timeout: Some(Duration::from_secs(120)),
                ..RunOptions::default()
            };
            let outputs = std::iter::once(memory);
            let sizes = [cores as i64];
            session
                .run_into(std::iter::empty(), outputs, &sizes, &options)
                .unwrap();
        });
        assert_eq!(*phase.get_mut(), 2);
        phase.store(0, Ordering::Relaxed);
    }
}
