//! Runs cases side by side, each on a thread of its own, so that one that panics or hangs harms no
//! other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::Outcome;
use super::case::{Case, Ended, Settings};
use crate::panics;

/// The program itself stops at its time limit; this long after it the case is given up.
const GRACE: Duration = Duration::from_secs(5);

/// Runs all cases, `jobs` at a time, and reports each outcome in the cases' order.
pub fn run(cases: Vec<Case>, jobs: usize, settings: &Settings, mut report: impl FnMut(Outcome)) {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.min(cases.len()) {
            let (sender, next, cases) = (sender.clone(), &next, &cases);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send(watched(case, settings)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut due = 0;
        for outcome in receiver {
            waiting.insert(outcome.case.number, outcome);
            while let Some(outcome) = waiting.remove(&due) {
                report(outcome);
                due += 1;
            }
        }
    });
}

/// Runs a case on a thread, which is left behind if it does not end in time.
fn watched(case: &Case, settings: &Settings) -> Outcome {
    let start = Instant::now();
    let (sender, receiver) = mpsc::channel();
    let (job, limits) = (case.clone(), settings.clone());
    let spawned = thread::Builder::new().spawn(move || {
        let result = panics::caught(|| job.run(&limits));
        let result = result.unwrap_or_else(|panic| {
            let why = format!("internal error: {panic}");
            Ended::failed(why)
        });
        // Nobody listens any more when the case was given up.
        let _ = sender.send(result);
    });
    let ended = match spawned {
        Err(e) => {
            let why = format!("a thread could not be started: {e}");
            Ended::failed(why)
        }
        Ok(_) => receiver
            .recv_timeout(settings.timeout + GRACE)
            .unwrap_or_else(|_| {
                let why = format!("did not end within {:?}", settings.timeout);
                Ended::failed(why)
            }),
    };
    Outcome {
        case: case.clone(),
        ended,
        time: start.elapsed(),
    }
}
