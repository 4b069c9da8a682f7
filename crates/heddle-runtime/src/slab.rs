//! Slabs: memory that the constants of a program share, so that they share huge pages, too.
//!
//! A slab is freed with the last of its constants. Huge pages that no constant uses any more are
//! given back before that.

use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{Advice, madvise};

use crate::buffer::{ALIGNMENT, Buffer, HUGE_PAGE, MAPPED, PAGE};
use crate::error::MemoryError;

/// Memory for constants whose sizes are known in advance. It is allocated when it is needed.
#[derive(Debug, Default)]
pub struct Slabs {
    /// Bytes of the constants still to come.
    rest: usize,
    open: Option<Arc<Slab>>,
}

#[derive(Debug)]
struct Slab {
    start: NonNull<u8>,
    state: Mutex<State>,
    /// Owns the memory from `start` on.
    buffer: Buffer,
}

#[derive(Debug)]
struct State {
    /// Bytes that were given out, from the start.
    used: usize,
    /// The number of slices that lie in each huge page, at least in part.
    slices: Vec<u32>,
}

/// Memory within a slab: initialised bytes that belong to one owner, zero at first.
#[derive(Debug)]
pub(crate) struct Slice {
    slab: Arc<Slab>,
    range: Range<usize>,
}

impl Slabs {
    /// Memory for constants of these sizes.
    pub fn of(sizes: impl IntoIterator<Item = usize>) -> Slabs {
        let rest = sizes.into_iter().map(room).fold(0, usize::saturating_add);
        Slabs { rest, open: None }
    }

    /// Notes that one of the announced constants has memory, here or elsewhere.
    pub fn pass(&mut self, size: usize) {
        self.rest = self.rest.saturating_sub(room(size));
    }

    /// `size` zeroed bytes.
    pub(crate) fn take(&mut self, size: usize) -> Result<Slice, MemoryError> {
        if let Some(slice) = self.open.as_ref().and_then(|slab| Slab::take(slab, size)) {
            return Ok(slice);
        }
        let slab = Slab::of(self.rest.max(room(size)))?;
        let slice = Slab::take(&slab, size);
        self.open = Some(slab);
        Ok(slice.expect("a new slab has room"))
    }
}

/// The bytes that a constant takes in a slab, behind larger ones.
fn room(size: usize) -> usize {
    let aligned = size.checked_next_multiple_of(alignment(size));
    aligned.unwrap_or(usize::MAX)
}

/// Large constants begin with a page, as if they had memory of their own.
fn alignment(size: usize) -> usize {
    if size < MAPPED { ALIGNMENT } else { PAGE }
}

impl Slab {
    fn of(size: usize) -> Result<Arc<Slab>, MemoryError> {
        let mut buffer = Buffer::zeroed(size)?;
        let start = NonNull::new(buffer.start()).expect("a buffer has an address");
        let pages = size.div_ceil(HUGE_PAGE);
        let state = State {
            used: 0,
            slices: vec![0; if size < HUGE_PAGE { 0 } else { pages }],
        };
        Ok(Arc::new(Slab {
            start,
            state: Mutex::new(state),
            buffer,
        }))
    }

    fn take(slab: &Arc<Slab>, size: usize) -> Option<Slice> {
        let mut state = slab.state.lock().unwrap_or_else(PoisonError::into_inner);
        let start = state.used.checked_next_multiple_of(alignment(size))?;
        let end = start.checked_add(size)?;
        if end > slab.buffer.len() {
            return None;
        }
        state.used = end;
        for page in state.pages(&(start..end)) {
            *page += 1;
        }
        Some(Slice {
            slab: slab.clone(),
            range: start..end,
        })
    }
}

impl State {
    fn pages(&mut self, range: &Range<usize>) -> &mut [u32] {
        let pages = range.start / HUGE_PAGE..range.end.div_ceil(HUGE_PAGE);
        self.slices.get_mut(pages).unwrap_or_default()
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        let slab = &self.slab;
        let mut state = slab.state.lock().unwrap_or_else(PoisonError::into_inner);
        let first = self.range.start / HUGE_PAGE;
        for (page, slices) in state.pages(&self.range).iter_mut().enumerate() {
            *slices -= 1;
            let start = (first + page) * HUGE_PAGE;
            if *slices == 0 && start + HUGE_PAGE <= slab.buffer.len() {
                // SAFETY: the page lies in the slab, and no slice of it is in use. Slices that
                // later get a part of it wait for the lock, and find zeros.
                let _ = unsafe {
                    let start = slab.start.add(start);
                    madvise(start.as_ptr().cast(), HUGE_PAGE, Advice::LinuxDontNeed)
                };
            }
        }
    }
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are initialised, and belong to this slice while it lives.
        unsafe {
            let start = self.slab.start.add(self.range.start);
            slice::from_raw_parts(start.as_ptr(), self.range.len())
        }
    }
}

impl DerefMut for Slice {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and slices do not overlap.
        unsafe {
            let start = self.slab.start.add(self.range.start);
            slice::from_raw_parts_mut(start.as_ptr(), self.range.len())
        }
    }
}

// SAFETY: the slab owns its memory; each byte of it belongs to one slice.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_lie_side_by_side() {
        let sizes = [3 << 20, HUGE_PAGE + 5, MAPPED, 100, 1, 64];
        let mut slabs = Slabs::of(sizes);
        let mut slices = Vec::new();
        for (byte, size) in sizes.into_iter().enumerate() {
            let mut slice = slabs.take(size).unwrap();
            slabs.pass(size);
            assert_eq!(slice.as_ptr().addr() % alignment(size), 0);
            assert!(slice.iter().all(|&b| b == 0));
            slice.fill(byte as u8 + 1);
            slices.push(slice);
        }
        assert_eq!(slabs.rest, 0);
        for pair in slices.windows(2) {
            let gap = pair[1].as_ptr().addr() - (pair[0].as_ptr().addr() + pair[0].len());
            assert!(gap < PAGE);
        }
        for (byte, slice) in slices.iter().enumerate() {
            assert!(slice.iter().all(|&b| b == byte as u8 + 1));
        }
    }

    #[test]
    fn pages_that_are_given_back_are_zero_and_those_in_use_stay() {
        let sizes = [HUGE_PAGE, HUGE_PAGE / 2, 2 * HUGE_PAGE];
        let mut slabs = Slabs::of(sizes);
        let mut slices = sizes.map(|size| slabs.take(size).unwrap());
        slices.iter_mut().for_each(|slice| slice.fill(1));
        let [first, second, third] = slices;
        let slab = slabs.open.clone().unwrap();
        // SAFETY: a slab is mapped as long as it lives.
        let byte = |at: usize| unsafe { slab.start.add(at).read_volatile() };
        drop(third);
        // The second one has a part of the third one's first page.
        assert_eq!(second[HUGE_PAGE / 2 - 1], 1);
        assert_eq!([byte(HUGE_PAGE * 3 / 2), byte(2 * HUGE_PAGE)], [1, 0]);
        drop(first);
        assert_eq!([byte(0), byte(HUGE_PAGE)], [0, 1]);
        drop(second);
        assert_eq!(byte(HUGE_PAGE), 0);
    }

    #[test]
    fn what_was_not_announced_gets_memory_too() {
        let mut slabs = Slabs::of([100]);
        let slices = [100, 5000, 3 << 20, 0].map(|size| slabs.take(size).unwrap());
        assert_eq!(slices.each_ref().map(|s| s.len()), [100, 5000, 3 << 20, 0]);
        assert!(slabs.take(usize::MAX / 2).is_err());
    }
}
