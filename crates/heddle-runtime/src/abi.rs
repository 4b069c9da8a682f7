//! The binary interface of emitted programs: the structures of [`heddle_abi::schema`], and the
//! functions that a program defines.

use std::ffi::c_void;

pub use heddle_abi::schema::*;

/// The C header that every emitted program is compiled with. It holds the schema's declarations.
pub const HEADER: &str = include_str!("../include/heddle.h");

/// `heddle_main` and other entries: environment, worker, number of workers; returns an error code.
pub type EntryFn = unsafe extern "C" fn(*const Env, i32, i32) -> i32;

/// The answer of a worker that left the team: `HEDDLE_LEFT`.
pub const LEFT: i32 = -1;

/// `heddle_host_main`: environment, dispatcher; returns an error code.
pub type HostFn = unsafe extern "C" fn(*const Env, *const Host) -> i32;

/// `heddle_host`: dispatches tasks when the host runs the control flow.
#[repr(C)]
#[derive(Debug)]
pub struct Host {
    /// Runs a task on all workers: `state`, the task, its arguments; returns an error code.
    pub dispatch: unsafe extern "C" fn(*mut c_void, EntryFn, *const c_void) -> i32,
    /// The first argument of `dispatch`: `self` in the header.
    pub state: *mut c_void,
}
