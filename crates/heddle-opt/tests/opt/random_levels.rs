//! Random recursive functions for several instances: for each the same as alone, by levels and by
//! frames.
//!
//! `HEDDLE_SEED` and `HEDDLE_PROGRAMS` choose which and how many.

use std::collections::BTreeMap;

use crate::common::many::{Compare, compare, compare_frames, compare_made};
use crate::common::{recursions, variable};
use heddle_ir::text;
use heddle_opt::BatchOptions;
use heddle_opt::Form::{Shared, Stacked};

/// Runs programs for instances together; the number of those in which nothing goes one by one.
fn compare_all(is_free: bool, usual: u64, compare: Compare) -> (u64, u64) {
    let first = variable("HEDDLE_SEED", 0);
    let count = variable("HEDDLE_PROGRAMS", usual);
    let (mut together, mut reasons) = (0, BTreeMap::<String, u32>::new());
    for seed in first..first + count {
        let program = recursions::on_tensors(seed, is_free);
        let module = text::parse(&program).unwrap_or_else(|e| panic!("{e}\n{program}"));
        let deepest = if is_free { 3 } else { 4 };
        let instances = recursions::tensors(seed + 1, 1 + seed % 5, deepest);
        let batch = compare(&module, &[Stacked, Stacked, Shared], &instances);
        let batch = batch.unwrap_or_else(|| panic!("runs alone\n{}", text::print(&module)));
        together += batch.one_by_one.is_empty() as u64;
        for left in batch.one_by_one {
            let reason = format!("{}: {}", left.op, left.refusal);
            *reasons.entry(reason).or_default() += 1;
        }
    }
    println!("{together} together; one by one: {reasons:#?}");
    (together, count)
}

#[test]
fn random_recursions() {
    let (together, count) = compare_all(false, 80, compare);
    assert_eq!(together, count);
}

#[test]
fn random_recursions_by_frames() {
    let (together, count) = compare_all(false, 40, compare_frames);
    assert_eq!(together, count);
}

/// Few frames: the newest go on first, or instances run one after the other.
#[test]
fn random_recursions_with_few_frames() {
    let few: Compare = |module, forms, instances| {
        let choices = BatchOptions {
            max_frames: Some(5 + instances.len() * 7 % 40),
            prefers_frames: true,
            ..Default::default()
        };
        compare_made(module, forms, instances, choices)
    };
    for is_free in [false, true] {
        let (together, count) = compare_all(is_free, 12, few);
        assert_eq!(together, count);
    }
}

/// Functions that call each other, arguments and control flow that need calls, loops in loops.
#[test]
fn random_recursions_of_functions() {
    let (together, count) = compare_all(true, 40, compare);
    assert_eq!(together, count);
}
