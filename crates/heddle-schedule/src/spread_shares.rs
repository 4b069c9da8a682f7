//! Runs small operators side by side: those that leave units free begin elsewhere than others of their wave.
//!
//! An operator over few channels has fewer shares than a GPU has blocks, and all that is aligned with it has the same units. Independent
//! chains of such operators, the branches of a cell, would follow each other on these units while others stand idle. Here the operators of a wave,
//! which do not wait for each other, are parted into those that are aligned; each part begins with the unit from which on it ends earliest
//! (Rammer §3.3, with shares in place of single tasks).
//!
//! - Other waves keep their units. What is aligned across waves is then no more, but a synchronisation of the waves lies between.
//! - It applies where a unit reads what another one has written as fast as what it has written itself: on GPUs, not on processors, whose
//!   caches belong to a core.
//! - Operators on teams stay where they are.
//!
//! A change is kept if the whole program, with its synchronisations, takes less time.

use std::collections::BTreeMap;

use heddle_uprogram::program::{Buffer, OperatorId, Share, UProgram};

use crate::candidates::{add, earliest, loads};
use crate::latency::Latency;
use crate::partition::Partition;
use crate::proposals::{Proposal, try_proposals};
use crate::reach::written_often;
use crate::stretches::for_each_wave;
use crate::total::latest;

/// Limit on the number of waves tried; bounds compile time.
const MAX_TRIALS: usize = 128;

/// Has the operators of a wave begin with different units, where that is faster.
pub fn spread_shares(program: &mut UProgram, latency: &dyn Latency) {
    let machine = latency.machine();
    if machine.units() < 2 || machine.remote_read_rate.is_finite() {
        return;
    }
    let mut proposals = vec![];
    let often = written_often(program);
    for_each_wave(program, &often, &mut |ops, often| {
        proposals.extend(proposal(program, latency, ops, often));
    });
    try_proposals(program, latency, proposals, MAX_TRIALS);
}

/// Shares for the operators of a wave under which it ends earlier.
fn proposal(
    program: &UProgram,
    latency: &dyn Latency,
    ops: &[OperatorId],
    often: f64,
) -> Option<Proposal> {
    let units = latency.machine().units();
    let parts = aligned(program, ops);
    if parts.len() < 2 {
        return None;
    }
    let times = |part: &Vec<OperatorId>| {
        let mut times = vec![0.0; units];
        for id in part {
            let share = program.operators[*id].share;
            let loads = match share {
                Share::Every => vec![1.0; units],
                share => loads(program, share, units),
            };
            add(&mut times, &loads, latency.operator(program, *id, share));
        }
        times
    };
    let mut timed: Vec<_> = parts.iter().map(|part| (part, times(part))).collect();
    timed.sort_by(|a, b| latest(&b.1).total_cmp(&latest(&a.1)));
    let (mut now, mut then) = (vec![0.0; units], vec![0.0; units]);
    let mut shares = vec![];
    for (part, times) in timed {
        add(&mut now, &times, 1.0);
        let stays = part.iter().any(|id| !may_move(program, *id));
        let first = if stays { 0 } else { earliest(&then, &times) };
        let moved: Vec<f64> = (0..units)
            .map(|unit| times[(unit + units - first) % units])
            .collect();
        add(&mut then, &moved, 1.0);
        if first > 0 {
            let of = |id: &OperatorId| (*id, moved_by(program, *id, first, units));
            shares.extend(part.iter().map(of));
        }
    }
    Proposal::new((latest(&now), latest(&then)), often, shares)
}

/// The operators of a wave in parts: two are in the same one if a unit that touches an element in one of them touches it in the other.
fn aligned(program: &UProgram, ops: &[OperatorId]) -> Vec<Vec<OperatorId>> {
    // The first operator of each one's part.
    let mut part: Vec<usize> = (0..ops.len()).collect();
    let mut seen: BTreeMap<Buffer, Vec<(usize, bool, Option<Partition>)>> = BTreeMap::new();
    for (k, id) in ops.iter().enumerate() {
        let op = &program.operators[*id];
        let store = op.body.store();
        let loads = program.loads_of(&op.body.exprs()).into_iter();
        let accesses = loads.map(|(buffer, offset)| (buffer, offset, false));
        for (buffer, offset, write) in accesses.chain([(store.buffer, store.offset, true)]) {
            let partition = Partition::of(program, op, offset);
            let others = seen.entry(buffer).or_default();
            for (other, wrote, theirs) in others.iter() {
                if (write || *wrote) && partition.is_some() && *theirs == partition {
                    let [from, to] = [part[k], part[*other]];
                    let all = part.iter_mut().filter(|first| **first == from);
                    all.for_each(|first| *first = to);
                }
            }
            others.push((k, write, partition));
        }
    }
    let mut parts: BTreeMap<usize, Vec<OperatorId>> = BTreeMap::new();
    for (k, id) in ops.iter().enumerate() {
        parts.entry(part[k]).or_default().push(*id);
    }
    parts.into_values().collect()
}

/// True for an operator whose shares may begin with any unit.
fn may_move(program: &UProgram, id: OperatorId) -> bool {
    let op = &program.operators[id];
    op.team.is_none() && op.share != Share::Every && !op.share.is_in_pieces()
}

/// An operator's share, so many units further on.
fn moved_by(program: &UProgram, id: OperatorId, by: usize, units: usize) -> Share {
    let share = program.operators[id].share;
    let first = share.first();
    share.from_unit(((first as usize + by) % units) as u32)
}
