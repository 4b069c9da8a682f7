//! How long programs take.

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;
use heddle_machine::Machine;

use crate::candidates::loads;
use crate::cost::time;
use crate::memo::Memo;
use crate::place_syncs::Placed;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    OperatorId, ProcedureId, Share, Stmt, Sync, UProgram, Units, for_each_stmt,
};

/// What the scheduler asks about time; the cost model of a [`Machine`] answers from its figures, a profiler from runs.
/// All times are in nanoseconds.
pub trait Latency {
    /// The machine that is scheduled for.
    fn machine(&self) -> &Machine;

    /// The time of an operator that is shared like this: that of the unit with the largest share.
    fn operator(&self, program: &UProgram, id: OperatorId, share: Share) -> f64;

    /// What a synchronisation costs those who wait, beyond what they wait for.
    fn sync(&self, sync: Sync) -> f64;

    /// A barrier of all units.
    fn barrier(&self) -> f64 {
        self.sync(Sync::ALL)
    }
}

impl Latency for Machine {
    fn machine(&self) -> &Machine {
        self
    }

    fn operator(&self, program: &UProgram, id: OperatorId, share: Share) -> f64 {
        time(self, program, &program.operators[id], share)
    }

    fn sync(&self, sync: Sync) -> f64 {
        let units = self.units();
        match sync {
            Sync::Unit => self.syncs.lanes_ns.unwrap_or(0.0),
            Sync::ALL => self.barrier_ns(units),
            Sync::Wait { from, to } => match (from, to) {
                (Units::One(_), Units::All) => self.one_to_all_ns(units),
                (Units::All, Units::One(_)) => self.all_to_one_ns(units),
                _ => self.syncs.one_to_one_ns,
            },
        }
    }
}

/// How often a loop of unknown length, or a procedure, is taken to run.
pub(super) const UNKNOWN_TRIP: f64 = 64.0;

/// The time that a program takes with the synchronisations that it needs.
///
/// Each unit has a clock. Loops are walked twice: what the second iteration adds, each further one adds. Of the arms of a
/// branch each is taken half the time.
pub fn total(program: &UProgram, latency: &dyn Latency) -> f64 {
    total_with(program, latency, &Memo::default())
}

/// The same with what is remembered of the program.
pub(super) fn total_with(program: &UProgram, latency: &dyn Latency, memo: &Memo) -> f64 {
    let placed = Placed::new(program, latency.machine(), memo);
    let walk = Walk::new(program, latency, memo);
    let procedures = placed.procedures.iter();
    let procedures = procedures.map(|(_, body)| UNKNOWN_TRIP * walk.time(body));
    walk.time(&placed.body) + procedures.sum::<f64>()
}

/// What an activation of each procedure that is called takes with its synchronisations, without the calls in it.
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

/// How often a loop runs, as far as one can say: a chunk of at most so many steps is taken to be full.
pub(super) fn trips(program: &UProgram, trip: Option<ExprId>) -> f64 {
    let Some(trip) = trip else {
        return UNKNOWN_TRIP;
    };
    let exact = |e: ExprId| program.pool.as_int(e).map(|n| n as f64);
    let most = |e: ExprId| match program.pool[e] {
        Expr::Binary(BinaryOp::Min, DType::I64, a, b) => exact(a).or_else(|| exact(b)),
        _ => exact(e),
    };
    let known = most(trip).or_else(|| most(computed(program, trip)?));
    known.unwrap_or(UNKNOWN_TRIP)
}

/// What a variable is computed as, if that is in one place only.
fn computed(program: &UProgram, variable: ExprId) -> Option<ExprId> {
    let Expr::Local(local) = program.pool[variable] else {
        return None;
    };
    let procedures = program.procedures.iter().map(|(_, p)| &p.body);
    let mut found = vec![];
    for body in procedures.chain([&program.body]) {
        for_each_stmt(body, &mut |stmt| match stmt {
            Stmt::Let(l, expr) if *l == local => found.push(*expr),
            _ => {}
        });
    }
    match found[..] {
        [expr] => Some(expr),
        _ => None,
    }
}

/// Lets the units' clocks run over statements.
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
                        Share::Dealt(_) | Share::Grid(_) => {
                            let loads = loads(self.program, share, clocks.len());
                            let both = clocks.iter_mut().zip(loads);
                            both.for_each(|(clock, load)| *clock += load * time);
                        }
                    }
                }
                Stmt::Sync(sync) => self.sync(*sync, clocks),
                Stmt::Loop { trip, body, .. } => {
                    let count = self.memo.trips(self.program, *trip);
                    if count < 1.0 {
                        continue;
                    }
                    self.block(body, clocks);
                    let first = clocks.clone();
                    self.block(body, clocks);
                    // Units that do not wait for each other go around it at their own pace.
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
        let told = match from {
            Units::All => latest(clocks),
            Units::One(unit) => *clock(clocks, unit),
        };
        let wait = |c: &mut f64| *c = c.max(told) + cost;
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
