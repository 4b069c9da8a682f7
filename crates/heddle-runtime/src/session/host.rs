//! Runs a program with control flow on the host, which dispatches each operator to all workers: the
//! baseline that Heddle is compared with. Operators, workers and memory are the same.

use std::ffi::c_void;

use super::Staged;
use crate::abi::{EntryFn, Env, Host, HostFn};
use crate::error::RunError;

impl Staged<'_, '_> {
    /// Calls the control flow on this thread, which dispatches the operators.
    pub(super) fn run_on_host(&mut self, main: HostFn) -> Result<(), RunError> {
        self.rewind();
        let staged: *mut Self = self;
        let host = Host {
            dispatch,
            state: staged.cast(),
        };
        // SAFETY: `env` points to memory of the sizes that the program planned, and `dispatch`
        // takes a `Staged`. Both live here until the call returns, and meanwhile only `dispatch`
        // writes to them.
        let code = unsafe { main(&raw const (*staged).env, &host) };
        self.memory.segments.end();
        match code {
            0 => Ok(()),
            code => Err(self.failure(code)),
        }
    }
}

/// Runs a task on all workers and waits for them.
///
/// # Safety
/// `state` is a [`Staged`] that nobody else uses meanwhile, and `task` a function of its program.
unsafe extern "C" fn dispatch(state: *mut c_void, task: EntryFn, arguments: *const c_void) -> i32 {
    let staged: *mut Staged = state.cast();
    // SAFETY: the caller's promise; what `run` needs was promised when the run was staged.
    unsafe {
        (*staged).env.arguments = arguments;
        let env: *mut Env = &raw mut (*staged).env;
        let state = ((*staged).sync, (*staged).units);
        (*staged).leased.run(task, env, state, false)
    }
}
