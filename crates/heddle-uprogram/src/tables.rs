//! Finds the constants that can be read where they lie in a model's file.

use std::collections::BTreeSet;

use crate::contract::Access;
use crate::expr::Expr;
use crate::program::{Body, Buffer, BufferKind, LocalKind, Stmt, UProgram};

/// Smaller constants are copied: they share pages with others.
const LEAST_BYTES: usize = 64 << 10;

impl UProgram {
    /// Makes tables of the large constants that are only gathered from: a run reads few of their
    /// elements, at offsets that it computes.
    pub fn find_tables(&mut self) {
        let mut tables: BTreeSet<Buffer> = BTreeSet::new();
        for (id, data) in self.buffers.iter() {
            if let BufferKind::Constant(tensor) = &data.kind
                && tensor.bytes().len() >= LEAST_BYTES
            {
                tables.insert(id);
            }
        }
        if tables.is_empty() {
            return;
        }
        let mut exprs = vec![];
        for id in self.running() {
            let body = &self.operators[id].body;
            for id in by_address(self, body) {
                tables.remove(&id);
            }
            exprs.extend(body.exprs());
        }
        for (_, call) in self.calls.iter() {
            tables.retain(|id| call.buffers.iter().all(|b| b.1 != *id));
        }
        self.for_each_stmt(&mut |stmt| {
            if let Stmt::Swap(a, b) = stmt {
                tables.remove(a);
                tables.remove(b);
            }
        });
        let computed = |e| match e {
            Expr::Load(..) => true,
            Expr::Local(local) => self.locals[local].kind == LocalKind::Variable,
            _ => false,
        };
        for (buffer, offset) in self.pool.loads(exprs) {
            if tables.contains(&buffer) && !self.pool.any(offset, &computed) {
                tables.remove(&buffer);
            }
        }
        for id in tables {
            let kind = &mut self.buffers[id].kind;
            if let BufferKind::Constant(tensor) = kind {
                *kind = BufferKind::Table(tensor.clone());
            }
        }
    }
}

/// Buffers whose addresses an operator passes on: to a kernel, which reads aligned elements, or a
/// routine.
fn by_address(program: &UProgram, body: &Body) -> Vec<Buffer> {
    match body {
        Body::Contract(c) => {
            let operands = [c.a.access, c.b.access].into_iter();
            let buffers = operands.filter_map(|access| match access {
                Access::Strided { buffer, .. }
                | Access::Rows { buffer, .. }
                | Access::Windows { buffer, .. }
                | Access::Panels { buffer, .. } => Some(buffer),
                Access::Computed => None,
            });
            buffers.collect()
        }
        Body::Call { .. } => {
            let loads = program.pool.loads(body.exprs());
            loads.into_iter().map(|load| load.0).collect()
        }
        Body::Chain(c) => {
            let bodies = c.steps.iter().map(|step| &step.body);
            bodies.flat_map(|body| by_address(program, body)).collect()
        }
        _ => vec![],
    }
}
