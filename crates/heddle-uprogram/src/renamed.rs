//! Copies of operators and expressions with renamed buffers; the originals stay.

use std::collections::BTreeMap;

use crate::contract::Access;
use crate::expr::{Expr, ExprId, Pool};
use crate::program::{Body, Buffer, Operator, Stmt, UProgram};

/// Buffers and their replacements.
pub type BufferNames = BTreeMap<Buffer, Buffer>;

impl UProgram {
    /// A copy of an operator with renamed buffers.
    pub fn renamed(&mut self, op: &Operator, names: &BufferNames) -> Operator {
        let mut copy = op.clone();
        copy.body.rename_buffers(names);
        let pool = &mut self.pool;
        let rename = &mut |e: &mut ExprId| *e = pool.renamed(*e, names);
        copy.axes.iter_mut().for_each(|a| rename(&mut a.1));
        copy.body.change_exprs(rename);
        copy
    }
}

impl Pool {
    /// The expression with renamed buffers.
    pub fn renamed(&mut self, root: ExprId, names: &BufferNames) -> ExprId {
        let mut parts = vec![];
        self.walk(root, &mut |id, _| parts.push(id));
        // Operands have lower ids.
        parts.sort_unstable();
        let mut copies: BTreeMap<ExprId, ExprId> = BTreeMap::new();
        for id in parts {
            let of = |e: ExprId| copies.get(&e).copied().unwrap_or(e);
            let mut copy = self[id].with_operands(of);
            if let Expr::Load(buffer, _) = &mut copy {
                *buffer = names.get(buffer).copied().unwrap_or(*buffer);
            }
            if copy != self[id] {
                copies.insert(id, self.add(copy));
            }
        }
        copies.get(&root).copied().unwrap_or(root)
    }
}

impl Body {
    /// Calls `change` with each expression, to replace it.
    pub fn change_exprs(&mut self, change: &mut dyn FnMut(&mut ExprId)) {
        match self {
            Body::Map { store, value } => {
                change(value);
                change(&mut store.offset);
            }
            Body::Fold {
                axes, value, store, ..
            }
            | Body::Update {
                axes, value, store, ..
            } => {
                axes.iter_mut().for_each(|a| change(&mut a.1));
                change(value);
                change(&mut store.offset);
            }
            Body::ArgFold {
                axis, value, store, ..
            }
            | Body::Scan {
                axis, value, store, ..
            } => {
                change(&mut axis.1);
                change(value);
                change(&mut store.offset);
            }
            Body::Contract(c) => {
                change(&mut c.depth.1);
                for operand in [&mut c.a, &mut c.b] {
                    change(&mut operand.value);
                    match &mut operand.access {
                        Access::Strided {
                            base, outer, depth, ..
                        } => [base, outer, depth].into_iter().for_each(&mut *change),
                        Access::Rows { at, .. } => change(at),
                        Access::Windows { base, .. } => change(base),
                        Access::Panels { base, depth, .. } => {
                            [base, depth].into_iter().for_each(&mut *change)
                        }
                        Access::Computed => {}
                    }
                }
                if let Some(windows) = &mut c.windows {
                    change(&mut windows.image);
                    change(&mut windows.first);
                    windows.change_dynamic(change);
                }
                change(&mut c.finish);
                change(&mut c.store.offset);
            }
            Body::Call {
                source,
                args,
                store,
                ..
            } => {
                change(source);
                args.iter_mut().for_each(&mut *change);
                change(&mut store.offset);
            }
            Body::Chain(c) => {
                c.axes.iter_mut().for_each(|a| change(&mut a.1));
                for step in &mut c.steps {
                    step.axes.iter_mut().for_each(|a| change(&mut a.1));
                    step.body.change_exprs(change);
                }
            }
        }
    }
}

impl Operator {
    /// Calls `change` with each expression, including axis sizes and the share.
    pub fn change_exprs(&mut self, change: &mut dyn FnMut(&mut ExprId)) {
        self.axes.iter_mut().for_each(|a| change(&mut a.1));
        let splits = self.share.splits_mut().iter_mut();
        splits.for_each(|split| change(&mut split.period));
        self.grow.iter_mut().for_each(&mut *change);
        self.body.change_exprs(change);
    }
}

impl UProgram {
    /// Calls `change` with each expression of the program.
    pub fn change_exprs(&mut self, change: &mut dyn FnMut(&mut ExprId)) {
        self.derived.iter_mut().for_each(|d| change(&mut d.1));
        for id in self.buffers.keys().collect::<Vec<_>>() {
            change(&mut self.buffers[id].len);
        }
        for port in self.inputs.iter_mut().chain(&mut self.outputs) {
            port.shape.iter_mut().for_each(&mut *change);
        }
        for id in self.operators.keys().collect::<Vec<_>>() {
            self.operators[id].change_exprs(change);
        }
        for id in self.calls.keys().collect::<Vec<_>>() {
            let lets = self.calls[id].lets.iter_mut();
            lets.for_each(|l| change(&mut l.1));
        }
        self.for_each_stmt_mut(&mut |stmt| match stmt {
            Stmt::Let(_, value) => change(value),
            Stmt::Check { cond, sizes, .. } => {
                change(cond);
                sizes.iter_mut().for_each(&mut *change);
            }
            Stmt::Loop { trip, .. } => trip.iter_mut().for_each(&mut *change),
            Stmt::If { cond, .. } => change(cond),
            _ => {}
        });
        for candidates in self.candidates.values_mut().flatten() {
            let splits = candidates.share.splits_mut().iter_mut();
            splits.for_each(|split| change(&mut split.period));
        }
    }
}
