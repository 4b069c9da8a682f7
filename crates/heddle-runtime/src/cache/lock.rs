//! Locks that die with their process.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};

use super::{Key, make_dir};

/// The file in a work folder that its owner holds locked.
const OWNER: &str = "owner";

/// After so long it is better to build twice than to wait for a process that may be stopped.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder to build in, which goes away with its owner: on drop, or, when the process was killed, in a
/// later sweep by another.
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
        // Who opened this file before waits for a lock of its own now, which at worst builds twice.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether nobody holds the lock of a work folder or of an entry.
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

/// Whether the lock was free. It is held until the file is closed.
fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
