//! Recursion over index data gives the same by an inspector and by a frontier.
//!
//! `HEDDLE_SEED` and `HEDDLE_PROGRAMS` choose which random programs and how many.

use crate::common::many::{gathered, options};
use crate::common::{assert_same, costs, recursions, variable};
use heddle_interp::run;
use heddle_ir::text;
use heddle_opt::Form::{Ragged, Shared};
use heddle_opt::{LevelOptions, Pace, batch_instances, level_recursion};

/// The two ways to evaluate a recursion over index data: by an inspector, which orders all calls
/// before the first is evaluated, and by a frontier, which finds the calls of each level when it
/// gets there. One argument more that differs by call keeps the inspector from the second program.
/// Most of the first ones have early work beside the levels.
#[test]
fn inspector_and_frontier_agree() {
    let first = variable("HEDDLE_SEED", 0);
    let count = variable("HEDDLE_PROGRAMS", 50);
    let forms = [Ragged, Ragged, Ragged, Shared, Shared];
    let pace = |share, ahead| Some(Pace { share, ahead });
    let paces = [None, pace(0.0, 0), pace(1.0, 5), pace(4.0, 24)];
    let mut inspected = 0;
    for seed in first..first + count {
        let always = LevelOptions {
            batch: [24, 1, 2][seed as usize % 3],
            always: true,
            streams: paces[seed as usize % 4],
            ..LevelOptions::USUAL
        };
        let instances = recursions::trees(seed, 1 + seed % 7);
        let inputs = gathered(&forms, &instances, &instances[0]);
        let [found, expected] = [false, true].map(|has_depth| {
            let program = recursions::on_trees(seed, has_depth);
            let module = text::parse(&program).unwrap_or_else(|e| panic!("{e}\n{program}"));
            let batch = batch_instances(&module, &forms).unwrap_or_else(|e| panic!("{e}"));
            let left: Vec<_> = batch.one_by_one.iter().map(|one| one.op).collect();
            assert!(left.is_empty(), "{left:?}\n{program}");
            let mut module = batch.module;
            heddle_opt::optimize(&mut module);
            let edits = level_recursion(&mut module, &always, &costs()).total();
            // Only in the first, an argument is a place.
            assert!(!has_depth || edits == 0, "{program}");
            inspected += (edits > 0) as u64;
            run(&module, &inputs, &options()).unwrap_or_else(|e| panic!("{e}\n{program}"))
        });
        let name = format!("seed {seed}");
        assert_same(&expected, &found, &name);
    }
    assert!(
        2 * inspected > count,
        "{inspected} of {count} are inspected"
    );
}
