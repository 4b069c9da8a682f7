//! Assigns cores to the workers of pools, and pins threads.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Number of this process's pinned workers on each core.
static TAKEN: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// The cores of a pool, one for each worker. Returned on drop.
#[derive(Debug)]
pub(super) struct Cores(Vec<usize>);

impl Cores {
    /// The `count` cores with the fewest pinned workers, so that pools spread over a large machine.
    pub(super) fn take(count: usize) -> Option<Cores> {
        let allowed = allowed();
        if allowed.len() < count {
            return None;
        }
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cores = allowed;
        cores.sort_by_key(|core| taken.get(core).copied().unwrap_or(0));
        cores.truncate(count);
        for core in &cores {
            *taken.entry(*core).or_default() += 1;
        }
        Some(Cores(cores))
    }

    pub(super) fn of(&self, worker: usize) -> usize {
        self.0[worker]
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        for core in &self.0 {
            if let Some(count) = taken.get_mut(core) {
                *count -= 1;
            }
        }
    }
}

/// Number of threads that can run at once: the cores allowed to this thread, or fewer by a quota.
pub(super) fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// True if the calling thread currently runs on this core.
pub(super) fn is_on(core: usize) -> bool {
    #[cfg(target_os = "linux")]
    return sched_getcpu() == core;
    #[cfg(not(target_os = "linux"))]
    return core == usize::MAX;
}

/// Pins the calling thread to a core; restores its affinity on drop.
#[derive(Debug)]
pub(super) struct Pinned {
    #[cfg(target_os = "linux")]
    before: Option<CpuSet>,
    /// The guard must be dropped by the thread that it pinned.
    _thread: std::marker::PhantomData<*const ()>,
}

#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    Vec::new()
}

impl Pinned {
    /// Failure to pin is no error: the program is only slower.
    #[cfg(target_os = "linux")]
    pub(super) fn new(core: usize) -> Pinned {
        let mut only = CpuSet::new();
        only.set(core);
        let before = sched_getaffinity(None)
            .ok()
            .filter(|before| *before != only && sched_setaffinity(None, &only).is_ok());
        Pinned {
            before,
            _thread: std::marker::PhantomData,
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn new(_core: usize) -> Pinned {
        Pinned {
            _thread: std::marker::PhantomData,
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}
