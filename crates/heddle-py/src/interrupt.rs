//! Ctrl-C ends a run.
//!
//! A run holds the main thread, where Python handles signals, so that Python's handler sees nothing until the run ends. During a run of
//! the main thread the handler of SIGINT is therefore ours: it cancels the run, and calls the one before it, which leaves a note for the
//! interpreter. Programs don't change their inputs, so a run whose signal turns out to raise nothing is done again.

use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use heddle::CancelToken;
use libc::{SA_ONSTACK, SA_SIGINFO, SIG_DFL, SIG_IGN, SIGINT, c_int, c_void, siginfo_t};
use pyo3::prelude::*;

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
        // The handler that is there from run to run is asked for once; each other call of the system would take as long as the rest of this.
        if BEFORE.iter().all(|place| place.load(Ordering::SeqCst) == 0) {
            let mut before = MaybeUninit::uninit();
            // SAFETY: it only asks, and writes to a structure of that type.
            if unsafe { libc::sigaction(SIGINT, null(), before.as_mut_ptr()) } != 0 {
                return None;
            }
            // SAFETY: the call wrote it.
            let before = unsafe { before.assume_init() };
            if !keep(&before) {
                return None;
            }
        }
        let flag = token.shared();
        SIGNALLED.store(false, Ordering::SeqCst);
        FLAG.store(Arc::as_ptr(&flag).cast_mut(), Ordering::SeqCst);
        let mut before = MaybeUninit::uninit();
        // SAFETY: an empty set of signals is whole without a call. The handler only stores to atomics, and calls a handler that the process
        // had.
        let set = unsafe {
            let ours = libc::sigaction {
                sa_sigaction: cancel as *const () as usize,
                sa_flags: SA_ONSTACK | SA_SIGINFO,
                sa_mask: MaybeUninit::zeroed().assume_init(),
                sa_restorer: None,
            };
            libc::sigaction(SIGINT, &ours, before.as_mut_ptr())
        };
        if set != 0 {
            FLAG.store(null_mut(), Ordering::SeqCst);
            return None;
        }
        // SAFETY: the call wrote it.
        let before = unsafe { before.assume_init() };
        let known = [0, 1].map(|k: usize| BEFORE[k].load(Ordering::SeqCst));
        let is_kept = keep(&before);
        let watch = Self {
            before,
            _flag: flag,
        };
        if !is_kept {
            // It was taken from Python since the run before: dropping the watch puts it back.
            return None;
        }
        let now = [0, 1].map(|k: usize| BEFORE[k].load(Ordering::SeqCst));
        if now != known && watch.was_signalled() {
            // The signal went to the handler of the run before.
            // SAFETY: it sends a signal to this thread, whose handler is ours.
            unsafe { libc::raise(SIGINT) };
        }
        Some(watch)
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

/// Keeps a handler as the one to call. Without one the signal ends the process, or does nothing: then there is nothing to watch.
fn keep(before: &libc::sigaction) -> bool {
    let is_handler = ![SIG_DFL, SIG_IGN].contains(&before.sa_sigaction);
    let places = match before.sa_flags & SA_SIGINFO != 0 {
        _ if !is_handler => [0, 0],
        true => [0, before.sa_sigaction],
        false => [before.sa_sigaction, 0],
    };
    for (place, function) in BEFORE.iter().zip(places) {
        place.store(function, Ordering::SeqCst);
    }
    is_handler
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

/// Does this thread handle signals? In a child of `fork` it is the one that forked, whichever that was.
pub fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    /// The main thread as the system knows it; 0 before Python was asked, and in a new child.
    static MAIN: AtomicUsize = AtomicUsize::new(0);
    static AT_FORK: Once = Once::new();
    extern "C" fn forget() {
        MAIN.store(0, Ordering::SeqCst);
    }
    // SAFETY: it only asks.
    let this = unsafe { libc::pthread_self() } as usize;
    let known = MAIN.load(Ordering::SeqCst);
    if known != 0 {
        return Ok(known == this);
    }
    // SAFETY: the function only stores to an atomic.
    AT_FORK.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(forget)) });
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let is_main = threading.call_method0("get_ident")?.eq(main)?;
    if is_main {
        MAIN.store(this, Ordering::SeqCst);
    }
    Ok(is_main)
}
