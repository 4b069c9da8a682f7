//! Forks: runs independent calls in parallel, each on a part of the units (Cocktailer §4.3,
//! "recursion unrolling").
//!
//! The calls for the two subtrees of a node are independent. If their operators run on one unit
//! anyway, because they are too small to split, the other units are idle and can take one of the
//! calls. Teams halve at each nested fork until each is one unit; below that there are no
//! synchronisations.
//!
//! The depth of a call is dynamic, and in the worst case one call does all the work. So operators
//! are unsplit to allow forks only where one unit would be as fast alone.

use std::collections::{BTreeMap, BTreeSet};

use super::effects::{Effects, Touched, conflict, touched_by};
use super::latency::Latency;
use super::total::procedure_times;
use super::trips::{UNKNOWN_TRIP, trips};
use heddle_uprogram::live::Names;
use heddle_uprogram::program::{CallId, ProcedureId, Share, Stmt, UProgram, for_each_stmt};

/// Forks independent calls whose operators run on one unit.
pub fn fork_calls(program: &mut UProgram, latency: &dyn Latency) {
    if latency.machine().units() < 2 || program.procedures.is_empty() {
        return;
    }
    let ids: Vec<_> = program.procedures.keys().collect();
    for id in ids {
        if let Some(mut alone) = on_unit_0(program, id, latency) {
            let mut shared = program.clone();
            fork_all(&mut shared, latency);
            fork_all(&mut alone, latency);
            if alone.forks() > shared.forks() {
                *program = alone;
            }
        }
    }
    fork_all(program, latency);
}

/// The program with all operators of a recursive procedure, and of its callees, on unit 0; `None`
/// if they already are, or if that takes longer without synchronisations than the current schedule
/// with them.
fn on_unit_0(program: &UProgram, id: ProcedureId, latency: &dyn Latency) -> Option<UProgram> {
    let callees = program.callees(id);
    if !callees.contains(&id) {
        return None;
    }
    let mut alone = program.clone();
    let mut changed = false;
    for &procedure in &callees {
        for_each_stmt(&program.procedures[procedure].body, &mut |stmt| {
            if let Stmt::Run(op) = stmt {
                let share = &mut alone.operators[*op].share;
                changed |= !matches!(share, Share::One(_));
                *share = Share::One(0);
            }
        });
    }
    if !changed {
        return None;
    }
    let now = procedure_times(program, latency);
    let now = now.iter().filter(|(id, _)| callees.contains(id));
    let by_itself = callees
        .iter()
        .map(|id| on_one_unit(&alone, latency, &alone.procedures[*id].body));
    let faster = by_itself.sum::<Option<f64>>()? <= now.map(|(_, time)| time).sum();
    faster.then_some(alone)
}

fn fork_all(program: &mut UProgram, latency: &dyn Latency) {
    let pass = Pass::new(program, latency);
    let body = pass.block(&program.body, None);
    let procedures = program.procedures.iter();
    let procedures = procedures.map(|(id, p)| (id, pass.block(&p.body, Some(id))));
    let procedures: Vec<_> = procedures.collect();
    program.body = body;
    for (id, body) in procedures {
        program.procedures[id].body = body;
    }
}

/// Barriers per fork: one before it, and one after it.
const SYNCS: f64 = 2.0;

struct Pass<'p> {
    program: &'p UProgram,
    effects: Effects,
    callees: BTreeMap<ProcedureId, BTreeSet<ProcedureId>>,
    /// Time of a call in nanoseconds, for procedures that run on one unit and return nothing in
    /// variables.
    times: BTreeMap<ProcedureId, f64>,
    /// Cost of a fork in nanoseconds.
    cost: f64,
}

/// Calls to run concurrently, and the statements between them.
struct Group {
    calls: Vec<CallId>,
    touched: Vec<Touched>,
    /// Statements moved before the calls.
    first: Vec<Stmt>,
    /// Statements after the last call.
    rest: Vec<Stmt>,
}

impl<'p> Pass<'p> {
    fn new(program: &'p UProgram, latency: &dyn Latency) -> Self {
        let ids: Vec<_> = program.procedures.keys().collect();
        let callees: BTreeMap<_, _> = ids.iter().map(|&id| (id, program.callees(id))).collect();
        let own: BTreeMap<_, _> = ids
            .iter()
            .map(|&id| {
                let time = on_one_unit(program, latency, &program.procedures[id].body);
                let often = match callees[&id].contains(&id) {
                    true => UNKNOWN_TRIP,
                    false => 1.0,
                };
                (id, time.map(|t| t * often))
            })
            .collect();
        let time = |id: ProcedureId| {
            let all = callees[&id].iter().filter(|c| **c != id).chain([&id]);
            let sum = all.map(|c| own[c]).sum::<Option<f64>>();
            sum.filter(|_| program.procedures[id].results.is_empty())
        };
        let times = ids.iter().filter_map(|&id| Some((id, time(id)?)));
        Self {
            program,
            effects: Effects::new(program),
            times: times.collect(),
            callees,
            cost: SYNCS * latency.barrier(),
        }
    }

    fn block(&self, stmts: &[Stmt], of: Option<ProcedureId>) -> Vec<Stmt> {
        let mut out = vec![];
        let mut group: Option<Group> = None;
        for stmt in stmts {
            let stmt = stmt.with_blocks(stmt.blocks().map(|inner| self.block(inner, of)));
            let joined = group.as_mut().is_some_and(|g| self.join(g, &stmt, of));
            if joined {
                continue;
            }
            group.take().into_iter().for_each(|g| g.close(&mut out));
            match stmt {
                Stmt::Call(id) if self.times.contains_key(&self.callee(id)) => {
                    group = Some(Group {
                        calls: vec![id],
                        touched: vec![self.touched(id)],
                        first: vec![],
                        rest: vec![],
                    });
                }
                stmt => out.push(stmt),
            }
        }
        group.into_iter().for_each(|g| g.close(&mut out));
        out
    }

    /// Adds a statement to the group if it may run concurrently with the calls, or before them.
    fn join(&self, group: &mut Group, stmt: &Stmt, of: Option<ProcedureId>) -> bool {
        match stmt {
            Stmt::Call(id) => {
                let time = |id: CallId| self.times.get(&self.callee(id)).copied();
                let Some(own) = time(*id) else { return false };
                let touched = self.touched(*id);
                let pays = group.calls.iter().any(|c| time(*c) > Some(self.cost));
                let beside = |other: &Touched| !conflict(other, &touched);
                if own <= self.cost || !pays || !group.touched.iter().all(beside) {
                    return false;
                }
                group.calls.push(*id);
                group.touched.push(touched);
                group.first.append(&mut group.rest);
                true
            }
            Stmt::Let(..) | Stmt::Check { .. } | Stmt::Run(_) => {
                let touched = touched_by(self.program, stmt);
                let before = |other: &Touched| !conflict(other, &touched);
                let moves = group.touched.iter().all(before) && !self.is_read(group, stmt, of);
                if moves {
                    group.rest.push(stmt.clone());
                }
                moves
            }
            _ => false,
        }
    }

    /// True if a call reads the variable that the statement sets.
    fn is_read(&self, group: &Group, stmt: &Stmt, of: Option<ProcedureId>) -> bool {
        let Stmt::Let(local, _) = stmt else {
            return false;
        };
        group.calls.iter().any(|id| {
            let mut names = Names::default();
            names.used_by(self.program, &Stmt::Call(*id));
            let callee = self.callee(*id);
            // Activations in the caller's own recursion have their own variables.
            if !of.is_some_and(|of| self.callees[&callee].contains(&of)) {
                for inner in self.callees[&callee].iter().chain([&callee]) {
                    names.mention(self.program, &self.program.procedures[*inner].body);
                }
            }
            names.locals.contains(local)
        })
    }

    fn callee(&self, id: CallId) -> ProcedureId {
        self.program.calls[id].procedure
    }

    /// Buffers that a call touches, including its arguments.
    fn touched(&self, id: CallId) -> Touched {
        let mut touched = self.effects.of(self.program, &self.program.calls[id]);
        let args = touched_by(self.program, &Stmt::Call(id));
        for (buffer, write) in args {
            *touched.entry(buffer).or_default() |= write;
        }
        touched
    }
}

impl Group {
    fn close(self, out: &mut Vec<Stmt>) {
        out.extend(self.first);
        out.push(match self.calls[..] {
            [one] => Stmt::Call(one),
            _ => Stmt::Fork(self.calls),
        });
        out.extend(self.rest);
    }
}

/// Time of a block's operators, if each runs on one unit.
fn on_one_unit(program: &UProgram, latency: &dyn Latency, block: &[Stmt]) -> Option<f64> {
    let time = |stmt: &Stmt| match stmt {
        Stmt::Run(id) => match program.operators[*id].share {
            Share::Split(_) | Share::Grid(_) => None,
            share @ (Share::One(_) | Share::Every) => Some(latency.operator(program, *id, share)),
        },
        Stmt::Loop {
            iteration,
            trip,
            body,
            ..
        } => Some(trips(program, *iteration, *trip) * on_one_unit(program, latency, body)?),
        Stmt::If {
            then, otherwise, ..
        } => {
            let arms = [then, otherwise].map(|arm| on_one_unit(program, latency, arm));
            Some((arms[0]? + arms[1]?) / 2.0)
        }
        _ => Some(0.0),
    };
    block.iter().map(time).sum()
}
