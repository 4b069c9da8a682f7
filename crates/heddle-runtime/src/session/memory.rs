//! The memory of a session: the plan evaluated for the last sizes, and buffers that are only
//! replaced by larger ones.

use std::ffi::c_void;

use heddle_abi::{Launch, Plan};

use super::Input;
use super::segments::Segments;
use crate::abi::RawTensor;
use crate::buffer::{ALIGNMENT, Buffer};
use crate::error::{Fault, RunError};

/// Alignment of the caller's arrays, which may have any element type up to 8 bytes.
const ARRAY_ALIGNMENT: usize = 8;

/// The data of inputs without elements: a program may load an element whose value it does not use.
static NOTHING: [u64; 8] = [0; 8];

/// Limits of a launch's plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) workers: i64,
    /// The run's depth limit. Frames may be planned for less, see [`Memory::depth`].
    pub(super) max_depth: i64,
    /// Limit on the bytes of scratch and outputs.
    pub(super) max_memory: u64,
}

#[derive(Debug)]
pub(super) struct Memory {
    pub(super) launch: Launch,
    /// The limits of the current plan; `None` if it is invalid.
    limits: Option<Limits>,
    pub(super) scratch: Buffer,
    pub(super) segments: Segments,
    pub(super) outputs: Vec<Buffer>,
    pub(super) raw_inputs: Vec<RawTensor>,
    pub(super) raw_outputs: Vec<RawTensor>,
    /// Copies of misaligned inputs.
    staging: Vec<Buffer>,
    /// Outputs in the caller's memory.
    pub(super) foreign: Vec<bool>,
    /// For outputs in segments, whose sizes the run determines: bytes of an element.
    grows: Vec<Option<i64>>,
    /// The caller's memory for these, to which they are copied.
    copies: Vec<Option<(*mut u8, usize)>>,
}

// SAFETY: the raw tensors point to inputs and outputs of a run only while it goes on; they are set
// anew by each.
unsafe impl Send for Memory {}

impl Memory {
    /// `on_device`: the program's arrays lie in another memory. Those here are copies of its outputs.
    pub(super) fn new(plan: &Plan, on_device: bool) -> Memory {
        let (inputs, outputs) = (plan.inputs.len(), plan.outputs.len());
        let buffers = |count| {
            std::iter::repeat_with(Buffer::default)
                .take(count)
                .collect()
        };
        Memory {
            launch: Launch::new(plan),
            limits: None,
            scratch: Buffer::EMPTY,
            segments: Segments::new(if on_device { 0 } else { plan.segments }),
            outputs: buffers(outputs),
            raw_inputs: vec![RawTensor::EMPTY; inputs],
            raw_outputs: vec![RawTensor::EMPTY; outputs],
            staging: buffers(inputs),
            foreign: vec![false; outputs],
            grows: plan
                .outputs
                .iter()
                .map(|array| array.grows.filter(|_| !on_device))
                .collect(),
            copies: vec![None; outputs],
        }
    }

    /// Returns all memory to the system.
    pub(super) fn release(&mut self) {
        self.scratch = Buffer::EMPTY;
        self.segments.release();
        self.outputs.fill_with(Buffer::default);
        self.staging.fill_with(Buffer::default);
    }

    /// Depth that frames are planned for: the run's limit, or less if memory is short.
    pub(super) fn depth(&self) -> i64 {
        self.launch.sizes().last().copied().unwrap_or_default()
    }

    /// The depth limit of the run.
    fn max_depth(&self) -> i64 {
        self.limits.map_or(0, |limits| limits.max_depth)
    }

    /// The dims of an output.
    pub(super) fn dims(&self, output: usize) -> &[i64] {
        let raw = &self.raw_outputs[output];
        &raw.dims[..raw.rank as usize]
    }

    /// Plans for these sizes, unless the plan is current, and allocates missing scratch memory.
    pub(super) fn plan(
        &mut self,
        plan: &Plan,
        sizes: &[i64],
        limits: Limits,
    ) -> Result<(), RunError> {
        let reserve = |memory: &mut Self, bytes| Ok(memory.scratch.reserve(bytes)?);
        self.plan_with(plan, sizes, limits, reserve)
    }

    /// The same with scratch memory elsewhere, which `reserve` allocates.
    pub(super) fn plan_with(
        &mut self,
        plan: &Plan,
        sizes: &[i64],
        limits: Limits,
        mut reserve: impl FnMut(&mut Self, usize) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        self.evaluate(plan, sizes, limits)?;
        while let Err(error) = reserve(self, self.launch.scratch() as usize) {
            // The system may refuse address space for frames that are never used.
            let (depth, bytes) = (self.depth(), self.launch.scratch());
            self.limits = None;
            self.fit(plan, sizes, limits, depth / 2)?;
            if depth < 2 || self.launch.scratch() == bytes {
                return Err(error);
            }
            self.limits = Some(limits);
        }
        Ok(())
    }

    /// Evaluates the plan for these sizes, unless it is current. Frames are planned for the whole
    /// depth limit, or for as many levels as fit into the memory limit. Pages are committed only
    /// when a frame is used, and most runs stay far from the limit.
    pub(super) fn evaluate(
        &mut self,
        plan: &Plan,
        sizes: &[i64],
        limits: Limits,
    ) -> Result<(), RunError> {
        count("sizes", plan.sizes(), sizes.len())?;
        if self.limits != Some(limits) || self.launch.sizes()[..sizes.len()] != *sizes {
            self.fit_deepest(plan, sizes, limits)?;
        }
        // Memory kept from earlier, larger sizes counts, too, as do results that came back.
        if self.held() as u64 > limits.max_memory {
            self.release();
        }
        Ok(())
    }

    /// Evaluates the plan with frames for as many levels as fit.
    fn fit_deepest(&mut self, plan: &Plan, sizes: &[i64], limits: Limits) -> Result<(), RunError> {
        self.limits = None;
        if self.fit(plan, sizes, limits, limits.max_depth).is_err() {
            let (mut fits, mut exceeds) = (limits.max_depth.min(1), limits.max_depth);
            self.fit(plan, sizes, limits, fits)?;
            while exceeds - fits > 1 {
                let depth = fits + (exceeds - fits) / 2;
                match self.fit(plan, sizes, limits, depth) {
                    Ok(()) => fits = depth,
                    Err(_) => exceeds = depth,
                }
            }
            self.fit(plan, sizes, limits, fits)?;
        }
        self.limits = Some(limits);
        Ok(())
    }

    /// Evaluates the plan with frames for this depth, within the memory limit.
    fn fit(
        &mut self,
        plan: &Plan,
        sizes: &[i64],
        limits: Limits,
        depth: i64,
    ) -> Result<(), RunError> {
        self.launch.evaluate(plan, sizes, [limits.workers, depth])?;
        let outputs = plan.outputs.iter().map(|array| self.launch.bytes(array));
        let needed = outputs.fold(self.launch.scratch(), u64::saturating_add);
        match needed > limits.max_memory {
            true => Err(RunError::MemoryLimit {
                needed,
                limit: limits.max_memory,
            }),
            false => Ok(()),
        }
    }

    /// Points the program to the outputs: in the caller's memory if given, otherwise the session's.
    /// `given` has all outputs or none.
    pub(super) fn set_outputs<'o>(
        &mut self,
        plan: &Plan,
        mut given: impl ExactSizeIterator<Item = &'o mut [u8]>,
    ) -> Result<(), RunError> {
        if given.len() > 0 {
            count("outputs", self.outputs.len(), given.len())?;
        }
        for (output, array) in plan.outputs.iter().enumerate() {
            let needed = self.launch.bytes(array);
            let raw = &mut self.raw_outputs[output];
            raw.rank = 0;
            let data = given.next();
            let grows = array.grows.is_some();
            // Empty memory may have an address that is invalid for the program.
            self.foreign[output] = data.is_some() && (needed > 0 || grows);
            self.copies[output] = None;
            raw.data = match data {
                Some(data) if grows => {
                    self.copies[output] = Some((data.as_mut_ptr(), data.len()));
                    std::ptr::null_mut()
                }
                Some(data) if needed > 0 => {
                    let is_aligned = (data.as_ptr() as usize).is_multiple_of(ARRAY_ALIGNMENT);
                    if (data.len() as u64) < needed || !is_aligned {
                        return Err(RunError::OutputData {
                            output,
                            needed,
                            given: data.len(),
                        });
                    }
                    data.as_mut_ptr().cast::<c_void>()
                }
                _ => {
                    let buffer = &mut self.outputs[output];
                    buffer.reserve(needed as usize)?;
                    buffer.start().cast::<c_void>()
                }
            };
        }
        Ok(())
    }

    /// Points the program to the inputs.
    pub(super) fn set_inputs<'i>(
        &mut self,
        plan: &Plan,
        inputs: impl ExactSizeIterator<Item = Input<'i>>,
    ) -> Result<(), RunError> {
        count("inputs", self.raw_inputs.len(), inputs.len())?;
        for (position, input) in inputs.enumerate() {
            self.set_dims(plan, position, &input)?;
            let raw = &mut self.raw_inputs[position];
            let is_aligned = (input.data.as_ptr() as usize).is_multiple_of(ARRAY_ALIGNMENT);
            raw.data = if input.data.is_empty() {
                NOTHING.as_ptr().cast_mut().cast::<c_void>()
            } else if is_aligned {
                input.data.as_ptr().cast_mut().cast::<c_void>()
            } else {
                let copy = &mut self.staging[position];
                copy.reserve(input.data.len())?;
                copy[..input.data.len()].copy_from_slice(input.data);
                copy.start().cast::<c_void>()
            };
        }
        Ok(())
    }

    /// Checks inputs, and tells the program their dims.
    pub(super) fn check_inputs(
        &mut self,
        plan: &Plan,
        inputs: &[Input<'_>],
    ) -> Result<(), RunError> {
        count("inputs", self.raw_inputs.len(), inputs.len())?;
        let mut all = inputs.iter().enumerate();
        all.try_for_each(|(position, input)| self.set_dims(plan, position, input))
    }

    /// Checks an input, and tells the program its dims.
    fn set_dims(
        &mut self,
        plan: &Plan,
        position: usize,
        input: &Input<'_>,
    ) -> Result<(), RunError> {
        let raw = &mut self.raw_inputs[position];
        let bad_dims = || RunError::InputDims {
            input: position,
            dims: input.dims.to_vec(),
        };
        let dims = raw.dims.get_mut(..input.dims.len()).ok_or_else(bad_dims)?;
        if input.dims.iter().any(|d| *d < 0) {
            return Err(bad_dims());
        }
        let needed = self.launch.bytes(&plan.inputs[position]);
        if (input.data.len() as u64) < needed {
            return Err(RunError::InputData {
                input: position,
                needed,
                given: input.data.len(),
            });
        }
        dims.copy_from_slice(input.dims);
        raw.rank = input.dims.len() as i32;
        Ok(())
    }

    /// Checks the caller's memory for outputs, to which they are copied from a device: all of them or none.
    pub(super) fn expect_outputs(
        &mut self,
        plan: &Plan,
        given: &[&mut [u8]],
    ) -> Result<(), RunError> {
        self.foreign.fill(!given.is_empty());
        if given.is_empty() {
            return Ok(());
        }
        count("outputs", self.outputs.len(), given.len())?;
        for (output, (array, memory)) in plan.outputs.iter().zip(given).enumerate() {
            let needed = match array.grows {
                Some(_) => 0,
                None => self.launch.bytes(array),
            };
            if (memory.len() as u64) < needed {
                return Err(RunError::OutputData {
                    output,
                    needed,
                    given: memory.len(),
                });
            }
        }
        Ok(())
    }

    /// The fault with the run's depth limit, which may exceed that of the planned frames.
    pub(super) fn whole(&self, fault: Fault) -> Fault {
        let limit = self.max_depth();
        match fault {
            Fault::Depth { depth, .. } if self.depth() < limit => Fault::Frames { depth, limit },
            fault => fault,
        }
    }

    /// Bytes of scratch, outputs and segments held now.
    pub(super) fn held(&self) -> usize {
        let outputs: usize = self.outputs.iter().map(|b| b.len()).sum();
        self.scratch.len() + outputs + self.segments.held()
    }

    /// Begins a run: commits the first bytes of segments.
    pub(super) fn begin(&mut self, fill: Option<u8>) -> Result<(), RunError> {
        let room = self.room_to_grow();
        self.segments.begin(room, fill)
    }

    /// Makes room for a segment that ran out of addresses, and begins again.
    pub(super) fn widen(
        &mut self,
        slot: i64,
        bytes: i64,
        fill: Option<u8>,
    ) -> Result<(), RunError> {
        let room = self.room_to_grow();
        self.segments.widen(slot, bytes, room)?;
        self.begin(fill)
    }

    /// Memory that the limit leaves for segments.
    fn room_to_grow(&self) -> u64 {
        let outputs = self.outputs.iter().map(|b| b.len() as u64).sum::<u64>();
        let limit = self.limits.map_or(0, |limits| limits.max_memory);
        limit.saturating_sub(self.scratch.len() as u64 + outputs)
    }

    /// The elements of an output.
    pub(super) fn data(&self, output: usize) -> &[u8] {
        match self.grows[output] {
            _ if self.foreign[output] => &[],
            None => &self.outputs[output],
            Some(width) => self.grown(output, width).unwrap_or_default(),
        }
    }

    /// Lies an output in a buffer of its own?
    pub(super) fn is_own(&self, output: usize) -> bool {
        !self.foreign[output] && self.grows[output].is_none()
    }

    /// The elements of an output in a segment.
    fn grown(&self, output: usize, width: i64) -> Option<&[u8]> {
        let mut sizes = self.dims(output).iter();
        let bytes = sizes.try_fold(width, |n, &size| n.checked_mul(size))?;
        let data = self.raw_outputs[output].data;
        self.segments.bytes(data, usize::try_from(bytes).ok()?)
    }

    /// Ends a run: checks its outputs, and copies those that grew to the caller's memory.
    pub(super) fn finish(&mut self) -> Result<(), RunError> {
        self.check_outputs()?;
        for (output, copy) in self.copies.iter().enumerate() {
            let (Some((to, room)), Some(width)) = (*copy, self.grows[output]) else {
                continue;
            };
            let data = self.grown(output, width).unwrap_or_default();
            if data.len() > room {
                return Err(RunError::OutputData {
                    output,
                    needed: data.len() as u64,
                    given: room,
                });
            }
            // SAFETY: the caller's memory, lent for this run; segments are the session's own.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
        }
        Ok(())
    }

    /// Fills memory whose contents the program must not rely on.
    pub(super) fn fill(&mut self, byte: u8) {
        self.scratch.fill(byte);
        self.outputs.iter_mut().for_each(|b| b.fill(byte));
    }

    /// Checks the output shapes that the program wrote.
    pub(super) fn check_outputs(&self) -> Result<(), RunError> {
        for (output, raw) in self.raw_outputs.iter().enumerate() {
            let rank = usize::try_from(raw.rank).ok();
            let dims = rank.and_then(|rank| raw.dims.get(..rank));
            if dims.is_none_or(|dims| dims.iter().any(|d| *d < 0)) {
                return Err(RunError::OutputDims {
                    output,
                    rank: raw.rank,
                    dims: raw.dims.to_vec(),
                });
            }
        }
        Ok(())
    }
}

const _: () = assert!(ALIGNMENT.is_multiple_of(ARRAY_ALIGNMENT));
const _: () = assert!(ALIGNMENT as i64 == heddle_abi::plan::ALIGNMENT);

fn count(what: &'static str, expected: usize, given: usize) -> Result<(), RunError> {
    if expected == given {
        return Ok(());
    }
    Err(RunError::Count {
        what,
        expected,
        given,
    })
}
