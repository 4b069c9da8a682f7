//! Locks that are released when their process dies.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};

use super::{Key, make_dir};

/// The lock file in a work folder.
const OWNER: &str = "owner";

/// Timeout after which building twice is better than waiting for a process that may be stopped.
const PATIENCE: Duration = Duration::from_secs(120);

/// A build folder. Removed on drop, or, if its process was killed, by another's sweep.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
    _owner: File,
}

impl WorkDir {
    pub(super) fn new(parent: &Path) -> io::Result<WorkDir> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        make_dir(parent)?;
        let time = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{}-{number}", std::process::id(), time.as_nanos());
        let path = parent.join(name);
        make_dir(&path)?;
        let owner = File::create(path.join(OWNER))?;
        let _ = try_lock(&owner);
        Ok(WorkDir {
            path,
            _owner: owner,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The right to build an entry.
#[derive(Debug)]
pub(crate) struct KeyLock {
    path: PathBuf,
    _file: File,
}

impl KeyLock {
    pub(super) fn wait(folder: &Path, key: Key) -> Option<KeyLock> {
        make_dir(folder).ok()?;
        let path = folder.join(key.to_string());
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let file = open_lock(&path).ok()?;
            match try_lock(&file) {
                Ok(true) => {
                    return Some(KeyLock { path, _file: file });
                }
                Ok(false) if start.elapsed() < PATIENCE => {}
                _ => return None,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        // A process that opened this file before now locks a deleted file, which at worst builds
        // twice.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// True if nobody holds the lock of a work folder or of an entry.
pub(super) fn is_orphan(path: &Path) -> bool {
    let file = if path.is_dir() {
        path.join(OWNER)
    } else {
        path.to_owned()
    };
    match OpenOptions::new().write(true).open(file) {
        Ok(file) => try_lock(&file).unwrap_or(false),
        Err(e) => e.kind() == io::ErrorKind::NotFound,
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

/// Tries to lock; returns true on success. The lock is held until the file is closed.
fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
