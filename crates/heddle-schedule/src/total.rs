//! The estimated time of a program, by a simulation of the units' clocks.

use std::rc::Rc;

use crate::candidates::loads;
use crate::cost::{remote_part, transfer_time, written};
use crate::latency::Latency;
use crate::memo::Memo;
use crate::partition::Partition;
use crate::place_syncs::{Placed, Placer, State};
use crate::trips::UNKNOWN_TRIP;
use heddle_uprogram::program::{
    Buffer, Operator, OperatorId, ProcedureId, Share, Stmt, Sync, Team, UProgram, Units,
};

/// The estimated time of a program with the synchronisations that it needs.
///
/// Each unit has a clock. Loops are walked twice; each further iteration adds as much as the
/// second. The arms of a branch count half each. An operator takes longer if it reads what another unit has just written.
pub fn total(program: &UProgram, latency: &dyn Latency) -> f64 {
    total_with(program, latency, &Memo::of(latency.machine()))
}

/// The same with a cache.
pub(super) fn total_with(program: &UProgram, latency: &dyn Latency, memo: &Memo) -> f64 {
    let placed = Placed::new(program, latency.machine(), memo);
    let walk = Walk::new(program, latency, memo);
    let procedures = placed.procedures.iter();
    let procedures = procedures.map(|(_, body)| UNKNOWN_TRIP * walk.time(body));
    walk.time(&placed.body) + procedures.sum::<f64>()
}

/// The time of statements of the program's body by themselves: all units have seen what precedes them.
pub(super) fn time_alone(program: &UProgram, latency: &dyn Latency, stmts: &[Stmt]) -> f64 {
    let memo = Memo::of(latency.machine());
    let mut placer = Placer::new(program, latency.machine(), &memo, State::default());
    let places = 0..stmts.len();
    let placed: Vec<Stmt> = places.flat_map(|k| placer.place(stmts, k)).collect();
    Walk::new(program, latency, &memo).time(&placed)
}

/// The time of one activation of each reachable procedure with its synchronisations, without its
/// calls.
pub(super) fn procedure_times(
    program: &UProgram,
    latency: &dyn Latency,
) -> Vec<(ProcedureId, f64)> {
    let memo = Memo::of(latency.machine());
    let placed = Placed::new(program, latency.machine(), &memo);
    let walk = Walk::new(program, latency, &memo);
    let procedures = placed.procedures.iter();
    procedures
        .map(|(id, body)| (*id, walk.time(body)))
        .collect()
}

/// Bytes of a number that units give each other, with the count of the gathering.
const GATHERED_BYTES: f64 = 8.0;

/// Limit on the buffers that are known to be in the nearest memories of the units that wrote them.
const MAX_WRITTEN: usize = 32;

/// What units wrote of a buffer.
#[derive(Clone, Debug, PartialEq)]
struct Written {
    buffer: Buffer,
    /// Which unit wrote which element, if that is known.
    owners: Option<Rc<Partition>>,
    bytes: f64,
}

/// The units' clocks, and what they have written last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Clocks {
    pub(super) times: Vec<f64>,
    /// The latest last.
    written: Vec<Written>,
}

impl Clocks {
    pub(super) fn new(units: usize) -> Self {
        Self {
            times: vec![0.0; units],
            written: vec![],
        }
    }

    fn swap(&mut self, a: Buffer, b: Buffer) {
        for Written { buffer, .. } in &mut self.written {
            *buffer = match *buffer {
                x if x == a => b,
                x if x == b => a,
                x => x,
            };
        }
    }
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
        let mut now = Clocks::new(self.latency.machine().units());
        self.block(stmts, &mut now);
        latest(&now.times)
    }

    pub(super) fn block(&self, stmts: &[Stmt], now: &mut Clocks) {
        for stmt in stmts {
            match stmt {
                Stmt::Run(id) => {
                    let op = &self.program.operators[*id];
                    let share = op.share;
                    let time = self.memo.time(self.program, self.latency, *id, share);
                    let time = time + self.transfers(*id, now);
                    let all = now.times.len();
                    let clocks = match op.team {
                        Some(team) => &mut now.times[team.units(all)],
                        None => &mut now.times[..],
                    };
                    match share {
                        Share::One(unit) => *clock(clocks, unit) += time,
                        Share::Every => clocks.iter_mut().for_each(|clock| *clock += time),
                        Share::Split(_) | Share::Grid(_) => {
                            let loads = loads(self.program, share, clocks.len());
                            let both = clocks.iter_mut().zip(loads);
                            both.for_each(|(clock, load)| *clock += load * time);
                        }
                    }
                    if op.gathers(self.program).is_some() {
                        let end = latest(clocks) + self.gathering(op);
                        clocks.fill(end);
                    }
                }
                Stmt::Sync(sync) => self.sync(*sync, &mut now.times),
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
                    self.block(body, now);
                    let first = now.times.clone();
                    self.block(body, now);
                    // Units that do not synchronise run ahead of each other.
                    let each = now.times.iter_mut().zip(first);
                    each.for_each(|(c, first)| *c += (count - 2.0) * (*c - first));
                }
                Stmt::If {
                    then, otherwise, ..
                } => {
                    let mut other = now.clone();
                    self.block(then, now);
                    self.block(otherwise, &mut other);
                    let both = now.times.iter_mut().zip(other.times);
                    both.for_each(|(a, b)| *a = (*a + b) / 2.0);
                    now.written.retain(|w| other.written.contains(w));
                }
                Stmt::Swap(a, b) => now.swap(*a, *b),
                Stmt::Call(_) | Stmt::Fork(_) => now.written.clear(),
                Stmt::Let(..) | Stmt::Check { .. } => {}
            }
        }
    }

    /// The time to fetch what other units wrote. Later operators find it with their unit.
    fn transfers(&self, id: OperatorId, now: &mut Clocks) -> f64 {
        let machine = self.latency.machine();
        if now.times.len() < 2 || machine.remote_read_rate.is_infinite() {
            return 0.0;
        }
        let accesses = self.memo.whole_share_accesses(self.program, id);
        let mut time = 0.0;
        for read in accesses.iter().filter(|access| !access.write) {
            let is_it = |w: &&Written| w.buffer == read.buffer;
            let Some(theirs) = now.written.iter().find(is_it) else {
                continue;
            };
            let part = match (&theirs.owners, &read.partition) {
                (Some(a), Some(b)) if a == b => continue,
                (Some(owner), _) if matches!(**owner, Partition::One(_)) => 1.0,
                _ => remote_part(machine),
            };
            let touched = self.memo.touched(self.program, self.latency, id);
            let bytes = theirs.bytes;
            time += transfer_time(machine, self.program, &touched, read.buffer, bytes, part);
            now.written.retain(|w| w.buffer != read.buffer);
        }
        for write in accesses.iter().filter(|access| access.write) {
            now.written.retain(|w| w.buffer != write.buffer);
            let touched = self.memo.touched(self.program, self.latency, id);
            let share = self.program.operators[id].share;
            now.written.push(Written {
                buffer: write.buffer,
                owners: write.partition.clone(),
                bytes: written(machine, &touched, write.buffer, share),
            });
        }
        let old = now.written.len().saturating_sub(MAX_WRITTEN);
        now.written.drain(..old);
        time
    }

    /// The time in which all units get an operator's results from each other.
    fn gathering(&self, op: &Operator) -> f64 {
        let machine = self.latency.machine();
        let to = &self.program.buffers[op.body.store().buffer];
        let words = self.program.pool.as_int(to.len).unwrap_or(0) as f64;
        let bytes = words * GATHERED_BYTES;
        let each = machine.syncs.gather_ns.unwrap_or(0.0);
        each + bytes / machine.unit_rate(machine.resident(), machine.units())
    }

    fn sync(&self, sync: Sync, clocks: &mut [f64]) {
        let (cost, all) = (self.latency.sync(sync), clocks.len());
        if let Sync::Near(of) = sync {
            return near(clocks, of, cost);
        }
        let Some((from, to)) = sync.ends() else {
            return clocks.iter_mut().for_each(|c| *c += cost);
        };
        let signalled = match from {
            Units::All => latest(clocks),
            Units::One(unit) => *clock(clocks, unit),
            Units::Team(team) => latest(&clocks[team.units(all)]),
        };
        let wait = |c: &mut f64| *c = c.max(signalled) + cost;
        match to {
            Units::All => clocks.iter_mut().for_each(wait),
            Units::One(unit) => wait(clock(clocks, unit)),
            Units::Team(team) => clocks[team.units(all)].iter_mut().for_each(wait),
        }
    }
}

/// Each team waits for itself and its neighbours.
fn near(clocks: &mut [f64], of: u32, cost: f64) {
    let before = clocks.to_vec();
    for index in 0..of {
        let units = |index| Team { index, of }.units(before.len());
        let first = units(index.saturating_sub(1)).start;
        let end = units((index + 1).min(of - 1)).end;
        let signalled = latest(&before[first..end]) + cost;
        let own = &mut clocks[units(index)];
        own.iter_mut().for_each(|c| *c = c.max(signalled));
    }
}

fn clock(clocks: &mut [f64], unit: u32) -> &mut f64 {
    let count = clocks.len();
    &mut clocks[unit as usize % count]
}

pub(super) fn latest(clocks: &[f64]) -> f64 {
    clocks.iter().copied().fold(0.0, f64::max)
}
