//! Orders straight-line code in waves (Rammer §3.3), so that independent chains share their
//! synchronisations and single-unit operators of one wave run concurrently.
//!
//! A statement's wave is the largest number of synchronisations on any dependence chain to it.
//! Statements of a wave, and those that conflict, keep their order. Only straight-line code between
//! control flow is reordered. If the cost model or profiler sees no gain, the old order stays.

use std::collections::BTreeSet;

use crate::latency::Latency;
use crate::memo::Memo;
use crate::partition::Partition;
use crate::reach::{Reach, written_often};
use crate::total::total_with;
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Buffer, Local, Stmt, UProgram};

/// Orders the program's straight-line code.
pub fn order_waves(program: &mut UProgram, latency: &dyn Latency) {
    let before = program.clone();
    let often = written_often(program);
    program.body = block(program, &often, &before.body);
    let procedures = before.procedures.iter();
    for (id, procedure) in procedures {
        program.procedures[id].body = block(program, &often, &procedure.body);
    }
    let memo = Memo::of(latency.machine());
    let [new, old] = [&*program, &before].map(|p| total_with(p, latency, &memo));
    if new >= old {
        *program = before;
    }
}

/// Longer straight-line code is ordered in parts, since all pairs are compared.
pub(super) const MAX_STRETCH: usize = 512;

fn block(program: &UProgram, often: &BTreeSet<Buffer>, stmts: &[Stmt]) -> Vec<Stmt> {
    let (mut out, mut stretch) = (vec![], vec![]);
    for stmt in stmts {
        let plain = matches!(stmt, Stmt::Run(_) | Stmt::Let(..));
        if !plain || stretch.len() == MAX_STRETCH {
            out.extend(ordered(program, often, std::mem::take(&mut stretch)));
        }
        let order = if plain { &mut stretch } else { &mut out };
        order.push(stmt.with_blocks(stmt.blocks().map(|inner| block(program, often, inner))));
    }
    out.extend(ordered(program, often, stretch));
    out
}

/// An access of a statement.
struct Access {
    buffer: Buffer,
    partition: Option<Partition>,
    write: bool,
    /// The elements that it touches at most, of a buffer that several operators write.
    reach: Reach,
}

/// Memory and variables that a statement accesses.
struct Touched {
    memory: Vec<Access>,
    reads: Vec<Local>,
    writes: Option<Local>,
}

fn ordered(program: &UProgram, often: &BTreeSet<Buffer>, stmts: Vec<Stmt>) -> Vec<Stmt> {
    let waves = waves(program, often, &stmts);
    let mut order: Vec<usize> = (0..stmts.len()).collect();
    order.sort_by_key(|&k| waves[k]);
    order.into_iter().map(|k| stmts[k].clone()).collect()
}

/// The wave of each statement of straight-line code, given the buffers that several operators write.
pub(super) fn waves(program: &UProgram, often: &BTreeSet<Buffer>, stmts: &[Stmt]) -> Vec<usize> {
    let touched: Vec<_> = stmts
        .iter()
        .map(|stmt| Touched::by(program, often, stmt))
        .collect();
    let mut waves: Vec<usize> = vec![];
    for (k, own) in touched.iter().enumerate() {
        let after = touched[..k].iter().zip(&waves);
        let after = after.filter_map(|(other, wave)| Some(wave + own.after(other)? as usize));
        let wave = after.max().unwrap_or(0);
        waves.push(wave);
    }
    waves
}

impl Access {
    /// A read that every unit makes.
    fn of_all(buffer: Buffer) -> Self {
        Self {
            buffer,
            partition: None,
            write: false,
            reach: Reach::default(),
        }
    }

    /// True if the order of both matters.
    fn meets(&self, other: &Self) -> bool {
        let both = self.buffer == other.buffer && (self.write || other.write);
        both && !self.reach.is_apart(&other.reach)
    }
}

impl Touched {
    fn by(program: &UProgram, often: &BTreeSet<Buffer>, stmt: &Stmt) -> Self {
        let locals = |exprs: &[ExprId]| {
            let locals = exprs.iter().flat_map(|&e| program.locals_of(e));
            locals.collect::<Vec<_>>()
        };
        match stmt {
            Stmt::Run(id) => {
                let op = &program.operators[*id];
                let mut exprs = op.body.exprs();
                let access = |buffer, offset, write| Access {
                    buffer,
                    partition: Partition::of(program, op, offset),
                    write,
                    reach: match often.contains(&buffer) {
                        true => Reach::of(program, op, offset),
                        false => Reach::default(),
                    },
                };
                let loads = program.loads_of(&exprs).into_iter();
                let mut memory: Vec<_> = loads.map(|(b, o)| access(b, o, false)).collect();
                let store = op.body.store();
                memory.push(access(store.buffer, store.offset, true));
                exprs.extend(op.axes.iter().map(|a| a.1).chain(op.grow));
                Self {
                    memory,
                    reads: locals(&exprs),
                    writes: None,
                }
            }
            Stmt::Let(local, expr) => {
                let loads = program.loads_of(&[*expr]).into_iter();
                Self {
                    memory: loads.map(|(buffer, _)| Access::of_all(buffer)).collect(),
                    reads: locals(&[*expr]),
                    writes: Some(*local),
                }
            }
            _ => Self {
                memory: vec![],
                reads: vec![],
                writes: None,
            },
        }
    }

    /// `None` if independent of an earlier statement; otherwise true if a synchronisation must lie
    /// between.
    fn after(&self, earlier: &Touched) -> Option<bool> {
        let sets = |a: &Touched, b: &Touched| {
            a.writes
                .is_some_and(|l| b.reads.contains(&l) || b.writes == Some(l))
        };
        let mut after = (sets(self, earlier) || sets(earlier, self)).then_some(false);
        for own in &self.memory {
            for other in earlier.memory.iter().filter(|other| own.meets(other)) {
                let crosses = own.partition.is_none() || own.partition != other.partition;
                after = Some(crosses || after == Some(true));
            }
        }
        after
    }
}
