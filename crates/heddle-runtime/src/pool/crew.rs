//! Changes of the team while a program runs. The program asks at its waits and at the points where
//! its team may change (`heddle_changes` in `include/heddle.h`).

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Workers;
use super::cores::{self, Pinned};
use super::shared::{Job, Shared};
use super::team::Tick;
use crate::abi::{LEFT, Sync, UnitState, ask};

/// A run whose team may change. It lives on the caller's stack.
pub(super) struct Crew<'a> {
    pub(super) pool: &'a Workers,
    /// The run's environment: its barrier, and a unit for each worker of the pool.
    pub(super) sync: &'a Sync,
    pub(super) units: &'a [UnitState],
    /// The caller's thread and worker.
    pub(super) caller: (i32, usize),
    /// The caller's binding, if it is not bound otherwise. Used by the caller only.
    pub(super) pinned: Cell<Option<Pinned>>,
}

impl Crew<'_> {
    /// [`crate::abi::Decide`]
    ///
    /// # Safety
    /// `crew` is a [`Crew`] of a run that goes on.
    pub(super) unsafe extern "C" fn decide(crew: *const c_void, question: i32) -> i32 {
        // SAFETY: the caller's promise.
        let crew = unsafe { &*crew.cast::<Crew>() };
        match question {
            ask::WAITED => crew.waited().into(),
            ask::TICK => crew.tick().into(),
            _ => crew.change(),
        }
    }

    fn waited(&self) -> bool {
        // Whoever holds it looks, too.
        let Ok(mut team) = self.pool.team.try_lock() else {
            return false;
        };
        let changes = team.waited(Instant::now, |worker| self.pool.lost(worker, self.caller));
        self.sync
            .tick
            .store(nanoseconds(team.next_tick()), Ordering::Relaxed);
        changes
    }

    fn tick(&self) -> bool {
        let mut team = self.pool.lock_team();
        let own = self.sync.workers.load(Ordering::Relaxed) as usize;
        let lost = |worker| self.pool.lost(worker, self.caller);
        let tick = team.tick(Instant::now, || cores::room(own), lost);
        self.sync
            .tick
            .store(nanoseconds(team.next_tick()), Ordering::Relaxed);
        if tick == Tick::Join {
            self.sync.recalls.store(1, Ordering::Release);
            team.absent().for_each(|worker| self.recall(worker));
            if let (true, Some(cores)) = (cores::thread() == self.caller.0, &self.pool.cores) {
                // The first binding knows the affinity to restore.
                let bound = self.pinned.take();
                let core = cores.of(self.caller.1);
                self.pinned.set(bound.or_else(|| Some(Pinned::new(core))));
            }
        }
        tick == Tick::Change
    }

    /// Calls a worker to join.
    fn recall(&self, worker: usize) {
        let shared = &self.pool.shared;
        if worker == self.caller.1 {
            shared.recalled.fetch_add(1, Ordering::SeqCst);
            shared.wake_caller();
        } else if worker > 0 {
            shared.running.0.fetch_add(1, Ordering::SeqCst);
            shared.slots[worker].give(-1 - worker as i32);
            self.pool.call(worker);
        }
    }

    /// The number of workers of both teams, or 0 if nothing changes.
    fn change(&self) -> i32 {
        let half = (self.sync.moved.load(Ordering::Relaxed) + 1) as usize % 2;
        let order = Ordering::SeqCst;
        let ready = |worker: usize| {
            let claimed = self.units[worker]
                .ready
                .compare_exchange(1, 2, order, order);
            claimed.is_ok() || claimed == Err(2)
        };
        let place = |worker: usize, place: Option<usize>| {
            let share = place.map_or(-1, |place| place as i32);
            self.units[worker].share[half].store(share, Ordering::Relaxed);
        };
        let Some((both, next)) = self.pool.lock_team().change(ready, place) else {
            return 0;
        };
        self.sync.next.store(next as i32, Ordering::Relaxed);
        both as i32
    }
}

/// A time on the clock of programs; 0 for none.
pub(super) fn nanoseconds(at: Option<Instant>) -> u64 {
    let Some(at) = at else {
        return 0;
    };
    let left = at.saturating_duration_since(Instant::now());
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 + left.as_nanos() as u64
}

/// Runs a job on this thread until it ends, or the worker leaves the team.
///
/// # Safety
/// As for [`super::Leased::run`].
pub(super) unsafe fn work(job: *const Job, share: i32, shared: &Shared) -> i32 {
    // SAFETY: the job lives until all workers have counted themselves out.
    let &Job {
        entry,
        env,
        workers,
    } = unsafe { &*job };
    // One that joins takes its place later.
    let workers = if share < 0 { 0 } else { workers };
    // SAFETY: the caller's promise.
    let code = unsafe { entry(env, share, workers) };
    if code == LEFT {
        return 0;
    }
    // SAFETY: the environment lives as long as the job.
    let (sync, changes) = unsafe { (&*(*env).sync, (*env).decide.is_some()) };
    if changes {
        sync.ended.store(1, Ordering::Release);
        if sync.recalls.load(Ordering::Acquire) != 0 {
            shared.dismiss();
        }
    }
    code
}
