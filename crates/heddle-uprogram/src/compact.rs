//! Drops unused operators, and the elements of unread constants.

use std::collections::HashSet;

use bytes::Bytes;
use heddle_ir::{Arena, Entity, Tensor};

use crate::contract::Panels;
use crate::program::{Buffer, BufferKind, Operator, OperatorId, Stmt, UProgram};

impl UProgram {
    /// Drops the operators that no statement runs and renumbers the others in their order. Unused
    /// buffers stay, since constants are numbered by their buffers.
    pub fn drop_idle_operators(&mut self) {
        let running = self.running();
        if running.len() == self.operators.len() {
            return;
        }
        let mut kept: Arena<OperatorId, Operator> = Arena::new();
        let mut numbers = vec![OperatorId::new(0); self.operators.len()];
        for &id in &running {
            numbers[id.index()] = kept.push(self.operators[id].clone());
        }
        self.operators = kept;
        self.for_each_stmt_mut(&mut |stmt| {
            if let Stmt::Run(id) = stmt {
                *id = numbers[id.index()];
            }
        });
        let candidates = std::mem::take(&mut self.candidates).into_iter();
        let candidates = candidates.filter(|(id, _)| running.contains(id));
        self.candidates = candidates.map(|(id, c)| (numbers[id.index()], c)).collect();
    }

    /// Empties constants that nothing reads, so that they take no memory. They keep their places,
    /// since constants are numbered by their buffers.
    pub fn drop_unread(&mut self) {
        let read = self.read_buffers();
        for id in self.buffers.keys().collect::<Vec<_>>() {
            let data = &mut self.buffers[id];
            if let BufferKind::Constant(tensor) | BufferKind::Packed(Panels { tensor, .. }) =
                &data.kind
                && !read.contains(&id)
                && !tensor.is_empty()
                && let Ok(nothing) = Tensor::new(tensor.dtype(), vec![0], Bytes::new())
            {
                data.kind = BufferKind::Constant(nothing);
                data.len = self.pool.int(0);
            }
        }
    }

    /// Drops the contents of constants, which a program that was built has for itself.
    pub fn drop_contents(&mut self) {
        for id in self.buffers.keys().collect::<Vec<_>>() {
            if let BufferKind::Constant(tensor)
            | BufferKind::Table(tensor)
            | BufferKind::Packed(Panels { tensor, .. }) = &mut self.buffers[id].kind
                && let Ok(nothing) = Tensor::new(tensor.dtype(), vec![0], Bytes::new())
            {
                *tensor = nothing;
            }
        }
    }

    /// Buffers that a run loads from, or that go by another name in a call or swap.
    pub fn read_buffers(&self) -> HashSet<Buffer> {
        let mut read = HashSet::new();
        let mut exprs: Vec<_> = self.derived.iter().map(|d| d.1).collect();
        let ports = self.inputs.iter().chain(&self.outputs);
        exprs.extend(ports.flat_map(|port| port.shape.iter().copied()));
        exprs.extend(self.buffers.iter().map(|(_, data)| data.len));
        for id in self.running() {
            let op = &self.operators[id];
            exprs.extend(op.axes.iter().map(|a| a.1).chain(op.body.exprs()));
        }
        for (_, call) in self.calls.iter() {
            exprs.extend(call.lets.iter().map(|l| l.1));
            read.extend(call.buffers.iter().map(|b| b.1));
        }
        self.for_each_stmt(&mut |stmt| {
            exprs.extend(stmt.exprs());
            if let Stmt::Swap(a, b) = stmt {
                read.extend([*a, *b]);
            }
        });
        read.extend(self.pool.loads(exprs).into_iter().map(|l| l.0));
        read
    }
}
