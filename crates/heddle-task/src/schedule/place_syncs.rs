//! Places synchronisations: one where data that a unit wrote is about to be read or overwritten by another, or data that one
//! reads is about to be overwritten, and nowhere else.
//!
//! The walk keeps, for each buffer, what happened to it since the last synchronisation. A reader that runs on the unit
//! that wrote needs none: both operators deal out the same axis alike and read and write the same element
//! (Rammer §3.2: data-flow edges whose tasks are aligned need no barrier). A loop is walked until what is known at its head
//! covers its back edge.

use std::collections::BTreeMap;

use crate::expr::ExprId;
use crate::program::{Buffer, Stmt, UProgram};
use crate::schedule::deal::Deal;

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
                    let reads = self.program.loads_of(&op.body.exprs());
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
        let reads = self
            .program
            .loads_of(exprs)
            .into_iter()
            .map(|(b, _)| (b, None));
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
