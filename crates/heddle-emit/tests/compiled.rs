//! Compiled programs give what the interpreter gives, with any number of workers.

mod harness;

use harness::{Outcome, PROGRAMS, check, run_text};
use heddle_gen::Config;

#[test]
fn programs_by_hand() {
    for (name, text) in PROGRAMS {
        for (threads, seed) in [(1, 1), (2, 2), (5, 3)] {
            run_text(name, text, threads, seed);
        }
    }
}

#[test]
fn random_programs() {
    let (mut compiled, mut refused) = (0, std::collections::BTreeMap::new());
    for seed in 0..60 {
        let (module, inputs) = heddle_gen::generate(seed, &Config::default());
        match check(&format!("seed {seed}"), module, &inputs, 2) {
            Outcome::Equal => compiled += 1,
            Outcome::Refused(reason) => *refused.entry(reason).or_insert(0) += 1,
        }
    }
    println!("{compiled} compiled; refused: {refused:#?}");
    assert!(compiled > 0, "no random program is compiled at all");
}
