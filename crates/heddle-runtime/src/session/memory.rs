//! What a session keeps between runs: the plan for the last sizes, and memory that is only replaced when it is too small.

use std::ffi::c_void;

use crate::abi::{EXTRA_SIZES, RawTensor};
use crate::buffer::{ALIGNMENT, Buffer};
use crate::error::RunError;
use crate::program::Program;
use crate::session::Input;

/// Inputs may have any element type, and the largest takes 8 bytes.
const INPUT_ALIGNMENT: usize = 8;

/// Stands for inputs without elements: a program may load an element whose value it does not use.
static NOTHING: [u64; 8] = [0; 8];

#[derive(Debug)]
pub(super) struct Memory {
    /// Named sizes, workers, depth that frames are planned for.
    pub(super) sizes: Vec<i64>,
    /// Depth limit of the run. Frames may be planned for less, see [`Memory::depth`].
    pub(super) max_depth: i64,
    pub(super) table: Vec<i64>,
    /// Whether `table` and `scratch_bytes` belong to `sizes`.
    planned: bool,
    scratch_bytes: usize,
    pub(super) scratch: Buffer,
    pub(super) outputs: Vec<Buffer>,
    pub(super) raw_inputs: Vec<RawTensor>,
    pub(super) raw_outputs: Vec<RawTensor>,
    /// Copies of inputs that came misaligned.
    staging: Vec<Buffer>,
}

// SAFETY: the raw tensors point to inputs and outputs of a run only while it goes on; they are set anew by each.
unsafe impl Send for Memory {}

impl Memory {
    pub(super) fn new(program: &Program) -> Memory {
        let about = program.about();
        let (inputs, outputs) = (about.inputs as usize, about.outputs as usize);
        Memory {
            sizes: vec![0; about.sizes as usize + EXTRA_SIZES],
            max_depth: 0,
            table: vec![0; about.table_len as usize],
            planned: false,
            scratch_bytes: 0,
            scratch: Buffer::EMPTY,
            outputs: std::iter::repeat_with(Buffer::default)
                .take(outputs)
                .collect(),
            raw_inputs: vec![RawTensor::EMPTY; inputs],
            raw_outputs: vec![RawTensor::EMPTY; outputs],
            staging: std::iter::repeat_with(Buffer::default)
                .take(inputs)
                .collect(),
        }
    }

    /// Gives all memory back.
    pub(super) fn release(&mut self) {
        self.scratch = Buffer::EMPTY;
        self.outputs.fill_with(Buffer::default);
        self.staging.fill_with(Buffer::default);
    }

    /// Depth that frames are planned for: the run's limit, or less where memory ends before.
    pub(super) fn depth(&self) -> i64 {
        self.sizes.last().copied().unwrap_or_default()
    }

    /// Plans for these sizes, unless it is the plan that stands, and has the memory that it asks for.
    pub(super) fn plan(
        &mut self,
        program: &Program,
        sizes: &[i64],
        workers: i64,
        max_depth: i64,
        limit: u64,
    ) -> Result<(), RunError> {
        let named = self.sizes.len() - EXTRA_SIZES;
        count("sizes", named, sizes.len())?;
        let same = self.sizes[..named] == *sizes && self.sizes[named] == workers;
        if !(self.planned && same && self.max_depth == max_depth) {
            self.sizes[..named].copy_from_slice(sizes);
            self.sizes[named] = workers;
            self.max_depth = max_depth;
            self.planned = false;
            self.plan_depth(program, limit)?;
            self.planned = true;
        }
        while let Err(error) = self.scratch.reserve(self.scratch_bytes) {
            // The system may refuse address space for frames that are never used.
            let (depth, bytes) = (self.depth(), self.scratch_bytes);
            self.planned = false;
            self.make_plan(program, depth / 2, limit)?;
            if depth < 2 || self.scratch_bytes == bytes {
                return Err(error.into());
            }
            self.planned = true;
        }
        for (buffer, bytes) in self.outputs.iter_mut().zip(&self.table) {
            buffer.reserve(*bytes as usize)?;
        }
        for (raw, buffer) in self.raw_outputs.iter_mut().zip(&mut self.outputs) {
            raw.data = buffer.start().cast::<c_void>();
            raw.rank = 0;
        }
        Ok(())
    }

    /// Plans frames for the whole depth limit, or for as many levels as the memory limit has room for. Memory is taken only when
    /// a frame is used: most runs stay far above the bottom.
    fn plan_depth(&mut self, program: &Program, limit: u64) -> Result<(), RunError> {
        let max_depth = self.max_depth;
        if self.make_plan(program, max_depth, limit).is_ok() {
            return Ok(());
        }
        let (mut fits, mut exceeds) = (max_depth.min(1), max_depth);
        self.make_plan(program, fits, limit)?;
        while exceeds - fits > 1 {
            let depth = fits + (exceeds - fits) / 2;
            match self.make_plan(program, depth, limit) {
                Ok(()) => fits = depth,
                Err(_) => exceeds = depth,
            }
        }
        self.make_plan(program, fits, limit)
    }

    fn make_plan(&mut self, program: &Program, depth: i64, limit: u64) -> Result<(), RunError> {
        if let Some(last) = self.sizes.last_mut() {
            *last = depth;
        }
        let overflow = |sizes: &[i64]| RunError::Plan {
            sizes: sizes.to_vec(),
        };
        let scratch = program
            .plan(&self.sizes, &mut self.table)
            .ok_or_else(|| overflow(&self.sizes))?;
        let stated = self.outputs.len() + self.raw_inputs.len();
        let mut needed = scratch;
        for (index, word) in self.table[..stated].iter().enumerate() {
            let bytes = u64::try_from(*word).map_err(|_| overflow(&self.sizes))?;
            if index < self.outputs.len() {
                needed = needed
                    .checked_add(bytes)
                    .ok_or_else(|| overflow(&self.sizes))?;
            }
        }
        if needed > limit {
            return Err(RunError::MemoryLimit { needed, limit });
        }
        self.scratch_bytes = usize::try_from(scratch).map_err(|_| overflow(&self.sizes))?;
        // What earlier, larger sizes left counts, too.
        let kept: usize = self.outputs.iter().map(|b| b.len()).sum();
        if (self.scratch.len() + kept) as u64 > limit {
            self.release();
        }
        Ok(())
    }

    /// Points the program to the inputs.
    pub(super) fn set_inputs(&mut self, inputs: &[Input<'_>]) -> Result<(), RunError> {
        count("inputs", self.raw_inputs.len(), inputs.len())?;
        let needed = &self.table[self.outputs.len()..];
        for (position, input) in inputs.iter().enumerate() {
            let raw = &mut self.raw_inputs[position];
            let Some(dims) = raw.dims.get_mut(..input.dims.len()) else {
                return Err(bad_dims(position, input));
            };
            if input.dims.iter().any(|d| *d < 0) {
                return Err(bad_dims(position, input));
            }
            if (input.data.len() as i64) < needed[position] {
                return Err(RunError::InputData {
                    input: position,
                    needed: needed[position],
                    given: input.data.len(),
                });
            }
            dims.copy_from_slice(input.dims);
            raw.rank = input.dims.len() as i32;
            raw.data = if input.data.is_empty() {
                NOTHING.as_ptr().cast_mut().cast::<c_void>()
            } else if (input.data.as_ptr() as usize).is_multiple_of(INPUT_ALIGNMENT) {
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

    /// Fills what the program must not rely on.
    pub(super) fn fill(&mut self, byte: u8) {
        self.scratch.fill(byte);
        self.outputs.iter_mut().for_each(|b| b.fill(byte));
    }

    /// Checks what the program wrote about its outputs.
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

const _: () = assert!(ALIGNMENT.is_multiple_of(INPUT_ALIGNMENT));

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

fn bad_dims(input: usize, given: &Input<'_>) -> RunError {
    RunError::InputDims {
        input,
        dims: given.dims.to_vec(),
    }
}
