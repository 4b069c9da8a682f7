//! Renaming of buffers.

use std::collections::BTreeMap;

use super::{Body, Buffer, Stmt, UProgram};
use crate::contract::Access;

impl UProgram {
    /// Renames buffers everywhere.
    pub fn rename_buffers(&mut self, names: &BTreeMap<Buffer, Buffer>) {
        self.pool.rename_buffers(names);
        let ids: Vec<_> = self.operators.keys().collect();
        for id in ids {
            self.operators[id].body.rename_buffers(names);
        }
        let ids: Vec<_> = self.calls.keys().collect();
        for id in ids {
            let args = self.calls[id].buffers.iter_mut();
            args.for_each(|(_, arg)| rename(arg, names));
        }
        self.for_each_stmt_mut(&mut |stmt| {
            if let Stmt::Swap(a, b) = stmt {
                rename(a, names);
                rename(b, names);
            }
        });
    }
}

impl Body {
    /// Renames buffers outside of expressions.
    pub fn rename_buffers(&mut self, names: &BTreeMap<Buffer, Buffer>) {
        let store = match self {
            Body::Map { store, .. }
            | Body::Fold { store, .. }
            | Body::ArgFold { store, .. }
            | Body::Update { store, .. }
            | Body::Scan { store, .. }
            | Body::Call { store, .. } => store,
            Body::Contract(c) => {
                for operand in [&mut c.a, &mut c.b] {
                    if let Access::Strided { buffer, .. }
                    | Access::Rows { buffer, .. }
                    | Access::Windows { buffer, .. }
                    | Access::Panels { buffer, .. } = &mut operand.access
                    {
                        rename(buffer, names);
                    }
                }
                &mut c.store
            }
            Body::Chain(c) => {
                c.steps
                    .iter_mut()
                    .for_each(|s| s.body.rename_buffers(names));
                return;
            }
        };
        rename(&mut store.buffer, names);
    }
}

fn rename(buffer: &mut Buffer, names: &BTreeMap<Buffer, Buffer>) {
    *buffer = *names.get(buffer).unwrap_or(buffer);
}
