//! Memory for programs: aligned, zeroed, in huge pages where that pays, freed on drop.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::MemoryError;

/// The alignment that programs may rely on.
pub const ALIGNMENT: usize = 64;

/// Buffers from this size on are mapped: untouched pages cost nothing, and freed memory returns to
/// the system at once.
pub(crate) const MAPPED: usize = 1 << 20;

pub(crate) const HUGE_PAGE: usize = 2 << 20;

pub(crate) const PAGE: usize = 4096;

/// Initialised bytes at an address that is a multiple of 64, zero at first.
pub struct Buffer {
    data: NonNull<u8>,
    len: usize,
    origin: Origin,
}

#[derive(Clone, Copy)]
enum Origin {
    Nothing,
    Heap(Layout),
    Map { bytes: usize },
}

impl Buffer {
    /// No bytes.
    pub const EMPTY: Buffer = Buffer {
        data: NonNull::<Aligned>::dangling().cast(),
        len: 0,
        origin: Origin::Nothing,
    };

    /// `len` zeroed bytes.
    pub fn zeroed(len: usize) -> Result<Buffer, MemoryError> {
        match len {
            0 => Ok(Buffer::EMPTY),
            len if len < MAPPED => Buffer::heap(len),
            len => Buffer::map(len),
        }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Result<Buffer, MemoryError> {
        let mut buffer = Buffer::zeroed(bytes.len())?;
        buffer.copy_from_slice(bytes);
        Ok(buffer)
    }

    /// Makes the buffer hold at least `len` bytes. Growing discards its contents.
    pub fn reserve(&mut self, len: usize) -> Result<(), MemoryError> {
        if self.len < len {
            // Frees the old memory first, so that both never coexist.
            *self = Buffer::EMPTY;
            *self = Buffer::zeroed(len)?;
        }
        Ok(())
    }

    /// The first byte, for writing through a shared environment.
    pub(crate) fn start(&mut self) -> *mut u8 {
        self.data.as_ptr()
    }

    fn heap(len: usize) -> Result<Buffer, MemoryError> {
        let layout = Layout::from_size_align(len.next_multiple_of(ALIGNMENT), ALIGNMENT)
            .map_err(|e| refused(len, e))?;
        // SAFETY: the layout's size is not zero.
        let data = NonNull::new(unsafe { alloc_zeroed(layout) });
        let data = data.ok_or_else(|| refused(len, "out of memory"))?;
        Ok(Buffer {
            data,
            len,
            origin: Origin::Heap(layout),
        })
    }

    fn map(len: usize) -> Result<Buffer, MemoryError> {
        // A last part that fills most of a huge page gets one, too.
        let page = match len % HUGE_PAGE {
            rest if len >= HUGE_PAGE && rest >= HUGE_PAGE / 4 * 3 => HUGE_PAGE,
            _ => PAGE,
        };
        let bytes = len
            .checked_next_multiple_of(page)
            .filter(|b| *b <= isize::MAX as usize - HUGE_PAGE)
            .ok_or_else(|| refused(len, "more than can be addressed"))?;
        let huge = bytes / HUGE_PAGE * HUGE_PAGE;
        let slack = if huge > 0 { HUGE_PAGE } else { 0 };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping overlaps nothing; what is cut off and advised lies within it.
        let data = unsafe {
            let base = mmap_anonymous(
                std::ptr::null_mut(),
                bytes + slack,
                access,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
            .map_err(|e| refused(len, e))?
            .cast::<u8>();
            let head = if slack == 0 {
                0
            } else {
                base.align_offset(HUGE_PAGE)
            };
            if head > 0 {
                let _ = munmap(base.cast(), head);
            }
            let data = base.add(head);
            if slack > head {
                let _ = munmap(data.add(bytes).cast(), slack - head);
            }
            if huge > 0 {
                // A hint: without huge pages the memory is only slower.
                let _ = madvise(data.cast(), huge, Advice::LinuxHugepage);
            }
            NonNull::new_unchecked(data)
        };
        Ok(Buffer {
            data,
            len,
            origin: Origin::Map { bytes },
        })
    }
}

#[repr(align(64))]
struct Aligned;

fn refused(bytes: usize, reason: impl fmt::Display) -> MemoryError {
    MemoryError {
        bytes,
        reason: reason.to_string(),
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the memory was obtained that way and nothing borrows it any more.
        unsafe {
            match self.origin {
                Origin::Nothing => {}
                Origin::Heap(layout) => dealloc(self.data.as_ptr(), layout),
                Origin::Map { bytes } => {
                    let _ = munmap(self.data.as_ptr().cast(), bytes);
                }
            }
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes belong to the buffer.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` initialised bytes belong to the buffer, which is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::EMPTY
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

// SAFETY: the buffer owns its memory and hands it out under the usual borrowing rules.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_zeroed() {
        for len in [
            0,
            1,
            63,
            65,
            4095,
            MAPPED - 1,
            MAPPED,
            HUGE_PAGE - 1,
            HUGE_PAGE,
            3 * HUGE_PAGE + 5,
        ] {
            let mut buffer = Buffer::zeroed(len).unwrap();
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            assert!(buffer.iter().all(|b| *b == 0));
            buffer.fill(7);
        }
    }

    #[test]
    fn what_the_system_has_not_is_an_error() {
        for len in [usize::MAX, usize::MAX / 2, 1 << 60] {
            assert_eq!(Buffer::zeroed(len).unwrap_err().bytes, len);
        }
    }
}
