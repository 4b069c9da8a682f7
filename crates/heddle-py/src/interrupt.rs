//! Ctrl-C ends a run.
//!
//! A run holds the main thread, where Python handles signals, so that Python's handler sees nothing until the run ends. During a run of
//! the main thread the handler of SIGINT is therefore ours: it cancels the run, and calls the one before it, which leaves a note for the
//! interpreter. Programs don't change their inputs, so a run whose signal turns out to raise nothing is done again.

use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use heddle::CancelToken;
use libc::{SA_ONSTACK, SA_SIGINFO, SIG_DFL, SIG_IGN, SIGINT, c_int, c_void, siginfo_t};

/// The flag of the main thread's run.
static FLAG: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());

/// Handlers that may hold [`FLAG`]: a signal is handled in whichever thread it is sent to.
static HANDLING: AtomicUsize = AtomicUsize::new(0);

/// Was there a signal during the run?
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// The handler before ours, as an address; 0: none. It takes one argument, or three.
static BEFORE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Ends the main thread's run at SIGINT, until it is dropped.
pub struct Watch {
    before: libc::sigaction,
    /// Keeps the flag alive.
    _flag: Arc<AtomicU32>,
}

impl Watch {
    /// Watches a run that this token cancels; `None` where the signal is not Python's.
    pub fn start(token: &CancelToken) -> Option<Self> {
        let mut before = MaybeUninit::uninit();
        // SAFETY: it only asks, and writes to a structure of that type.
        if unsafe { libc::sigaction(SIGINT, null(), before.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the call wrote it.
        let before = unsafe { before.assume_init() };
        // Without a handler the signal ends the process, or nothing.
        if [SIG_DFL, SIG_IGN].contains(&before.sa_sigaction) {
            return None;
        }
        let takes_info = before.sa_flags & SA_SIGINFO != 0;
        let places = match takes_info {
            true => [0, before.sa_sigaction],
            false => [before.sa_sigaction, 0],
        };
        for (place, function) in BEFORE.iter().zip(places) {
            place.store(function, Ordering::SeqCst);
        }
        let flag = token.shared();
        SIGNALLED.store(false, Ordering::SeqCst);
        FLAG.store(Arc::as_ptr(&flag).cast_mut(), Ordering::SeqCst);
        let ours = libc::sigaction {
            sa_sigaction: cancel as *const () as usize,
            sa_flags: SA_ONSTACK | SA_SIGINFO,
            ..before
        };
        let watch = Self {
            before,
            _flag: flag,
        };
        // SAFETY: the handler only stores to atomics, and calls a handler that the process had.
        let set = unsafe { libc::sigaction(SIGINT, &ours, null_mut()) };
        (set == 0).then_some(watch)
    }

    /// Was there a signal?
    pub fn was_signalled(&self) -> bool {
        SIGNALLED.load(Ordering::SeqCst)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: it is the handler that the process had.
        unsafe { libc::sigaction(SIGINT, &self.before, null_mut()) };
        FLAG.store(null_mut(), Ordering::SeqCst);
        while HANDLING.load(Ordering::SeqCst) != 0 {
            std::hint::spin_loop();
        }
    }
}

extern "C" fn cancel(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    HANDLING.fetch_add(1, Ordering::SeqCst);
    SIGNALLED.store(true, Ordering::SeqCst);
    let flag = FLAG.load(Ordering::SeqCst);
    if !flag.is_null() {
        // SAFETY: the watch keeps the flag alive while the pointer is set, and until no handler holds it.
        unsafe { &*flag }.store(1, Ordering::Release);
    }
    HANDLING.fetch_sub(1, Ordering::SeqCst);
    let [plain, with_info] = [0, 1].map(|k: usize| BEFORE[k].load(Ordering::SeqCst));
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
