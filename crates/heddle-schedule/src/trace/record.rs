//! Instruments a program to record its decisions.

use heddle_ir::DType;

use super::MOST_DECISIONS;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, Lanes, Operator, Port, Share, Stmt, Store, UProgram,
};

/// Appends two outputs to a program: the decisions of a run in order, a byte each, and their
/// number. A loop records 1 before each iteration and 0 at its end, a branch 1 if its condition
/// holds.
///
/// Synchronisations are dropped and must be placed again.
pub fn record_decisions(program: &mut UProgram) {
    let one = program.pool.int(1);
    let room = program.pool.int(MOST_DECISIONS);
    let mut output = |name: &str, dtype, len| {
        let data = BufferData {
            dtype,
            len,
            kind: BufferKind::Output,
            procedure: None,
            name: name.into(),
        };
        let buffer = program.buffers.push(data);
        program.outputs.push(Port {
            name: name.into(),
            buffer,
            shape: vec![len],
        });
        buffer
    };
    let decisions = output("decisions", DType::U8, room);
    let decided = output("decided", DType::I64, one);
    let mut recorder = Recorder {
        decisions,
        decided,
        program,
    };
    let procedures: Vec<_> = recorder.program.procedures.keys().collect();
    for id in procedures {
        let body = std::mem::take(&mut recorder.program.procedures[id].body);
        recorder.program.procedures[id].body = recorder.block(&body);
    }
    let body = std::mem::take(&mut recorder.program.body);
    let zero = recorder.program.pool.int(0);
    let mut out = vec![recorder.store(decided, zero, zero)];
    out.extend(recorder.block(&body));
    program.body = out;
}

struct Recorder<'p> {
    program: &'p mut UProgram,
    decisions: Buffer,
    decided: Buffer,
}

impl Recorder<'_> {
    fn block(&mut self, stmts: &[Stmt]) -> Vec<Stmt> {
        let mut out = vec![];
        for stmt in stmts {
            match stmt {
                Stmt::Loop { body, .. } => {
                    let body = self.decided(true, body);
                    out.push(stmt.with_blocks([body, vec![]]));
                    out.extend(self.decided(false, &[]));
                }
                Stmt::If {
                    then, otherwise, ..
                } => {
                    let then = self.decided(true, then);
                    let otherwise = self.decided(false, otherwise);
                    out.push(stmt.with_blocks([then, otherwise]));
                }
                // The record is sequential.
                Stmt::Fork(calls) => out.extend(calls.iter().copied().map(Stmt::Call)),
                Stmt::Sync(_) => {}
                stmt => out.push(stmt.clone()),
            }
        }
        out
    }

    /// A block that first records this decision.
    fn decided(&mut self, decision: bool, stmts: &[Stmt]) -> Vec<Stmt> {
        let pool = &mut self.program.pool;
        let (zero, one, last) = (pool.int(0), pool.int(1), pool.int(MOST_DECISIONS - 1));
        let count = pool.add(Expr::Load(self.decided, zero));
        let place = pool.binary(heddle_ir::op::BinaryOp::Min, DType::I64, count, last);
        let value = pool.add(Expr::Num(DType::U8, decision as u64));
        let next = pool.sum(count, one);
        let mut out = vec![
            self.store(self.decisions, place, value),
            self.store(self.decided, zero, next),
        ];
        out.extend(self.block(stmts));
        out
    }

    /// One unit writes one element.
    fn store(&mut self, buffer: Buffer, offset: ExprId, value: ExprId) -> Stmt {
        let store = Store { buffer, offset };
        Stmt::Run(self.program.operators.push(Operator {
            axes: vec![],
            team: None,
            share: Share::One(0),
            lanes: Lanes::Apart,
            resident: None,
            grow: None,
            body: Body::Map { store, value },
            name: "decision".into(),
        }))
    }
}
