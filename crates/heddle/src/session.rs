//! Runs of a program in memory that is kept, also on the caller's arrays.

use std::sync::Arc;

use heddle_ir::Datum;

use crate::backend::{self, ArrayView, Artifact, Memory, Required};
use crate::{Error, RunOptions};

/// Memory to run a program in, one run at a time. It may go to another thread.
///
/// A run on the caller's arrays copies nothing, and after the first with the same shapes a compiled program allocates
/// nothing. On the interpreter, and where a program is compiled in parts, arrays are copied.
#[derive(Debug)]
pub struct Session {
    artifact: Arc<dyn Artifact>,
    inner: Box<dyn backend::Session>,
}

impl Session {
    pub(crate) fn new(artifact: Arc<dyn Artifact>, options: &RunOptions) -> Self {
        let inner = artifact.clone().session(options);
        Self { artifact, inner }
    }

    /// The memory that the program's arrays lie in.
    pub fn memory(&self) -> &dyn Memory {
        self.artifact.memory()
    }

    /// Runs the program on inputs in the caller's memory, in the order of its signature, and writes the outputs to the caller's memory.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if an array or output does not fit or is no plain array; [`Error::Compiled`] and [`Error::Run`] as for
    /// [`Program::run`](crate::Program::run), but that the interpreter does not step in.
    pub fn run_into(
        &mut self,
        inputs: &[ArrayView<'_>],
        outputs: &mut [&mut [u8]],
    ) -> Result<(), Error> {
        self.inner.run_into(inputs, outputs)
    }

    /// The memory that each output takes for inputs like these; `None` on the interpreter, where only a run tells.
    ///
    /// # Errors
    ///
    /// As for [`Session::run_into`].
    pub fn required(&mut self, inputs: &[ArrayView<'_>]) -> Result<Option<Vec<Required>>, Error> {
        self.inner.required(inputs)
    }

    /// The dims of an output of the last [`Session::run_into`].
    ///
    /// # Panics
    ///
    /// If there is no such output.
    pub fn dims(&self, output: usize) -> &[i64] {
        self.inner.dims(output)
    }

    /// Runs the program on the caller's arrays. The outputs have memory of their own.
    pub(crate) fn run_on(&mut self, inputs: &[ArrayView<'_>]) -> Result<Vec<Datum>, Error> {
        self.inner.run_on(inputs)
    }

    /// Checks inputs, which are in order, and keeps them for the runs that follow.
    pub(crate) fn bind(&mut self, args: &[Datum]) -> Result<(), Error> {
        self.inner.bind(args)
    }

    /// Runs the program on the bound inputs.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        self.inner.run()
    }

    /// The outputs of the last run on bound inputs, once.
    pub(crate) fn outputs(&mut self) -> Result<Vec<Datum>, Error> {
        self.inner.outputs()
    }
}
