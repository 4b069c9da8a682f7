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
//! **Waiting.** Workers spin for a bounded time, then sleep. A pool with more threads than cores is
//! correct; it does not pin or spin, and yields at every wait.

mod affinity;
mod lease;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use affinity::{Cores, Pinned};
use lease::{GaveUp, Held, Lease};

use crate::abi::{EntryFn, Env};
use crate::cancel::CancelToken;

/// A value on its own cache lines.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Line<T>(T);

/// Options of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Number of workers, the caller included; at least 1.
    pub threads: usize,
    /// Pins workers to cores, if there are enough.
    pub pin: bool,
    /// Bytes of stack of the pool's threads.
    pub stack: usize,
    /// Spins per wait before it yields; `None` chooses by the number of cores.
    pub spins: Option<u32>,
}

impl PoolOptions {
    /// The default for `threads` workers.
    pub fn new(threads: usize) -> PoolOptions {
        PoolOptions {
            threads: threads.max(1),
            pin: true,
            stack: 4 << 20,
            spins: None,
        }
    }
}

/// As many workers as the machine runs at once.
impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions::new(affinity::parallelism())
    }
}

/// The workers.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    cores: Option<Cores>,
    lease: Lease,
}

/// Spins of a short wait: about 50 µs.
const SPINS: u32 = 4000;
const YIELDS: u32 = 20;
/// Pinning costs under one percent of a longer run.
const SHORT: Duration = Duration::from_micros(500);
/// Without a core for each worker, many others may run before the awaited one.
const CROWDED_YIELDS: u32 = 200;

impl Pool {
    /// Starts the threads; an error if the system refuses.
    pub fn new(options: &PoolOptions) -> io::Result<Pool> {
        let threads = options.threads.max(1);
        let crowded = threads > affinity::parallelism();
        let cores = (options.pin && threads > 1 && !crowded)
            .then(|| Cores::take(threads))
            .flatten();
        let shared = Arc::new(Shared {
            workers: threads as i32,
            spins: options.spins.unwrap_or(if crowded { 0 } else { SPINS }),
            yields: if crowded { CROWDED_YIELDS } else { YIELDS },
            ..Shared::default()
        });
        let mut pool = Pool {
            shared,
            threads: Vec::new(),
            cores,
            lease: Lease::default(),
        };
        for worker in 1..threads {
            let core = pool.cores.as_ref().map(|c| c.of(worker));
            let shared = pool.shared.clone();
            let builder = std::thread::Builder::new()
                .name(format!("heddle-{worker}"))
                .stack_size(options.stack);
            pool.threads.push(builder.spawn(move || {
                let _pinned = core.map(Pinned::new);
                shared.serve(worker as i32);
            })?);
        }
        Ok(pool)
    }

    /// This process's pool with the default options for `threads`; started on first use, stopped
    /// when its last user drops it.
    pub fn shared(threads: usize) -> io::Result<Arc<Pool>> {
        static POOLS: LazyLock<Mutex<BTreeMap<usize, Weak<Pool>>>> = LazyLock::new(Mutex::default);
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let options = PoolOptions::new(threads);
        if let Some(pool) = pools.get(&options.threads).and_then(Weak::upgrade) {
            return Ok(pool);
        }
        let pool = Arc::new(Pool::new(&options)?);
        pools.insert(options.threads, Arc::downgrade(&pool));
        Ok(pool)
    }

    /// Number of workers.
    pub fn threads(&self) -> usize {
        self.shared.workers as usize
    }

    /// True if each worker has its own core.
    pub fn is_pinned(&self) -> bool {
        self.cores.is_some()
    }

    /// `env->spins` and `env->yields`.
    pub(crate) fn patience(&self) -> (u32, u32) {
        (self.shared.spins, self.shared.yields)
    }

    /// Waits for the pool. `expected` is the estimated time of the run.
    pub(crate) fn lease(
        &self,
        expected: Duration,
        deadline: Option<Instant>,
        cancel: Option<&CancelToken>,
    ) -> Result<Leased<'_>, crate::error::RunError> {
        let held = self.lease.take(deadline, cancel).map_err(|e| match e {
            GaveUp::Cancelled => crate::error::RunError::Cancelled,
            GaveUp::TimedOut => crate::error::RunError::Timeout(Default::default()),
        })?;
        let core = self.cores.as_ref().map(|cores| cores.of(0));
        let pinned = core.filter(|core| expected > SHORT || !affinity::is_on(*core));
        Ok(Leased {
            pool: self,
            _pinned: pinned.map(Pinned::new),
            _held: held,
        })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.announce();
        for thread in self.threads.drain(..) {
            // Workers run foreign code, which does not unwind: there is no panic to pass on.
            let _ = thread.join();
        }
    }
}

/// The right to run programs on a pool.
#[derive(Debug)]
pub(crate) struct Leased<'a> {
    pool: &'a Pool,
    _pinned: Option<Pinned>,
    _held: Held<'a>,
}

impl Leased<'_> {
    /// Runs `entry` on all workers and waits for them. Zero if all returned zero.
    ///
    /// # Safety
    /// `env` must be valid for the program and the pool's number of workers.
    pub(crate) unsafe fn run(&mut self, entry: EntryFn, env: *const Env) -> i32 {
        let shared = &*self.pool.shared;
        let mut job = Job { entry, env };
        if shared.workers > 1 {
            shared.failed.store(0, Ordering::Relaxed);
            shared.job.store(&mut job, Ordering::Relaxed);
            let others = shared.workers as usize - 1;
            shared.running.0.store(others, Ordering::Relaxed);
            shared.announce();
        }
        // SAFETY: the caller's promise.
        let code = unsafe { entry(env, 0, shared.workers) };
        if shared.workers == 1 {
            return code;
        }
        shared.wait_for_workers();
        if code != 0 {
            code
        } else {
            shared.failed.load(Ordering::Relaxed)
        }
    }
}

/// The next job of all workers.
struct Job {
    entry: EntryFn,
    env: *const Env,
}

#[derive(Debug, Default)]
struct Shared {
    workers: i32,
    spins: u32,
    yields: u32,
    /// Incremented with each job, after the fields below it are written.
    epoch: Line<AtomicU32>,
    /// Lives on the caller's stack until `running` is zero.
    job: AtomicPtr<Job>,
    stop: AtomicBool,
    /// Workers that have not finished the job.
    running: Line<AtomicUsize>,
    /// A non-zero code that a worker returned.
    failed: AtomicI32,
    /// Workers that sleep until the epoch changes, or are about to.
    sleepers: AtomicUsize,
    /// True if the caller sleeps until no worker is running, or is about to.
    caller_sleeps: AtomicBool,
    /// Guards no data: sleepers check the atomics under it, so that no wake-up is missed.
    gate: Mutex<()>,
    started: Condvar,
    finished: Condvar,
}

impl Shared {
    /// The main loop of a worker.
    fn serve(&self, worker: i32) {
        let mut seen = 0;
        loop {
            seen = self.next_epoch(seen);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let job = self.job.load(Ordering::Relaxed);
            // SAFETY: the job lives until this worker has counted itself out, and its caller made
            // the promise of `Leased::run`.
            let code = unsafe { ((*job).entry)((*job).env, worker, self.workers) };
            if code != 0 {
                self.failed.store(code, Ordering::Relaxed);
            }
            let last = self.running.0.fetch_sub(1, Ordering::SeqCst) == 1;
            if last && self.caller_sleeps.load(Ordering::SeqCst) {
                let _gate = self.gate.lock();
                self.finished.notify_one();
            }
        }
    }

    fn announce(&self) {
        self.epoch.0.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.gate.lock());
            self.started.notify_all();
        }
    }

    /// Waits until the epoch is not `seen`.
    fn next_epoch(&self, seen: u32) -> u32 {
        let changed = || {
            let epoch = self.epoch.0.load(Ordering::SeqCst);
            (epoch != seen).then_some(epoch)
        };
        if let Some(epoch) = self.look(changed) {
            return epoch;
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = loop {
            if let Some(epoch) = changed() {
                break epoch;
            }
            gate = self
                .started
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        };
        drop(gate);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        epoch
    }

    fn wait_for_workers(&self) {
        let finished = || (self.running.0.load(Ordering::SeqCst) == 0).then_some(());
        if self.look(finished).is_some() {
            return;
        }
        self.caller_sleeps.store(true, Ordering::SeqCst);
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while finished().is_none() {
            gate = self
                .finished
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(gate);
        self.caller_sleeps.store(false, Ordering::SeqCst);
    }

    /// Spins for a bounded time.
    fn look<T>(&self, condition: impl Fn() -> Option<T>) -> Option<T> {
        for _ in 0..self.spins {
            if let Some(value) = condition() {
                return Some(value);
            }
            std::hint::spin_loop();
        }
        for _ in 0..self.yields {
            if let Some(value) = condition() {
                return Some(value);
            }
            std::thread::yield_now();
        }
        condition()
    }
}
