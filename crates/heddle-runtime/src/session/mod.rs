//! Runs a program: a session holds the memory of one run at a time.
//!
//! After the first run with the same sizes nothing is allocated: plan, scratch, outputs and
//! synchronisation state stay. Outputs are read in place until the next run, or taken out without a
//! copy; a recycled buffer replaces one that was taken.

mod device;
mod host;
mod memory;
mod segments;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use device::OnDevice;
use heddle_abi::{Launch, Plan};
use memory::{Limits, Memory};

use crate::abi::{self, Env, ErrorCell, UnitState};
use crate::buffer::Buffer;
use crate::build::Language;
use crate::cancel::{CancelToken, Watch};
use crate::error::{Fault, RunError};
use crate::grid::Grid;
use crate::pool::{Leased, Pool};
use crate::program::{Code, Entry, Program};
use crate::simulation::Simulation;
use crate::watchdog::{self, LONGEST, Note, nanoseconds};

/// Poison: NaN as floats, -1 as integers.
const POISON: u8 = 0xff;

/// Bytes of a segment that a program gets at least when it ends because it needs more: what a GPU
/// maps at once. So an array of 8 GiB takes 12 launches.
const GRANULE: i64 = 2 << 20;

/// Options of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Limit on the bytes of scratch and outputs, those of growing arrays as they are committed.
    pub max_memory: u64,
    /// Poisons scratch and outputs before each run, to find programs that read uninitialised
    /// memory. For tests.
    pub poison: bool,
    /// The grid of a launch; for programs on a GPU and [simulated](crate::Language::Simulated) ones, and only for these. Its blocks are
    /// the workers that memory is planned for. Warp and seed are the simulator's.
    pub grid: Option<Grid>,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            max_memory: 64 << 30,
            poison: false,
            grid: None,
        }
    }
}

/// Limits of one run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    /// Time limit, after which the run ends with [`RunError::Timeout`]; includes waiting for the
    /// pool.
    pub timeout: Option<Duration>,
    /// Cancels the run from another thread.
    pub cancel: Option<&'a CancelToken>,
    /// The longest that a block of a launch may wait for another one, in a GPU's time or a simulated one's; then the run ends with
    /// [`RunError::Stuck`].
    pub watchdog: Duration,
    /// Limit on nested calls, the entry counted; by default no calls. Frame memory is planned for
    /// it, or for as many as the memory limit allows.
    pub max_depth: i64,
    /// Limit on the iterations of each loop.
    pub max_iterations: i64,
    /// The most workers that take part. Memory is planned for all of the pool.
    pub team: usize,
    /// The team may change in the middle, as its pool finds; in [`crate::Standalone`] programs, at random.
    pub resize: bool,
    /// The inputs are those of the session's run before, and have not changed: a device has them.
    pub same_inputs: bool,
    /// A device keeps the outputs until [`Session::fetch`].
    pub outputs_stay: bool,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        RunOptions {
            timeout: None,
            cancel: None,
            watchdog: LONGEST,
            max_depth: 1,
            max_iterations: i64::MAX,
            team: usize::MAX,
            resize: true,
            same_inputs: false,
            outputs_stay: false,
        }
    }
}

/// An input: a row-major tensor of the element type that the program expects.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Its elements. Copied if not aligned to 8 bytes.
    pub data: &'a [u8],
    /// Its dims.
    pub dims: &'a [i64],
}

/// A program with the memory to run it, one run at a time.
#[derive(Debug)]
pub struct Session {
    program: Arc<Program>,
    pool: Arc<Pool>,
    options: SessionOptions,
    memory: Memory,
    sync: Box<abi::Sync>,
    units: Box<[UnitState]>,
    error: Arc<ErrorCell>,
    simulation: Option<Box<Simulation>>,
    /// Memory on the device of a program that runs on one.
    device: Option<Box<OnDevice>>,
    /// Time of the last run.
    last: Duration,
    stops: Stops,
}

/// Launches of a run after its first one: memory had to be committed in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// Launches that went on where the one before had left.
    pub resumed: u32,
    /// Launches that began anew.
    pub anew: u32,
}

impl Stops {
    /// Counts a launch that goes on at a point, or begins anew if that is 0.
    fn count(&mut self, point: u32) {
        match point {
            0 => self.anew += 1,
            _ => self.resumed += 1,
        }
    }
}

impl Session {
    /// A session that runs on the pool. Memory is allocated by the first run.
    pub fn new(program: Arc<Program>, pool: Arc<Pool>, options: SessionOptions) -> Session {
        let on_device = program.linked().is_none();
        let units = options.grid.map(|grid| grid.blocks as usize);
        Session {
            memory: Memory::new(program.plan(), on_device),
            units: std::iter::repeat_with(UnitState::default)
                .take(units.unwrap_or_default().max(pool.threads()))
                .collect(),
            sync: Box::default(),
            error: Arc::default(),
            simulation: options.grid.map(|grid| Box::new(Simulation::new(grid))),
            device: None,
            last: Duration::MAX,
            stops: Stops::default(),
            program,
            pool,
            options,
        }
    }

    /// Runs the program. `sizes` are its symbolic sizes, in its order.
    pub fn run(
        &mut self,
        inputs: &[Input<'_>],
        sizes: &[i64],
        options: &RunOptions<'_>,
    ) -> Result<Outputs<'_>, RunError> {
        self.run_into(inputs.iter().copied(), std::iter::empty(), sizes, options)
    }

    /// Runs the program with outputs in the caller's memory: all of them, or none. Only inputs not
    /// aligned to 8 bytes are copied.
    ///
    /// # Errors
    /// [`RunError::OutputData`] if an output's memory is smaller than planned, or not aligned to 8
    /// bytes.
    pub fn run_into<'i, 'o>(
        &mut self,
        inputs: impl ExactSizeIterator<Item = Input<'i>>,
        outputs: impl ExactSizeIterator<Item = &'o mut [u8]>,
        sizes: &[i64],
        options: &RunOptions<'_>,
    ) -> Result<Outputs<'_>, RunError> {
        let program = self.program.clone();
        let linked = match program.code() {
            Code::Library(linked) => linked,
            Code::Kernel(kernel) => {
                return self.run_on_device(kernel, inputs, outputs, sizes, options);
            }
        };
        let (main, host_main) = (program.main(linked), linked.host_main());
        let mut staged = self.stage_into(inputs, outputs, sizes, options)?;
        match host_main {
            Some(host_main) => staged.run_on_host(host_main)?,
            None => staged.run_again(main, options.resize)?,
        }
        staged.finish()
    }

    /// Prepares a run whose entries the caller dispatches, for control flow on the host. Until it
    /// is finished or dropped it holds the pool: this thread can start no other run on it.
    pub fn stage<'s, 'i>(
        &'s mut self,
        inputs: &'i [Input<'i>],
        sizes: &[i64],
        options: &'i RunOptions<'i>,
    ) -> Result<Staged<'s, 'i>, RunError> {
        self.stage_into(inputs.iter().copied(), std::iter::empty(), sizes, options)
    }

    fn stage_into<'s, 'i, 'd, 'o>(
        &'s mut self,
        inputs: impl ExactSizeIterator<Item = Input<'d>>,
        outputs: impl ExactSizeIterator<Item = &'o mut [u8]>,
        sizes: &[i64],
        options: &'i RunOptions<'i>,
    ) -> Result<Staged<'s, 'i>, RunError> {
        let start = Instant::now();
        if options.cancel.is_some_and(CancelToken::is_cancelled) {
            return Err(RunError::Cancelled);
        }
        let linked = self.program.linked().ok_or(RunError::NoEntries)?;
        let needed = linked.language() == Language::Simulated;
        if needed != self.simulation.is_some() {
            return Err(RunError::Grid { needed });
        }
        let plan = self.program.plan();
        self.memory.plan(plan, sizes, self.limits(options))?;
        self.memory.set_inputs(plan, inputs)?;
        self.memory.set_outputs(plan, outputs)?;
        if self.options.poison {
            self.memory.fill(POISON);
        }
        self.memory.begin(self.options.poison.then_some(POISON))?;
        self.error.code.store(0, Ordering::Relaxed);
        let deadline = options.timeout.and_then(|t| start.checked_add(t));
        let timeout = options.timeout.unwrap_or_default();
        let leased = lease(&self.pool, self.last, options, deadline)?;
        let (patience, yields) = leased.patience();
        let env = Env {
            inputs: self.memory.raw_inputs.as_ptr(),
            outputs: self.memory.raw_outputs.as_mut_ptr(),
            constants: linked.constants(),
            sizes: self.memory.launch.sizes().as_ptr(),
            table: self.memory.launch.table().as_ptr(),
            scratch: self.memory.scratch.start(),
            segments: std::ptr::null_mut(),
            slots: std::ptr::null(),
            committed: std::ptr::null(),
            slot_bits: 0,
            pad: 0,
            grow: Some(segments::grow),
            growth: std::ptr::null(),
            sync: &*self.sync,
            units: self.units.as_ptr(),
            error: &*self.error,
            cancel: options.cancel.map_or(&NEVER, |token| token.flag()),
            watchdog: nanoseconds(options.watchdog),
            notes: std::ptr::null(),
            max_depth: self.memory.depth(),
            max_iterations: options.max_iterations,
            patience,
            yields,
            decide: None,
            crew: std::ptr::null(),
            arguments: self
                .simulation
                .as_deref()
                .map_or(std::ptr::null(), |s| std::ptr::from_ref(s).cast()),
        };
        let mut staged = Staged {
            env,
            program: self.program.id(),
            memory: &mut self.memory,
            sync: &self.sync,
            units: &self.units,
            error: &self.error,
            simulation: self.simulation.as_deref(),
            _watch: deadline.map(|d| Watch::start(d, &self.error)).transpose()?,
            timeout,
            watchdog: options.watchdog,
            poison: self.options.poison,
            last: &mut self.last,
            stops: &mut self.stops,
            start: Instant::now(),
            leased,
            _borrowed: PhantomData,
        };
        staged.point_to_segments();
        Ok(staged)
    }

    /// True if the session has a buffer for this output; one that was taken out is missing until the next run.
    pub fn has_buffer(&self, output: usize) -> bool {
        !self.memory.outputs[output].is_empty()
    }

    /// Returns a buffer that was taken from output `output` of an earlier run, to be reused.
    pub fn recycle(&mut self, output: usize, buffer: Buffer) {
        if let Some(slot) = self.memory.outputs.get_mut(output)
            && slot.len() < buffer.len()
        {
            *slot = buffer;
        }
    }

    /// Writes zeros into all memory of the session. Untouched pages all map to one page of zeros,
    /// which reads faster than real memory.
    pub fn touch(&mut self) {
        self.memory.fill(0);
    }

    /// Returns the session's memory to the system until the next run.
    pub fn release(&mut self) {
        self.memory.release();
        self.device = None;
    }

    /// Limits the bytes of scratch and outputs from the next run on. Memory that is held beyond it returns to the system.
    pub fn limit_memory(&mut self, max_memory: u64) {
        self.options.max_memory = max_memory;
        if self.held_bytes() as u64 > max_memory {
            self.release();
        }
    }

    /// Bytes of scratch, outputs and growing arrays held now.
    pub fn held_bytes(&self) -> usize {
        match &self.device {
            Some(there) => there.held(),
            None => self.memory.held(),
        }
    }

    /// Evaluates the plan for these sizes without allocating memory.
    pub fn planned(
        &mut self,
        sizes: &[i64],
        options: &RunOptions<'_>,
    ) -> Result<(&Plan, &Launch), RunError> {
        let plan = self.program.plan();
        self.memory.evaluate(plan, sizes, self.limits(options))?;
        Ok((plan, &self.memory.launch))
    }

    fn limits(&self, options: &RunOptions<'_>) -> Limits {
        Limits {
            workers: match self.options.grid {
                Some(grid) => grid.blocks.into(),
                None => self.pool.threads() as i64,
            },
            max_depth: options.max_depth,
            max_memory: self.options.max_memory,
        }
    }

    /// The outputs of the last run; valid only if it succeeded.
    pub fn last(&mut self) -> Outputs<'_> {
        Outputs {
            elapsed: self.last,
            memory: &mut self.memory,
        }
    }

    /// Launches of the last run after its first one.
    pub fn stops(&self) -> Stops {
        self.stops
    }

    /// The dims of an output of the last run.
    pub fn dims(&self, output: usize) -> &[i64] {
        self.memory.dims(output)
    }
}

/// Waits for the pool.
fn lease<'a>(
    pool: &'a Pool,
    expected: Duration,
    options: &RunOptions<'_>,
    deadline: Option<Instant>,
) -> Result<Leased<'a>, RunError> {
    let leased = pool.lease(expected, options.team, deadline, options.cancel);
    leased.map_err(|e| match e {
        RunError::Timeout(_) => RunError::Timeout(options.timeout.unwrap_or_default()),
        e => e,
    })
}

/// The token of runs that cannot be cancelled.
static NEVER: AtomicU32 = AtomicU32::new(0);

/// A run with its memory and workers, ready to dispatch entries.
#[derive(Debug)]
pub struct Staged<'s, 'i> {
    env: Env,
    program: u64,
    memory: &'s mut Memory,
    sync: &'s abi::Sync,
    units: &'s [UnitState],
    error: &'s ErrorCell,
    simulation: Option<&'s Simulation>,
    _watch: Option<Watch>,
    timeout: Duration,
    watchdog: Duration,
    poison: bool,
    last: &'s mut Duration,
    stops: &'s mut Stops,
    start: Instant,
    leased: Leased<'s>,
    /// Inputs and token that `env` points to.
    _borrowed: PhantomData<&'i ()>,
}

impl<'s> Staged<'s, '_> {
    /// Runs one entry on all workers and waits for it.
    pub fn dispatch(&mut self, entry: Entry) -> Result<(), RunError> {
        self.run(entry, false)
    }

    /// Runs the program. One that cannot commit memory while it runs is launched again at the point where it lacked some.
    /// If a growing array ran out of addresses, or its program cannot go on there, it begins anew: programs read their
    /// inputs only.
    fn run_again(&mut self, entry: Entry, changes: bool) -> Result<(), RunError> {
        *self.stops = Stops::default();
        self.sync.point.store(0, Ordering::Relaxed);
        loop {
            match self.run(entry, changes) {
                Err(RunError::Program {
                    fault:
                        Fault::Segment {
                            slot,
                            needed,
                            mut point,
                        },
                    site,
                }) => {
                    let commit = |bytes| self.memory.segments.commit(slot, bytes);
                    match commit(needed.max(GRANULE)).or_else(|_| commit(needed)) {
                        Ok(()) => {}
                        Err((abi::code::SEGMENT, _)) => {
                            let fill = self.poison.then_some(POISON);
                            self.memory.widen(slot, needed, fill)?;
                            // Arrays lie elsewhere now.
                            point = 0;
                        }
                        Err((code, values)) => {
                            let fault = self.memory.whole(Fault::new(code, values));
                            self.memory.segments.end();
                            return Err(RunError::Program { fault, site });
                        }
                    }
                    self.stops.count(point);
                    self.sync.point.store(point, Ordering::Relaxed);
                    self.error.code.store(0, Ordering::Relaxed);
                    self.point_to_segments();
                }
                result => {
                    self.memory.segments.end();
                    return result;
                }
            }
        }
    }

    /// Tells the program where its segments begin.
    fn point_to_segments(&mut self) {
        let segments = &self.memory.segments;
        self.env.segments = segments.start();
        self.env.slots = segments.slots.as_ptr();
        self.env.committed = segments.committed.as_ptr();
        self.env.slot_bits = segments.slot_bits;
        self.env.growth = std::ptr::from_ref(segments).cast();
    }

    /// The same; `changes`: the entry is the whole run, in which the team may change.
    fn run(&mut self, entry: Entry, changes: bool) -> Result<(), RunError> {
        if entry.owner != self.program {
            return Err(RunError::ForeignEntry);
        }
        self.rewind();
        // SAFETY: `env` points to memory of the sizes that the program planned, held until `self`
        // ends.
        let code = unsafe {
            let state = (self.sync, self.units);
            self.leased
                .run(entry.function, &mut self.env, state, changes)
        };
        if code == 0 {
            return Ok(());
        }
        Err(self.failure(code))
    }

    /// Resets the workers' counters. Workers read them after their turn, which is written
    /// later.
    fn rewind(&self) {
        if let Some(simulation) = self.simulation {
            simulation.rewind();
        }
        self.sync.arrived.store(0, Ordering::Relaxed);
        self.sync.overdue.store(0, Ordering::Relaxed);
        // A change of the team may not have come about.
        self.sync.wanted.store(0, Ordering::Relaxed);
        self.sync.ended.store(0, Ordering::Relaxed);
        self.sync.recalls.store(0, Ordering::Relaxed);
        self.sync.come.store(0, Ordering::Relaxed);
        self.sync
            .state
            .store(std::ptr::null_mut(), Ordering::Relaxed);
        for unit in self.units {
            unit.signalled.store(0, Ordering::Relaxed);
            unit.round.store(0, Ordering::Relaxed);
            unit.taken.store(0, Ordering::Relaxed);
            // A failed run may have left part of a team waiting.
            unit.come.store(0, Ordering::Relaxed);
            unit.passed.store(0, Ordering::Relaxed);
            unit.ready.store(0, Ordering::Relaxed);
            unit.looked.store(0, Ordering::Relaxed);
            unit.waits.store(abi::waits::NOTHING, Ordering::Relaxed);
            unit.line.store(0, Ordering::Relaxed);
        }
    }

    /// Scratch memory as left by the last dispatch.
    pub fn scratch(&self) -> &[u8] {
        &self.memory.scratch
    }

    /// Ends the run.
    pub fn finish(self) -> Result<Outputs<'s>, RunError> {
        let elapsed = self.start.elapsed();
        *self.last = elapsed;
        self.memory.finish()?;
        Ok(Outputs {
            memory: self.memory,
            elapsed,
        })
    }

    fn failure(&self, returned: i32) -> RunError {
        if let Some(found) = self.simulation.and_then(Simulation::found) {
            return found;
        }
        let ErrorCell { code, site, values } = self.error;
        let values = [0, 1].map(|i: usize| values[i].load(Ordering::Relaxed));
        match code.load(Ordering::Acquire) {
            abi::code::CANCELLED => RunError::Cancelled,
            abi::code::TIMEOUT => RunError::Timeout(self.timeout),
            abi::code::STUCK => {
                let blocks = self.simulation.map_or(0, |s| s.blocks as usize);
                let notes: Vec<_> = self.units[..blocks].iter().map(Note::of).collect();
                watchdog::stuck(&notes, values[0], self.watchdog)
            }
            // The program returned a code without `heddle_fail`.
            0 => RunError::Program {
                fault: Fault::new(returned.unsigned_abs(), [0, 0]),
                site: 0,
            },
            code => RunError::Program {
                fault: self.memory.whole(Fault::new(code, values)),
                site: site.load(Ordering::Relaxed),
            },
        }
    }
}

/// The outputs of a run, in the session's memory.
#[derive(Debug)]
pub struct Outputs<'a> {
    memory: &'a mut Memory,
    elapsed: Duration,
}

impl Outputs<'_> {
    /// Number of outputs.
    pub fn len(&self) -> usize {
        self.memory.outputs.len()
    }

    /// True if the program has no outputs.
    pub fn is_empty(&self) -> bool {
        self.memory.outputs.is_empty()
    }

    /// The dims of an output.
    pub fn dims(&self, output: usize) -> &[i64] {
        self.memory.dims(output)
    }

    /// The elements of an output, followed by the rest of its buffer; empty if it lies in the
    /// caller's memory.
    pub fn data(&self, output: usize) -> &[u8] {
        self.memory.data(output)
    }

    /// True if an output lies in memory that can be [taken](Outputs::take).
    pub fn is_own(&self, output: usize) -> bool {
        self.memory.is_own(output)
    }

    /// Takes an output's memory out, of which the elements are the beginning; empty if the output grew, whose memory the session keeps. See [`Session::recycle`].
    pub fn take(&mut self, output: usize) -> Buffer {
        std::mem::take(&mut self.memory.outputs[output])
    }

    /// Time of the run, without waiting for the pool.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }
}
