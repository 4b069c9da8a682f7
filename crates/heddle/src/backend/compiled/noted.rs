//! The operator that a kernel's fault was in.
//!
//! A fault takes the device's memory with it, and what would be written to the host's memory all the time would slow every barrier
//! down. So the program is built once more, with notes, and runs once more on the same inputs: what blocks had written to the host's
//! memory outlives the fault. Programs read their inputs only, so that it faults again at the same place, unless a race decides that.

use std::sync::{Arc, Mutex, PoisonError};

use heddle_runtime::cuda::{DeviceError, Gpu};
use heddle_runtime::{BuildOptions, Input, Program, RunError, RunOptions, Session, Source};

use super::Compiled;
use crate::Error;

/// Held by the thread whose program runs with notes: the fault of another one's would end its run, too.
static ALONE: Mutex<()> = Mutex::new(());

impl Compiled {
    /// The error of a run on some inputs, with the model's node, which takes a second run if a kernel faulted.
    pub(super) fn failed<'a>(
        &self,
        error: RunError,
        inputs: impl ExactSizeIterator<Item = Input<'a>>,
        sizes: &[i64],
        options: &RunOptions<'_>,
    ) -> Error {
        let site = match (&error, &self.setup.gpu) {
            (RunError::Device(DeviceError::Lost { .. }), Some(gpu)) => {
                self.noted(gpu, inputs, sizes, options)
            }
            _ => return self.stopped(error),
        };
        Error::Compiled {
            site,
            place: None,
            failure: None,
            error: Box::new(error),
        }
    }

    /// The nodes of the operators that the blocks of a second run were in as it faulted. None if it did not, or had no time.
    fn noted<'a>(
        &self,
        gpu: &Gpu,
        inputs: impl ExactSizeIterator<Item = Input<'a>>,
        sizes: &[i64],
        options: &RunOptions<'_>,
    ) -> Option<String> {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = self.executable.program().plan().clone();
        let source = Source {
            name: self.sig.name.clone(),
            text: self.emitted.source.clone(),
            constants: self.constants.clone(),
            plan,
        };
        let build = BuildOptions {
            notes: true,
            libraries: None,
            ..self.setup.build.clone()
        };
        let program = Program::build_for(&source, gpu, &build).ok()?;
        let pool = self.executable.pool().clone();
        let mut session = Session::new(Arc::new(program), pool, self.setup.session.clone());
        let options = RunOptions {
            same_inputs: false,
            outputs_stay: true,
            ..*options
        };
        let run = session.run_into(inputs, std::iter::empty(), sizes, &options);
        let Err(RunError::Device(DeviceError::Lost { lines, .. })) = run else {
            return None;
        };
        let mut nodes: Vec<&str> = vec![];
        for node in lines.iter().filter_map(|line| self.emitted.node_at(*line)) {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        // Blocks that do not wait for each other are in different ones.
        (!nodes.is_empty()).then(|| nodes.join(", or "))
    }
}
