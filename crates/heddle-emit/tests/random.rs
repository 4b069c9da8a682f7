//! Random programs, compiled, give what the interpreter gives, with 1, 2 and 5 workers.
//!
//! `HEDDLE_PROGRAMS` says how many; `HEDDLE_SEED` runs one alone.

mod harness;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use harness::Case;
use heddle_gen::Config;
use heddle_opt::TransformOptions;
use heddle_runtime::BuildOptions;
use heddle_runtime::cache::CacheChoice;

/// Programs are built side by side.
const BUILDERS: usize = 2;

#[test]
fn random_programs() {
    let number = |name: &str| std::env::var(name).ok().map(|v| v.parse::<u64>());
    let number = |name: &str| number(name).transpose().expect("a number");
    let seeds = match number("HEDDLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HEDDLE_PROGRAMS").unwrap_or(60),
    };
    let next = AtomicU64::new(seeds.start);
    let refused = Mutex::new(BTreeMap::<String, usize>::new());
    let failed = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..BUILDERS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    // The others are of interest, too; each says what is wrong where it happens.
                    match std::panic::catch_unwind(|| check(seed)) {
                        Ok(Ok(())) => {}
                        Ok(Err(reason)) => {
                            *refused.lock().expect("no panic").entry(reason).or_insert(0) += 1;
                        }
                        Err(_) => failed.lock().expect("no panic").push(seed),
                    }
                }
            });
        }
    });
    let refused = refused.into_inner().expect("no panic");
    let all = seeds.end - seeds.start;
    let compiled = all - refused.values().sum::<usize>() as u64;
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "HEDDLE_SEED={failed:?}");
    println!("{compiled} of {all} compiled; refused: {refused:#?}");
    assert!(compiled > 0, "no random program is compiled at all");
}

/// Every other program is transformed, too; one in four is built as programs are by default, the others faster.
fn check(seed: u64) -> Result<(), String> {
    let name = format!("seed {seed}");
    let (mut module, inputs) = heddle_gen::generate(seed, &Config::default());
    if seed % 2 == 1 {
        heddle_opt::optimize(&mut module);
        heddle_opt::transform(&mut module, &TransformOptions::default());
    }
    let case = Case::new(&name, module, &inputs)?;
    let options = BuildOptions {
        cache: CacheChoice::Off,
        optimize: if seed % 8 < 6 { 1 } else { 3 },
        ..Default::default()
    };
    case.check(&name, &options, &[1, 2, 5]);
    Ok(())
}
