//! The threads that run programs.
//!
//! **Workers.** The calling thread is worker 0, threads of the pool are the others: a run wakes one
//! thread less, and no core is spent on a thread that only waits. During the run the caller is
//! pinned to its worker's core. Pinning and undoing it takes about 4 µs, so a short run skips it if
//! the caller is already there. Its stack is the caller's own; emitted programs keep their
//! recursion in scratch.
//!
//! **Several callers.** A pool runs one program at a time, in order of arrival. Programs that share
//! a pool ([`Pool::shared`]) never compete for cores: a barrier takes tens of nanoseconds when all
//! workers run, and milliseconds when one of them waits for a core that another program spins on.
//! Separate pools run concurrently, on different cores as long as there are enough.
//!
//! **Forks.** A child of this process has none of its threads: the first run there starts new ones.
//!
//! **Teams.** While other threads want the cores, fewer workers take part in a run (`team.rs`), also
//! from the middle of it on (`crew.rs`). If worker 0 takes no part from the beginning, the caller
//! takes the place of the first one that does.
//!
//! **Waiting.** Workers look for a bounded time, then sleep. A pool with more threads than cores is
//! correct; it does not pin or look, and yields at every wait.

mod cores;
mod crew;
mod lease;
mod shared;
mod team;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use cores::default_threads;
use cores::{Cores, Pinned};
use crew::{Crew, nanoseconds, work};
use lease::{GaveUp, Held, Lease};
use shared::{Job, Shared, Slot};
use team::{Lost, Team};

use crate::abi::{EntryFn, Env, Sync, UnitState};
use crate::cancel::CancelToken;
use crate::error::RunError;
use crate::fork::PerProcess;

/// Options of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolOptions {
    /// Number of workers, the caller included; at least 1.
    pub threads: usize,
    /// Pins workers to cores, if there are enough.
    pub pin: bool,
    /// Lets fewer workers take part in a run while others want their cores. Otherwise all do.
    pub adapt: bool,
    /// Bytes of stack of the pool's threads.
    pub stack: usize,
    /// Time that a wait keeps its core; `None` chooses by the number of cores.
    pub patience: Option<Duration>,
}

impl PoolOptions {
    /// The default for `threads` workers.
    pub fn new(threads: usize) -> PoolOptions {
        PoolOptions {
            threads: threads.max(1),
            pin: true,
            adapt: true,
            stack: 4 << 20,
            patience: None,
        }
    }
}

/// [`default_threads`] workers.
impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions::new(default_threads())
    }
}

/// The workers. In a child of the process that made it, a pool has workers of its own.
#[derive(Debug)]
pub struct Pool {
    options: PoolOptions,
    workers: PerProcess<Workers>,
}

/// The workers of a process.
#[derive(Debug)]
struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    cores: Option<Cores>,
    lease: Lease,
    team: Mutex<Team>,
}

/// Time that a wait keeps its core.
const PATIENCE: Duration = Duration::from_micros(50);
/// Pinning costs under one percent of a longer run.
const SHORT: Duration = Duration::from_micros(500);

impl Pool {
    /// Starts the threads; an error if the system refuses.
    pub fn new(options: &PoolOptions) -> io::Result<Pool> {
        Ok(Pool {
            options: options.clone(),
            workers: PerProcess::of(Workers::start(options)?),
        })
    }

    /// This process's pool with the default options for `threads`; started on first use, stopped
    /// when its last user drops it.
    pub fn shared(threads: usize) -> io::Result<Arc<Pool>> {
        Self::shared_with(&PoolOptions::new(threads))
    }

    /// As [`Pool::shared`], with these options.
    pub fn shared_with(options: &PoolOptions) -> io::Result<Arc<Pool>> {
        type Pools = BTreeMap<PoolOptions, Weak<Pool>>;
        static POOLS: LazyLock<Mutex<Pools>> = LazyLock::new(Mutex::default);
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(options).and_then(Weak::upgrade) {
            return Ok(pool);
        }
        let pool = Arc::new(Pool::new(options)?);
        pools.insert(options.clone(), Arc::downgrade(&pool));
        Ok(pool)
    }

    /// The options that it was made with.
    pub fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// Number of workers; the most that take part in a run.
    pub fn threads(&self) -> usize {
        self.options.threads.max(1)
    }

    /// Number of workers that take part in the next run, unless it is a probe.
    pub fn team(&self) -> usize {
        let workers = self.workers();
        workers.map_or(self.threads(), |workers| {
            workers.lock_team().members().len()
        })
    }

    /// True if each worker has its own core.
    pub fn is_pinned(&self) -> bool {
        self.workers().is_ok_and(|workers| workers.cores.is_some())
    }

    /// Waits for the pool. `expected` is the estimated time of the run, in which at most `most`
    /// workers are to take part.
    pub(crate) fn lease(
        &self,
        expected: Duration,
        most: usize,
        deadline: Option<Instant>,
        cancel: Option<&CancelToken>,
    ) -> Result<Leased<'_>, RunError> {
        let workers = self.workers().map_err(RunError::NoWorkers)?;
        workers.lease(expected, most, deadline, cancel)
    }

    /// The workers; those of this process start with the first run after a fork.
    fn workers(&self) -> Result<&Workers, String> {
        let start = || Workers::start(&self.options).map_err(|e| e.to_string());
        self.workers.get_or_try(start)
    }
}

impl Workers {
    /// Starts the threads; an error if the system refuses.
    fn start(options: &PoolOptions) -> io::Result<Workers> {
        let threads = options.threads.max(1);
        let crowded = threads > cores::count();
        let cores = (options.pin && threads > 1 && !crowded)
            .then(|| Cores::take(threads))
            .flatten();
        let default = if crowded { Duration::ZERO } else { PATIENCE };
        let shared = Arc::new(Shared {
            patience: options.patience.unwrap_or(default),
            crowded,
            adapts: options.adapt && threads > 1 && !crowded,
            slots: std::iter::repeat_with(Slot::default)
                .take(threads)
                .collect(),
            ..Shared::default()
        });
        let mut workers = Workers {
            shared,
            threads: Vec::new(),
            cores,
            lease: Lease::default(),
            team: Mutex::new(Team::new(threads)),
        };
        for slot in 1..threads {
            let core = workers.cores.as_ref().map(|c| c.of(slot));
            let shared = workers.shared.clone();
            let builder = std::thread::Builder::new()
                .name(format!("heddle-{slot}"))
                .stack_size(options.stack);
            workers.threads.push(builder.spawn(move || {
                let _pinned = core.map(Pinned::new);
                shared.serve(slot);
            })?);
        }
        Ok(workers)
    }

    /// `env->patience` and `env->yields`.
    fn patience(&self) -> (u32, u32) {
        let patience = self.shared.patience.as_nanos();
        let patience = u32::try_from(patience).unwrap_or(u32::MAX);
        (patience, self.shared.yields())
    }

    /// Waits for the workers, as [`Pool::lease`] says.
    fn lease(
        &self,
        expected: Duration,
        most: usize,
        deadline: Option<Instant>,
        cancel: Option<&CancelToken>,
    ) -> Result<Leased<'_>, RunError> {
        let held = self.lease.take(deadline, cancel).map_err(|e| match e {
            GaveUp::Cancelled => RunError::Cancelled,
            GaveUp::TimedOut => RunError::Timeout(Default::default()),
        })?;
        let mut team = self.lock_team();
        let thread = cores::thread();
        if self.shared.adapts {
            let quota = (expected > SHORT).then_some(cores::quota);
            let caller = (thread, team.members()[0]);
            let lost = |worker| self.lost(worker, caller);
            team.begin(Instant::now, quota, || cores::room(1), lost);
        }
        let members = team.members();
        // A lone caller is free to go where there is room.
        let core = match *members {
            [first, _, ..] if most > 1 => self.cores.as_ref().map(|cores| cores.of(first)),
            _ => None,
        };
        let caller = (thread, members[0]);
        drop(team);
        let pinned = core.filter(|core| expected > SHORT || !cores::is_on(*core));
        Ok(Leased {
            workers: self,
            caller,
            most: most.max(1),
            overdue: false,
            _pinned: pinned.map(Pinned::new),
            _held: held,
        })
    }

    /// The time that a worker lost; the caller has another thread.
    fn lost(&self, worker: usize, caller: (i32, usize)) -> Option<Lost> {
        Lost::of(match worker == caller.1 {
            true => caller.0,
            false => self.shared.slots[worker].thread.load(Ordering::Relaxed),
        })
    }

    fn lock_team(&self) -> MutexGuard<'_, Team> {
        self.team.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a worker to look for a job.
    fn call(&self, worker: usize) {
        let slot = &self.shared.slots[worker];
        slot.turn.fetch_add(1, Ordering::SeqCst);
        if slot.asleep.load(Ordering::SeqCst) {
            self.threads[worker - 1].thread().unpark();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for worker in 1..=self.threads.len() {
            self.call(worker);
        }
        for thread in self.threads.drain(..) {
            // Workers run foreign code, which does not unwind: there is no panic to pass on.
            let _ = thread.join();
        }
    }
}

/// The right to run programs on a pool.
#[derive(Debug)]
pub(crate) struct Leased<'a> {
    workers: &'a Workers,
    /// The caller's thread and worker.
    caller: (i32, usize),
    most: usize,
    /// Somebody waited for long.
    overdue: bool,
    _pinned: Option<Pinned>,
    _held: Held<'a>,
}

impl Leased<'_> {
    /// `env->patience` and `env->yields`.
    pub(crate) fn patience(&self) -> (u32, u32) {
        self.workers.patience()
    }

    /// Runs `entry` on the team and waits for it. Zero if all returned zero. `changes`: the team may
    /// change meanwhile.
    ///
    /// # Safety
    /// `env` must be valid for the program and the pool's number of workers, and `sync` and `units`
    /// be its.
    pub(crate) unsafe fn run(
        &mut self,
        entry: EntryFn,
        env: *mut Env,
        (sync, units): (&Sync, &[UnitState]),
        changes: bool,
    ) -> i32 {
        let (pool, shared) = (self.workers, &*self.workers.shared);
        let crew = Crew {
            pool,
            sync,
            units,
            caller: self.caller,
            pinned: Cell::default(),
        };
        let changes = changes && shared.adapts && self.most >= shared.slots.len();
        // SAFETY: the caller's promise; nobody else uses it yet.
        unsafe {
            (*env).decide = changes.then_some(Crew::decide);
            (*env).crew = (&raw const crew).cast();
        }
        let mut team = pool.lock_team();
        let workers = team.members().len().min(self.most);
        let mut job = Job {
            entry,
            env,
            workers: workers as i32,
        };
        team.start(workers);
        sync.workers.store(workers as i32, Ordering::Relaxed);
        let tick = changes.then(|| nanoseconds(team.next_tick()));
        sync.tick.store(tick.unwrap_or_default(), Ordering::Relaxed);
        shared.failed.store(0, Ordering::Relaxed);
        shared.job.store(&mut job, Ordering::Relaxed);
        shared.running.0.store(workers - 1, Ordering::Relaxed);
        for (share, &worker) in team.members()[..workers].iter().enumerate() {
            units[share].slot.store(worker as i32, Ordering::Relaxed);
            if share > 0 {
                shared.slots[worker].give(share as i32);
                pool.call(worker);
            }
        }
        drop(team);
        let mut recalled = shared.recalled.load(Ordering::Relaxed);
        // SAFETY: the caller's promise.
        let mut code = unsafe { work(&job, 0, shared) };
        if workers > 1 || changes {
            loop {
                let (waited, again) = shared.wait_for_workers(recalled);
                self.overdue |= waited;
                let Some(again) = again else {
                    break;
                };
                recalled = again;
                // SAFETY: the caller's promise.
                let joined = unsafe { work(&job, -1 - self.caller.1 as i32, shared) };
                code = if code == 0 { joined } else { code };
            }
        }
        self.overdue |= sync.overdue.load(Ordering::Relaxed) != 0;
        match code {
            0 => shared.failed.load(Ordering::Relaxed),
            code => code,
        }
    }
}

/// Between the dispatches of a run the team stays as it is.
impl Drop for Leased<'_> {
    fn drop(&mut self) {
        let pool = self.workers;
        if pool.shared.adapts {
            let lost = |worker| pool.lost(worker, self.caller);
            pool.lock_team().end(Instant::now, self.overdue, lost);
        }
    }
}
