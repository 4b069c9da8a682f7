//! Runs of programs on a GPU: plans and checks are those of the processor, arrays lie in the device's memory.
//!
//! Memory stays for the next run, as on the processor. If a run breaks the device's context, the next one allocates all of it anew.

use std::sync::Arc;
use std::time::Instant;

use heddle_abi::Plan;

use super::memory::Memory;
use super::{Input, Outputs, POISON, RunOptions, Session, Stops};
use crate::abi::code;
use crate::cancel::CancelToken;
use crate::cuda::{
    Arguments, Context, DeviceBuffer, DeviceError, DeviceSegments, Ended, Kernel, Launcher, Loaded,
    Shortage, Until, pointer,
};
use crate::error::{Fault, RunError};
use crate::grid::Grid;
use crate::watchdog::{self, Note, nanoseconds};

/// Bytes of an input at least: an element whose value is not used may be loaded.
const LEAST: usize = 64;

/// The memory of a session on a device.
#[derive(Debug)]
pub(super) struct OnDevice {
    /// Dropped first: it waits for the work that uses the rest.
    launcher: Launcher,
    scratch: DeviceBuffer,
    inputs: Vec<DeviceBuffer>,
    outputs: Vec<DeviceBuffer>,
    segments: DeviceSegments,
    /// The inputs of the last run are there.
    has_inputs: bool,
}

impl OnDevice {
    fn new(loaded: &Arc<Loaded>, plan: &Plan, grid: Grid) -> Result<Self, DeviceError> {
        let words = plan.sizes() + heddle_abi::plan::EXTRA_SIZES;
        let (inputs, outputs) = (plan.inputs.len(), plan.outputs.len());
        let launcher = Launcher::new(
            loaded,
            grid.blocks as usize,
            (inputs, outputs),
            (words, plan.table.len()),
            plan.segments,
        )?;
        let context = &loaded.context;
        let nothing = |count| (0..count).map(|_| DeviceBuffer::nothing(context)).collect();
        Ok(Self {
            scratch: DeviceBuffer::nothing(context),
            inputs: nothing(inputs),
            outputs: nothing(outputs),
            segments: DeviceSegments::new(context, plan.segments),
            has_inputs: false,
            launcher,
        })
    }

    /// Bytes of scratch, outputs and segments.
    pub(super) fn held(&self) -> usize {
        self.planned() + self.segments.mapped() as usize
    }

    /// Bytes of scratch and outputs.
    fn planned(&self) -> usize {
        let outputs: usize = self.outputs.iter().map(DeviceBuffer::bytes).sum();
        self.scratch.bytes() + outputs
    }

    fn context(&self) -> &Arc<Context> {
        self.launcher.context()
    }

    /// Gives scratch, outputs and segments back.
    fn release(&mut self) {
        let nothing = DeviceBuffer::nothing(self.context());
        self.scratch = nothing;
        for output in &mut self.outputs {
            *output = DeviceBuffer::nothing(self.launcher.context());
        }
        self.segments.release();
    }

    /// Copies inputs to the device, and points the program to them.
    fn set_inputs(
        &mut self,
        memory: &mut Memory,
        inputs: &[Input<'_>],
        are_same: bool,
    ) -> Result<(), RunError> {
        if !are_same || !self.has_inputs {
            self.has_inputs = false;
            let mut pairs = Vec::with_capacity(inputs.len());
            for (buffer, input) in self.inputs.iter_mut().zip(inputs) {
                buffer.reserve(input.data.len().max(LEAST))?;
                pairs.push((buffer.address(), input.data));
            }
            self.launcher.upload(&pairs)?;
            self.has_inputs = true;
        }
        for (buffer, raw) in self.inputs.iter().zip(&mut memory.raw_inputs) {
            raw.data = pointer(buffer.address());
        }
        Ok(())
    }

    /// Points the program to memory for its outputs.
    fn set_outputs(&mut self, memory: &mut Memory, plan: &Plan) -> Result<(), RunError> {
        for (output, array) in plan.outputs.iter().enumerate() {
            let buffer = &mut self.outputs[output];
            buffer.reserve(memory.launch.bytes(array) as usize)?;
            let raw = &mut memory.raw_outputs[output];
            raw.rank = 0;
            raw.data = pointer(buffer.address());
        }
        Ok(())
    }

    /// Launches the program, and again where a growing array needs more memory: at that point, or, if the program cannot go on
    /// there, from the beginning, as programs read their inputs only.
    fn run_again(
        &mut self,
        memory: &Memory,
        grid: Grid,
        room: u64,
        options: &RunOptions<'_>,
        deadline: Option<Instant>,
        stops: &mut Stops,
    ) -> Result<(), RunError> {
        *stops = Stops::default();
        let mut point = 0;
        self.segments.begin(room).map_err(|e| match e {
            Shortage::Limit { needed } => RunError::MemoryLimit {
                needed,
                limit: room,
            },
            Shortage::Device { error, .. } | Shortage::Failed(error) => error.into(),
        })?;
        loop {
            let arguments = Arguments {
                inputs: &memory.raw_inputs,
                outputs: &memory.raw_outputs,
                sizes: memory.launch.sizes(),
                table: memory.launch.table(),
                scratch: &self.scratch,
                segments: &self.segments,
                max_depth: memory.depth(),
                max_iterations: options.max_iterations,
                watchdog: nanoseconds(options.watchdog),
                point,
            };
            let until = Until {
                deadline,
                cancel: options.cancel,
            };
            let shape = (grid.blocks, grid.threads);
            let Ended {
                code,
                site,
                values,
                is_late,
            } = self.launcher.launch(shape, &arguments, until)?;
            let fault = match code {
                0 => return Ok(()),
                code::CANCELLED if is_late => {
                    return Err(RunError::Timeout(options.timeout.unwrap_or_default()));
                }
                code::CANCELLED => return Err(RunError::Cancelled),
                code::STUCK => {
                    let notes = Note::read(&self.launcher.units()?);
                    return Err(watchdog::stuck(&notes, values[0], options.watchdog));
                }
                code::SEGMENT => match self.grow(values, room) {
                    Ok(next) => {
                        point = next;
                        stops.count(point);
                        continue;
                    }
                    Err(Shortage::Limit { needed }) => Fault::Memory {
                        needed: most(needed),
                        limit: most(room),
                    },
                    Err(Shortage::Device { needed, .. }) => Fault::OutOfMemory {
                        needed: most(needed),
                    },
                    Err(Shortage::Failed(error)) => return Err(error.into()),
                },
                code => memory.whole(Fault::new(code, values)),
            };
            return Err(RunError::Program { fault, site });
        }
    }

    /// Maps what a kernel asked for as it ended. Gives the point at which it goes on, 0 for the beginning.
    fn grow(&mut self, values: [i64; 2], room: u64) -> Result<u32, Shortage> {
        let Fault::Segment {
            slot,
            needed,
            point,
        } = Fault::new(code::SEGMENT, values)
        else {
            return Err(Shortage::Limit { needed: u64::MAX });
        };
        let bytes = u64::try_from(needed).unwrap_or(u64::MAX);
        let segment = usize::try_from(slot).ok();
        let segment = segment.filter(|segment| *segment < self.segments.committed.len());
        let segment = segment.ok_or(Shortage::Limit { needed: bytes })?;
        let stays = self.segments.grow(segment, bytes, room)?;
        Ok(if stays { point } else { 0 })
    }

    /// Bytes of an output of the last run that may be copied, and their address.
    fn output(&self, memory: &Memory, plan: &Plan, output: usize) -> (u64, usize) {
        let array = &plan.outputs[output];
        let Some(width) = array.grows else {
            let buffer = &self.outputs[output];
            return (buffer.address(), memory.launch.bytes(array) as usize);
        };
        let mut dims = memory.dims(output).iter();
        let bytes = dims.try_fold(width, |n, &size| n.checked_mul(size));
        let bytes = bytes.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        (memory.raw_outputs[output].data.addr() as u64, bytes)
    }
}

impl Session {
    /// Runs a program on its device.
    pub(super) fn run_on_device<'i, 'o>(
        &mut self,
        kernel: &Kernel,
        inputs: impl ExactSizeIterator<Item = Input<'i>>,
        given: impl ExactSizeIterator<Item = &'o mut [u8]>,
        sizes: &[i64],
        options: &RunOptions<'_>,
    ) -> Result<Outputs<'_>, RunError> {
        let start = Instant::now();
        if options.cancel.is_some_and(CancelToken::is_cancelled) {
            return Err(RunError::Cancelled);
        }
        let grid = self.options.grid.ok_or(RunError::Grid { needed: true })?;
        let deadline = options.timeout.and_then(|t| start.checked_add(t));
        let program = self.program.clone();
        let plan = program.plan();
        let limits = self.limits(options);
        let pool = self.pool.clone();
        let _leased = super::lease(&pool, self.last, options, deadline)?;
        let (loaded, _using) = kernel.load()?;
        let known = self.device.take();
        let known = known.filter(|there| Arc::ptr_eq(there.context(), &loaded.context));
        let there = match known {
            Some(there) => self.device.insert(there),
            None => {
                let new = OnDevice::new(&loaded, plan, grid)?;
                self.device.insert(Box::new(new))
            }
        };
        if there.held() as u64 > limits.max_memory {
            there.release();
        }
        let memory = &mut self.memory;
        memory.plan_with(plan, sizes, limits, |_, bytes| {
            Ok(there.scratch.reserve(bytes)?)
        })?;
        let inputs: Vec<Input<'_>> = inputs.collect();
        memory.check_inputs(plan, &inputs)?;
        there.set_inputs(memory, &inputs, options.same_inputs)?;
        there.set_outputs(memory, plan)?;
        let given: Vec<&mut [u8]> = given.collect();
        memory.expect_outputs(plan, &given)?;
        if self.options.poison {
            there.launcher.fill(&there.scratch, POISON)?;
            for output in &there.outputs {
                there.launcher.fill(output, POISON)?;
            }
        }
        let room = limits.max_memory.saturating_sub(there.planned() as u64);
        let launched = Instant::now();
        there.run_again(memory, grid, room, options, deadline, &mut self.stops)?;
        self.last = launched.elapsed();
        for (output, raw) in memory.raw_outputs.iter_mut().enumerate() {
            there.launcher.read_output(output, raw);
        }
        memory.check_outputs()?;
        let is_given = !given.is_empty();
        for (output, to) in given.into_iter().enumerate() {
            let (address, bytes) = there.output(memory, plan, output);
            let room = to.len();
            let to = to.get_mut(..bytes).ok_or(RunError::OutputData {
                output,
                needed: bytes as u64,
                given: room,
            })?;
            there.launcher.download(to, address)?;
        }
        if !is_given && !options.outputs_stay {
            for output in 0..plan.outputs.len() {
                self.fetch(output, usize::MAX)?;
            }
        }
        Ok(self.last())
    }

    /// Copies the first bytes of an output of the last run from a device, where [`RunOptions::outputs_stay`] has left it. On the
    /// processor it is there already.
    ///
    /// # Errors
    /// The device fails.
    pub fn fetch(&mut self, output: usize, bytes: usize) -> Result<(), RunError> {
        let Some(there) = &self.device else {
            return Ok(());
        };
        let plan = self.program.plan();
        let (address, most) = there.output(&self.memory, plan, output);
        let bytes = bytes.min(most);
        let buffer = &mut self.memory.outputs[output];
        buffer.reserve(bytes)?;
        Ok(there.launcher.download(&mut buffer[..bytes], address)?)
    }
}

/// A number of bytes as errors carry it.
fn most(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
