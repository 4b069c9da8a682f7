//! Dead code elimination for a trace.

use std::collections::BTreeSet;

use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Buffer, Local, Stmt, UProgram};

/// The statements that the outputs depend on.
pub(super) fn needed(program: &UProgram, stmts: Vec<Stmt>) -> Vec<Stmt> {
    let mut live = Live {
        program,
        buffers: program.outputs.iter().map(|p| p.buffer).collect(),
        locals: BTreeSet::new(),
    };
    let sizes = program.outputs.iter().flat_map(|p| &p.shape);
    sizes.for_each(|&size| live.read(size));
    let mut kept: Vec<_> = stmts.into_iter().rev().filter(|s| live.keep(s)).collect();
    kept.reverse();
    kept
}

/// Live buffers and variables.
struct Live<'p> {
    program: &'p UProgram,
    buffers: BTreeSet<Buffer>,
    locals: BTreeSet<Local>,
}

impl Live<'_> {
    /// True if a statement's result is live; its operands are live then.
    fn keep(&mut self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::Run(id) => {
                let op = &self.program.operators[*id];
                let needed = self.buffers.contains(&op.body.store().buffer);
                if needed {
                    op.exprs().into_iter().for_each(|expr| self.read(expr));
                }
                needed
            }
            Stmt::Let(local, expr) => {
                let needed = self.locals.remove(local);
                if needed {
                    self.read(*expr);
                }
                needed
            }
            Stmt::Swap(a, b) => {
                let (has_a, has_b) = (self.buffers.remove(a), self.buffers.remove(b));
                self.buffers.extend(has_a.then_some(*b));
                self.buffers.extend(has_b.then_some(*a));
                has_a || has_b
            }
            Stmt::Check { cond, sizes, .. } => {
                let exprs = [*cond, sizes[0], sizes[1]];
                exprs.into_iter().for_each(|e| self.read(e));
                true
            }
            _ => true,
        }
    }

    fn read(&mut self, expr: ExprId) {
        self.program.pool.walk(expr, &mut |_, e| match e {
            Expr::Load(buffer, _) => drop(self.buffers.insert(buffer)),
            Expr::Local(local) => drop(self.locals.insert(local)),
            _ => {}
        });
    }
}
