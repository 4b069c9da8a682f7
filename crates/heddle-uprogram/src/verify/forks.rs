//! Checks that the calls of a fork are independent.

use std::collections::{BTreeMap, BTreeSet};

use super::{ScheduleError, buffer_name};
use crate::expr::ExprId;
use crate::program::{
    Buffer, BufferKind, Call, CallId, ProcedureId, Stmt, UProgram, for_each_stmt,
};

/// Procedures that a team may run while other units run something else.
pub fn teams(program: &UProgram) -> BTreeSet<ProcedureId> {
    let mut found = BTreeSet::new();
    for_each_fork(program, &mut |ids| {
        for id in ids {
            let callee = program.calls[*id].procedure;
            found.extend(program.callees(callee));
            found.insert(callee);
        }
    });
    found
}

/// Checks all forks: no call writes memory that another touches, and none returns results in
/// variables, which only its own team would have.
pub fn verify_forks(program: &UProgram) -> Result<(), ScheduleError> {
    let mut forks = vec![];
    for_each_fork(program, &mut |ids| forks.push(ids.to_vec()));
    if forks.is_empty() {
        return Ok(());
    }
    let touched = touched(program);
    for ids in forks {
        let calls: Vec<&Call> = ids.iter().map(|id| &program.calls[*id]).collect();
        for (k, call) in calls.iter().enumerate() {
            let procedure = &program.procedures[call.procedure];
            if !procedure.results.is_empty() {
                return Err(ScheduleError::Variables {
                    call: call.name.clone(),
                });
            }
            let own = by_caller(program, call, &touched[&call.procedure]);
            for other in &calls[k + 1..] {
                let theirs = by_caller(program, other, &touched[&other.procedure]);
                let clash = own.iter().find(|(buffer, write)| {
                    let other = theirs.get(buffer);
                    other.is_some_and(|other| **write || *other)
                });
                if let Some((&buffer, _)) = clash {
                    return Err(ScheduleError::Beside {
                        first: call.name.clone(),
                        second: other.name.clone(),
                        buffer: buffer_name(program, buffer),
                    });
                }
            }
        }
    }
    Ok(())
}

/// Touched buffers; true if written.
type Touched = BTreeMap<Buffer, bool>;

/// Memory that activations of each procedure touch outside of their frames.
fn touched(program: &UProgram) -> BTreeMap<ProcedureId, Touched> {
    let mut all: BTreeMap<_, _> = program
        .procedures
        .keys()
        .map(|id| (id, Touched::new()))
        .collect();
    loop {
        let before = all.clone();
        for (id, procedure) in program.procedures.iter() {
            let mut touched = before[&id].clone();
            let mut touch = |buffer: Buffer, write: bool| {
                *touched.entry(buffer).or_default() |= write;
            };
            for_each_stmt(&procedure.body, &mut |stmt| {
                for (buffer, _) in program.loads_of(&exprs(program, stmt)) {
                    touch(buffer, false);
                }
                match stmt {
                    Stmt::Run(id) => touch(program.operators[*id].body.store().buffer, true),
                    // Swapped names alias.
                    Stmt::Swap(a, b) => [a, b].into_iter().for_each(|x| touch(*x, true)),
                    _ => {}
                }
                for call in stmt.calls() {
                    let call = &program.calls[*call];
                    let inner = by_caller(program, call, &before[&call.procedure]);
                    inner.into_iter().for_each(|(b, write)| touch(b, write));
                }
            });
            all.insert(id, touched);
        }
        if all == before {
            return all;
        }
    }
}

/// Memory that a call touches, including its arguments, by its caller's names and without its
/// frame.
fn by_caller(program: &UProgram, call: &Call, touched: &Touched) -> Touched {
    let mut found = Touched::new();
    let args: Vec<_> = call.lets.iter().map(|l| l.1).collect();
    let read = program.loads_of(&args).into_iter().map(|(b, _)| (b, false));
    let inner = touched.iter().flat_map(|(&buffer, &write)| {
        let data = &program.buffers[buffer];
        // Teams share a segment.
        let is_segment = matches!(data.kind, BufferKind::Segment);
        let own = data.procedure == Some(call.procedure) && !is_segment;
        let args = call.buffers.iter().filter(move |(p, _)| *p == buffer);
        let args = args.map(move |(_, arg)| (*arg, write));
        let same = (!own).then_some((buffer, write));
        args.chain(same)
    });
    for (buffer, write) in read.chain(inner) {
        *found.entry(buffer).or_default() |= write;
    }
    found
}

/// The expressions of a statement, without arguments of calls.
fn exprs(program: &UProgram, stmt: &Stmt) -> Vec<ExprId> {
    match stmt {
        Stmt::Run(id) => {
            let op = &program.operators[*id];
            let sizes = op.axes.iter().map(|a| a.1);
            op.body.exprs().into_iter().chain(sizes).collect()
        }
        Stmt::Let(_, value) => vec![*value],
        Stmt::If { cond, .. } => vec![*cond],
        Stmt::Loop { trip, .. } => trip.iter().copied().collect(),
        Stmt::Check { cond, sizes, .. } => vec![*cond, sizes[0], sizes[1]],
        Stmt::Swap(..) | Stmt::Call(_) | Stmt::Fork(_) | Stmt::Sync(_) => vec![],
    }
}

fn for_each_fork(program: &UProgram, visit: &mut dyn FnMut(&[CallId])) {
    program.for_each_stmt(&mut |stmt| {
        if let Stmt::Fork(ids) = stmt {
            visit(ids);
        }
    });
}
