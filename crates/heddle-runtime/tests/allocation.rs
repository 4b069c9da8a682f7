//! After the first run with the same sizes a session allocates nothing.
//!
//! A program of its own: its allocator counts the allocations of the whole process.

#[allow(dead_code)] // This program uses a part of it.
#[path = "runtime/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{ADD, add_plan, build, bytes, vector};
use heddle_runtime::{CancelToken, Pool, RunOptions, Session, SessionOptions};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// True if the process's first thread is the test runner's, which allocates at any time.
static FIRST_IS_RUNNER: AtomicBool = AtomicBool::new(false);

fn is_first() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !(FIRST_IS_RUNNER.load(Ordering::Relaxed) && is_first()) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(data, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn runs_with_the_same_sizes_allocate_nothing() {
    FIRST_IS_RUNNER.store(!is_first(), Ordering::Relaxed);
    let data = bytes(&[1.0; 1000]);
    let token = CancelToken::new();
    let options = RunOptions {
        timeout: Some(Duration::from_secs(1000)),
        cancel: Some(&token),
        ..RunOptions::default()
    };
    let pool = Pool::shared(3).unwrap();
    let mut session = Session::new(
        build("add", ADD, add_plan()),
        pool,
        SessionOptions::default(),
    );
    let mut memory = bytes(&[0.0; 1002]);
    let aligned = memory.as_ptr().align_offset(8);
    let mut run = |n: i64| {
        let dims = [n];
        let inputs = [vector(&data[1..4 * 999 + 1], &dims), vector(&data, &dims)];
        let mut outputs = session.run(&inputs, &[n], &options).unwrap();
        let taken = outputs.take(0);
        session.recycle(0, taken);
        // Into the caller's memory, too.
        let outputs = std::iter::once(&mut memory[aligned..]);
        let run = session.run_into(inputs.into_iter(), outputs, &[n], &options);
        assert_eq!(run.unwrap().dims(0), dims);
    };
    (0..3).for_each(|_| run(999));
    let mut window = || {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..100).for_each(|_| run(999));
        // Smaller sizes fit, too.
        (1..100).for_each(&mut run);
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    // A thread that other programs keep from its core may start as late as here, and allocates then.
    let made = [window(), window(), window()];
    assert!(made.contains(&0), "{made:?} allocations in 199 runs each");
}
