//! Log of a compilation: times of its stages, number of texts checked, notes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::report::StageTimes;

/// The time that each stage took, in the order in which they first ran. Threads that compile parts share it: a stage's time is
/// the sum over all parts.
#[derive(Debug, Default)]
pub(crate) struct Log {
    times: Mutex<StageTimes>,
    texts: AtomicUsize,
    notes: Mutex<Vec<String>>,
}

impl Log {
    /// Does some work of a stage.
    pub(crate) fn time<T>(&self, stage: &'static str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.add(stage, start.elapsed());
        result
    }

    /// Adds to the time of a stage.
    pub(crate) fn add(&self, stage: &'static str, time: Duration) {
        let mut times = self.times.lock().unwrap_or_else(|e| e.into_inner());
        match times.iter_mut().find(|(name, _)| *name == stage) {
            Some((_, sum)) => *sum += time,
            None => times.push((stage, time)),
        }
    }

    /// Adds to the times of several stages.
    pub(crate) fn extend(&self, times: StageTimes) {
        for (stage, time) in times {
            self.add(stage, time);
        }
    }

    /// All times.
    pub(crate) fn times(&self) -> StageTimes {
        self.times.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Notes what a user should know of the program. Parts may come to the same.
    pub(crate) fn note(&self, text: String) {
        let mut notes = self.notes.lock().unwrap_or_else(|e| e.into_inner());
        if !notes.contains(&text) {
            notes.push(text);
        }
    }

    /// All notes.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Counts a program whose text was read back.
    pub(crate) fn count_text(&self) {
        self.texts.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of programs whose text was read back.
    pub(crate) fn texts(&self) -> usize {
        self.texts.load(Ordering::Relaxed)
    }
}
