//! Cuts long shares into pieces, which units take from each other.
//!
//! A unit that another thread holds up, or whose core is slower, delays all others at the next
//! synchronisation by what is left of its share. In pieces, the others do what it has not begun.
//! Each unit takes those of its own share first, so that undisturbed units do what they would do
//! without pieces.
//!
//! Any unit may have touched any element then: neighbouring operators with equal partitions need a
//! synchronisation that they did not need before. The pieces are kept if these take little time.
//!
//! Procedures, grids, operators that read what they write, and those whose sizes only the run
//! computes keep whole shares. The last may take any time: a level of a tree has one row or many.

use std::collections::BTreeSet;

use heddle_machine::Pieces;
use heddle_uprogram::program::{
    Body, LocalKind, Operator, OperatorId, ProcedureId, Share, Split, Stmt, UProgram, for_each_stmt,
};

use crate::cost::{estimate, time, time_of_part};
use crate::latency::Latency;
use crate::memo::Memo;
use crate::total::total_with;

/// The most that all operators of a program may take longer by their pieces, and an operator by
/// its own, as parts of the time.
const WORTH: f64 = 0.005;

/// The least places of a piece of the innermost of several axes: of fewer, each line leaves no room for vectors.
const RUN: f64 = 256.0;

/// Limit on operators that are tried one by one.
const MAX_TRIALS: usize = 64;

/// Cuts the shares of operators, where that costs next to nothing.
pub fn cut_shares(program: &mut UProgram, latency: &dyn Latency) {
    let Some(pieces) = latency.machine().pieces else {
        return;
    };
    if latency.machine().units() < 2 {
        return;
    }
    let cut: Vec<_> = alone(program)
        .into_iter()
        .filter_map(|id| Some((id, cut(program, latency, id, pieces)?)))
        .collect();
    if cut.is_empty() {
        return;
    }
    let memo = Memo::of(latency.machine());
    let mut least = total_with(program, latency, &memo);
    let most = least * (1.0 + WORTH);
    let whole = cut
        .iter()
        .map(|&(id, share)| std::mem::replace(&mut program.operators[id].share, share));
    let whole: Vec<_> = whole.collect();
    if total_with(program, latency, &memo) <= most {
        return;
    }
    for (&(id, _), whole) in cut.iter().zip(&whole) {
        program.operators[id].share = *whole;
    }
    for (&(id, share), whole) in cut.iter().zip(whole).take(MAX_TRIALS) {
        program.operators[id].share = share;
        let now = total_with(program, latency, &memo);
        if now <= most && now <= least + WORTH * memo.time(program, latency, id, whole) {
            least = now;
        } else {
            program.operators[id].share = whole;
        }
    }
}

/// The operators that only the main program runs.
fn alone(program: &UProgram) -> BTreeSet<OperatorId> {
    let of = |block: &[Stmt]| {
        let mut found = BTreeSet::new();
        for_each_stmt(block, &mut |stmt| {
            if let Stmt::Run(id) = stmt {
                found.insert(*id);
            }
        });
        found
    };
    let procedures: Vec<ProcedureId> = program.procedures.keys().collect();
    let shared = procedures
        .into_iter()
        .map(|id| of(&program.procedures[id].body));
    shared.fold(of(&program.body), |all, some| &all - &some)
}

/// An operator's share in pieces, if it takes long enough.
fn cut(program: &UProgram, latency: &dyn Latency, id: OperatorId, pieces: Pieces) -> Option<Share> {
    let (op, machine) = (&program.operators[id], latency.machine());
    let Share::Split(split) = op.share else {
        return None;
    };
    // Units of other teams do not count its pieces.
    if op.team.is_some() {
        return None;
    }
    let took = latency.operator(program, id, op.share);
    let reads = program.loads_of(&op.body.exprs());
    let store = op.body.store().buffer;
    let is_short = took < pieces.share_ns;
    if is_short || is_computed(program, op) || reads.iter().any(|(buffer, _)| *buffer == store) {
        return None;
    }
    let step = match &op.body {
        Body::Contract(c) => c.piece_step(op.axes[split.axis].0)?,
        _ => 1,
    };
    let step = step as f64;
    let count = estimate(program, split.period);
    let places = (count / machine.units() as f64).ceil();
    let most = (pieces.most as f64).min((took / pieces.piece_ns).floor());
    let least = match &op.body {
        Body::Map { .. } if split.axis > 0 && split.axis + 1 == op.axes.len() => RUN,
        _ => 1.0,
    };
    let size = ((places / most.max(1.0) / step).ceil() * step).max(least);
    let number = (places / size).ceil();
    // By the cost model also where times are measured: the two need only compare, and no profiler
    // measures parts of a share.
    let part = |part: f64| time_of_part(machine, program, op, op.share, part);
    let whole = time(machine, program, op, op.share);
    let is_cheap = number * part(size / places) <= whole * (1.0 + WORTH);
    (number >= 2.0 && is_cheap).then_some(Share::Split(Split {
        piece: Some(size as i64),
        ..split
    }))
}

/// An operator with an axis whose size is a function of variables.
fn is_computed(program: &UProgram, op: &Operator) -> bool {
    let axes = op.axes.iter().chain(op.body.axes());
    let mut locals = axes.flat_map(|(_, size)| program.locals_of(*size));
    locals.any(|local| program.locals[local].kind == LocalKind::Variable)
}
