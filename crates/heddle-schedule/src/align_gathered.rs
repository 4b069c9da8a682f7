//! Splits operators as those are split that read their results, where arrays that units gather leave no other wait.
//!
//! A layer's products with its inputs are computed for some steps at once, split as is fastest for them alone. Its steps read them split by
//! hidden unit, which needs a wait; while each step waits for the state anyway that costs nothing. If units gather the state
//! ([`gather_state`](fn@crate::gather_state)), that wait is all that is left of it.
//!
//! All candidates are changed at once, since layers on teams of their own are as fast as the slowest. The result is kept if the program, with
//! all arrays gathered that may be, takes less time than before, gathered or not. The pass comes before lanes and places in shared memory are
//! chosen, which depend on shares.

use std::collections::BTreeMap;

use heddle_uprogram::program::{Buffer, OperatorId, Share, Split, Stmt, UProgram};

use crate::gather_state::{WORTH_IT, plans};
use crate::latency::Latency;
use crate::partition::Partition;
use crate::total::total;
use crate::trips::visit;

/// Splits operators as their readers are split.
pub fn align_gathered(program: &mut UProgram, latency: &dyn Latency) {
    if plans(program, latency).is_empty() {
        return;
    }
    let splits = splits(program);
    if splits.is_empty() {
        return;
    }
    let mut aligned = program.clone();
    for (id, split) in splits {
        aligned.operators[id].share = Share::Split(split);
    }
    let before = total(program, latency).min(time_gathered(program, latency));
    if time_gathered(&aligned, latency) < before * (1.0 - WORTH_IT) {
        *program = aligned;
    }
}

/// The time of the program with all arrays gathered that may be. Whether there is room for them is seen later.
fn time_gathered(program: &UProgram, latency: &dyn Latency) -> f64 {
    let mut program = program.clone();
    let units = u32::try_from(latency.machine().units()).unwrap_or(u32::MAX);
    for plan in plans(&program, latency) {
        plan.apply(&mut program, units, u64::MAX);
    }
    total(&program, latency)
}

/// The splits under which operators in loops touch elements where their only readers do, if they do not do so now.
fn splits(program: &mut UProgram) -> BTreeMap<OperatorId, Split> {
    let mut often: BTreeMap<OperatorId, f64> = BTreeMap::new();
    visit(program, &program.body, 1.0, &mut |stmt, times| {
        if let Stmt::Run(id) = stmt {
            *often.entry(*id).or_default() += times;
        }
    });
    let in_loops: Vec<OperatorId> = often
        .iter()
        .filter(|(_, n)| **n > 1.0)
        .map(|(id, _)| *id)
        .collect();
    let mut found = BTreeMap::new();
    for writer in &in_loops {
        let op = program.operators[*writer].clone();
        let store = op.body.store();
        let is_scratch = program.buffers[store.buffer].kind.is_reused();
        let (Share::Split(_), true) = (op.share, is_scratch) else {
            continue;
        };
        let wanted = wanted(program, &in_loops, *writer, store.buffer);
        let now = Partition::of(program, &op, store.offset);
        let Some(wanted) = wanted.filter(|wanted| now.as_ref() != Some(wanted)) else {
            continue;
        };
        let among = match &wanted {
            Partition::Member(_, Some(among)) => (**among).clone(),
            other => other.clone(),
        };
        let mut axes = 0..op.axes.len();
        let split = axes.find_map(|axis| among.split(program, &op, store.offset, axis));
        found.extend(split.map(|split| (*writer, split)));
    }
    found
}

/// The partition in which all readers of an array that this operator alone writes touch it, on its team.
fn wanted(
    program: &UProgram,
    in_loops: &[OperatorId],
    writer: OperatorId,
    buffer: Buffer,
) -> Option<Partition> {
    let mut wanted = None;
    for id in in_loops.iter().filter(|id| **id != writer) {
        let op = &program.operators[*id];
        if op.body.store().buffer == buffer {
            return None;
        }
        let loads = program.loads_of(&op.body.exprs()).into_iter();
        for (_, offset) in loads.filter(|load| load.0 == buffer) {
            let theirs = Partition::of(program, op, offset)?;
            let is_first = wanted.is_none();
            if op.team != program.operators[writer].team
                || !theirs.is_known()
                || !is_first && wanted.as_ref() != Some(&theirs)
            {
                return None;
            }
            wanted = Some(theirs);
        }
    }
    wanted
}
