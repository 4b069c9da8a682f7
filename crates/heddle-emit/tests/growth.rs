//! Programs whose arrays grow without a bound are compiled whole.

mod harness;

use harness::{PROGRAMS, run_text};

#[test]
fn arrays_grow_without_a_bound() {
    for name in ["growth", "growth_shapes"] {
        let (_, text) = PROGRAMS
            .iter()
            .find(|(n, _)| *n == name)
            .expect("a program");
        for threads in 1..=5 {
            run_text(name, text, threads, threads as u64);
        }
    }
}
