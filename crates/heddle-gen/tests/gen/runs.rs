//! Generated programs terminate within a bound, and every result has its stated type.
//! `HEDDLE_FUZZ_SECONDS` adds further seeds for so long.

use std::time::{Duration, Instant};

use heddle_gen::{Config, generate};
use heddle_interp::{Options, run};
use heddle_ir::text::print;

#[test]
fn programs_run() {
    let options = Options {
        timeout: Some(Duration::from_secs(10)),
        check_types: true,
        ..Options::default()
    };
    let mut failures = vec![];
    let mut slowest = (Duration::ZERO, 0);
    let seconds = std::env::var("HEDDLE_FUZZ_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    for seed in (0..).take_while(|seed| *seed < 10_000 || Instant::now() < end) {
        let (module, inputs) = generate(seed, &Config::default());
        let start = Instant::now();
        if let Err(e) = run(&module, &inputs, &options) {
            failures.push((seed, e.to_string()));
        }
        slowest = slowest.max((start.elapsed(), seed));
    }
    println!("slowest: {slowest:?}");
    if let Some((seed, e)) = failures.first() {
        let (module, _) = generate(*seed, &Config::default());
        for (seed, e) in failures.iter().take(40) {
            println!("seed {seed}: {e}");
        }
        panic!(
            "{} failed; seed {seed}: {e}\n{}",
            failures.len(),
            print(&module)
        );
    }
}
