//! The state that the threads of a pool share with their callers: jobs, turns, and waits for them.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::cores;
use super::crew::work;
use crate::abi::{EntryFn, Env};

/// Time that a worker looks for the next run.
const NEXT_RUN: Duration = Duration::from_micros(200);
/// Looks between two looks at the clock.
const LOOKS: u32 = 64;
const YIELDS: u32 = 1;
/// No number of a worker in a team.
const NOTHING: i32 = i32::MIN;
/// Without a core for each worker, many others may run before the awaited one.
const CROWDED_YIELDS: u32 = 200;

/// A value on its own cache lines.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(super) struct Line<T>(pub(super) T);

/// The next job of the team.
pub(super) struct Job {
    pub(super) entry: EntryFn,
    pub(super) env: *const Env,
    pub(super) workers: i32,
}

/// A worker as its caller sees it, on its own cache lines: a call moves one. The first belongs to
/// the callers and is not used.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Incremented with each job for it, after the job is written.
    pub(super) turn: AtomicU32,
    /// Its number in the job's team; if it is to join that later, -1 less its number in the pool;
    /// [`NOTHING`] once it has begun, or if it is not needed any more.
    pub(super) share: AtomicI32,
    /// True if it sleeps until it is its turn, or is about to.
    pub(super) asleep: AtomicBool,
    /// The system's number of the thread.
    pub(super) thread: AtomicI32,
}

impl Slot {
    /// Gives the worker its number in the job's team. A worker that an earlier turn woke may take it before the turn of
    /// this job, so that the job and all that it consists of have to be visible with the number itself.
    pub(super) fn give(&self, share: i32) {
        self.share.store(share, Ordering::Release);
    }
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Time that a wait keeps its core.
    pub(super) patience: Duration,
    /// There are more workers than cores.
    pub(super) crowded: bool,
    /// Teams follow the load of the cores.
    pub(super) adapts: bool,
    pub(super) slots: Vec<Slot>,
    /// Lives on the caller's stack until `running` is zero.
    pub(super) job: AtomicPtr<Job>,
    pub(super) stop: AtomicBool,
    /// Workers that have not finished the job.
    pub(super) running: Line<AtomicUsize>,
    /// A non-zero code that a worker returned.
    pub(super) failed: AtomicI32,
    /// Incremented to call the caller back to a run whose team it left.
    pub(super) recalled: AtomicU32,
    /// True if the caller sleeps until no worker is running, or is about to.
    pub(super) caller_sleeps: AtomicBool,
    /// Guards no data: the caller checks the atomics under it, so that no wake-up is missed.
    pub(super) gate: Mutex<()>,
    pub(super) finished: Condvar,
}

impl Shared {
    /// The main loop of a worker.
    pub(super) fn serve(&self, worker: usize) {
        let slot = &self.slots[worker];
        slot.thread.store(cores::thread(), Ordering::Relaxed);
        let mut seen = 0;
        loop {
            seen = self.next_turn(slot, seen);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let share = slot.share.swap(NOTHING, Ordering::AcqRel);
            if share == NOTHING {
                continue;
            }
            let job = self.job.load(Ordering::Relaxed);
            // SAFETY: the job lives until this worker has counted itself out, and its caller made
            // the promise of `Leased::run`.
            let code = unsafe { work(job, share, self) };
            if code != 0 {
                self.failed.store(code, Ordering::Relaxed);
            }
            let last = self.running.0.fetch_sub(1, Ordering::SeqCst) == 1;
            if last {
                self.wake_caller();
            }
        }
    }

    /// Waits until the slot's turn is not `seen`.
    fn next_turn(&self, slot: &Slot, seen: u32) -> u32 {
        let changed = || {
            let turn = slot.turn.load(Ordering::SeqCst);
            (turn != seen).then_some(turn)
        };
        let patience = if self.crowded {
            self.patience
        } else {
            NEXT_RUN
        };
        if let Some(turn) = self.look(patience, changed) {
            return turn;
        }
        slot.asleep.store(true, Ordering::SeqCst);
        let turn = loop {
            if let Some(turn) = changed() {
                break turn;
            }
            std::thread::park();
        };
        slot.asleep.store(false, Ordering::SeqCst);
        turn
    }

    /// A worker has ended the run: who was called to join it and has not begun is not needed. They
    /// may wait for a core for long.
    pub(super) fn dismiss(&self) {
        for (worker, slot) in self.slots.iter().enumerate() {
            let joins = -1 - worker as i32;
            let order = Ordering::SeqCst;
            let dismissed = slot.share.compare_exchange(joins, NOTHING, order, order);
            if dismissed.is_ok() {
                // Not the last: whoever dismisses is counted, or is the caller.
                self.running.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    pub(super) fn wake_caller(&self) {
        if self.caller_sleeps.load(Ordering::SeqCst) {
            let _gate = self.gate.lock();
            self.finished.notify_one();
        }
    }

    /// Waits until the other workers have finished, or the caller is to join them: then
    /// `self.recalled` is not `seen`, and is the second result. The first is true if that took longer
    /// than the patience.
    pub(super) fn wait_for_workers(&self, seen: u32) -> (bool, Option<u32>) {
        let over = || {
            let recalled = self.recalled.load(Ordering::SeqCst);
            match self.running.0.load(Ordering::SeqCst) {
                0 => Some(None),
                _ => (recalled != seen).then_some(Some(recalled)),
            }
        };
        if let Some(why) = self.look(self.patience, over) {
            return (false, why);
        }
        self.caller_sleeps.store(true, Ordering::SeqCst);
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let why = loop {
            if let Some(why) = over() {
                break why;
            }
            gate = self
                .finished
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        };
        drop(gate);
        self.caller_sleeps.store(false, Ordering::SeqCst);
        (true, why)
    }

    /// Looks for a bounded time.
    fn look<T>(&self, patience: Duration, condition: impl Fn() -> Option<T>) -> Option<T> {
        if !patience.is_zero() {
            let start = Instant::now();
            while start.elapsed() < patience {
                for _ in 0..LOOKS {
                    if let Some(value) = condition() {
                        return Some(value);
                    }
                    std::hint::spin_loop();
                }
            }
        }
        for _ in 0..self.yields() {
            if let Some(value) = condition() {
                return Some(value);
            }
            std::thread::yield_now();
        }
        condition()
    }

    pub(super) fn yields(&self) -> u32 {
        if self.crowded { CROWDED_YIELDS } else { YIELDS }
    }
}
