//! Work whose recursion follows a model's nesting runs on a stack of its own.

use std::panic;
use std::thread;

use crate::Error;

/// Address space for the stack; memory is only taken as far as it is used.
const STACK_BYTES: usize = 256 << 20;

/// Runs `work` on a thread with a large stack and returns its result; a panic passes on.
///
/// # Errors
///
/// [`Error::Thread`] if the system gives no thread.
pub fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("heddle".into());
        let handle = builder.stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let result = handle.map_err(Error::Thread)?.join();
        Ok(result.unwrap_or_else(|payload| panic::resume_unwind(payload)))
    })
}
