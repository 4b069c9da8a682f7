//! Launches of a program: its state, arguments and results in the device's memory, and the wait for it.
//!
//! ```text
//! control:  counters of the barrier | of all units | error | outputs | inputs | sizes | table | slots | committed
//!           zeroed before each launch ---------------|
//!                                          read back --------|
//!                                                            copied where it has changed -----------------------|
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::device::{Context, DeviceBuffer, Stream};
use super::driver::{HostMemory, status};
use super::error::{DeviceError, Failed};
use super::kernel::Loaded;
use super::segments::DeviceSegments;
use crate::abi::{Env, ErrorCell, RawTensor, Sync, UnitState, code};
use crate::cancel::CancelToken;

/// Time for which a wait with a limit keeps asking; then it naps.
const PATIENCE: Duration = Duration::from_micros(200);

/// A nap.
const NAP: Duration = Duration::from_micros(50);

/// A program in a context, with a queue and what a launch reads and writes besides arrays.
#[derive(Debug)]
pub(crate) struct Launcher {
    /// Dropped first: it waits for the work that uses the rest.
    stream: Stream,
    loaded: Arc<Loaded>,
    places: Places,
    control: DeviceBuffer,
    /// Memory that error and outputs are read back to.
    results: HostMemory,
    /// Not zero: the kernel is to stop.
    cancel: HostMemory,
    /// The line of the operator that each block is in, of a program that notes it.
    notes: Option<HostMemory>,
    /// The part of `control` behind the error, as it was copied.
    arguments: Vec<u8>,
}

/// The arguments of a launch.
#[derive(Debug)]
pub(crate) struct Arguments<'a> {
    /// Addresses and dims.
    pub(crate) inputs: &'a [RawTensor],
    /// Addresses.
    pub(crate) outputs: &'a [RawTensor],
    pub(crate) sizes: &'a [i64],
    pub(crate) table: &'a [i64],
    pub(crate) scratch: &'a DeviceBuffer,
    pub(crate) segments: &'a DeviceSegments,
    pub(crate) max_depth: i64,
    pub(crate) max_iterations: i64,
    /// Nanoseconds.
    pub(crate) watchdog: u64,
    /// The point at which the program goes on; 0: it begins.
    pub(crate) point: u32,
}

/// Limits from outside that end a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until<'a> {
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: Option<&'a CancelToken>,
}

/// The end of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Zero, or the code of the first error.
    pub(crate) code: u32,
    pub(crate) site: u32,
    pub(crate) values: [i64; 2],
    /// The deadline had passed when the kernel was told to stop.
    pub(crate) is_late: bool,
}

/// Offsets in `control`.
#[derive(Debug)]
struct Places {
    error: usize,
    outputs: usize,
    inputs: usize,
    sizes: usize,
    table: usize,
    slots: usize,
    committed: usize,
    end: usize,
    counts: (usize, usize),
}

const TENSOR: usize = size_of::<RawTensor>();

impl Places {
    fn new(
        units: usize,
        (inputs, outputs): (usize, usize),
        (sizes, table): (usize, usize),
        segments: usize,
    ) -> Places {
        let error = size_of::<Sync>() + units * size_of::<UnitState>();
        let first = error + size_of::<ErrorCell>();
        let second = first + outputs * TENSOR;
        let third = second + inputs * TENSOR;
        let fourth = third + 8 * sizes;
        let fifth = fourth + 8 * table;
        let sixth = fifth + 8 * (segments + 1);
        Places {
            error,
            outputs: first,
            inputs: second,
            sizes: third,
            table: fourth,
            slots: fifth,
            committed: sixth,
            end: sixth + 8 * segments,
            counts: (inputs, outputs),
        }
    }
}

impl Launcher {
    /// For launches of so many units on so many inputs and outputs, sizes and words of the table, and segments.
    pub(crate) fn new(
        loaded: &Arc<Loaded>,
        units: usize,
        arrays: (usize, usize),
        words: (usize, usize),
        segments: usize,
    ) -> Result<Launcher, DeviceError> {
        let context = &loaded.context;
        let places = Places::new(units, arrays, words, segments);
        Ok(Launcher {
            stream: context.stream()?,
            control: context.alloc(places.end)?,
            results: context.host_alloc(places.inputs - places.error)?,
            cancel: context.host_alloc(4)?,
            notes: match loaded.notes {
                true => Some(context.host_alloc(4 * units)?),
                false => None,
            },
            loaded: loaded.clone(),
            places,
            arguments: vec![],
        })
    }

    /// The context that it belongs to.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.loaded.context
    }

    /// Copies arrays to the device.
    pub(crate) fn upload(&self, pairs: &[(u64, &[u8])]) -> Result<(), DeviceError> {
        let _entered = self.context().enter()?;
        let copied = self.context().driver.copy_in(pairs, self.stream.handle);
        copied.map_err(|e| self.error(e, "inputs were copied"))
    }

    /// Copies an array from the device.
    pub(crate) fn download(&self, to: &mut [u8], from: u64) -> Result<(), DeviceError> {
        let _entered = self.context().enter()?;
        let copied = self.context().driver.copy_out(to, from, self.stream.handle);
        copied.map_err(|e| self.error(e, "an output was copied"))
    }

    /// Fills memory of the device.
    pub(crate) fn fill(&self, buffer: &DeviceBuffer, byte: u8) -> Result<(), DeviceError> {
        let _entered = self.context().enter()?;
        let (to, bytes) = (buffer.address(), buffer.bytes());
        let driver = &self.context().driver;
        let filled = driver.fill(to, byte, bytes, self.stream.handle);
        filled.map_err(|e| self.error(e, "memory was filled"))
    }

    /// Launches the kernel and waits for it.
    pub(crate) fn launch(
        &mut self,
        (blocks, threads): (u32, u32),
        given: &Arguments<'_>,
        until: Until<'_>,
    ) -> Result<Ended, DeviceError> {
        self.pass(given)?;
        self.cancel.words()[0].store(0, Ordering::Release);
        for note in self.notes.iter().flat_map(HostMemory::words) {
            note.store(0, Ordering::Release);
        }
        let env = self.env(given);
        let what = format!("a launch of {blocks} blocks of {threads} threads");
        let stream = self.stream.handle;
        let places = &self.places;
        let context = self.context();
        let driver = &context.driver;
        let _entered = context.enter()?;
        let point = given.point.to_ne_bytes();
        let to = self.control.address() + std::mem::offset_of!(Sync, point) as u64;
        let enqueued = driver
            .fill(self.control.address(), 0, places.outputs, stream)
            .and_then(|()| match given.point {
                0 => Ok(()),
                _ => driver.copy_in(&[(to, &point)], stream),
            })
            .and_then(|()| {
                let shape = self.loaded.shape((blocks, threads));
                driver.launch(self.loaded.kernel, shape, stream, &env)
            })
            .and_then(|()| {
                let from = self.control.address() + places.error as u64;
                let bytes = places.inputs - places.error;
                driver.copy_back(&self.results, from, bytes, stream)
            });
        let is_late = match enqueued {
            Ok(()) => self.wait(until),
            // Work in the queue uses memory of this session.
            Err(failed) => {
                let _ = driver.wait(stream);
                Err(failed)
            }
        };
        let is_late = is_late.map_err(|e| match e.code {
            status::TOO_MANY_BLOCKS => {
                let fits = self.loaded.resident(threads as usize);
                context.too_many(blocks as usize, threads as usize, fits.unwrap_or(0))
            }
            _ => self.noted(self.error(e, &what)),
        })?;
        let first = self.results.long(0) as u64;
        Ok(Ended {
            code: match first as u32 {
                code::UNWATCHED => 0,
                code => code,
            },
            site: (first >> 32) as u32,
            values: [8, 16].map(|at| self.results.long(at)),
            is_late,
        })
    }

    /// Rank and dims that the last launch gave an output, and the address of one that grew.
    pub(crate) fn read_output(&self, output: usize, raw: &mut RawTensor) {
        let at = self.places.outputs - self.places.error + output * TENSOR;
        raw.data = pointer(self.results.long(at) as u64);
        for (axis, dim) in raw.dims.iter_mut().enumerate() {
            let place = std::mem::offset_of!(RawTensor, dims) + 8 * axis;
            *dim = self.results.long(at + place);
        }
        let rank = std::mem::offset_of!(RawTensor, rank);
        raw.rank = self.results.long(at + rank) as i32;
    }

    /// The units' state, as the last launch left it.
    pub(crate) fn units(&self) -> Result<Vec<u8>, DeviceError> {
        let first = size_of::<Sync>();
        let mut units = vec![0; self.places.error - first];
        self.download(&mut units, self.control.address() + first as u64)?;
        Ok(units)
    }

    /// Waits for the queue; was the deadline over?
    fn wait(&self, until: Until<'_>) -> Result<bool, Failed> {
        let (driver, stream) = (&self.context().driver, self.stream.handle);
        if until.deadline.is_none() && until.cancel.is_none() {
            return driver.wait(stream).map(|()| false);
        }
        let (begin, mut is_late) = (Instant::now(), false);
        while !driver.is_done(stream)? {
            let now = Instant::now();
            let over = until.deadline.is_some_and(|deadline| deadline <= now);
            if over || until.cancel.is_some_and(CancelToken::is_cancelled) {
                is_late |= over;
                self.cancel.words()[0].store(1, Ordering::Release);
            }
            match now - begin < PATIENCE {
                true => std::thread::yield_now(),
                false => std::thread::sleep(NAP),
            }
        }
        Ok(is_late)
    }

    /// Copies what a launch is given, if it has changed.
    fn pass(&mut self, given: &Arguments<'_>) -> Result<(), DeviceError> {
        debug_assert_eq!(
            self.places.counts,
            (given.inputs.len(), given.outputs.len())
        );
        let mut bytes = Vec::with_capacity(self.places.end - self.places.outputs);
        for tensor in given.outputs.iter().chain(given.inputs) {
            bytes.extend((tensor.data.addr() as u64).to_ne_bytes());
            bytes.extend(tensor.dims.iter().flat_map(|dim| dim.to_ne_bytes()));
            bytes.extend(tensor.rank.to_ne_bytes());
            bytes.extend(0i32.to_ne_bytes());
        }
        let words = given.sizes.iter().chain(given.table).copied();
        let words = words.chain(given.segments.slots());
        let words = words.chain(given.segments.committed.iter().copied());
        bytes.extend(words.flat_map(i64::to_ne_bytes));
        if bytes != self.arguments {
            let to = self.control.address() + self.places.outputs as u64;
            self.upload(&[(to, &bytes)])?;
            self.arguments = bytes;
        }
        Ok(())
    }

    /// The kernel's environment. Its pointers are the device's.
    fn env(&self, given: &Arguments<'_>) -> Env {
        let control = self.control.address();
        let places = &self.places;
        let at = |offset: usize| control + offset as u64;
        Env {
            inputs: pointer(at(places.inputs)),
            outputs: pointer(at(places.outputs)),
            constants: pointer(self.loaded.constants()),
            sizes: pointer(at(places.sizes)),
            table: pointer(at(places.table)),
            scratch: pointer(given.scratch.address()),
            segments: pointer(given.segments.start),
            slots: pointer(at(places.slots)),
            committed: pointer(at(places.committed)),
            slot_bits: given.segments.slot_bits,
            pad: 0,
            grow: None,
            growth: std::ptr::null(),
            sync: pointer(control),
            units: pointer(at(size_of::<Sync>())),
            error: pointer(at(places.error)),
            cancel: pointer(self.cancel.address),
            watchdog: given.watchdog,
            notes: pointer(self.notes.as_ref().map_or(0, |notes| notes.address)),
            max_depth: given.max_depth,
            max_iterations: given.max_iterations,
            patience: 0,
            yields: 0,
            decide: None,
            crew: std::ptr::null(),
            arguments: std::ptr::null(),
        }
    }

    /// A fault with the lines that blocks have noted. The host's memory is as the kernel left it.
    fn noted(&self, mut error: DeviceError) -> DeviceError {
        if let DeviceError::Lost { lines, .. } = &mut error {
            let notes = self.notes.iter().flat_map(HostMemory::words);
            let noted = notes.map(|note| note.load(Ordering::Acquire) as usize);
            let noted: BTreeSet<_> = noted.filter(|line| *line > 0).collect();
            *lines = noted.into_iter().collect();
        }
        error
    }

    fn error(&self, failed: Failed, what: &str) -> DeviceError {
        self.context().error(failed, what, 0)
    }
}

/// An address of the device as a pointer, which nothing here reads through.
pub(crate) fn pointer<T>(address: u64) -> *mut T {
    std::ptr::without_provenance_mut(address as usize)
}

const _: () = assert!(size_of::<ErrorCell>().is_multiple_of(8) && TENSOR.is_multiple_of(8));
