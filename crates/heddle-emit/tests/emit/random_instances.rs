//! Random programs for 1 to 7 instances, compiled: with 1, 2 and 5 workers each instance has the results
//! that the interpreter gives for it alone. And a sample of them under ThreadSanitizer.
//!
//! `HEDDLE_BATCHED` and `HEDDLE_SANITIZED` say how many; `HEDDLE_SEED` runs one alone. Recursions on
//! tensors are also compiled for one instance, depth first.

use crate::harness::{Case, random, sanitized};
use crate::opt_common::drawn::drawn;
use crate::opt_common::many::{alone, compare, gathered};
use crate::opt_common::{costs, recursions};
use heddle_machine::Machine;
use heddle_opt::{LevelOptions, Pace, TransformOptions, level_recursion, optimize, transform};
use heddle_runtime::cache::CacheChoice;
use heddle_runtime::{BuildOptions, Sanitizer};

/// The program of a seed for many instances.
fn case(seed: u64) -> Result<Case, String> {
    let drawn = drawn(seed).ok_or("no form for many instances")?;
    let (forms, instances) = (&drawn.forms, &drawn.instances);
    let alone = alone(&drawn.module, instances).ok_or("an instance fails alone")?;
    let batch = compare(&drawn.module, forms, instances).expect("each runs alone");
    // One instance runs as alone, and a part of the others beside that program.
    let mut module = match instances.len() == 1 || seed.is_multiple_of(5) {
        true => batch
            .with_one_alone(&drawn.module, forms)
            .map_err(|e| e.to_string())?,
        false => batch.module,
    };
    optimize(&mut module);
    // Products of these sizes gain nothing by levels.
    let pace = Pace {
        share: 1.0,
        ahead: 5,
    };
    let always = LevelOptions {
        always: true,
        streams: (seed / 12 % 2 == 1).then_some(pace),
        ..LevelOptions::USUAL
    };
    if seed % 4 < 3 {
        level_recursion(&mut module, &always, &costs());
        optimize(&mut module);
    }
    let machine = Machine::reference_host(2);
    transform(&mut module, &TransformOptions::default(), &machine);
    let inputs = gathered(forms, instances, &instances[0]);
    let case = Case::new(&format!("seed {seed}"), module, &inputs)?;
    case.expects_all(&gathered(&batch.results, &alone, &alone[0]));
    Ok(case)
}

#[test]
fn random_programs() {
    random::check_all(random::seeds("HEDDLE_BATCHED", 18), case, |seed, case| {
        let options = BuildOptions {
            cache: CacheChoice::Off,
            optimize: Some(if seed % 8 < 7 { 1 } else { 3 }),
            ..Default::default()
        };
        case.check(&format!("seed {seed}"), &options, &[1, 2, 5]);
    });
}

#[test]
fn no_random_program_has_a_race() {
    random::check_all(random::seeds("HEDDLE_SANITIZED", 6), case, |seed, case| {
        let name = format!("seed {seed}");
        let teams = [(2, 2), (2, 5), (5, 5)];
        sanitized::check(&name, &case, Sanitizer::Thread, &teams, 5);
    });
}

/// Among them softmaxes in front of calls in loops, whose rows no call must keep.
#[test]
fn random_recursions_alone() {
    let case = |seed| {
        let program = recursions::on_tensors(seed, false);
        let mut module = heddle_ir::text::parse(&program).expect("parses");
        optimize(&mut module);
        let instance = &recursions::tensors(seed, 1, 4)[0];
        Case::new(&format!("seed {seed}"), module, instance)
    };
    random::check_all(random::seeds("HEDDLE_BATCHED", 18), case, |seed, case| {
        let options = BuildOptions {
            cache: CacheChoice::Off,
            optimize: Some(1),
            ..Default::default()
        };
        case.check(&format!("seed {seed}"), &options, &[1, 2, 5]);
    });
}
