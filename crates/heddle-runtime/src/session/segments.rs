//! Memory whose size the run determines: address space is reserved, and committed as it is used.
//!
//! A segment is a range of addresses, made of slots of equal size, so that its address tells its
//! first slot. A run may use the bytes that `committed` says. Who needs more calls [`commit`], which
//! at least doubles them; pages are made accessible and never move. The pages that a run used stay
//! for the next one, which begins with few bytes committed and gets them back without a system call.
//!
//! Where the address space is limited, segments get a part of what is left of it. A run that needs
//! more of one begins again with a larger part for it ([`Segments::widen`]); programs read their
//! inputs only, so that the second run gives what the first one would have given.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap_anonymous, mprotect, munmap};
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};

use crate::abi::code;
use crate::error::{MemoryError, RunError};

/// Bytes that each segment begins with. What is committed is a multiple of it, whatever the size of a page, so that limits on
/// memory mean the same on all systems.
const FIRST: usize = 4096;

/// Bytes that a segment grows by at least, unless that exceeds the limit.
const STEP: usize = 1 << 16;

const HUGE_PAGE: usize = 2 << 20;

/// Addresses reserved for a segment, as a power of two: 64 GiB.
const RESERVED: u32 = 36;

/// Addresses reserved for all segments of a session at most, as a power of two: 4 TiB.
const RESERVED_IN_ALL: u32 = 42;

/// A slot at least, as a power of two: 64 KiB, a multiple of every system's page.
const LEAST: u32 = 16;

/// The segments of a session.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// The first slot of each segment, and the number of slots at the end.
    pub(super) slots: Vec<i64>,
    /// Bytes that the run may use, by slot; behind a segment's first slot nothing.
    pub(super) committed: Vec<AtomicI64>,
    /// Bytes of a slot, as a power of two.
    pub(super) slot_bits: u32,
    /// Slots of each segment, as powers of two.
    widths: Vec<u32>,
    map: Option<Map>,
    pages: Mutex<Pages>,
}

/// Reserved addresses.
#[derive(Debug)]
struct Map {
    start: *mut u8,
    bytes: usize,
    /// The first slot: aligned to a huge page.
    first: *mut u8,
}

// SAFETY: the addresses belong to the map alone.
unsafe impl Send for Map {}
// SAFETY: as above; the pages are changed under a lock.
unsafe impl Sync for Map {}

#[derive(Debug)]
struct Pages {
    /// Bytes of a page, whose access changes as a whole: 4 KiB, on some systems 16 or 64 KiB.
    size: usize,
    /// Accessible bytes by slot, in whole pages; at least those committed.
    accessible: Vec<usize>,
    /// Limit on the bytes of all segments.
    limit: u64,
    /// Fills new pages.
    fill: Option<u8>,
}

impl Default for Pages {
    fn default() -> Pages {
        Pages {
            size: page_size(),
            accessible: vec![],
            limit: 0,
            fill: None,
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped as a whole, and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

impl Segments {
    pub(super) fn new(count: usize) -> Segments {
        Segments {
            widths: vec![0; count],
            ..Segments::default()
        }
    }

    /// The first slot.
    pub(super) fn start(&self) -> *mut u8 {
        self.map.as_ref().map_or(std::ptr::null_mut(), |m| m.first)
    }

    /// Begins a run: reserves addresses unless that is done, and commits the first bytes of each segment.
    pub(super) fn begin(&mut self, limit: u64, fill: Option<u8>) -> Result<(), RunError> {
        if self.widths.is_empty() {
            return Ok(());
        }
        if self.map.is_none() {
            self.reserve(limit)?;
        }
        {
            let mut pages = lock(&self.pages);
            (pages.limit, pages.fill) = (limit, fill);
        }
        self.committed
            .iter()
            .for_each(|c| c.store(0, Ordering::Relaxed));
        for segment in 0..self.widths.len() {
            // Elements that are masked out are loaded from the beginning.
            let committed = self.commit(self.slots[segment], FIRST as i64);
            committed.map_err(|(_, [needed, _])| RunError::MemoryLimit {
                needed: needed as u64,
                limit,
            })?;
        }
        Ok(())
    }

    /// Ends a run: keeps the pages that it used.
    pub(super) fn end(&mut self) {
        let mut pages = lock(&self.pages);
        for slot in 0..self.committed.len() {
            let used = self.committed[slot].load(Ordering::Relaxed) as usize;
            self.trim(&mut pages, slot, used);
        }
    }

    /// Bytes accessible now.
    pub(super) fn held(&self) -> usize {
        lock(&self.pages).accessible.iter().sum()
    }

    /// The bytes of a segment of the last run, by an address that the program gave.
    pub(super) fn bytes(&self, data: *const c_void, count: usize) -> Option<&[u8]> {
        let map = self.map.as_ref()?;
        let offset = (data as usize).checked_sub(map.first as usize)?;
        let slot = offset >> self.slot_bits;
        let committed = self.committed.get(slot)?.load(Ordering::Acquire) as usize;
        if offset & ((1 << self.slot_bits) - 1) != 0 || count > committed {
            return None;
        }
        // SAFETY: committed memory of this session, which no run writes to while it is borrowed.
        Some(unsafe { std::slice::from_raw_parts(data.cast(), count) })
    }

    /// Reserves more addresses for a segment that ran out of them, at the cost of the others.
    ///
    /// # Errors
    /// If no more can be had.
    pub(super) fn widen(&mut self, slot: i64, bytes: i64, limit: u64) -> Result<(), MemoryError> {
        let refused = || MemoryError {
            bytes: bytes as usize,
            reason: "no addresses are left for a growing array".into(),
        };
        let segment = self.slots.iter().position(|s| *s == slot);
        let segment = segment
            .filter(|s| *s < self.widths.len())
            .ok_or_else(refused)?;
        let had = self.width(segment);
        self.release();
        while self.widths[segment] < RESERVED {
            self.widths[segment] += 1;
            self.reserve(limit)?;
            if self.width(segment) > had {
                return Ok(());
            }
            self.release();
        }
        Err(refused())
    }

    /// Gives all memory back.
    pub(super) fn release(&mut self) {
        self.map = None;
        self.committed.clear();
        self.slots.clear();
        lock(&self.pages).accessible.clear();
    }

    fn width(&self, segment: usize) -> u64 {
        1u64 << (self.slot_bits + self.widths[segment])
    }

    fn reserve(&mut self, limit: u64) -> Result<(), MemoryError> {
        let count: u64 = self.widths.iter().map(|w| 1u64 << w).sum();
        // No segment exceeds the limit on all memory.
        let useful = 64 - limit.max(1).leading_zeros();
        let mut bits = useful.clamp(LEAST, RESERVED);
        let most = match getrlimit(Resource::As).current {
            Some(all) => (all.saturating_sub(mapped()) / 2).min(1 << RESERVED_IN_ALL),
            None => 1 << RESERVED_IN_ALL,
        };
        while bits > LEAST && count << bits > most {
            bits -= 1;
        }
        let map = loop {
            let bytes = (count << bits) as usize + HUGE_PAGE;
            match Map::new(bytes) {
                Ok(map) => break map,
                Err(error) if bits == LEAST => return Err(error),
                Err(_) => bits -= 1,
            }
        };
        self.map = Some(map);
        self.slot_bits = bits;
        let mut next = 0;
        self.slots = self.widths.iter().fold(vec![], |mut slots, width| {
            slots.push(next);
            next += 1 << width;
            slots
        });
        self.committed = (0..count).map(|_| AtomicI64::new(0)).collect();
        lock(&self.pages).accessible = vec![0; count as usize];
        Ok(())
    }

    /// Commits the first bytes of a segment: up to these of one of its slots.
    ///
    /// # Errors
    /// The code of an error, with its values.
    pub(super) fn commit(&self, slot: i64, bytes: i64) -> Result<(), (u32, [i64; 2])> {
        let slot_bytes = 1u64 << self.slot_bits;
        // The segment of the slot, and the bytes from its beginning.
        let segment = self.slots.iter().rposition(|first| *first <= slot);
        let (Some(map), Some(segment)) = (&self.map, segment) else {
            return Err((code::SEGMENT, [slot, bytes]));
        };
        let bytes = bytes.saturating_add((slot - self.slots[segment]) << self.slot_bits);
        let slot = self.slots[segment];
        let mut pages = lock(&self.pages);
        let at = slot as usize;
        let before = self.committed[at].load(Ordering::Relaxed) as usize;
        let Ok(needed) = usize::try_from(bytes) else {
            return Err((code::MEMORY, [i64::MAX, pages.limit as i64]));
        };
        if needed <= before {
            return Ok(());
        }
        let others = self.committed.iter().enumerate();
        let others = others.filter(|(k, _)| *k != at);
        let others = others.map(|(_, c)| c.load(Ordering::Relaxed) as u64);
        let others: u64 = others.sum();
        let in_all = others.saturating_add(needed as u64);
        if in_all > pages.limit {
            let most = i64::MAX as u64;
            let values = [in_all.min(most) as i64, pages.limit.min(most) as i64];
            return Err((code::MEMORY, values));
        }
        let room = (pages.limit - others).min(slot_bytes << self.widths[segment]) as usize;
        if needed > room {
            return Err((code::SEGMENT, [slot, bytes]));
        }
        let step = if before == 0 { FIRST } else { STEP };
        let wanted = needed.max(2 * before).max(step).next_multiple_of(FIRST);
        let end = wanted.min(room).max(needed);
        // SAFETY: the slot lies in the map.
        let start = unsafe { map.first.add((slot_bytes * slot as u64) as usize) };
        self.open(&mut pages, at, start, end)
            .map_err(|()| (code::MEMORY, [in_all.min(i64::MAX as u64) as i64, 0]))?;
        self.committed[at].store(end as i64, Ordering::Release);
        Ok(())
    }

    /// Makes the first bytes of a segment accessible.
    fn open(&self, pages: &mut Pages, at: usize, start: *mut u8, end: usize) -> Result<(), ()> {
        let (had, has) = (pages.accessible[at], end.next_multiple_of(pages.size));
        if has > had {
            // Pages kept from an earlier run, and not used in this one, make room.
            let kept: usize = pages.accessible.iter().sum();
            if (kept - had + has) as u64 > pages.limit {
                for other in (0..self.committed.len()).filter(|k| *k != at) {
                    let used = self.committed[other].load(Ordering::Relaxed) as usize;
                    self.trim(pages, other, used);
                }
            }
            let access = MprotectFlags::READ | MprotectFlags::WRITE;
            // SAFETY: addresses of this segment, of which nobody uses those not committed yet.
            unsafe {
                let new = start.add(had).cast();
                mprotect(new, has - had, access).map_err(|_| ())?;
                if has > HUGE_PAGE {
                    // A hint: without huge pages the memory is only slower.
                    let _ = madvise(start.cast(), has, Advice::LinuxHugepage);
                }
            }
            pages.accessible[at] = has;
        }
        if let Some(byte) = pages.fill {
            let before = self.committed[at].load(Ordering::Relaxed) as usize;
            // SAFETY: accessible, and not committed yet.
            unsafe { std::slice::from_raw_parts_mut(start.add(before), end - before) }.fill(byte);
        }
        Ok(())
    }

    /// Gives pages back that are not among the first `used` bytes of a slot.
    fn trim(&self, pages: &mut Pages, slot: usize, used: usize) {
        let (used, has) = (used.next_multiple_of(pages.size), pages.accessible[slot]);
        let Some(map) = self.map.as_ref().filter(|_| used < has) else {
            return;
        };
        // SAFETY: accessible pages that nobody uses.
        unsafe {
            let start = map.first.add((slot << self.slot_bits) + used).cast();
            let _ = madvise(start, has - used, Advice::LinuxDontNeed);
            if mprotect(start, has - used, MprotectFlags::empty()).is_ok() {
                pages.accessible[slot] = used;
            }
        }
    }
}

impl Map {
    fn new(bytes: usize) -> Result<Map, MemoryError> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping overlaps nothing.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), flags).map_err(|e| {
                MemoryError {
                    bytes,
                    reason: e.to_string(),
                }
            })?
        };
        let start = start.cast::<u8>();
        // SAFETY: the map has a huge page more than its slots.
        let first = unsafe { start.add(start.align_offset(HUGE_PAGE)) };
        Ok(Map {
            start,
            bytes,
            first,
        })
    }
}

fn lock(pages: &Mutex<Pages>) -> MutexGuard<'_, Pages> {
    pages.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of addresses that the process uses.
fn mapped() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().next().and_then(|n| n.parse().ok());
    pages.unwrap_or(0u64) * page_size() as u64
}

/// Commits bytes of a segment: the environment's `grow`.
///
/// # Safety
/// `growth` is the [`Segments`] of the run, `values` has room for two values.
pub(super) unsafe extern "C" fn grow(
    growth: *const c_void,
    slot: i64,
    bytes: i64,
    values: *mut i64,
) -> i32 {
    // SAFETY: the caller's promise.
    let segments = unsafe { &*growth.cast::<Segments>() };
    match segments.commit(slot, bytes) {
        Ok(()) => 0,
        Err((code, [a, b])) => {
            // SAFETY: the caller's promise.
            unsafe {
                values.write(a);
                values.add(1).write(b);
            }
            code as i32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments on a system with pages of this size, or larger ones if this system's are larger.
    fn with_pages(count: usize, size: usize) -> Segments {
        let segments = Segments::new(count);
        lock(&segments.pages).size = size.max(page_size());
        segments
    }

    #[test]
    fn segments_grow_and_keep_what_a_run_used() {
        for size in [4 << 10, 16 << 10, 64 << 10] {
            let mut segments = with_pages(2, size);
            let page = size.max(page_size());
            segments.begin(1 << 30, None).unwrap();
            let (a, b) = (segments.slots[0], segments.slots[1]);
            assert_eq!(segments.held(), 2 * page);
            segments.commit(a, 1 << 20).unwrap();
            segments.commit(a, (1 << 20) + 1).unwrap();
            segments.commit(b, 1).unwrap();
            // It doubled, and less than that is there already.
            assert_eq!(segments.held(), (2 << 20) + page);
            segments.commit(a, 5).unwrap();
            segments.end();
            assert_eq!(segments.held(), (2 << 20) + page);
            segments.begin(1 << 30, None).unwrap();
            assert_eq!(segments.held(), (2 << 20) + page);
            segments.commit(b, 100_000).unwrap();
            segments.end();
            assert_eq!(segments.held(), page + 100_000usize.next_multiple_of(page));
        }
    }

    /// The system changes the access of whole pages only, and refuses ranges that begin within one.
    #[test]
    fn segments_grow_by_whole_pages() {
        let mut segments = with_pages(3, 64 << 10);
        segments.begin(1 << 30, Some(0xff)).unwrap();
        for bytes in [1, 5_000, 70_000, 200_000, 1_000_000] {
            for segment in 0..3 {
                let slot = segments.slots[segment];
                segments.commit(slot, bytes).unwrap();
                let committed = segments.committed[slot as usize].load(Ordering::Relaxed);
                let pages = lock(&segments.pages);
                let accessible = pages.accessible[slot as usize];
                assert_eq!(accessible % pages.size, 0, "{accessible} for {bytes}");
                assert!(committed >= bytes && accessible as i64 >= committed);
            }
        }
        segments.end();
        let pages = lock(&segments.pages);
        assert!(pages.accessible.iter().all(|a| a % pages.size == 0));
    }

    #[test]
    fn limits_do_not_depend_on_the_size_of_pages() {
        for size in [4 << 10, 64 << 10] {
            let mut segments = with_pages(2, size);
            segments.begin(3 * FIRST as u64, None).unwrap();
            let (a, b) = (segments.slots[0], segments.slots[1]);
            segments.commit(a, 2 * FIRST as i64).unwrap();
            let (code, values) = segments.commit(b, FIRST as i64 + 1).unwrap_err();
            assert_eq!(code, code::MEMORY);
            assert_eq!(values, [3 * FIRST as i64 + 1, 3 * FIRST as i64]);
        }
    }

    #[test]
    fn the_limit_counts_what_is_committed() {
        let mut segments = Segments::new(2);
        segments.begin(1 << 20, None).unwrap();
        let (a, b) = (segments.slots[0], segments.slots[1]);
        segments.commit(a, 900_000).unwrap();
        let (code, [needed, limit]) = segments.commit(b, 200_000).unwrap_err();
        assert_eq!(code, code::MEMORY);
        assert!(needed > limit && limit == 1 << 20, "{needed}, {limit}");
        // Pages of an earlier run make room.
        segments.end();
        segments.begin(1 << 20, None).unwrap();
        segments.commit(b, 900_000).unwrap();
        assert!(segments.held() <= (1usize << 20).next_multiple_of(page_size()));
        assert!(Segments::new(2).begin(FIRST as u64, None).is_err());
    }

    #[test]
    fn a_segment_gets_more_addresses() {
        let mut segments = Segments::new(2);
        segments.begin(100_000, None).unwrap();
        let (slot, before) = (segments.slots[0], segments.width(0));
        let (code, _) = {
            lock(&segments.pages).limit = 1 << 40;
            segments.commit(slot, before as i64 + 1).unwrap_err()
        };
        assert_eq!(code, code::SEGMENT);
        segments.widen(slot, before as i64 + 1, 100_000).unwrap();
        assert!(segments.width(0) > before);
        segments.begin(1 << 30, Some(0xff)).unwrap();
        // A place in its second slot; what lies before it is committed, too.
        segments.commit(segments.slots[0] + 1, 5).unwrap();
        let held = segments.committed[0].load(Ordering::Relaxed);
        assert!(held >= (1 << segments.slot_bits) + 5, "{held}");
        segments
            .commit(segments.slots[0], before as i64 + 1)
            .unwrap();
        let bytes = segments.bytes(segments.start().cast(), 100).unwrap();
        assert!(bytes.iter().all(|b| *b == 0xff));
        let inside = segments.start().wrapping_add(1);
        assert!(segments.bytes(inside.cast(), 1).is_none());
    }
}
