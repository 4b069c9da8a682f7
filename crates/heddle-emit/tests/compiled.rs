//! Compiled programs give what the interpreter gives, with any number of workers.

mod harness;

use harness::{PROGRAMS, run_text};

#[test]
fn programs_by_hand() {
    for (name, text) in PROGRAMS {
        for (threads, seed) in [(1, 1), (2, 2), (5, 3)] {
            run_text(name, text, threads, seed);
        }
    }
}
