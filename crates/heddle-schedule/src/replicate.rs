//! Lets every unit compute for itself what all of them read, where that beats a wait.
//!
//! A decoder's next word is the largest of thousands of scores. One unit that finds it has all others wait twice: it for their scores,
//! they for the word. If each finds it, they wait once. The operator then has results on each unit ([`Share::Every`]), of the kind
//! [`Own`](BufferKind::Own).
//!
//! - Operators in loops of the main program take part whose results are read further down in the same block, and by nothing else. At the
//!   head of a loop units may join, which have computed nothing.
//! - An operator that is no gain by itself is tried with those that it reads from.
//! - The cost model decides, as for all shares. The pass comes when these are final, and before lanes are chosen.

use std::collections::BTreeSet;

use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{
    Buffer, BufferKind, OperatorId, Share, Stmt, UProgram, for_each_stmt,
};

use crate::latency::Latency;
use crate::total::time_alone;

/// Waits that an operator may save: before it, after it, and across a back edge.
const SAVED_WAITS: f64 = 3.0;

/// The part of its nearest memory that a unit's own results may take.
const PART_OF_MEMORY: f64 = 0.25;

/// Limit on the sets of operators tried; bounds compile time.
const MAX_TRIALS: usize = 64;

/// Has every unit run operators where that is faster.
pub fn replicate(program: &mut UProgram, latency: &dyn Latency) {
    if latency.machine().units() < 2 {
        return;
    }
    // One that nothing runs may store to what another one does.
    program.drop_idle_operators();
    let mut loops = vec![];
    for (place, stmt) in program.body.iter().enumerate() {
        let mut found = vec![];
        candidates_in(
            program,
            latency,
            std::slice::from_ref(stmt),
            false,
            &mut found,
        );
        if !found.is_empty() {
            loops.push((place, found));
        }
    }
    let mut budget = MAX_TRIALS;
    for (place, found) in loops {
        let part = program.body[place..=place].to_vec();
        let mut now = time_alone(program, latency, &part);
        // Readers come before what they read from.
        for id in found.iter().rev() {
            let mut ops = BTreeSet::from([*id]);
            while budget > 0 && program.operators[*id].share != Share::Every {
                budget -= 1;
                let trial = replicated(program, &ops);
                let time = time_alone(&trial, latency, &part);
                if time < now {
                    (*program, now) = (trial, time);
                    break;
                }
                let more = producers(program, &ops, &found);
                if more.is_subset(&ops) {
                    break;
                }
                ops.extend(more);
            }
        }
    }
}

/// The operators in loops among statements that every unit may run, in order.
fn candidates_in(
    program: &UProgram,
    latency: &dyn Latency,
    stmts: &[Stmt],
    in_loop: bool,
    found: &mut Vec<OperatorId>,
) {
    for (k, stmt) in stmts.iter().enumerate() {
        match stmt {
            Stmt::Run(id)
                if in_loop
                    && is_small(program, latency, *id)
                    && is_read_only_in(program, *id, &stmts[k + 1..]) =>
            {
                found.push(*id);
            }
            _ => {
                let in_loop = in_loop || matches!(stmt, Stmt::Loop { .. });
                for block in stmt.blocks() {
                    candidates_in(program, latency, block, in_loop, found);
                }
            }
        }
    }
}

/// Could the waits saved outweigh what the operator then takes longer, and do the results fit beside what a unit works on?
fn is_small(program: &UProgram, latency: &dyn Latency, id: OperatorId) -> bool {
    let op = &program.operators[id];
    let machine = latency.machine();
    let to = &program.buffers[op.body.store().buffer];
    let Some(len) = program.pool.as_int(to.len) else {
        return false;
    };
    let room = machine.memories.first().map_or(0.0, |memory| memory.bytes) * PART_OF_MEMORY;
    let bytes = len as f64 * to.dtype.bits() as f64 / 8.0;
    let longer =
        latency.operator(program, id, Share::Every) - latency.operator(program, id, op.share);
    bytes <= room && longer < SAVED_WAITS * latency.barrier()
}

/// Is the operator the only one that writes its results, which only these statements read?
fn is_read_only_in(program: &UProgram, id: OperatorId, stmts: &[Stmt]) -> bool {
    let op = &program.operators[id];
    let to = op.body.store().buffer;
    let data = &program.buffers[to];
    let is_array = matches!(data.kind, BufferKind::Scratch) && data.procedure.is_none();
    let is_free = op.team.is_none() && op.grow.is_none() && !op.share.is_in_pieces();
    if !is_array || !is_free || op.share == Share::Every || op.body.own().is_some() {
        return false;
    }
    if reads(program, &program.operators[id].exprs(), to) {
        return false;
    }
    let (mut all, mut here) = (Uses::default(), Uses::default());
    program.for_each_stmt(&mut |stmt| all.add(program, stmt, to));
    for_each_stmt(stmts, &mut |stmt| here.add(program, stmt, to));
    all.writes == 1 && all.others == 0 && here.writes == 0 && here.reads == all.reads
}

/// Statements that use a buffer.
#[derive(Default)]
struct Uses {
    reads: usize,
    writes: usize,
    /// Statements that give its memory another name.
    others: usize,
}

impl Uses {
    fn add(&mut self, program: &UProgram, stmt: &Stmt, buffer: Buffer) {
        self.reads += usize::from(reads(program, &stmt.exprs(), buffer));
        match stmt {
            Stmt::Run(id) => {
                self.writes += usize::from(program.operators[*id].body.store().buffer == buffer);
                self.reads += usize::from(reads(program, &program.operators[*id].exprs(), buffer));
            }
            Stmt::Swap(a, b) => self.others += usize::from([*a, *b].contains(&buffer)),
            _ => {}
        }
        for call in stmt.calls() {
            let call = &program.calls[*call];
            let args: Vec<_> = call.lets.iter().map(|l| l.1).collect();
            self.reads += usize::from(reads(program, &args, buffer));
            self.others += call.buffers.iter().filter(|pair| pair.1 == buffer).count();
        }
    }
}

fn reads(program: &UProgram, exprs: &[ExprId], buffer: Buffer) -> bool {
    let loads = program.pool.loads(exprs.iter().copied());
    loads.iter().any(|load| load.0 == buffer)
}

/// These operators, of the candidates, and those that they read from.
fn producers(
    program: &UProgram,
    ops: &BTreeSet<OperatorId>,
    candidates: &[OperatorId],
) -> BTreeSet<OperatorId> {
    let feeds = |id: &OperatorId| {
        let to = program.operators[*id].body.store().buffer;
        let mut readers = ops.iter();
        readers.any(|reader| reads(program, &program.operators[*reader].exprs(), to))
    };
    let is_free = |id: &OperatorId| program.operators[*id].share != Share::Every;
    candidates
        .iter()
        .copied()
        .filter(|id| is_free(id) && feeds(id))
        .collect()
}

/// The program in which every unit runs these operators.
fn replicated(program: &UProgram, ops: &BTreeSet<OperatorId>) -> UProgram {
    let mut program = program.clone();
    for id in ops {
        let op = &mut program.operators[*id];
        op.share = Share::Every;
        let to = op.body.store().buffer;
        program.buffers[to].kind = BufferKind::Own;
    }
    program
}
