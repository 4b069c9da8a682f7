//! Loops change large values in place.
//!
//! A program of its own: its allocator counts the bytes that the whole process takes.

#[allow(dead_code)] // This program uses a part of it.
#[path = "interp/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{execute, tensor};
use heddle_ir::{Datum, Tensor};

struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(data, layout) }
    }
}

fn i64(value: i64) -> Datum {
    Datum::Tensor(Tensor::scalar(value))
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Each iteration writes one element of an array of 4 MB twice and appends to a list. Copies of the array would be 24 GB, copies of the
/// list some hundred megabytes.
#[test]
fn appending_does_not_copy() {
    let text = "fn @main(%n: i64[]) -> (%y: f32[1000000], %s: seq<i64[]>, %c: i64[]) {
        %x = broadcast(0.0: f32, [1000000])
        %t = seq_new(elem=i64[])
        %y, %s = loop %i trip %n carry (%y = %x, %s = %t) {
            %at = unsqueeze(%i, axes=[0])
            %w = update_slice(%y, [1.0]: f32, %at)
            %v = scatter_nd(%w, unsqueeze(%at, axes=[0]), [2.0]: f32, reduce=add)
            %q = seq_insert(%s, %i, seq_len(%s))
            continue carry %v, %q }
        %c = seq_len(%s)
        return %y, %s, %c }";
    let before = BYTES.load(Ordering::Relaxed);
    let found = execute(text, &[i64(3000)]).unwrap();
    let taken = BYTES.load(Ordering::Relaxed) - before;
    assert_eq!(found[2], i64(3000));
    let last = tensor(&found[0]).to_f64s().unwrap();
    assert_eq!(last[2999..3001], [3.0, 0.0]);
    assert!(taken < 100 << 20, "{taken} bytes");
}
