//! The walk over statements.

use std::rc::Rc;

use super::procedures::Known;
use super::{Placed, State};
use crate::memo::{Access, Memo};
use crate::partition::Partition;
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Local, OperatorId, Stmt, Sync, UProgram, Units};

/// Operators looked at to merge their synchronisations.
pub(crate) const LOOK_AHEAD: usize = 16;

/// Walks statements in order with the current state.
pub(super) struct Walk<'p> {
    pub(super) program: &'p UProgram,
    pub(super) memo: &'p Memo,
    pub(super) lanes: bool,
    pub(super) known: Known,
    pub(super) state: State,
}

impl Walk<'_> {
    pub(super) fn program(&mut self) -> Placed {
        let copies = of_copies(self.program);
        self.state.touch(&copies, false);
        let mut body = self.block(&self.program.body);
        self.access(&mut body, &copies);
        let mut procedures = vec![];
        for (id, procedure) in self.program.procedures.iter() {
            let Some(start) = self.known.starts.get(&id) else {
                continue;
            };
            self.state = start.clone();
            procedures.push((id, self.block(&procedure.body)));
            self.forget_variables();
            let end = self.state.clone();
            self.known.ends.insert(id, end);
        }
        Placed { body, procedures }
    }

    pub(super) fn block(&mut self, stmts: &[Stmt]) -> Vec<Stmt> {
        let mut out = vec![];
        for k in 0..stmts.len() {
            self.stmt(&mut out, stmts, k);
        }
        out
    }

    /// Emits a statement, with the synchronisations before it.
    pub(super) fn stmt(&mut self, out: &mut Vec<Stmt>, stmts: &[Stmt], k: usize) {
        let stmt = &stmts[k];
        match stmt {
            Stmt::Run(id) => {
                let accesses = self.operator(*id);
                if let Some(sync) = self.state.needed(&accesses) {
                    let sync = self.shared(sync, &accesses, &stmts[k + 1..]);
                    self.sync(out, sync);
                }
                self.access(out, &accesses);
                out.push(stmt.clone());
                if self.program.operators[*id].gathers(self.program).is_some() {
                    // A unit's lanes have met when it has all numbers.
                    self.state.sync(Sync::Unit);
                }
            }
            Stmt::Let(local, expr) => {
                self.every_unit_reads(out, &[*expr]);
                self.assign(*local);
                out.push(stmt.clone());
            }
            Stmt::Swap(a, b) => {
                let buffers = &mut self.state.buffers;
                let (x, y) = (buffers.take(*a), buffers.take(*b));
                self.state.note(*b, &x);
                self.state.note(*a, &y);
                out.push(stmt.clone());
            }
            Stmt::Loop {
                iteration,
                trip,
                body,
                ..
            } => {
                self.every_unit_reads(out, trip.as_slice());
                let body = self.repeated(out, *iteration, body);
                out.push(stmt.with_blocks([body, vec![]]));
            }
            Stmt::If {
                cond,
                then,
                otherwise,
            } => {
                self.every_unit_reads(out, &[*cond]);
                let before = self.state.clone();
                let then = self.block(then);
                let after = std::mem::replace(&mut self.state, before);
                let otherwise = self.block(otherwise);
                self.state = self.state.join(&after);
                out.push(stmt.with_blocks([then, otherwise]));
            }
            Stmt::Call(id) => {
                let call = &self.program.calls[*id];
                let exprs: Vec<_> = call.lets.iter().map(|l| l.1).collect();
                self.every_unit_reads(out, &exprs);
                self.forget_variables();
                self.state = self.known.call(self.program, call, &self.state);
                out.push(stmt.clone());
            }
            Stmt::Fork(ids) => {
                // Units are renumbered in the calls, so everything must be visible to all.
                if let Some(sync) = self.state.needed_for_all() {
                    self.sync(out, sync);
                }
                let calls: Vec<_> = ids.iter().map(|id| &self.program.calls[*id]).collect();
                let exprs = calls.iter().flat_map(|c| c.lets.iter().map(|l| l.1));
                self.every_unit_reads(out, &exprs.collect::<Vec<_>>());
                self.forget_variables();
                self.state = self.known.fork(self.program, &calls, &self.state);
                out.push(stmt.clone());
            }
            Stmt::Check { cond, sizes, .. } => {
                self.every_unit_reads(out, &[*cond, sizes[0], sizes[1]]);
                out.push(stmt.clone());
            }
            Stmt::Sync(sync) => self.sync(out, *sync),
        }
    }

    /// A variable has another value from here on.
    pub(super) fn assign(&mut self, variable: Local) {
        let program = self.program;
        self.state.forget(|p| p.depends_on(program, variable));
    }

    /// Each activation of a procedure has variables of its own.
    fn forget_variables(&mut self) {
        let program = self.program;
        self.state.forget(|p| !p.is_fixed(program));
    }

    fn operator(&self, id: OperatorId) -> Rc<[Access]> {
        self.memo.operator(self.program, id)
    }

    fn every_unit_reads(&mut self, out: &mut Vec<Stmt>, exprs: &[ExprId]) {
        let reads = |&expr: &ExprId| self.memo.every_unit_reads(self.program, expr).to_vec();
        let accesses: Vec<_> = exprs.iter().flat_map(reads).collect();
        self.access(out, &accesses);
    }

    /// Adds a synchronisation if these accesses need one, then records them.
    fn access(&mut self, out: &mut Vec<Stmt>, accesses: &[Access]) {
        if let Some(sync) = self.state.needed(accesses) {
            self.sync(out, sync);
        }
        self.state.touch(accesses, self.lanes);
    }

    /// Widens a synchronisation to serve the following operators, too, if they need one here and do
    /// not depend on what precedes them. Placed later, theirs would also wait for the work in
    /// between.
    fn shared(&self, sync: Sync, accesses: &[Access], rest: &[Stmt]) -> Sync {
        let Sync::Wait { mut from, mut to } = sync else {
            return sync;
        };
        let mut between: Vec<Rc<[Access]>> = vec![];
        let crosses = |a: &Access, b: &Access| {
            let same = a.partition.is_some() && a.partition == b.partition;
            a.buffer == b.buffer && (a.write || b.write) && !same && !a.reach.is_apart(&b.reach)
        };
        for stmt in rest.iter().take(LOOK_AHEAD) {
            let Stmt::Run(id) = stmt else { break };
            let next = self.operator(*id);
            let before = || accesses.iter().chain(between.iter().flat_map(|c| c.iter()));
            let depends = next.iter().any(|a| before().any(|b| crosses(a, b)));
            if !depends
                && let Some(Sync::Wait {
                    from: other_from,
                    to: other_to,
                }) = self.state.needed(&next)
                && !are_apart((from, to), (other_from, other_to))
            {
                from = if from == other_from { from } else { Units::All };
                to = if to == other_to { to } else { Units::All };
            }
            between.push(next);
        }
        Sync::Wait { from, to }
    }

    pub(super) fn sync(&mut self, out: &mut Vec<Stmt>, sync: Sync) {
        out.push(Stmt::Sync(sync));
        self.state.sync(sync);
    }
}

/// Each unit reads its copies of arrays, as it were, as the program begins and ends: nobody stores to them before or after.
fn of_copies(program: &UProgram) -> Vec<Access> {
    let copies = program.mirrors().map(|(buffer, mirror)| Access {
        buffer,
        partition: match mirror.is_of_all() {
            true => None,
            false => Some(Rc::new(Partition::Member(mirror.cluster.team, None))),
        },
        lanes: None,
        write: false,
        reach: Rc::default(),
    });
    copies.collect()
}

/// Do two synchronisations concern different teams? Together they would make all units wait.
fn are_apart(a: (Units, Units), b: (Units, Units)) -> bool {
    let is_team = |units: Units| matches!(units, Units::Team(_));
    a != b && [a.0, a.1, b.0, b.1].into_iter().any(is_team)
}
