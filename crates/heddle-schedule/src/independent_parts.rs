//! Independent parts of a block of statements.

use std::collections::{BTreeMap, BTreeSet};

use super::latency::Latency;
use super::memo::Memo;
use super::trips::visit;
use heddle_uprogram::program::{Buffer, OperatorId, Share, Stmt, UProgram};

/// Statements of a block without dependences to the rest of it within an iteration.
pub(super) struct Part {
    /// Their operators.
    pub(super) ops: BTreeSet<OperatorId>,
    /// The place of the first of them in the block.
    pub(super) place: usize,
    /// Time on one unit in nanoseconds.
    pub(super) time: f64,
}

/// Operators, time and accesses of a statement.
#[derive(Default)]
struct Effects {
    ops: BTreeSet<OperatorId>,
    place: usize,
    time: f64,
    reads: BTreeSet<Buffer>,
    writes: BTreeSet<Buffer>,
    has_loop: bool,
}

/// The independent parts of a block, longest first, if several contain loops. Swaps at the block's
/// end separate its iterations and join no parts. A block with calls has no parts.
pub(super) fn independent_parts(
    program: &UProgram,
    latency: &dyn Latency,
    memo: &Memo,
    stmts: &[Stmt],
) -> Vec<Part> {
    let loops = stmts.iter().filter(|s| matches!(s, Stmt::Loop { .. }));
    if loops.count() < 2 {
        return vec![];
    }
    let all: Option<Vec<Effects>> = stmts
        .iter()
        .enumerate()
        .map(|(place, stmt)| {
            let effects = effects(program, latency, memo, stmt)?;
            Some(Effects { place, ..effects })
        })
        .collect();
    let mut parts: Vec<Effects> = vec![];
    for mut new in all.unwrap_or_default() {
        let (joined, apart) = parts.into_iter().partition(|part| part.conflicts(&new));
        parts = apart;
        let joined: Vec<Effects> = joined;
        joined.into_iter().for_each(|part| new.join(part));
        parts.push(new);
    }
    parts.retain(|part| !part.ops.is_empty());
    if parts.iter().filter(|part| part.has_loop).count() < 2 {
        return vec![];
    }
    parts.sort_by(|a, b| b.time.total_cmp(&a.time));
    let part = |Effects {
                    ops, place, time, ..
                }| Part { ops, place, time };
    parts.into_iter().map(part).collect()
}

/// The effects of a statement; `None` if it calls.
fn effects(program: &UProgram, latency: &dyn Latency, memo: &Memo, stmt: &Stmt) -> Option<Effects> {
    let (mut effects, mut calls) = (Effects::default(), false);
    let mut swaps: BTreeMap<Buffer, Buffer> = BTreeMap::new();
    let mut exprs = vec![];
    visit(
        program,
        std::slice::from_ref(stmt),
        1.0,
        &mut |stmt, often| match stmt {
            Stmt::Run(id) => {
                effects.ops.insert(*id);
                effects.time += often * memo.time(program, latency, *id, Share::One(0));
                for access in memo.operator(program, *id).iter() {
                    let touched = match access.write {
                        true => &mut effects.writes,
                        false => &mut effects.reads,
                    };
                    touched.insert(access.buffer);
                }
            }
            Stmt::Let(_, expr) => exprs.push(*expr),
            Stmt::Loop { trip, .. } => {
                effects.has_loop = true;
                exprs.extend(trip);
            }
            Stmt::If { cond, .. } => exprs.push(*cond),
            Stmt::Check { cond, sizes, .. } => exprs.extend([*cond, sizes[0], sizes[1]]),
            Stmt::Swap(a, b) => {
                swaps.insert(*a, *b);
            }
            Stmt::Call(_) | Stmt::Fork(_) => calls = true,
            Stmt::Sync(_) => {}
        },
    );
    for expr in exprs {
        let reads = memo.every_unit_reads(program, expr);
        effects.reads.extend(reads.iter().map(|c| c.buffer));
    }
    // Within a statement, swapped names alias.
    for (a, b) in swaps.iter().filter(|_| !matches!(stmt, Stmt::Swap(..))) {
        effects.writes.extend([*a, *b]);
    }
    (!calls).then_some(effects)
}

impl Effects {
    fn conflicts(&self, other: &Self) -> bool {
        let touches = |a: &Self, b: &Self| {
            let mut touched = b.reads.iter().chain(&b.writes);
            touched.any(|buffer| a.writes.contains(buffer))
        };
        touches(self, other) || touches(other, self)
    }

    fn join(&mut self, other: Self) {
        self.ops.extend(other.ops);
        self.place = self.place.min(other.place);
        self.time += other.time;
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self.has_loop |= other.has_loop;
    }
}
