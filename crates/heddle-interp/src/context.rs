//! State that all kernels share: the memory meter, the clock and the precision of floats.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use heddle_ir::DType;

use crate::error::Fault;
use crate::value::{Array, Code, Elem, Store, with_scalar_type};

/// Announced work between two looks at the clock, in elements of a simple op.
const WORK_PER_LOOK: u64 = 1 << 22;

/// Most elements that a kernel processes between two announcements.
pub const PART: usize = 1 << 20;

/// Work of an instruction besides that on its elements.
pub const INSTRUCTION: usize = 512;

/// The context of a run.
pub struct Context {
    /// All floats are computed and kept in double.
    pub f64: bool,
    meter: Rc<Meter>,
    deadline: Option<(Instant, Duration)>,
    cancel: Option<Arc<AtomicU32>>,
    work: Cell<u64>,
    look_at: Cell<u64>,
    max_work: u64,
}

/// Counts the bytes of live values.
#[derive(Default)]
struct Meter {
    live: Cell<u64>,
    limit: u64,
}

/// Bytes counted until it is dropped.
#[derive(Default)]
pub struct Lease {
    bytes: u64,
    meter: Option<Rc<Meter>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.live.set(meter.live.get() - self.bytes);
        }
    }
}

impl Context {
    /// A context with these limits; `max_work` is for constant folding.
    pub fn new(f64: bool, max_memory: u64, timeout: Option<Duration>, max_work: u64) -> Self {
        // A time too far away to be represented is no limit.
        let deadline = timeout.and_then(|t| Some((Instant::now().checked_add(t)?, t)));
        Self {
            f64,
            meter: Rc::new(Meter {
                live: Cell::new(0),
                limit: max_memory,
            }),
            deadline,
            cancel: None,
            work: Cell::new(0),
            look_at: Cell::new(WORK_PER_LOOK),
            max_work,
        }
    }

    /// The same, stopped by a flag.
    pub fn cancelled_by(mut self, flag: Option<Arc<AtomicU32>>) -> Self {
        self.cancel = flag;
        self
    }

    /// Time left, if it is limited.
    pub fn time_left(&self) -> Option<Duration> {
        let (at, _) = self.deadline?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// Bytes that may still be claimed.
    pub fn memory_left(&self) -> u64 {
        self.meter.limit.saturating_sub(self.meter.live.get())
    }

    /// Counts bytes as live; an error if that would exceed the limit.
    pub fn claim(&self, bytes: u64) -> Result<Lease, Fault> {
        self.check_memory(bytes)?;
        self.meter.live.set(self.meter.live.get() + bytes);
        Ok(Lease {
            bytes,
            meter: Some(self.meter.clone()),
        })
    }

    /// Checks that so many bytes more are within the limit.
    fn check_memory(&self, needed: u64) -> Result<(), Fault> {
        let (live, limit) = (self.meter.live.get(), self.meter.limit);
        match live.checked_add(needed) {
            Some(sum) if sum <= limit => Ok(()),
            _ => Err(Fault::Memory {
                needed,
                live,
                limit,
            }),
        }
    }

    /// Makes a lease larger.
    pub fn extend(&self, lease: &mut Lease, bytes: u64) -> Result<(), Fault> {
        let mut more = self.claim(bytes)?;
        match lease.meter {
            Some(_) => lease.bytes += std::mem::take(&mut more.bytes),
            None => *lease = more,
        }
        Ok(())
    }

    /// An empty vector with room for `count` elements: the limit is checked before it is allocated.
    pub fn vec<T>(&self, count: usize) -> Result<Vec<T>, Fault> {
        let needed = bytes_of::<T>(count)?;
        self.check_memory(needed)?;
        let mut vec = Vec::new();
        vec.try_reserve_exact(count)
            .map_err(|_| Fault::OutOfMemory { needed })?;
        Ok(vec)
    }

    /// A vector of `count` equal elements.
    pub fn filled<T: Clone>(&self, count: usize, value: T) -> Result<Vec<T>, Fault> {
        let mut vec = self.vec(count)?;
        vec.resize(count, value);
        Ok(vec)
    }

    /// A finished array: rounds what was computed in a wider type, and counts the memory.
    pub fn array<T: Elem>(
        &self,
        dtype: DType,
        shape: Vec<usize>,
        mut data: Vec<T>,
    ) -> Result<Array, Fault> {
        debug_assert_eq!(count(&shape), Ok(data.len()), "{shape:?}");
        T::round_to(dtype, &mut data);
        let lease = self.claim(footprint(&data))?;
        Ok(Array {
            dtype,
            shape,
            data: T::wrap(Rc::new(Store { data, lease })),
        })
    }

    /// An array without elements.
    pub fn empty(&self, dtype: DType, shape: Vec<usize>) -> Result<Array, Fault> {
        with_scalar_type!(dtype, self.f64, T => self.array::<T>(dtype, shape, vec![]), else {
            match dtype {
                DType::C64 => self.array::<[f32; 2]>(dtype, shape, vec![]),
                DType::C128 => self.array::<[f64; 2]>(dtype, shape, vec![]),
                DType::Str => self.array::<Arc<str>>(dtype, shape, vec![]),
                _ => self.array::<Code>(dtype, shape, vec![]),
            }
        })
    }

    /// Announces work, so that a long run sees its limit.
    #[inline]
    pub fn tick(&self, work: usize) -> Result<(), Fault> {
        let done = self.work.get().saturating_add(work as u64);
        self.work.set(done);
        if done < self.look_at.get() {
            return Ok(());
        }
        self.look_at.set(done.saturating_add(WORK_PER_LOOK));
        if done > self.max_work {
            return Err(Fault::Work);
        }
        let is_set = |flag: &Arc<AtomicU32>| flag.load(Ordering::Acquire) != 0;
        if self.cancel.as_ref().is_some_and(is_set) {
            return Err(Fault::Cancelled);
        }
        match self.deadline {
            Some((deadline, limit)) if Instant::now() >= deadline => Err(Fault::Timeout { limit }),
            _ => Ok(()),
        }
    }
}

/// The number of elements of a shape.
pub fn count(shape: &[usize]) -> Result<usize, Fault> {
    heddle_ir::tensor::element_count(shape)
        .filter(|n| *n <= isize::MAX as usize)
        .ok_or_else(|| Fault::TooLarge {
            shape: shape.to_vec(),
        })
}

/// Bytes of a vector of elements, with a little for the array around it.
pub fn footprint<T: Elem>(data: &Vec<T>) -> u64 {
    const HEADER: u64 = 64;
    (data.capacity() * size_of::<T>()) as u64 + T::heap_bytes(data) + HEADER
}

fn bytes_of<T>(count: usize) -> Result<u64, Fault> {
    count
        .checked_mul(size_of::<T>())
        .map(|b| b as u64)
        .ok_or(Fault::TooLarge { shape: vec![count] })
}
