//! Ctrl-C ends a run.
//!
//! A run holds the main thread, where Python handles signals, so that Python's handler sees nothing until the run ends. During a run of
//! the main thread the handler of SIGINT is therefore ours: it cancels the run, and calls the one before it, which leaves a note for the
//! interpreter. Programs don't change their inputs, so a run whose signal turns out to raise nothing is done again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use heddle::CancelToken;
use nix::libc::{c_int, c_void, siginfo_t};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// The flag of the main thread's run.
static FLAG: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Was there a signal during it?
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// The handler before ours, as an address; 0: none. It takes one argument, or three.
static BEFORE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Ends the main thread's run at SIGINT, until it is dropped.
pub struct Watch {
    before: SigAction,
    /// Keeps the flag alive.
    _flag: Arc<AtomicU32>,
}

impl Watch {
    /// Watches a run that this token cancels; `None` where the signal is not Python's.
    pub fn start(token: &CancelToken) -> Option<Self> {
        let flag = token.shared();
        SIGNALLED.store(false, Ordering::Relaxed);
        FLAG.store(Arc::as_ptr(&flag).cast_mut(), Ordering::Release);
        let ours = SigAction::new(
            SigHandler::SigAction(cancel),
            SaFlags::SA_ONSTACK | SaFlags::SA_SIGINFO,
            SigSet::empty(),
        );
        // SAFETY: the handler only stores to atomics, and calls a handler that the process had.
        let before = unsafe { sigaction(Signal::SIGINT, &ours) }.ok()?;
        let places = match before.handler() {
            SigHandler::Handler(function) => [function as usize, 0],
            SigHandler::SigAction(function) => [0, function as usize],
            SigHandler::SigDfl | SigHandler::SigIgn => [0, 0],
        };
        for (place, function) in BEFORE.iter().zip(places) {
            place.store(function, Ordering::Relaxed);
        }
        let watch = Self {
            before,
            _flag: flag,
        };
        // Without a handler the signal ends the process, or nothing.
        (places != [0, 0]).then_some(watch)
    }

    /// Was there a signal?
    pub fn was_signalled(&self) -> bool {
        SIGNALLED.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: it is the handler that the process had.
        let _ = unsafe { sigaction(Signal::SIGINT, &self.before) };
        FLAG.store(std::ptr::null_mut(), Ordering::Release);
    }
}

extern "C" fn cancel(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    SIGNALLED.store(true, Ordering::Release);
    let flag = FLAG.load(Ordering::Acquire);
    if !flag.is_null() {
        // SAFETY: the watch keeps the flag alive as long as the pointer is set, and ends in the thread that handles signals.
        unsafe { &*flag }.store(1, Ordering::Release);
    }
    let [plain, with_info] = [0, 1].map(|k: usize| BEFORE[k].load(Ordering::Relaxed));
    if plain != 0 {
        // SAFETY: the address of a handler of this type.
        let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(plain) };
        handler(signal);
    }
    if with_info != 0 {
        type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
        // SAFETY: as above.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(with_info) };
        handler(signal, info, context);
    }
}
