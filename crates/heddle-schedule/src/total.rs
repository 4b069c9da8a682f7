//! The estimated time of a program, by a simulation of the units' clocks.

use crate::candidates::loads;
use crate::latency::Latency;
use crate::memo::Memo;
use crate::place_syncs::Placed;
use crate::trips::UNKNOWN_TRIP;
use heddle_uprogram::program::{ProcedureId, Share, Stmt, Sync, UProgram, Units};

/// The estimated time of a program with the synchronisations that it needs.
///
/// Each unit has a clock. Loops are walked twice; each further iteration adds as much as the
/// second. The arms of a branch count half each.
pub fn total(program: &UProgram, latency: &dyn Latency) -> f64 {
    total_with(program, latency, &Memo::default())
}

/// The same with a cache.
pub(super) fn total_with(program: &UProgram, latency: &dyn Latency, memo: &Memo) -> f64 {
    let placed = Placed::new(program, latency.machine(), memo);
    let walk = Walk::new(program, latency, memo);
    let procedures = placed.procedures.iter();
    let procedures = procedures.map(|(_, body)| UNKNOWN_TRIP * walk.time(body));
    walk.time(&placed.body) + procedures.sum::<f64>()
}

/// The time of one activation of each reachable procedure with its synchronisations, without its
/// calls.
pub(super) fn procedure_times(
    program: &UProgram,
    latency: &dyn Latency,
) -> Vec<(ProcedureId, f64)> {
    let memo = Memo::default();
    let placed = Placed::new(program, latency.machine(), &memo);
    let walk = Walk::new(program, latency, &memo);
    let procedures = placed.procedures.iter();
    procedures
        .map(|(id, body)| (*id, walk.time(body)))
        .collect()
}

/// Advances the units' clocks over statements.
pub(super) struct Walk<'p> {
    program: &'p UProgram,
    latency: &'p dyn Latency,
    memo: &'p Memo,
}

impl<'p> Walk<'p> {
    pub(super) fn new(program: &'p UProgram, latency: &'p dyn Latency, memo: &'p Memo) -> Self {
        Self {
            program,
            latency,
            memo,
        }
    }

    fn time(&self, stmts: &[Stmt]) -> f64 {
        let mut clocks = vec![0.0; self.latency.machine().units()];
        self.block(stmts, &mut clocks);
        latest(&clocks)
    }

    pub(super) fn block(&self, stmts: &[Stmt], clocks: &mut Vec<f64>) {
        for stmt in stmts {
            match stmt {
                Stmt::Run(id) => {
                    let share = self.program.operators[*id].share;
                    let time = self.memo.time(self.program, self.latency, *id, share);
                    match share {
                        Share::One(unit) => *clock(clocks, unit) += time,
                        Share::Split(_) | Share::Grid(_) => {
                            let loads = loads(self.program, share, clocks.len());
                            let both = clocks.iter_mut().zip(loads);
                            both.for_each(|(clock, load)| *clock += load * time);
                        }
                    }
                }
                Stmt::Sync(sync) => self.sync(*sync, clocks),
                Stmt::Loop {
                    iteration,
                    trip,
                    body,
                    ..
                } => {
                    let count = self.memo.trips(self.program, *iteration, *trip);
                    if count < 1.0 {
                        continue;
                    }
                    self.block(body, clocks);
                    let first = clocks.clone();
                    self.block(body, clocks);
                    // Units that do not synchronise run ahead of each other.
                    let each = clocks.iter_mut().zip(first);
                    each.for_each(|(c, first)| *c += (count - 2.0) * (*c - first));
                }
                Stmt::If {
                    then, otherwise, ..
                } => {
                    let mut other = clocks.clone();
                    self.block(then, clocks);
                    self.block(otherwise, &mut other);
                    let both = clocks.iter_mut().zip(other);
                    both.for_each(|(a, b)| *a = (*a + b) / 2.0);
                }
                Stmt::Let(..)
                | Stmt::Check { .. }
                | Stmt::Swap(..)
                | Stmt::Call(_)
                | Stmt::Fork(_) => {}
            }
        }
    }

    fn sync(&self, sync: Sync, clocks: &mut [f64]) {
        let cost = self.latency.sync(sync);
        let Sync::Wait { from, to } = sync else {
            clocks.iter_mut().for_each(|c| *c += cost);
            return;
        };
        let signalled = match from {
            Units::All => latest(clocks),
            Units::One(unit) => *clock(clocks, unit),
        };
        let wait = |c: &mut f64| *c = c.max(signalled) + cost;
        match to {
            Units::All => clocks.iter_mut().for_each(wait),
            Units::One(unit) => wait(clock(clocks, unit)),
        }
    }
}

fn clock(clocks: &mut [f64], unit: u32) -> &mut f64 {
    let count = clocks.len();
    &mut clocks[unit as usize % count]
}

pub(super) fn latest(clocks: &[f64]) -> f64 {
    clocks.iter().copied().fold(0.0, f64::max)
}
