//! Bounds the cache: removes old entries, and work folders of killed processes.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::lock::is_orphan;

/// Folders in the cache's root.
pub(super) const ENTRIES: &str = "entries";
pub(super) const WORK: &str = "work";
pub(super) const LOCKS: &str = "locks";

/// A younger work folder may not be locked yet.
const GRACE: Duration = Duration::from_secs(60);

/// Removes unneeded files except `newest`. On errors files stay longer.
pub(super) fn sweep(root: &Path, limit: u64, newest: &Path) {
    for (path, meta) in list(&root.join(WORK))
        .into_iter()
        .chain(list(&root.join(LOCKS)))
    {
        if age(&meta) > GRACE && is_orphan(&path) {
            let _ = if meta.is_dir() {
                std::fs::remove_dir_all(&path)
            } else {
                std::fs::remove_file(&path)
            };
        }
    }
    let mut entries = list(&root.join(ENTRIES));
    let mut total: u64 = entries.iter().map(|(_, m)| m.len()).sum();
    // By time stamp: ages change while they are compared.
    entries.sort_by_key(|(_, meta)| modified(meta));
    for (path, meta) in entries {
        if total <= limit {
            break;
        }
        if path != newest && std::fs::remove_file(&path).is_ok() {
            total -= meta.len();
        }
    }
}

fn list(folder: &Path) -> Vec<(PathBuf, Metadata)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|e| Some((e.path(), e.metadata().ok()?)))
        .collect()
}

fn age(meta: &Metadata) -> Duration {
    SystemTime::now()
        .duration_since(modified(meta))
        .unwrap_or_default()
}

fn modified(meta: &Metadata) -> SystemTime {
    meta.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}
