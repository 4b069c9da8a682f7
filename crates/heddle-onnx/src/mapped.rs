//! Mapped files. A file that is mapped already is not mapped again, so that its pages count once.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use memmap2::{Mmap, UncheckedAdvice};

/// Bytes in a mapped file.
#[derive(Debug)]
pub struct Mapped {
    mapping: Arc<Mapping>,
    range: Range<usize>,
}

#[derive(Debug)]
struct Mapping {
    map: Mmap,
    content: Content,
    /// Do programs read bytes here and there?
    is_scattered: AtomicBool,
}

/// The content of a file at a time: device, inode, length, and the times of the last changes to
/// content and inode. The last number sets contents apart that these may not tell from later ones.
type Content = [u64; 8];

/// The files that are mapped now.
static MAPPINGS: Mutex<Vec<Weak<Mapping>>> = Mutex::new(vec![]);

struct Owner(Arc<Mapping>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}

/// Maps a plain file into memory.
pub fn map_file(path: &Path) -> io::Result<Bytes> {
    let file = open_file(path)?;
    let meta = file.metadata()?;
    if meta.len() == 0 {
        return Ok(Bytes::new());
    }
    let content = content(&meta);
    let mut mappings = mappings();
    let known = mappings.iter().filter_map(Weak::upgrade);
    let mapping = match known.into_iter().find(|m| m.content == content) {
        Some(mapping) => mapping,
        None => {
            // SAFETY: the map is read-only. As with every mapped file, another process
            // that cuts the file short while it is read can kill this one; the bytes themselves
            // are never trusted.
            let map = unsafe { Mmap::map(&file)? };
            let is_scattered = AtomicBool::new(false);
            let mapping = Arc::new(Mapping {
                map,
                content,
                is_scattered,
            });
            mappings.retain(|m| m.strong_count() > 0);
            mappings.push(Arc::downgrade(&mapping));
            mapping
        }
    };
    Ok(Bytes::from_owner(Owner(mapping)))
}

/// Opens a plain file. Opening a pipe may block forever and a device may be endless, so the file's
/// kind is checked first.
pub fn open_file(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() {
        return File::open(path);
    }
    let message = "it is not a plain file";
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

impl Mapped {
    /// The place of these bytes, if they lie in a mapped file.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let found = mappings()
            .iter()
            .filter_map(Weak::upgrade)
            .find_map(|mapping| {
                let start = bytes
                    .as_ptr()
                    .addr()
                    .checked_sub(mapping.map.as_ptr().addr())?;
                let range = start..start.checked_add(bytes.len())?;
                (range.end <= mapping.map.len()).then_some((mapping, range))
            });
        found.map(|(mapping, range)| Self { mapping, range })
    }

    /// The content, as bytes that no other content has: the file's state when it was mapped, and
    /// the place in it.
    pub fn identity(&self) -> Vec<u8> {
        let place = [self.range.start, self.range.end].map(|n| n as u64);
        let words = self.mapping.content.iter().chain(&place);
        words.flat_map(|word| word.to_le_bytes()).collect()
    }

    /// True if other processes give this content the same identity.
    pub fn is_settled(&self) -> bool {
        self.mapping.content[7] == 0
    }

    /// States that few of these bytes are read, far from each other: a read brings a page to
    /// memory, not a huge one.
    pub fn scattered(&self) {
        self.mapping.is_scattered.store(true, Ordering::Relaxed);
        let Range { start, end } = self.range;
        // A hint.
        #[cfg(target_os = "linux")]
        let _ = (self.mapping.map).advise_range(memmap2::Advice::NoHugePage, start, end - start);
    }

    /// Takes the pages of some of these bytes out of memory. They come back from the file when they
    /// are read.
    pub fn release(&self, range: Range<usize>) {
        let end = self
            .range
            .end
            .min(self.range.start.saturating_add(range.end));
        let start = end.min(self.range.start.saturating_add(range.start));
        self.mapping.release(start..end);
    }

    /// Takes the pages of all mapped files out of memory, except those that programs read here and
    /// there.
    pub fn release_all() {
        let all: Vec<_> = mappings().iter().filter_map(Weak::upgrade).collect();
        let unused = all
            .iter()
            .filter(|m| !m.is_scattered.load(Ordering::Relaxed));
        unused.for_each(|mapping| mapping.release(0..mapping.map.len()));
    }
}

impl Mapping {
    fn release(&self, range: Range<usize>) {
        // A hint: pages that stay cost only memory.
        // SAFETY: the map is read-only, so that pages dropped from it come back from the file.
        let _ = unsafe {
            let advice = UncheckedAdvice::DontNeed;
            self.map
                .unchecked_advise_range(advice, range.start, range.len())
        };
    }
}

fn mappings() -> MutexGuard<'static, Vec<Weak<Mapping>>> {
    MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn content(meta: &fs::Metadata) -> Content {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let changed = Duration::new(meta.ctime().max(0) as u64, meta.ctime_nsec() as u32);
    // A file may change again within the resolution of its times.
    let resolution = match meta.ctime_nsec() {
        0 => Duration::from_secs(2),
        _ => Duration::from_millis(100),
    };
    let is_settled = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .is_ok_and(|now| now > changed + resolution);
    let unique = match is_settled {
        true => 0,
        false => NEXT.fetch_add(1, Ordering::Relaxed),
    };
    let times = [
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    ];
    let [mtime, mtime_ns, ctime, ctime_ns] = times.map(|t| t as u64);
    let (dev, ino, len) = (meta.dev(), meta.ino(), meta.len());
    [dev, ino, len, mtime, mtime_ns, ctime, ctime_ns, unique]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_mapped_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        fs::write(&path, [7; 10_000]).unwrap();
        // A file that was just written may change unnoticed.
        let new = map_file(&path).unwrap();
        assert_ne!(map_file(&path).unwrap().as_ptr(), new.as_ptr());
        assert!(!Mapped::of(&new).unwrap().is_settled());
        drop(new);
        let whole_second = fs::metadata(&path).unwrap().ctime_nsec() == 0;
        let wait = if whole_second { 2100 } else { 150 };
        std::thread::sleep(Duration::from_millis(wait));
        let [a, b] = [(); 2].map(|()| map_file(&path).unwrap());
        assert_eq!(a.as_ptr(), b.as_ptr());
        let slice = a.slice(100..9000);
        let mapped = Mapped::of(&slice).unwrap();
        assert!(mapped.is_settled());
        assert_eq!(
            mapped.identity(),
            Mapped::of(&b[100..9000]).unwrap().identity()
        );
        assert_ne!(
            mapped.identity(),
            Mapped::of(&b[100..9001]).unwrap().identity()
        );
        mapped.release(0..slice.len());
        mapped.release(50..usize::MAX);
        Mapped::release_all();
        assert!(slice.iter().all(|&byte| byte == 7));
        fs::write(&path, [8; 10_000]).unwrap();
        let changed = map_file(&path).unwrap();
        assert_ne!(changed.as_ptr(), a.as_ptr());
        assert!(changed.iter().all(|&byte| byte == 8));
        drop((a, b, slice, mapped));
        assert!(Mapped::of(&[0; 16]).is_none());
    }
}
