//! Stops a run from outside: by hand, or at its deadline.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use crate::abi::{ErrorCell, code};
use crate::error::RunError;
use crate::fork::PerProcess;

/// Cancels all runs that use it, now and later, until [`CancelToken::reset`].
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<Token>);

#[derive(Debug, Default)]
struct Token {
    /// `env->cancel` of the runs; of its own, so that the interpreter can share it.
    flag: Arc<AtomicU32>,
    children: Mutex<Vec<Weak<Token>>>,
}

impl CancelToken {
    /// A token that has not been cancelled.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// A token that this one cancels, too. Cancelling the child leaves this one as it is, so that
    /// one of several runs that share a token can be stopped by itself.
    pub fn child(&self) -> CancelToken {
        let child = CancelToken::new();
        let mut children = self.0.children();
        children.retain(|other| other.strong_count() > 0);
        children.push(Arc::downgrade(&child.0));
        // Who cancels sets the flag first and then waits for the list, so one of both sees the other.
        if self.is_cancelled() {
            child.cancel();
        }
        child
    }

    /// Stops the runs. Returns at once; each run ends with [`crate::RunError::Cancelled`] at its
    /// next poll.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// True if it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.flag.load(Ordering::Acquire) != 0
    }

    /// Makes the token usable again; runs that were stopped stay so.
    pub fn reset(&self) {
        self.0.flag.store(0, Ordering::Release);
    }

    /// The flag itself, which is not 0 once it was cancelled.
    pub fn shared(&self) -> Arc<AtomicU32> {
        self.0.flag.clone()
    }

    /// `env->cancel`.
    pub(crate) fn flag(&self) -> &AtomicU32 {
        &self.0.flag
    }
}

impl Token {
    fn cancel(&self) {
        self.flag.store(1, Ordering::Release);
        for child in self.children().iter().filter_map(Weak::upgrade) {
            child.cancel();
        }
    }

    fn children(&self) -> MutexGuard<'_, Vec<Weak<Token>>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Raises [`code::TIMEOUT`] in a run at its deadline. One thread serves all runs; it starts with
/// the first deadline and sleeps until the earliest one.
#[derive(Debug)]
pub(crate) struct Watch {
    id: u64,
    watchdog: &'static Watchdog,
}

impl Watch {
    /// Watches a run until the watch is dropped.
    pub(crate) fn start(deadline: Instant, error: &Arc<ErrorCell>) -> Result<Watch, RunError> {
        let watchdog = Watchdog::of_this_process()?;
        let mut state = watchdog.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.runs.push((deadline, id, error.clone()));
        if state.wakes.is_none_or(|at| deadline < at) {
            state.wakes = Some(deadline);
            watchdog.changed.notify_one();
        }
        Ok(Watch { id, watchdog })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watchdog
            .lock()
            .runs
            .retain(|(_, id, _)| *id != self.id);
    }
}

#[derive(Debug, Default)]
struct Watchdog {
    state: Mutex<State>,
    changed: Condvar,
    is_started: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    runs: Vec<(Instant, u64, Arc<ErrorCell>)>,
    next_id: u64,
    /// The thread's next wake-up; it may be too early, since a run that ends does not change it.
    wakes: Option<Instant>,
}

impl Watchdog {
    /// The one of this process, whose thread starts with its first deadline.
    fn of_this_process() -> Result<&'static Watchdog, RunError> {
        static WATCHDOG: PerProcess<Watchdog> = PerProcess::none();
        let Ok(watchdog) = WATCHDOG.get_or_try(|| Ok::<_, Infallible>(Watchdog::default()));
        if !watchdog.is_started.swap(true, Ordering::Relaxed) {
            let thread = std::thread::Builder::new().name("heddle-watchdog".to_owned());
            thread.spawn(|| watchdog.keep_watch()).map_err(|e| {
                watchdog.is_started.store(false, Ordering::Relaxed);
                RunError::NoWatchdog(e.to_string())
            })?;
        }
        Ok(watchdog)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_watch(&self) {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            state.runs.retain(|(deadline, _, error)| {
                let over = *deadline <= now;
                if over {
                    let (ok, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
                    let raise = |before| {
                        error
                            .code
                            .compare_exchange(before, code::TIMEOUT, ok, relaxed)
                    };
                    let _ = raise(0).or_else(|_| raise(code::UNWATCHED));
                }
                !over
            });
            state.wakes = state.runs.iter().map(|(deadline, ..)| *deadline).min();
            state = match state.wakes {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let nap = at.saturating_duration_since(now);
                    let woken = self.changed.wait_timeout(state, nap);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_cancelled_with_its_parent_and_not_the_other_way_round() {
        let parent = CancelToken::new();
        let (one, other) = (parent.child(), parent.child());
        one.cancel();
        assert!(!parent.is_cancelled() && !other.is_cancelled());
        let grandchild = other.child();
        parent.cancel();
        assert!(other.is_cancelled() && grandchild.is_cancelled());
        assert!(
            parent.child().is_cancelled(),
            "a child of a cancelled token"
        );
        parent.reset();
        assert!(!parent.child().is_cancelled());
    }

    #[test]
    fn children_that_are_gone_are_forgotten() {
        let parent = CancelToken::new();
        for _ in 0..100 {
            parent.child();
        }
        assert!(parent.0.children().len() <= 1);
    }
}
