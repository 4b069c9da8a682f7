//! Memory whose size the run determines: addresses are reserved once, and get memory between launches.
//!
//! Each segment is one slot. Memory is mapped in whole granules, at least twice as much as before unless the limit or the device has no
//! room for that, and stays for the next run.

use std::sync::Arc;

use super::device::Context;
use super::driver::Pages;
use super::error::DeviceError;

/// Addresses of a segment, as powers of two: 2 MiB to 1 TiB. None exceeds the limit on all memory.
const LEAST: u32 = 21;
const MOST: u32 = 40;

/// Addresses of all segments of a session, as a power of two: 4 TiB. With many, a segment that needs more than its share gets more, and
/// the run begins again.
const MOST_IN_ALL: u32 = 42;

/// The segments of a session.
#[derive(Debug)]
pub(crate) struct DeviceSegments {
    context: Arc<Context>,
    count: usize,
    /// Addresses that a segment has asked for, as a power of two.
    asked: u32,
    /// Addresses that were sought for a segment, as a power of two.
    sought: u32,
    /// Addresses of a segment, as a power of two.
    pub(crate) slot_bits: u32,
    /// The first one's address; 0: none is reserved.
    pub(crate) start: u64,
    /// Bytes that a run may use, by segment.
    pub(crate) committed: Vec<i64>,
    pages: Vec<Vec<(Pages, usize)>>,
}

/// The reasons for which a segment gets no more memory.
#[derive(Debug)]
pub(crate) enum Shortage {
    /// All segments together would exceed the limit.
    Limit { needed: u64 },
    /// The device has not as much.
    Device { needed: u64, error: DeviceError },
    /// A call failed.
    Failed(DeviceError),
}

impl DeviceSegments {
    pub(crate) fn new(context: &Arc<Context>, count: usize) -> Self {
        Self {
            context: context.clone(),
            count,
            asked: LEAST,
            sought: LEAST,
            slot_bits: LEAST,
            start: 0,
            committed: vec![0; count],
            pages: (0..count).map(|_| vec![]).collect(),
        }
    }

    /// The first slot of each segment, and their number.
    pub(crate) fn slots(&self) -> impl Iterator<Item = i64> {
        0..=self.count as i64
    }

    /// Begins a run: reserves addresses, and maps the first granule of each segment, from which elements that are masked out are loaded.
    pub(crate) fn begin(&mut self, limit: u64) -> Result<(), Shortage> {
        if self.count == 0 {
            return Ok(());
        }
        let mut bits = (64 - limit.leading_zeros()).clamp(LEAST, MOST);
        while bits > self.asked && self.count > 1 << (MOST_IN_ALL - bits) {
            bits -= 1;
        }
        if self.start != 0 && (bits > self.sought || self.mapped() > limit) {
            self.release();
        }
        if self.start == 0 {
            self.reserve(bits).map_err(Shortage::Failed)?;
        }
        for segment in 0..self.count {
            self.grow(segment, 1, limit)?;
        }
        Ok(())
    }

    /// Maps the first bytes of a segment. `false` if what all segments held is lost.
    pub(crate) fn grow(
        &mut self,
        segment: usize,
        bytes: u64,
        limit: u64,
    ) -> Result<bool, Shortage> {
        let have = self.committed[segment] as u64;
        if bytes <= have {
            return Ok(true);
        }
        if bytes > 1 << self.slot_bits && bytes <= limit {
            // The run begins anew, so that what the segments hold is not needed.
            self.release();
            self.asked = u64::BITS - (bytes - 1).leading_zeros();
            self.begin(limit)?;
            self.grow(segment, bytes, limit)?;
            return Ok(false);
        }
        let granule = self.context.granule as u64;
        let others = self.mapped() - have;
        let room = limit.saturating_sub(others).min(1 << self.slot_bits) / granule * granule;
        let least = bytes.max(1).checked_next_multiple_of(granule);
        let Some(least) = least.filter(|least| *least <= room) else {
            let needed = others.saturating_add(bytes.max(granule));
            return Err(Shortage::Limit { needed });
        };
        let wanted = least.max(2 * have).min(room);
        match self.map(segment, have, wanted) {
            Err(DeviceError::Memory { .. }) if wanted > least => self
                .map(segment, have, least)
                .map_err(|e| short(e, others + least)),
            mapped => mapped.map_err(|e| short(e, others + least)),
        }?;
        Ok(true)
    }

    /// Bytes of all segments.
    pub(crate) fn mapped(&self) -> u64 {
        self.committed.iter().map(|bytes| *bytes as u64).sum()
    }

    /// Gives memory and addresses back.
    pub(crate) fn release(&mut self) {
        let (start, bits) = (std::mem::take(&mut self.start), self.slot_bits);
        let driver = &self.context.driver;
        let entered = match start != 0 && !self.context.is_lost() {
            true => self.context.enter().ok(),
            false => None,
        };
        for (segment, pages) in self.pages.iter_mut().enumerate() {
            let mut address = start + ((segment as u64) << bits);
            for (pages, bytes) in pages.drain(..) {
                if entered.is_some() {
                    // Nothing can be done about memory that can't be given back.
                    let _ = driver.unmap_pages(address, bytes);
                    let _ = driver.release_pages(pages);
                }
                address += bytes as u64;
            }
            self.committed[segment] = 0;
        }
        if entered.is_some() {
            let _ = driver.unreserve(start, self.count << bits);
        }
    }

    /// Reserves addresses: so many for each segment, or fewer, if there are not as many.
    fn reserve(&mut self, mut bits: u32) -> Result<(), DeviceError> {
        let context = &self.context;
        let _entered = context.enter()?;
        self.sought = bits;
        loop {
            let bytes = self.count << bits;
            match context.driver.reserve(bytes) {
                Ok(start) => {
                    (self.start, self.slot_bits) = (start, bits);
                    return Ok(());
                }
                Err(_) if bits > self.asked => bits -= 1,
                Err(e) => return Err(context.error(e, "addresses were reserved", bytes)),
            }
        }
    }

    /// Gives a segment memory behind what it has.
    fn map(&mut self, segment: usize, have: u64, wanted: u64) -> Result<(), DeviceError> {
        let context = &self.context;
        let bytes = (wanted - have) as usize;
        let error = |e| context.error(e, "memory was mapped", bytes);
        let _entered = context.enter()?;
        let (driver, number) = (&context.driver, context.number);
        let pages = driver.create_pages(number, bytes).map_err(error)?;
        let address = self.start + ((segment as u64) << self.slot_bits) + have;
        if let Err(failed) = driver.map_pages(pages, address, bytes, number) {
            let _ = driver.release_pages(pages);
            return Err(error(failed));
        }
        self.pages[segment].push((pages, bytes));
        self.committed[segment] = wanted as i64;
        Ok(())
    }
}

impl Drop for DeviceSegments {
    fn drop(&mut self) {
        self.release();
    }
}

fn short(error: DeviceError, needed: u64) -> Shortage {
    match error {
        DeviceError::Memory { .. } => Shortage::Device { needed, error },
        error => Shortage::Failed(error),
    }
}
