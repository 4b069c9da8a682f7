//! Random programs: every transformation, and all of them, keep the verifier content and the
//! results the same.
//!
//! `HEDDLE_SEED` and `HEDDLE_PROGRAMS` choose which programs and how many; a failure names its
//! seed.

use crate::common::{costs, machine, same_but_for_sums, same_outcome, variable};
use heddle_gen::{Config, generate};
use heddle_ir::{Module, text, verify::verify};
use heddle_opt::{
    CostModel, Edit, Stats, TransformOptions, Transformation, distribute_loops, optimize,
    reduce_folds, transform,
};

#[test]
fn transformations_keep_results() {
    let first = variable("HEDDLE_SEED", 500_000);
    let count = variable("HEDDLE_PROGRAMS", 600);
    let work = move || {
        let mut all = Stats::default();
        (first..first + count).for_each(|seed| all.merge(try_seed(seed)));
        // Coverage of the transformations by the programs.
        all.reasons
            .iter()
            .for_each(|(reason, n)| println!("{n:6} {reason}"));
    };
    let builder = std::thread::Builder::new().stack_size(64 << 20);
    let thread = builder.spawn(work).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Transforms a program; gives what was done.
fn try_seed(seed: u64) -> Stats {
    let mut all = Stats::default();
    let (program, inputs) = generate(seed, &Config::default());
    let check = |module: &Module, after: &str, stats: &Stats| {
        let rejected = &stats.rejected;
        assert!(rejected.is_empty(), "seed {seed}, {after}: {rejected:?}");
        let show = || format!("{}\n{}", text::print(&program), text::print(module));
        if let Err(errors) = verify(module) {
            panic!("seed {seed}, after {after}: {}\n{}", errors[0], show());
        }
        let same = match stats.count(Edit::FoldReduced) {
            0 => same_outcome(&program, module, &inputs),
            _ => same_but_for_sums(&program, module, &inputs),
        };
        if let Err(difference) = same {
            panic!("seed {seed}, after {after}: {difference}\n{}", show());
        }
    };
    let mut optimized = program.clone();
    optimize(&mut optimized);
    for pass in Transformation::ALL {
        for before in [&program, &optimized] {
            let mut module = before.clone();
            let stats = pass.run(&mut module, &costs());
            check(&module, pass.name(), &stats);
            all.merge(stats);
        }
    }
    for chunk in [64.0, 1e9] {
        let free = CostModel {
            flops: f64::INFINITY,
            arrays: f64::INFINITY,
            step: 0.0,
            chunk,
            ..costs()
        };
        let mut module = optimized.clone();
        let stats = distribute_loops(&mut module, &free);
        check(&module, "distribute_loops", &stats);
        all.merge(stats);
    }
    // Terms of few iterations at once.
    for bytes in [100.0, 300.0] {
        let mut module = optimized.clone();
        let stats = reduce_folds(&mut module, bytes);
        check(&module, "reduce_folds", &stats);
        all.merge(stats);
    }
    let mut module = optimized;
    let report = transform(&mut module, &TransformOptions::default(), &machine());
    check(&module, "all", &report.total());
    all
}
