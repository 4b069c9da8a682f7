//! The cores of this computer: how many threads can run at once, which cores pools take, pinning.
//!
//! **Claims.** A worker's core is claimed in this process and, by a lock on a file, among the
//! processes of this user, so that replicas take different cores. A claim is advice: pools get
//! cores that are claimed already when no others are left.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::fork::{PerProcess, generation};

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// This process's pinned workers, by core. A child begins without any.
static TAKEN: PerProcess<Mutex<BTreeMap<usize, Taken>>> = PerProcess::none();

fn taken() -> MutexGuard<'static, BTreeMap<usize, Taken>> {
    let Ok(taken) = TAKEN.get_or_try(|| Ok::<_, Infallible>(Mutex::default()));
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Taken {
    workers: usize,
    /// The lock that claims the core.
    claim: Option<File>,
}

/// The cores of a pool, one for each worker. Returned on drop.
#[derive(Debug)]
pub(super) struct Cores(Vec<usize>);

impl Cores {
    /// Cores for `count` workers, or nothing if there are fewer: unclaimed ones first, the first of
    /// each physical core before its siblings.
    pub(super) fn take(count: usize) -> Option<Cores> {
        let allowed = allowed();
        if allowed.len() < count {
            return None;
        }
        let mut taken = taken();
        let workers = |taken: &BTreeMap<_, Taken>, core| taken.get(&core).map_or(0, |t| t.workers);
        let (mut cores, mut claimed) = (vec![], vec![]);
        let siblings = Siblings::of(&allowed);
        for core in siblings.first.into_iter().chain(siblings.others) {
            if cores.len() == count {
                break;
            }
            if workers(&taken, core) > 0 {
                claimed.push(core);
                continue;
            }
            match claim(core) {
                Ok(claim) => {
                    taken.entry(core).or_default().claim = Some(claim);
                    cores.push(core);
                }
                Err(_) => claimed.push(core),
            }
        }
        // Processes that share the others begin at different ones.
        let start = std::process::id() as usize % claimed.len().max(1);
        claimed.rotate_left(start);
        claimed.sort_by_key(|&core| workers(&taken, core));
        cores.extend(claimed.into_iter().take(count - cores.len()));
        for &core in &cores {
            taken.entry(core).or_default().workers += 1;
        }
        Some(Cores(cores))
    }

    pub(super) fn of(&self, worker: usize) -> usize {
        self.0[worker]
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        let mut taken = taken();
        for core in &self.0 {
            if let Some(entry) = taken.get_mut(core) {
                entry.workers -= 1;
                if entry.workers == 0 {
                    taken.remove(core);
                }
            }
        }
    }
}

/// Claims a core among the processes of this user; an error if another one has it, or if there is
/// no folder for the locks.
#[cfg(target_os = "linux")]
fn claim(core: usize) -> std::io::Result<File> {
    use rustix::fs::{FlockOperation, OFlags, flock};
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    let user = rustix::process::geteuid();
    let folder = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(own) => PathBuf::from(own).join("heddle-cores"),
        None => std::env::temp_dir().join(format!("heddle-cores-{}", user.as_raw())),
    };
    let made = std::fs::DirBuilder::new().mode(0o700).create(&folder);
    // Somebody else's folder could hold anything.
    let found = std::fs::symlink_metadata(&folder).or_else(|e| made.and(Err(e)))?;
    if !found.is_dir() || found.uid() != user.as_raw() {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(folder.join(core.to_string()))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
fn claim(_core: usize) -> std::io::Result<File> {
    let _ = PathBuf::new();
    Err(std::io::ErrorKind::Unsupported.into())
}

/// The allowed cores by their place in their physical core.
struct Siblings {
    first: Vec<usize>,
    others: Vec<usize>,
}

impl Siblings {
    fn of(allowed: &[usize]) -> Siblings {
        let is_first = |core: usize| {
            let list = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
            let list = std::fs::read_to_string(list).unwrap_or_default();
            let first = in_list(&list).find(|sibling| allowed.contains(sibling));
            first.is_none_or(|first| first == core)
        };
        let (first, others) = allowed.iter().partition(|&&core| is_first(core));
        Siblings { first, others }
    }
}

/// The numbers in a list like `0-3,8`.
fn in_list(list: &str) -> impl Iterator<Item = usize> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        Some(from.parse::<usize>().ok()?..=to.parse::<usize>().ok()?)
    });
    ranges.flatten()
}

/// The number of threads, if none is asked for: one for each physical core that is allowed, or
/// fewer by a quota.
pub fn default_threads() -> usize {
    let physical = Siblings::of(&allowed()).first.len();
    match physical {
        0 => quota(),
        physical => quota().min(physical),
    }
}

/// Number of threads that can run at once: the cores allowed to this thread, or fewer by a quota
/// of the control group. It may change at any time.
pub(super) fn quota() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Number of cores that threads of others leave idle at the moment, on the whole computer; `own`
/// threads of this pool run. All of them where the system does not say.
pub(super) fn room(own: usize) -> usize {
    static CORES: LazyLock<usize> = LazyLock::new(|| {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online");
        online.map_or(usize::MAX, |list| in_list(&list).count())
    });
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let running = load.split_ascii_whitespace().nth(3);
    let running = running.and_then(|tasks| tasks.split_once('/')?.0.parse().ok());
    CORES.saturating_sub(running.unwrap_or(0_usize).saturating_sub(own))
}

/// Number of cores allowed to this thread.
pub(super) fn count() -> usize {
    match allowed().len() {
        0 => quota(),
        count => count,
    }
}

/// The system's number of the calling thread, asked for once: a system call in each run would be a
/// tenth of the shortest.
pub(super) fn thread() -> i32 {
    #[cfg(target_os = "linux")]
    {
        // A child has another number.
        thread_local!(static THREAD: Cell<Option<(u32, i32)>> = const { Cell::new(None) });
        let own = generation();
        let known = THREAD.get().filter(|(of, _)| *of == own);
        let (_, thread) = known.unwrap_or_else(|| {
            let thread = rustix::thread::gettid().as_raw_nonzero().get();
            THREAD.set(Some((own, thread)));
            (own, thread)
        });
        thread
    }
    #[cfg(not(target_os = "linux"))]
    return 0;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(in_list("0-2,8\n").collect::<Vec<_>>(), [0, 1, 2, 8]);
        assert_eq!(in_list("5").collect::<Vec<_>>(), [5]);
        assert_eq!(in_list("").count(), 0);
        assert_eq!(in_list("x-3,4-y").count(), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_claim_is_refused_while_another_holds_it() {
        // A core that no computer has: neither pools nor this test in other processes claim it.
        let core = (1 << 20) + std::process::id() as usize;
        let first = claim(core).unwrap();
        assert!(claim(core).is_err());
        drop(first);
        assert!(claim(core).is_ok());
    }

    #[test]
    fn pools_get_different_cores_as_long_as_there_are() {
        let count = count();
        if count < 2 || allowed().is_empty() {
            return;
        }
        let (a, b) = (Cores::take(1).unwrap(), Cores::take(1).unwrap());
        assert_ne!(a.of(0), b.of(0));
        assert!(Cores::take(count + 1).is_none());
    }
}
