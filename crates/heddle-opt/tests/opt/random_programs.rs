//! Random programs: every pass, in any order, and the whole pipeline keep the verifier content and
//! the results the same bit for bit.
//!
//! `HEDDLE_SEED` and `HEDDLE_PROGRAMS` choose which programs and how many; a failure names its
//! seed.

use crate::common::{Random, same_outcome, variable};
use heddle_gen::{Config, generate};
use heddle_ir::{Module, text, verify::verify};
use heddle_opt::{PASSES, optimize};

/// Programs of a run, and how many passes each goes through besides the pipeline.
const PROGRAMS: u64 = 2_000;
const PASSES_EACH: usize = 3;

#[test]
fn passes_keep_results() {
    let first = variable("HEDDLE_SEED", 0);
    let count = variable("HEDDLE_PROGRAMS", PROGRAMS);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|k| {
                let work = move || {
                    for seed in (first..first + count)
                        .skip(k as usize)
                        .step_by(threads as usize)
                    {
                        if let Err(panic) = std::panic::catch_unwind(|| try_seed(seed)) {
                            eprintln!("the program of seed {seed} fails");
                            std::panic::resume_unwind(panic);
                        }
                    }
                };
                let builder = std::thread::Builder::new().stack_size(64 << 20);
                builder.spawn_scoped(scope, work).expect("a thread")
            })
            .collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

fn try_seed(seed: u64) {
    let (program, inputs) = generate(seed, &Config::default());
    let check = |module: &Module, after: &str| {
        if let Err(errors) = verify(module) {
            let (before, found) = (text::print(&program), text::print(module));
            panic!(
                "seed {seed}, after {after}: {}\n{before}\n{found}",
                errors[0]
            );
        }
        if let Err(difference) = same_outcome(&program, module, &inputs) {
            let (before, found) = (text::print(&program), text::print(module));
            panic!("seed {seed}, after {after}: {difference}\n{before}\n{found}");
        }
    };
    // A few passes in an order of the seed's choice, …
    let mut random = Random(seed);
    let mut module = program.clone();
    let mut order = vec![];
    for _ in 0..PASSES_EACH {
        let pass = PASSES[random.below(PASSES.len() as u64) as usize];
        order.push(pass.name);
        let stats = (pass.run)(&mut module);
        let names = order.join(",");
        assert!(
            stats.rejected.is_empty(),
            "seed {seed}, {names}: {:?}",
            stats.rejected
        );
        check(&module, &names);
    }
    // … and the pipeline.
    let mut module = program.clone();
    let report = optimize(&mut module);
    let rejected = report.total().rejected;
    assert!(rejected.is_empty(), "seed {seed}: {rejected:?}");
    check(&module, "all");
}
