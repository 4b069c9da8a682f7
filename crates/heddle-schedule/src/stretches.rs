//! Straight-line code, and its waves.

use std::collections::{BTreeMap, BTreeSet};

use heddle_uprogram::program::{Buffer, OperatorId, Stmt, UProgram};

use crate::order_waves::{MAX_STRETCH, waves};
use crate::trips::{UNKNOWN_TRIP, trips};

/// Calls `see` with each wave of a program's straight-line code: operators that do not wait for each other, and the estimated number of
/// their executions. `written_often` are the buffers that several operators write.
pub(super) fn for_each_wave(
    program: &UProgram,
    written_often: &BTreeSet<Buffer>,
    see: &mut dyn FnMut(&[OperatorId], f64),
) {
    let mut walk = Walk {
        program,
        written_often,
        see,
    };
    walk.block(&program.body, 1.0);
    for (_, procedure) in program.procedures.iter() {
        walk.block(&procedure.body, UNKNOWN_TRIP);
    }
}

struct Walk<'a> {
    program: &'a UProgram,
    written_often: &'a BTreeSet<Buffer>,
    see: &'a mut dyn FnMut(&[OperatorId], f64),
}

impl Walk<'_> {
    /// Statements that run `often` times.
    fn block(&mut self, stmts: &[Stmt], often: f64) {
        let is_plain = |stmt: &Stmt| matches!(stmt, Stmt::Run(_) | Stmt::Let(..));
        for part in stmts.chunk_by(|a, b| is_plain(a) && is_plain(b)) {
            match &part[0] {
                Stmt::Loop {
                    iteration,
                    trip,
                    body,
                    ..
                } => {
                    let trips = trips(self.program, *iteration, *trip);
                    self.block(body, often * trips);
                }
                Stmt::If {
                    then, otherwise, ..
                } => {
                    self.block(then, often / 2.0);
                    self.block(otherwise, often / 2.0);
                }
                stmt if is_plain(stmt) => {
                    let stretches = part.chunks(MAX_STRETCH);
                    stretches.for_each(|stretch| self.stretch(stretch, often));
                }
                _ => {}
            }
        }
    }

    fn stretch(&mut self, stmts: &[Stmt], often: f64) {
        let mut by_wave: BTreeMap<usize, Vec<OperatorId>> = BTreeMap::new();
        let waves = waves(self.program, self.written_often, stmts);
        for (stmt, wave) in stmts.iter().zip(waves) {
            if let Stmt::Run(id) = stmt
                && !self.program.operators[*id].is_empty(&self.program.pool)
            {
                by_wave.entry(wave).or_default().push(*id);
            }
        }
        for ops in by_wave.values() {
            (self.see)(ops, often);
        }
    }
}
