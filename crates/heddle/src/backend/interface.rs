//! The interface of back ends.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heddle_emit::Emitted;
use heddle_ir::tensor::byte_size;
use heddle_ir::{DType, Datum, Module, Tensor};
use heddle_lower::LowerError;
use heddle_runtime::Constant;
use heddle_schedule::Latency;
use heddle_uprogram::UProgram;

use super::memory::{HostMemory, Memory};
use crate::ports::Ports;
use crate::{Baseline, Device, Error, RunOptions, Uncompiled};

/// The machine that a program is scheduled for.
pub(crate) type Machine = heddle_machine::Machine;
/// The memory layout of a scheduled program.
pub(crate) type Layout = heddle_uprogram::Layout;

/// A program as a back end takes it.
#[derive(Debug)]
pub(crate) struct Scheduled {
    /// The graph.
    pub module: Arc<Module>,
    /// Its scheduled program, for back ends that [lower](Backend::lowers).
    pub lowered: Option<Lowered>,
}

/// A scheduled program with its memory laid out.
#[derive(Debug)]
pub(crate) struct Lowered {
    /// The program.
    pub program: UProgram,
    /// Its memory.
    pub layout: Layout,
    /// Its constants, packed.
    pub constants: Vec<Constant>,
    /// The program's arrays for the model's inputs and outputs.
    pub ports: Ports,
    /// Its text.
    pub emitted: Emitted,
}

/// A program built, or the reason why a part of it has no compiled form.
pub(crate) type Built = Result<Result<Arc<dyn Artifact>, LowerError>, Error>;

/// A device, or another way to run programs.
pub(crate) trait Backend: Debug + Sync {
    /// The device that its programs run on.
    fn device(&self) -> Device;

    /// The machine that programs are scheduled for.
    fn machine(&self) -> Machine;

    /// Does it run a scheduled program, rather than the graph?
    fn lowers(&self) -> bool;

    /// Times of a program's operators, measured on the device. `None` if it cannot be reached from here.
    fn measured(&self, _program: &mut UProgram) -> Option<Box<dyn Latency>> {
        None
    }

    /// The same device with a single worker, if it has several to choose from.
    fn single(&self) -> Option<Box<dyn Backend>> {
        None
    }

    /// The same device with so many units, where a program that was built finds that no more of them fit at once.
    fn with_units(&self, _units: usize) -> Option<Box<dyn Backend>> {
        None
    }

    /// The same device with launches in clusters, in each way that is to be compared with this one.
    fn in_clusters(&self) -> Vec<Box<dyn Backend>> {
        vec![]
    }

    /// The text of a program.
    ///
    /// # Errors
    /// [`Error::NotCompiled`] if the back end has no text form.
    fn emit(&self, program: &UProgram, layout: &Layout) -> Result<Emitted, Error>;

    /// Builds a program.
    fn build(&self, program: Scheduled) -> Result<Arc<dyn Artifact>, Error>;
}

/// A program that was built.
pub(crate) trait Artifact: Debug + Send + Sync {
    /// The device that it runs on.
    fn device(&self) -> Device;

    /// The workers that run it.
    fn threads(&self) -> usize {
        1
    }

    /// A remark on how it was built, for its user.
    fn remark(&self) -> Option<String> {
        None
    }

    /// Memory that its arrays lie in.
    fn memory(&self) -> &dyn Memory {
        &HostMemory
    }

    /// Programs of the same key are the same, if it has one.
    fn key(&self) -> Option<String> {
        None
    }

    /// Bytes of scratch and outputs that it keeps between runs.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Did a run end for a reason that the interpreter has not: memory that is planned for more than there is?
    fn leaves_to_interpreter(&self, _error: &Error) -> bool {
        false
    }

    /// For a program in parts, the number of compiled parts, and the interpreted rest with the reasons.
    fn parts(&self) -> Option<(usize, &[Uncompiled])> {
        None
    }

    /// The graph that the interpreter runs, if it runs any of it.
    fn graph(&self) -> Option<&Module> {
        None
    }

    /// The same operators run another way, for comparison, if the program is compiled as a whole.
    fn variant(
        &self,
        _kind: Baseline,
        _args: &[Datum],
        _options: &RunOptions,
    ) -> Option<Result<Arc<dyn Artifact>, Error>> {
        None
    }

    /// Memory to run it in, within the limits of these options.
    fn session(self: Arc<Self>, options: &RunOptions) -> Box<dyn Session>;
}

/// The memory of one run at a time.
pub(crate) trait Session: Debug + Send {
    /// Checks inputs, which are in order, and keeps them for the runs that follow.
    fn bind(&mut self, args: &[Datum]) -> Result<(), Error>;

    /// Runs the program on the bound inputs. The outputs stay in the session.
    fn run(&mut self) -> Result<(), Error>;

    /// The outputs of the last run. They may take their memory with them: a second call has no meaning.
    fn outputs(&mut self) -> Result<Vec<Datum>, Error>;

    /// Runs the program on the caller's arrays, which it does not copy if it is compiled as a whole. The outputs have memory of their own.
    fn run_on(&mut self, inputs: &[ArrayView<'_>]) -> Result<Vec<Datum>, Error> {
        let args = inputs
            .iter()
            .map(|array| array.to_tensor().map(Datum::from));
        self.bind(&args.collect::<Result<Vec<_>, _>>()?)?;
        self.run()?;
        self.outputs()
    }

    /// Runs the program on the caller's memory. Inputs whose shapes are those of the run before are not checked again.
    fn run_into(
        &mut self,
        inputs: &[ArrayView<'_>],
        outputs: &mut [&mut [u8]],
    ) -> Result<(), Error>;

    /// The memory that outputs take for inputs like these; `None` where only a run tells.
    fn required(&mut self, inputs: &[ArrayView<'_>]) -> Result<Option<Vec<Required>>, Error>;

    /// The dims of an output of the last run on the caller's memory.
    fn dims(&self, output: usize) -> &[i64];

    /// The time of the last run that the interpreter took; `None` where it runs nothing.
    fn interpreted(&self) -> Option<Duration> {
        None
    }
}

/// An array in the caller's memory, row-major without gaps. Elements of under 8 bits are packed, the first in the low bits.
#[derive(Clone, Copy, Debug)]
pub struct ArrayView<'a> {
    /// The element type.
    pub dtype: DType,
    /// The size of each axis.
    pub dims: &'a [i64],
    /// The elements. Copied if they are not aligned to 8 bytes.
    pub data: &'a [u8],
}

impl ArrayView<'_> {
    /// Are there as many bytes as the dims say?
    pub(super) fn has_its_bytes(&self) -> bool {
        let len = self
            .dims
            .iter()
            .try_fold(1usize, |n, &dim| n.checked_mul(usize::try_from(dim).ok()?));
        len.and_then(|len| byte_size(self.dtype, len)) == Some(self.data.len())
    }

    /// A copy.
    pub(crate) fn to_tensor(self) -> Result<Tensor, Error> {
        self.tensor_of(self.data.to_vec().into())
    }

    /// A tensor like it, with this data.
    pub(super) fn tensor_of(self, data: Bytes) -> Result<Tensor, Error> {
        let unfit = || {
            let (dims, dtype, bytes) = (self.dims, self.dtype.name(), self.data.len());
            Error::Memory(format!(
                "{bytes} bytes are no {dtype} array of dims {dims:?}"
            ))
        };
        let shape = self.dims.iter().map(|&d| usize::try_from(d));
        let shape: Vec<_> = shape.collect::<Result<_, _>>().map_err(|_| unfit())?;
        Tensor::new(self.dtype, shape, data).map_err(|_| unfit())
    }
}

/// Memory that an output takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Required {
    /// Bytes at most.
    pub bytes: u64,
    /// The size of each axis, where it does not depend on values that the run computes.
    pub dims: Vec<Option<i64>>,
}

/// Runs a program once; also gives the time that the interpreter took, where it runs any of it.
pub(crate) fn run(
    artifact: &Arc<dyn Artifact>,
    args: &[Datum],
    options: &RunOptions,
) -> Result<(Vec<Datum>, Option<Duration>), Error> {
    let mut session = artifact.clone().session(options);
    session.bind(args)?;
    session.run()?;
    Ok((session.outputs()?, session.interpreted()))
}
