//! The cache on disk: files named by their content's key, shared by all processes of a user.
//!
//! - An entry is written under a temporary name, synced and renamed, so it is complete or absent
//!   whenever a process dies.
//! - It ends in its checksum. A reader that finds it wrong removes the entry.
//! - One process at a time builds an entry while others wait; the lock is an `flock`, which dies
//!   with its process. Locks only save work: building twice is harmless.
//! - The least recently used entries are removed when a new one exceeds the limit.
//! - An unusable cache is not an error: everything is built anew, and `Cache::unusable` gives the
//!   reason.

mod entry;
mod lock;
mod sweep;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;

pub use entry::{Key, KeyWriter};
pub(crate) use lock::{KeyLock, WorkDir};

/// The place of the cache.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum CacheChoice {
    /// `HEDDLE_CACHE`, else `heddle` in the user's cache folder (`XDG_CACHE_HOME`, `~/.cache`).
    #[default]
    Default,
    /// This folder.
    At(PathBuf),
    /// No cache.
    Off,
}

/// A cache folder, or the reason that there is none.
#[derive(Debug)]
pub struct Cache {
    root: Result<PathBuf, String>,
    limit: u64,
}

impl Cache {
    /// Opens the cache, and creates its folder if need be. `limit` bounds the bytes of all entries.
    pub fn open(choice: &CacheChoice, limit: u64) -> Cache {
        let root = match choice {
            CacheChoice::Off => Err("turned off".to_owned()),
            CacheChoice::At(path) => usable(path),
            CacheChoice::Default => match default_root() {
                Some(path) => usable(&path),
                None => Err("neither HEDDLE_CACHE, XDG_CACHE_HOME nor HOME is set".to_owned()),
            },
        };
        Cache { root, limit }
    }

    /// The reason that nothing is cached, if so.
    pub fn unusable(&self) -> Option<&str> {
        self.root.as_ref().err().map(String::as_str)
    }

    /// The cache's folder.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref().ok()
    }

    /// The limit on the bytes of all entries.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The file of a complete entry. Its checksum follows its content.
    pub fn find(&self, kind: &str, key: Key) -> Option<PathBuf> {
        let path = self.path(kind, key).ok()?;
        entry::read(&path)?;
        Some(path)
    }

    /// The content of a complete entry.
    pub fn get(&self, kind: &str, key: Key) -> Option<Vec<u8>> {
        entry::read(&self.path(kind, key).ok()?)
    }

    /// The content of a complete entry of `size` bytes, in pages that all processes share.
    pub fn map(&self, kind: &str, key: Key, size: usize) -> Option<Bytes> {
        entry::map(&self.path(kind, key).ok()?, size)
    }

    /// Stores `content`, replacing an entry with this key.
    pub fn put(&self, kind: &str, key: Key, content: &[u8]) -> io::Result<PathBuf> {
        let work = self.work_dir()?;
        let file = work.path().join("content");
        std::fs::write(&file, content)?;
        self.adopt(kind, key, &file)
    }

    /// Removes an unusable entry.
    pub fn remove(&self, kind: &str, key: Key) {
        if let Ok(path) = self.path(kind, key) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Makes a file in one of this cache's work folders an entry.
    pub(crate) fn adopt(&self, kind: &str, key: Key, file: &Path) -> io::Result<PathBuf> {
        let path = self.path(kind, key)?;
        entry::seal(file)?;
        make_dir(path.parent().expect("entries lie in folders"))?;
        std::fs::rename(file, &path)?;
        sweep::sweep(self.root().expect("it has a path"), self.limit, &path);
        Ok(path)
    }

    /// A new folder to build in, on the same file system as the entries.
    pub(crate) fn work_dir(&self) -> io::Result<WorkDir> {
        let root = self
            .root
            .as_ref()
            .map_err(|e| io::Error::other(e.clone()))?;
        WorkDir::new(&root.join(sweep::WORK))
    }

    /// Waits until no other process builds this entry. `None` if locks do not work here.
    pub(crate) fn lock(&self, key: Key) -> Option<KeyLock> {
        KeyLock::wait(&self.root().ok_or(()).ok()?.join(sweep::LOCKS), key)
    }

    fn path(&self, kind: &str, key: Key) -> io::Result<PathBuf> {
        let root = self
            .root
            .as_ref()
            .map_err(|e| io::Error::other(e.clone()))?;
        Ok(root.join(sweep::ENTRIES).join(format!("{key}.{kind}")))
    }
}

fn default_root() -> Option<PathBuf> {
    let folder = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    folder("HEDDLE_CACHE")
        .or_else(|| {
            Some(
                folder("XDG_CACHE_HOME")
                    .filter(|p| p.is_absolute())?
                    .join("heddle"),
            )
        })
        .or_else(|| Some(folder("HOME")?.join(".cache/heddle")))
}

/// Programs are loaded from the cache, so a folder that anyone can write to is refused.
fn usable(path: &Path) -> Result<PathBuf, String> {
    let say = |e: io::Error| format!("{}: {e}", path.display());
    make_dir(path).map_err(say)?;
    let path = path.canonicalize().map_err(say)?;
    let meta = path.metadata().map_err(say)?;
    let user = rustix::process::geteuid().as_raw();
    if meta.mode() & 0o002 != 0 {
        return Err(format!("{}: everybody may write there", path.display()));
    }
    if meta.uid() != user && meta.uid() != 0 {
        return Err(format!("{}: it belongs to another user", path.display()));
    }
    Ok(path)
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
