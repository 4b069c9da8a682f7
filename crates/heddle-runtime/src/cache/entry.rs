//! One entry: content, checksum, mark.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use memmap2::Mmap;

/// The last bytes of an entry. Loaders ignore bytes behind the sections of a shared library.
const MARK: &[u8; 8] = b"HEDDLE01";

const TRAILER: usize = blake3::OUT_LEN + MARK.len();

/// Resolution of an entry's time of last use.
const USE_RESOLUTION: Duration = Duration::from_secs(600);

/// The name of an entry: a hash of everything that its content depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(blake3::Hash);

impl Key {
    /// Hashes parts, delimited unambiguously.
    pub fn new(parts: &[&[u8]]) -> Key {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Key(hasher.finalize())
    }

    /// The hash.
    pub fn bytes(&self) -> &[u8; Key::LEN] {
        self.0.as_bytes()
    }

    /// The key with this hash.
    pub fn from_bytes(bytes: [u8; Key::LEN]) -> Key {
        Key(bytes.into())
    }

    /// Bytes of the hash.
    pub const LEN: usize = blake3::OUT_LEN;
}

/// Hashes what is written to it.
#[derive(Debug, Default)]
pub struct KeyWriter(blake3::Hasher);

impl KeyWriter {
    /// The key of all that was written.
    pub fn key(&self) -> Key {
        Key(self.0.finalize())
    }
}

impl io::Write for KeyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.to_hex().fmt(f)
    }
}

/// The content of the entry at `path`. A broken entry is removed.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = std::fs::read(path).ok()?;
    let Some(end) = content_end(&bytes) else {
        let _ = std::fs::remove_file(path);
        return None;
    };
    bytes.truncate(end);
    note_use(path);
    Some(bytes)
}

/// The content of the entry at `path`, of `size` bytes, in pages that all processes share. A broken
/// entry is removed.
pub(super) fn map(path: &Path, size: usize) -> Option<Bytes> {
    let file = File::open(path).ok()?;
    // SAFETY: the map is read-only, and no process changes an entry or cuts it short: it is
    // replaced or removed, which leaves the mapped file as it is.
    let map = unsafe { Mmap::map(&file).ok()? };
    if content_end(&map) != Some(size) {
        let _ = std::fs::remove_file(path);
        return None;
    }
    note_use(path);
    Some(Bytes::from_owner(map).slice(..size))
}

fn content_end(bytes: &[u8]) -> Option<usize> {
    let end = bytes.len().checked_sub(TRAILER)?;
    let (content, trailer) = bytes.split_at(end);
    let (sum, mark) = trailer.split_at(blake3::OUT_LEN);
    (mark == MARK && blake3::hash(content).as_bytes() == sum).then_some(end)
}

/// Sets the modification time, which orders entries by last use. Rarely, because readers should not
/// write; and never in a read-only cache.
fn note_use(path: &Path) {
    let now = SystemTime::now();
    let modified = path.metadata().and_then(|m| m.modified());
    if modified.is_ok_and(|t| now.duration_since(t).is_ok_and(|d| d > USE_RESOLUTION)) {
        let _ = File::open(path).and_then(|f| f.set_modified(now));
    }
}

/// Appends the trailer to a finished file and syncs it to disk.
pub(super) fn seal(path: &Path) -> io::Result<()> {
    let mut hasher = blake3::Hasher::new();
    let sum = hasher.update_reader(File::open(path)?)?.finalize();
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(sum.as_bytes())?;
    file.write_all(MARK)?;
    file.sync_all()
}
