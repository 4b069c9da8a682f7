//! Random programs for 1 to 7 instances: for each the same as alone, bit for bit.
//!
//! `HEDDLE_SEED` and `HEDDLE_PROGRAMS` choose which and how many; programs that do not run alone, or
//! have no form for many instances, do not count.

use std::collections::BTreeMap;

use crate::common::drawn::drawn;
use crate::common::many::compare;
use crate::common::variable;

#[test]
fn random_programs() {
    let first = variable("HEDDLE_SEED", 0);
    let count = variable("HEDDLE_PROGRAMS", 300);
    let (mut kinds, mut alone) = (BTreeMap::new(), BTreeMap::<String, u32>::new());
    let seeds = (first..).filter_map(drawn);
    let compared = seeds.filter_map(|program| {
        let batch = compare(&program.module, &program.forms, &program.instances)?;
        *kinds.entry(program.kind).or_insert(0) += 1;
        for left in batch.one_by_one {
            let reason = format!("{}: {}", left.op, left.refusal);
            *alone.entry(reason).or_default() += 1;
        }
        Some(())
    });
    let done = compared.take(count as usize).count();
    println!("{done} programs: {kinds:?}; one by one: {alone:#?}");
}
