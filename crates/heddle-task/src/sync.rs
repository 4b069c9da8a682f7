//! Places synchronisations: one where data that a unit wrote is about to be read or overwritten by another, or data that one
//! reads is about to be overwritten, and nowhere else.
//!
//! The walk keeps, for each buffer, what happened to it since the last synchronisation. A reader that runs on the unit
//! that wrote needs none: both operators deal out the same axis alike and read and write the same element
//! (Rammer §3.2: data-flow edges whose tasks are aligned need no barrier). A loop is walked until what is known at its head
//! covers its back edge.

use std::collections::BTreeMap;

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use crate::expr::{Expr, ExprId};
use crate::program::{Buffer, BufferKind, Local, LocalKind, Operator, Share, Stmt, UProgram};

/// Places the program's synchronisations.
pub fn place_syncs(program: &mut UProgram) {
    let body = std::mem::take(&mut program.body);
    let mut walk = Walk {
        program,
        state: State::default(),
    };
    let body = walk.block(&body);
    program.body = body;
}

/// Which unit touches which element of a buffer.
#[derive(Clone, Debug, PartialEq)]
enum Deal {
    /// One unit does it all.
    Single,
    /// Rows of so many elements, of so many rows, dealt out as they are: which unit an element belongs to follows from
    /// where it lies, whatever the point that touches it.
    Rows { count: ExprId, row: Row },
    /// The axis that is split, the element that a point touches, and the axes that this element depends on, with their
    /// sizes. Who writes touches each element once, so whoever else touches it by the same expression over the same
    /// sizes does so at the same place of the split axis: on the same unit.
    Split {
        split: Local,
        offset: ExprId,
        axes: Vec<(Local, ExprId)>,
    },
}

/// The number of elements of a row: a constant times sizes.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    constant: i64,
    sizes: Vec<ExprId>,
}

/// What happened to a buffer since the last synchronisation.
#[derive(Clone, Debug, Default, PartialEq)]
struct Access {
    /// Writes: all dealt out in one way, or in several.
    written: Option<Option<Deal>>,
    /// Reads likewise.
    read: Option<Option<Deal>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    buffers: BTreeMap<Buffer, Access>,
}

struct Walk<'p> {
    program: &'p UProgram,
    state: State,
}

impl Walk<'_> {
    fn block(&mut self, stmts: &[Stmt]) -> Vec<Stmt> {
        let mut out = vec![];
        for stmt in stmts {
            match stmt {
                Stmt::Run(id) => {
                    let op = &self.program.operators[*id];
                    let write = op.body.store();
                    let deal = Deal::of(self.program, op, write.offset);
                    let reads = self.loads(&op.body.exprs());
                    let deals = reads.into_iter();
                    let deals = deals.map(|(b, offset)| (b, Deal::of(self.program, op, offset)));
                    let deals = deals.collect();
                    self.access(&mut out, deals, Some((write.buffer, deal)));
                    out.push(stmt.clone());
                }
                Stmt::Let(_, expr) => {
                    self.every_unit_reads(&mut out, &[*expr]);
                    out.push(stmt.clone());
                }
                Stmt::Swap(a, b) => {
                    let (x, y) = (self.state.buffers.remove(a), self.state.buffers.remove(b));
                    self.state
                        .buffers
                        .extend(x.map(|x| (*b, x)).into_iter().chain(y.map(|y| (*a, y))));
                    out.push(stmt.clone());
                }
                Stmt::Loop {
                    iteration,
                    trip,
                    cond,
                    body,
                    name,
                } => {
                    self.every_unit_reads(&mut out, trip.as_slice());
                    let mut head = self.state.clone();
                    let body = loop {
                        self.state = head.clone();
                        let placed = self.block(body);
                        let next = head.join(&self.state);
                        if next == head {
                            break placed;
                        }
                        head = next;
                    };
                    self.state = head;
                    let (iteration, trip, cond) = (*iteration, *trip, *cond);
                    out.push(Stmt::Loop {
                        iteration,
                        trip,
                        cond,
                        body,
                        name: name.clone(),
                    });
                }
                Stmt::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    self.every_unit_reads(&mut out, &[*cond]);
                    let before = self.state.clone();
                    let then = self.block(then);
                    let after = std::mem::replace(&mut self.state, before);
                    let otherwise = self.block(otherwise);
                    self.state = self.state.join(&after);
                    out.push(Stmt::If {
                        cond: *cond,
                        then,
                        otherwise,
                    });
                }
                Stmt::Sync => {
                    self.state = State::default();
                    out.push(Stmt::Sync);
                }
            }
        }
        out
    }

    fn every_unit_reads(&mut self, out: &mut Vec<Stmt>, exprs: &[ExprId]) {
        let reads = self.loads(exprs).into_iter().map(|(b, _)| (b, None));
        self.access(out, reads.collect(), None);
    }

    /// Adds a synchronisation if these accesses need one, then notes them.
    fn access(
        &mut self,
        out: &mut Vec<Stmt>,
        reads: Vec<(Buffer, Option<Deal>)>,
        write: Option<(Buffer, Option<Deal>)>,
    ) {
        let crosses = |old: &Option<Option<Deal>>, new: &Option<Deal>| match old {
            None => false,
            Some(old) => old.is_none() || old != new,
        };
        let state = &self.state;
        let of = |b: &Buffer| state.buffers.get(b).cloned().unwrap_or_default();
        let needed = reads.iter().any(|(b, deal)| crosses(&of(b).written, deal))
            || write.iter().any(|(b, deal)| {
                let access = of(b);
                crosses(&access.written, deal) || crosses(&access.read, deal)
            });
        if needed {
            out.push(Stmt::Sync);
            self.state = State::default();
        }
        for (buffer, deal) in reads {
            let slot = &mut self.state.buffers.entry(buffer).or_default().read;
            *slot = Some(merge(slot.take(), deal));
        }
        if let Some((buffer, deal)) = write {
            let slot = &mut self.state.buffers.entry(buffer).or_default().written;
            *slot = Some(merge(slot.take(), deal));
        }
    }

    /// Loads from memory that the program writes.
    fn loads(&self, exprs: &[ExprId]) -> Vec<(Buffer, ExprId)> {
        let mut loads = vec![];
        for &root in exprs {
            self.program.pool.walk(root, &mut |_, expr| {
                if let Expr::Load(buffer, offset) = expr {
                    loads.push((buffer, offset));
                }
            });
        }
        let kind = |b: Buffer| &self.program.buffers[b].kind;
        loads.retain(|l| matches!(kind(l.0), BufferKind::Scratch | BufferKind::Output));
        loads
    }
}

impl Deal {
    /// How the operator deals out the elements at this offset; `None` when that depends on more than its parallel axes
    /// and the launch's sizes: then the same offset may be another element, and of another unit, the next time.
    fn of(program: &UProgram, op: &Operator, offset: ExprId) -> Option<Deal> {
        let Share::Dealt(split) = op.share else {
            return Some(Deal::Single);
        };
        let (split, size) = op.axes[split.axis];
        let locals = program.locals_of(offset);
        let all = || op.axes.iter().chain(op.body.axes());
        let axes: Vec<_> = all().copied().filter(|a| locals.contains(&a.0)).collect();
        let sizes = axes.iter().map(|a| a.1);
        let fixed = sizes.chain([offset, size]).all(|expr| {
            let own = |l: &Local| all().any(|a| a.0 == *l);
            let locals = program.locals_of(expr);
            let still = |l: &Local| own(l) || program.locals[*l].kind == LocalKind::Size;
            locals.iter().all(still) && !program.loads(expr)
        });
        if !fixed || !locals.contains(&split) {
            return None;
        }
        if let Some(row) = row_of(program, op, offset, split) {
            return Some(Deal::Rows { count: size, row });
        }
        Some(Deal::Split {
            split,
            offset,
            axes,
        })
    }
}

/// How many elements lie between one place of the split axis and the next, if the offset is that of an element of a row-major
/// array whose first index is the split axis and whose other indices are inside.
fn row_of(program: &UProgram, op: &Operator, offset: ExprId, split: Local) -> Option<Row> {
    let pool = &program.pool;
    let (scaled, index) = match pool[offset] {
        Expr::Local(l) if l == split => {
            return Some(Row {
                constant: 1,
                sizes: vec![],
            });
        }
        Expr::Binary(BinaryOp::Add, DType::I64, a, b) => (a, Some(b)),
        _ => (offset, None),
    };
    let Expr::Binary(BinaryOp::Mul, DType::I64, outer, size) = pool[scaled] else {
        return None;
    };
    let inside = match index.map(|i| pool[i]) {
        None => true,
        Some(Expr::Local(l)) => op
            .body
            .axes()
            .iter()
            .chain(&op.axes)
            .any(|a| *a == (l, size)),
        Some(_) => false,
    };
    let mut row = row_of(program, op, outer, split).filter(|_| inside)?;
    match pool.as_int(size) {
        Some(size) => row.constant = row.constant.checked_mul(size)?,
        None => row.sizes.push(size),
    }
    row.sizes.sort();
    Some(row)
}

fn merge(old: Option<Option<Deal>>, new: Option<Deal>) -> Option<Deal> {
    match old {
        None => new,
        Some(old) if old == new => new,
        Some(_) => None,
    }
}

impl State {
    fn join(&self, other: &State) -> State {
        let mut joined = self.clone();
        for (buffer, access) in &other.buffers {
            let slot = joined.buffers.entry(*buffer).or_default();
            for (old, new) in [
                (&mut slot.written, &access.written),
                (&mut slot.read, &access.read),
            ] {
                if let Some(new) = new {
                    *old = Some(merge(old.take(), new.clone()));
                }
            }
        }
        joined
    }
}
