//! One run at a time on a pool: a fair lock with cancellable waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cancel::CancelToken;

/// Interval at which a waiter polls its token.
const LOOK: Duration = Duration::from_millis(2);

const HELD: usize = 1;
const WAITER: usize = 2;

/// The lock. A holder hands it to a waiter if there is one, so nobody starves.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// `HELD`, and `WAITER` times the number of waiters.
    state: AtomicUsize,
    /// Waiters that have been handed the lock but have not woken yet: 0 or 1.
    grants: Mutex<usize>,
    granted: Condvar,
}

/// The reasons for which a wait ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GaveUp {
    Cancelled,
    TimedOut,
}

impl Lease {
    pub(super) fn take(
        &self,
        deadline: Option<Instant>,
        cancel: Option<&CancelToken>,
    ) -> Result<Held<'_>, GaveUp> {
        let free = self
            .state
            .compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            self.wait(deadline, cancel)?;
        }
        Ok(Held(self))
    }

    #[cold]
    fn wait(&self, deadline: Option<Instant>, cancel: Option<&CancelToken>) -> Result<(), GaveUp> {
        let mut grants = self.lock();
        let before = self
            .state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |state| {
                Some(if state == 0 { HELD } else { state + WAITER })
            });
        if before == Ok(0) {
            return Ok(());
        }
        loop {
            if *grants > 0 {
                *grants -= 1;
                return Ok(());
            }
            let now = Instant::now();
            let left = deadline.map(|d| d.saturating_duration_since(now));
            let reason = match (left, cancel) {
                (_, Some(token)) if token.is_cancelled() => Some(GaveUp::Cancelled),
                (Some(Duration::ZERO), _) => Some(GaveUp::TimedOut),
                _ => None,
            };
            if let Some(reason) = reason {
                self.state.fetch_sub(WAITER, Ordering::Relaxed);
                return Err(reason);
            }
            let nap = cancel.map(|_| LOOK).into_iter().chain(left).min();
            grants = match nap {
                None => self
                    .granted
                    .wait(grants)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(nap) => {
                    let woken = self.granted.wait_timeout(grants, nap);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn release(&self) {
        let alone = self
            .state
            .compare_exchange(HELD, 0, Ordering::Release, Ordering::Relaxed);
        if alone.is_ok() {
            return;
        }
        let mut grants = self.lock();
        let before = self
            .state
            .fetch_update(Ordering::Release, Ordering::Relaxed, |state| {
                // The waiter may have given up meanwhile. Otherwise a waiter becomes the holder.
                Some(if state == HELD { 0 } else { state - WAITER })
            });
        if before != Ok(HELD) {
            *grants += 1;
            self.granted.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lock is held until this is dropped.
#[derive(Debug)]
pub(super) struct Held<'a>(&'a Lease);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_holds_it_and_all_get_it() {
        let lease = Lease::default();
        let (inside, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for turn in 0..500 {
                        let deadline = Instant::now() + Duration::from_micros(50);
                        let held = lease.take((turn % 3 == 0).then_some(deadline), None);
                        if held.is_ok() {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            sum.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert!(sum.into_inner() >= 8 * 333);
        assert_eq!(lease.state.into_inner(), 0);
        assert_eq!(lease.grants.into_inner().unwrap(), 0);
    }

    #[test]
    fn waiting_is_given_up() {
        let lease = Lease::default();
        let _held = lease.take(None, None).unwrap();
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(lease.take(Some(soon), None).unwrap_err(), GaveUp::TimedOut);
        let token = CancelToken::new();
        token.cancel();
        assert_eq!(
            lease.take(None, Some(&token)).unwrap_err(),
            GaveUp::Cancelled
        );
    }
}
