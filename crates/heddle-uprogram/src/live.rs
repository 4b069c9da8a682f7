//! Values that are live across calls of a recursion.
//!
//! A recursive call assigns the same variables and buffer names again, so a unit saves those that
//! are live after the call ("label and the arguments that differ").

use std::collections::{BTreeMap, BTreeSet};

use crate::expr::{Expr, ExprId};
use crate::program::{
    Buffer, BufferKind, CallId, Local, LocalKind, ProcedureId, Stmt, UProgram, for_each_stmt,
};

/// Variables and names of buffers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    /// The variables.
    pub locals: BTreeSet<Local>,
    /// Buffer names; their contents are not part of this analysis.
    pub buffers: BTreeSet<Buffer>,
}

/// For each call the values that the caller must keep. Calls outside of recursions keep nothing.
pub fn kept_over_calls(program: &UProgram) -> BTreeMap<CallId, Names> {
    let callees: BTreeMap<_, _> = program
        .procedures
        .keys()
        .map(|id| (id, program.callees(id)))
        .collect();
    let mut kept = BTreeMap::new();
    for (id, procedure) in program.procedures.iter() {
        let cycle: BTreeSet<_> = callees[&id]
            .iter()
            .copied()
            .filter(|other| callees[other].contains(&id))
            .collect();
        if cycle.is_empty() {
            continue;
        }
        let mut set = BTreeSet::new();
        cycle
            .iter()
            .for_each(|p| assigned(program, &program.procedures[*p].body, &mut set));
        let mut walk = Walk {
            program,
            callees: &callees,
            cycle: &cycle,
            assigned: set,
            kept: &mut kept,
        };
        let mut after = Names::default();
        after.locals.extend(&procedure.results);
        walk.block(&procedure.body, after);
    }
    kept
}

struct Walk<'p> {
    program: &'p UProgram,
    callees: &'p BTreeMap<ProcedureId, BTreeSet<ProcedureId>>,
    /// The procedures on a call cycle with the current one.
    cycle: &'p BTreeSet<ProcedureId>,
    /// Variables that these assign.
    assigned: BTreeSet<Local>,
    kept: &'p mut BTreeMap<CallId, Names>,
}

impl Walk<'_> {
    /// The names live before a block, from those live after it.
    fn block(&mut self, block: &[Stmt], mut live: Names) -> Names {
        for stmt in block.iter().rev() {
            live = self.stmt(stmt, live);
        }
        live
    }

    fn stmt(&mut self, stmt: &Stmt, mut live: Names) -> Names {
        match stmt {
            Stmt::Loop {
                iteration,
                trip,
                cond,
                body,
                ..
            } => {
                live.locals.extend(cond);
                live.locals.insert(*iteration);
                trip.iter().for_each(|t| live.read(self.program, *t));
                loop {
                    let head = live.clone();
                    live.join(self.block(body, head.clone()));
                    if live == head {
                        break;
                    }
                }
                live.locals.remove(iteration);
            }
            Stmt::If {
                cond,
                then,
                otherwise,
            } => {
                let mut before = self.block(then, live.clone());
                before.join(self.block(otherwise, live));
                live = before;
                live.read(self.program, *cond);
            }
            Stmt::Let(local, value) => {
                live.locals.remove(local);
                live.read(self.program, *value);
            }
            // A unit may execute several of a fork's calls in sequence.
            Stmt::Call(_) | Stmt::Fork(_) => {
                for id in stmt.calls().iter().rev() {
                    live = self.call(*id, live);
                }
            }
            Stmt::Run(_) | Stmt::Swap(..) | Stmt::Check { .. } | Stmt::Sync(_) => {
                live.used_by(self.program, stmt);
            }
        }
        live
    }

    fn call(&mut self, id: CallId, mut live: Names) -> Names {
        let call = &self.program.calls[id];
        if self.cycle.contains(&call.procedure) {
            self.keep(id, &live);
        } else {
            // A procedure that does not call back may refer to its caller's names.
            let inner = self.callees[&call.procedure].iter();
            for &id in inner.chain([&call.procedure]) {
                live.mention(self.program, &self.program.procedures[id].body);
            }
        }
        let results = &self.program.procedures[call.procedure].results;
        live.locals.retain(|l| !results.contains(l));
        live.used_by(self.program, &Stmt::Call(id));
        live
    }

    fn keep(&mut self, id: CallId, live: &Names) {
        let results = &self.program.procedures[self.program.calls[id].procedure].results;
        let slot = self.kept.entry(id).or_default();
        let own = |l: &&Local| self.assigned.contains(l) && !results.contains(l);
        slot.locals.extend(live.locals.iter().filter(own));
        let own = |b: &&Buffer| {
            let data = &self.program.buffers[**b];
            // A row is a variable of one operator.
            !data.kind.is_row() && data.procedure.is_some_and(|p| self.cycle.contains(&p))
        };
        slot.buffers.extend(live.buffers.iter().filter(own));
    }
}

impl Names {
    fn join(&mut self, other: Names) {
        self.locals.extend(other.locals);
        self.buffers.extend(other.buffers);
    }

    /// Adds the names in an expression.
    fn read(&mut self, program: &UProgram, expr: ExprId) {
        program.pool.walk(expr, &mut |_, e| match e {
            Expr::Local(l) if program.locals[l].kind == LocalKind::Variable => {
                self.locals.insert(l);
            }
            Expr::Load(b, _) => drop(self.buffers.insert(b)),
            _ => {}
        });
    }

    /// Adds the names that a statement reads, without nested statements.
    pub fn used_by(&mut self, program: &UProgram, stmt: &Stmt) {
        match stmt {
            Stmt::Run(id) => {
                let op = &program.operators[*id];
                self.buffers.insert(op.body.store().buffer);
                let sizes = op.axes.iter().map(|a| a.1).chain(op.grow);
                let exprs = op.body.exprs().into_iter().chain(sizes);
                exprs.for_each(|e| self.read(program, e));
            }
            Stmt::Let(_, value) => self.read(program, *value),
            Stmt::Swap(a, b) => self.buffers.extend([a, b]),
            Stmt::Loop { trip, cond, .. } => {
                trip.iter().for_each(|t| self.read(program, *t));
                self.locals.extend(cond);
            }
            Stmt::If { cond, .. } => self.read(program, *cond),
            Stmt::Check { cond, sizes, .. } => {
                let exprs = [*cond, sizes[0], sizes[1]];
                exprs.into_iter().for_each(|e| self.read(program, e));
            }
            Stmt::Call(_) | Stmt::Fork(_) => {
                for id in stmt.calls() {
                    let call = &program.calls[*id];
                    call.lets.iter().for_each(|l| self.read(program, l.1));
                    self.buffers.extend(call.buffers.iter().map(|b| b.1));
                }
            }
            Stmt::Sync(_) => {}
        }
    }

    /// Adds all names in a block.
    pub fn mention(&mut self, program: &UProgram, block: &[Stmt]) {
        for_each_stmt(block, &mut |stmt| self.used_by(program, stmt));
    }
}

/// Variables that a block assigns.
fn assigned(program: &UProgram, block: &[Stmt], set: &mut BTreeSet<Local>) {
    for_each_stmt(block, &mut |stmt| match stmt {
        Stmt::Let(local, _) => drop(set.insert(*local)),
        Stmt::Loop { iteration, .. } => drop(set.insert(*iteration)),
        Stmt::Call(_) | Stmt::Fork(_) => {
            for id in stmt.calls() {
                set.extend(program.calls[*id].lets.iter().map(|l| l.0));
            }
        }
        _ => {}
    });
}

impl UProgram {
    /// The buffers in a procedure's frame.
    pub fn frame(&self, of: ProcedureId) -> impl Iterator<Item = Buffer> {
        let own = self.memory(of);
        own.filter(|b| matches!(self.buffers[*b].kind, BufferKind::Scratch))
    }

    /// The segments of a procedure: each activation has a part of them behind the earlier ones'.
    pub fn segments(&self, of: ProcedureId) -> impl Iterator<Item = Buffer> {
        let own = self.memory(of);
        own.filter(|b| matches!(self.buffers[*b].kind, BufferKind::Segment))
    }

    /// The segments of all procedures.
    pub fn all_segments(&self) -> impl Iterator<Item = Buffer> {
        let buffers = self.buffers.iter();
        let own =
            buffers.filter(|(_, b)| b.procedure.is_some() && matches!(b.kind, BufferKind::Segment));
        own.map(|(id, _)| id)
    }

    /// The memory of an activation of a procedure, which later ones reuse.
    pub fn memory(&self, of: ProcedureId) -> impl Iterator<Item = Buffer> {
        let buffers = self.buffers.iter();
        let own = buffers.filter(move |(_, b)| b.procedure == Some(of) && b.kind.is_reused());
        own.map(|(id, _)| id)
    }

    /// The same for each procedure that has any.
    pub fn memory_by_procedure(&self) -> BTreeMap<ProcedureId, Vec<Buffer>> {
        let mut memory: BTreeMap<ProcedureId, Vec<Buffer>> = BTreeMap::new();
        for (id, buffer) in self.buffers.iter() {
            if let Some(of) = buffer.procedure.filter(|_| buffer.kind.is_reused()) {
                memory.entry(of).or_default().push(id);
            }
        }
        memory
    }
}
