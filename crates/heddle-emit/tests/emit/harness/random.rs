//! Random programs, many at a time.

use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use heddle_gen::Config;
use heddle_machine::Machine;
use heddle_opt::TransformOptions;

use super::Case;

/// Programs are built side by side.
const BUILDERS: usize = 2;

/// The seeds below what this environment variable says, or this number if it says nothing;
/// `HEDDLE_SEED` is one alone.
pub fn seeds(variable: &str, count: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|v| v.parse::<u64>());
    let number = |name: &str| number(name).transpose().expect("a number");
    match number("HEDDLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number(variable).unwrap_or(count),
    }
}

/// The program of a seed, or why it is not compiled. Every other one is transformed, too.
pub fn case(seed: u64) -> Result<Case, String> {
    let (mut module, inputs) = heddle_gen::generate(seed, &Config::default());
    if seed % 2 == 1 {
        heddle_opt::optimize(&mut module);
        heddle_opt::transform(
            &mut module,
            &TransformOptions::default(),
            &Machine::reference_host(2),
        );
    }
    Case::new(&format!("seed {seed}"), module, &inputs)
}

/// Checks the programs that these seeds make; some must compile, and all of those must pass.
pub fn check_all<C>(
    seeds: Range<u64>,
    make: impl Fn(u64) -> Result<C, String> + Sync,
    check: impl Fn(u64, C) + Sync,
) {
    let next = AtomicU64::new(seeds.start);
    let refused = Mutex::new(BTreeMap::<String, usize>::new());
    let failed = Mutex::new(vec![]);
    let builder = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            report(&seeds, seed);
            let one = || make(seed).map(|case| check(seed, case));
            // The others are of interest, too; each says what is wrong where it happens.
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(one)) {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => {
                    *refused.lock().expect("no panic").entry(reason).or_insert(0) += 1;
                }
                Err(_) => failed.lock().expect("no panic").push(seed),
            }
        }
    };
    std::thread::scope(|scope| (0..BUILDERS).for_each(|_| drop(scope.spawn(builder))));
    let refused = refused.into_inner().expect("no panic");
    let all = seeds.end - seeds.start;
    let compiled = all - refused.values().sum::<usize>() as u64;
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "HEDDLE_SEED={failed:?}");
    println!("{compiled} of {all} compiled; refused: {refused:#?}");
    assert!(compiled > 0, "no random program is compiled at all");
}

/// Says on the terminal, where cargo captures nothing, how far a run of an hour is.
fn report(seeds: &Range<u64>, seed: u64) {
    let (all, done) = (seeds.end - seeds.start, seed - seeds.start);
    if all >= 500 && done > 0 && done.is_multiple_of(all / 10) {
        let _ = writeln!(stderr(), "random programs: {done} of {all}");
    }
}
