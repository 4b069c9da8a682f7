//! Cocktailer's Algorithm 1: chooses which parts of a program run on one unit, and which are split
//! over all units.
//!
//! A machine has two levels, the unit and all units together. Control flow is executed by every
//! unit, so it is at the level of its body or above by construction, as the paper demands. A part
//! on one unit needs no synchronisation inside; split over all units, each of its operators takes
//! less time.
//!
//! Independent parts of a block that contain loops, such as recurrent layers that work on different
//! chunks of steps, are first tried on a unit each, and stay there if that is faster. Where there are
//! several units for each part, they are tried on a team each before.
//!
//! Bottom up, each statement is tried on one unit, then merged with the preceding statements that
//! are there already; the faster choice is kept. Then, in straight-line code, independent operators
//! on one unit are spread over units by list scheduling (Rammer §3.3, the wavefront).

use std::collections::BTreeSet;

use crate::independent_parts::{Part, independent_parts};
use crate::latency::Latency;
use crate::trials::Trials;
use heddle_uprogram::program::{OperatorId, Share, Stmt, Team, UProgram, for_each_stmt};

/// Chooses levels. Operators fixed to one unit stay there.
pub fn choose_levels(program: &mut UProgram, latency: &dyn Latency) {
    let bodies: Vec<Vec<Stmt>> = std::iter::once(program.body.clone())
        .chain(program.procedures.iter().map(|(_, p)| p.body.clone()))
        .collect();
    let trials = Trials::new(program, latency);
    let mut search = Search {
        program,
        latency,
        trials,
        budget: MAX_TRIALS,
        placed: BTreeSet::new(),
    };
    bodies.iter().for_each(|body| search.place_parts(body));
    bodies.iter().for_each(|body| search.schedule_block(body));
    bodies.iter().for_each(|body| search.spread_block(body));
}

/// Limit on the number of changes tried; bounds compile time.
const MAX_TRIALS: usize = 256;

/// Upper bound on synchronisations saved per operator: before it, after it, and across a back edge.
const SAVED_SYNCS: f64 = 3.0;

/// Least load of a unit relative to the most loaded one for independent parts to be worth it; with
/// less balance, splitting the longest part is faster.
const EVEN: f64 = 0.5;

/// The least units of a team, on average: fewer are no gain over one unit for each part.
const LEAST_TEAM: usize = 2;

/// Limit on the units that single-unit operators are spread over.
const MAX_SPREAD: usize = 8;

struct Search<'a> {
    program: &'a mut UProgram,
    latency: &'a dyn Latency,
    trials: Trials<'a>,
    /// Remaining number of trials.
    budget: usize,
    /// Operators placed by `place_parts`.
    placed: BTreeSet<OperatorId>,
}

impl Search<'_> {
    /// Schedules nested blocks, then the statements and merges of neighbours.
    fn schedule_block(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            let blocks = stmt.blocks().into_iter();
            blocks.for_each(|inner| self.schedule_block(inner));
        }
        let mut previous: Vec<OperatorId> = vec![];
        for stmt in stmts {
            let own = operators_of(std::slice::from_ref(stmt));
            if own.is_empty() {
                continue;
            }
            if own.iter().any(|id| self.placed.contains(id)) {
                previous.clear();
                continue;
            }
            let alone = self.schedule_on_unit(&own);
            let merged = [previous.as_slice(), &own].concat();
            previous = if !previous.is_empty() && self.schedule_on_unit(&merged) {
                merged
            } else if alone {
                own
            } else {
                vec![]
            };
        }
    }

    /// Puts operators on unit 0 if that is faster; returns true if they are there.
    fn schedule_on_unit(&mut self, ops: &[OperatorId]) -> bool {
        let is_split = |&&id: &&OperatorId| self.program.operators[id].share != Share::One(0);
        let split: Vec<_> = ops.iter().filter(is_split).copied().collect();
        split.is_empty() || self.may_pay(&split) && self.set_resource(&split, Share::One(0))
    }

    /// Could the saved syncs outweigh the cost of serialising these operators?
    fn may_pay(&self, ops: &[OperatorId]) -> bool {
        let sync = self.latency.barrier();
        let longer = ops.iter().map(|&id| {
            let time = |share| self.time(id, share);
            time(Share::One(0)) - time(self.program.operators[id].share) - SAVED_SYNCS * sync
        });
        longer.sum::<f64>() < 0.0
    }

    fn time(&self, id: OperatorId, share: Share) -> f64 {
        self.trials.time(self.program, id, share)
    }

    /// Changes the operators' share if the program is then faster; returns true if so.
    fn set_resource(&mut self, ops: &[OperatorId], share: Share) -> bool {
        if self.budget == 0 {
            return false;
        }
        self.budget -= 1;
        let shares: Vec<_> = ops.iter().map(|&id| (id, share)).collect();
        self.trials.set(self.program, &shares)
    }

    /// Puts each independent part of a block on a unit, if several contain loops.
    fn place_parts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            let blocks = stmt.blocks().into_iter();
            blocks.for_each(|inner| self.place_parts(inner));
        }
        let parts = independent_parts(self.program, self.latency, self.trials.memo(), stmts);
        if parts.len() < 2 || self.budget == 0 {
            return;
        }
        if self.place_on_teams(&parts) {
            return;
        }
        let units = self.latency.machine().units().min(parts.len());
        let mut loads = vec![0.0; units];
        let mut shares = vec![];
        for part in parts {
            let least = (0..units).min_by(|&a, &b| f64::total_cmp(&loads[a], &loads[b]));
            let unit = least.unwrap_or(0);
            loads[unit] += part.time;
            let given = part.ops.into_iter().map(|id| (id, Share::One(unit as u32)));
            shares.extend(given);
        }
        let (least, most) = loads.iter().fold((f64::INFINITY, 0.0f64), |(a, b), &load| {
            (a.min(load), b.max(load))
        });
        if least < EVEN * most {
            return;
        }
        self.budget -= 1;
        if self.trials.set(self.program, &shares) {
            self.placed.extend(shares.iter().map(|s| s.0));
        }
    }

    /// Puts each part on a team, in the order in which they stand, if units are enough and that is faster. Teams are clusters where
    /// launches have them.
    fn place_on_teams(&mut self, parts: &[Part]) -> bool {
        let clusters = self.latency.machine().clusters();
        let clusters = clusters
            .map(|(count, _)| count)
            .filter(|count| parts.len() <= *count);
        clusters.is_some_and(|count| self.place_on(parts, count))
            || self.place_on(parts, parts.len())
    }

    /// Puts each part on a team of a division into so many.
    fn place_on(&mut self, parts: &[Part], of: usize) -> bool {
        if self.budget == 0
            || self.latency.machine().units() < LEAST_TEAM * of
            || of > Team::MOST as usize
        {
            return false;
        }
        let mut ordered: Vec<&Part> = parts.iter().collect();
        ordered.sort_by_key(|part| part.place);
        let teams = ordered.iter().zip(0..).flat_map(|(part, index)| {
            let team = Team {
                index,
                of: of as u32,
            };
            part.ops.iter().map(move |id| (*id, team))
        });
        let teams: Vec<_> = teams.collect();
        self.budget -= 1;
        let kept = self.trials.set_teams(self.program, &teams);
        if kept {
            self.placed.extend(teams.iter().map(|t| t.0));
        }
        kept
    }

    /// True for an operator on one unit that no independent part has fixed there.
    fn may_move(&self, id: OperatorId) -> bool {
        let single = matches!(self.program.operators[id].share, Share::One(_));
        single && !self.placed.contains(&id)
    }

    /// Spreads single-unit operators of straight-line code.
    fn spread_block(&mut self, stmts: &[Stmt]) {
        let units = self.latency.machine().units().min(MAX_SPREAD);
        for stmt in stmts {
            let blocks = stmt.blocks().into_iter();
            blocks.for_each(|inner| self.spread_block(inner));
            if let Stmt::Run(id) = stmt
                && self.may_move(*id)
            {
                // An operator that takes less time than a barrier stays.
                let share = self.program.operators[*id].share;
                if self.time(*id, share) > self.latency.barrier() {
                    (1..units as u32).for_each(|unit| {
                        self.set_resource(&[*id], Share::One(unit));
                    });
                }
            }
        }
    }
}

/// The operators that statements run, each once.
fn operators_of(stmts: &[Stmt]) -> Vec<OperatorId> {
    let mut ops = BTreeSet::new();
    for_each_stmt(stmts, &mut |stmt| {
        if let Stmt::Run(id) = stmt {
            ops.insert(*id);
        }
    });
    ops.into_iter().collect()
}
