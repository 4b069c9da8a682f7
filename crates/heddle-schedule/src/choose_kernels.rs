//! Chooses between kernel candidates in straight-line code, wave by wave (Rammer §3.3,
//! `SelectRKernels` and `SelectvEU`).
//!
//! The *fastest* candidate of a contraction takes the least time alone, the most *efficient* one
//! the least time × tasks. Operators of a wave do not wait for each other. If the fastest
//! candidates of a wave do not fill the units, or the wave is a single operator, the fastest are
//! tried. Otherwise the most efficient are tried, which leave units free for each other: the most
//! efficient of all, and the most efficient of those that together have a task for every unit.
//! Tasks go to the units that are free first.
//!
//! A choice is kept if the whole program, with its synchronisations, takes less time: a candidate's
//! partition may differ from its neighbours'. Operators other than contractions have one candidate
//! and keep their units.

use std::collections::BTreeMap;

use crate::candidates::{add, candidate, candidates, earliest, loads};
use crate::latency::Latency;
use crate::proposals::{Proposal, try_proposals};
use crate::reach::written_often;
use crate::split_depths::in_parts;
use crate::stretches::for_each_wave;
use crate::total::latest;
use heddle_uprogram::program::{Body, Candidate, OperatorId, Share, UProgram};

/// Chooses candidates, and records those of every contraction in the program.
pub fn choose_kernels(program: &mut UProgram, latency: &dyn Latency) {
    // Contractions that `split_depths` has split keep their share.
    let split = std::mem::take(&mut program.candidates);
    let is_whole = |id: &_| {
        matches!(program.operators[*id].body, Body::Contract(_)) && !split.contains_key(id)
    };
    let contractions = program.running().into_iter().filter(is_whole);
    let noted = contractions.map(|id| (id, candidates(program, latency, id)));
    let mut noted: BTreeMap<_, _> = noted.collect();
    let mut search = Search {
        program,
        latency,
        noted: &noted,
        proposals: vec![],
    };
    let often = written_often(program);
    for_each_wave(program, &often, &mut |ops, often| search.wave(ops, often));
    let proposals = search.proposals;
    try_proposals(program, latency, proposals, MAX_TRIALS);
    for (&id, all) in &mut noted {
        all.extend(in_parts(program, latency, id));
    }
    noted.extend(split);
    program.candidates = noted;
}

/// Limit on the number of proposals tried.
const MAX_TRIALS: usize = 64;

struct Search<'a> {
    program: &'a UProgram,
    latency: &'a dyn Latency,
    /// The candidates of contractions.
    noted: &'a BTreeMap<OperatorId, Vec<Candidate>>,
    proposals: Vec<Proposal>,
}

impl Search<'_> {
    /// Proposes candidates for a wave.
    fn wave(&mut self, ops: &[OperatorId], often: f64) {
        if ops.iter().all(|id| !self.noted.contains_key(id)) {
            return;
        }
        let units = self.latency.machine().units();
        let all = ops.iter().map(|&id| {
            let noted = self.noted.get(&id).cloned();
            let share = self.program.operators[id].share;
            let own = || candidate(self.program, self.latency, id, share);
            let noted = noted.unwrap_or_else(|| vec![own()]);
            (id, noted)
        });
        let all: Vec<_> = all.collect();
        let pick = |key: &dyn Fn(&Candidate) -> (f64, f64)| -> Vec<(OperatorId, Candidate)> {
            let best = all.iter().filter_map(|(id, candidates)| {
                let less = |a: &&Candidate, b: &&Candidate| key(a).partial_cmp(&key(b));
                let best = candidates
                    .iter()
                    .min_by(|a, b| less(a, b).unwrap_or(std::cmp::Ordering::Equal));
                best.map(|best| (*id, *best))
            });
            best.collect()
        };
        let fastest = pick(&|c| (c.time, c.work()));
        let tasks: usize = fastest.iter().map(|f| f.1.tasks).sum();
        let mut picks = vec![fastest];
        if ops.len() > 1 && tasks > units {
            let each = units.div_ceil(ops.len());
            let too_few = |c: &Candidate| if c.tasks < each { f64::INFINITY } else { 0.0 };
            picks.push(pick(&|c| (c.work(), c.time)));
            picks.push(pick(&|c| (c.work() + too_few(c), c.time)));
        }
        let now = ops.iter().map(|&id| {
            let share = self.program.operators[id].share;
            let time = self.latency.operator(self.program, id, share);
            (share, time)
        });
        let now = self.end(now);
        for picked in picks {
            let placed = self.placed(&picked);
            let times = placed.iter().map(|p| (p.1, p.2));
            let then = self.end(times);
            let shares = placed.into_iter().map(|(id, share, _)| (id, share));
            let proposal = Proposal::new((now, then), often, shares.collect());
            self.proposals.extend(proposal);
        }
    }

    /// Completion time of operators that do not wait for each other.
    fn end(&self, ops: impl Iterator<Item = (Share, f64)>) -> f64 {
        let mut clocks = vec![0.0; self.latency.machine().units()];
        for (share, time) in ops {
            add(&mut clocks, &self.loads(share), time);
        }
        latest(&clocks)
    }

    fn loads(&self, share: Share) -> Vec<f64> {
        loads(self.program, share, self.latency.machine().units())
    }

    /// List scheduling: the largest work first, to the units where it ends earliest. Operators with
    /// one candidate keep their units.
    fn placed(&self, picked: &[(OperatorId, Candidate)]) -> Vec<(OperatorId, Share, f64)> {
        let mut clocks = vec![0.0; self.latency.machine().units()];
        let stays = |id| !self.noted.contains_key(&id);
        let mut order: Vec<_> = picked.iter().collect();
        order.sort_by(|a, b| {
            let work = b.1.work().total_cmp(&a.1.work());
            stays(b.0).cmp(&stays(a.0)).then(work)
        });
        let mut placed = vec![];
        for &&(id, candidate) in &order {
            let times = self.loads(candidate.share).into_iter();
            let times: Vec<f64> = times.map(|load| load * candidate.time).collect();
            let share = match stays(id) {
                true => self.program.operators[id].share,
                false => candidate.share.from_unit(earliest(&clocks, &times) as u32),
            };
            add(&mut clocks, &self.loads(share), candidate.time);
            placed.push((id, share, candidate.time));
        }
        placed
    }
}
