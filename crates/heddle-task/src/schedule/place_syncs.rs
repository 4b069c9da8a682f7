//! Places synchronisations: where data that a unit wrote is about to be read or overwritten by another, or data that one
//! reads is about to be overwritten, and nowhere else; each of the weakest kind that covers what crosses there.
//!
//! The walk keeps, for each buffer, the accesses that are not known to everybody: how they deal out its elements, and which
//! named units know of them. An access on the unit that made the other one needs nothing: both deal out the elements
//! alike (Rammer §3.2: data-flow edges whose tasks are aligned need no barrier). A loop is walked until what is known at its
//! head covers its back edge.

use std::collections::{BTreeMap, BTreeSet};

use crate::expr::ExprId;
use crate::program::{Buffer, OperatorId, Stmt, Sync, UProgram, Units};
use crate::schedule::deal::Deal;
use crate::schedule::device::Device;

/// Places the program's synchronisations.
pub fn place_syncs(program: &mut UProgram, device: &Device) {
    let body = std::mem::take(&mut program.body);
    let mut walk = Walk {
        program,
        lanes: device.lanes > 1,
        state: State::default(),
    };
    let body = walk.block(&body);
    program.body = body;
}

/// An access that not all units know of.
#[derive(Clone, Debug, PartialEq)]
struct Pending {
    /// Which unit touched what; `None`: nobody can say.
    deal: Option<Deal>,
    write: bool,
    /// Units that know of it: what they do comes after it.
    known: BTreeSet<u32>,
    /// Whether lanes of the same unit may not know of it.
    lanes: bool,
}

/// An access that is about to happen.
struct Coming {
    buffer: Buffer,
    deal: Option<Deal>,
    write: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    buffers: BTreeMap<Buffer, Vec<Pending>>,
}

struct Walk<'p> {
    program: &'p UProgram,
    lanes: bool,
    state: State,
}

impl Walk<'_> {
    fn block(&mut self, stmts: &[Stmt]) -> Vec<Stmt> {
        let mut out = vec![];
        for stmt in stmts {
            match stmt {
                Stmt::Run(id) => {
                    let coming = self.operator(*id);
                    self.access(&mut out, coming);
                    out.push(stmt.clone());
                }
                Stmt::Let(_, expr) => {
                    self.every_unit_reads(&mut out, &[*expr]);
                    out.push(stmt.clone());
                }
                Stmt::Swap(a, b) => {
                    let (x, y) = (self.state.buffers.remove(a), self.state.buffers.remove(b));
                    let moved = x.map(|x| (*b, x)).into_iter().chain(y.map(|y| (*a, y)));
                    self.state.buffers.extend(moved);
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
                Stmt::Sync(sync) => self.sync(&mut out, *sync),
            }
        }
        out
    }

    fn operator(&self, id: OperatorId) -> Vec<Coming> {
        let op = &self.program.operators[id];
        if op.is_empty(&self.program.pool) {
            return vec![];
        }
        let store = op.body.store();
        let coming = |buffer, offset, write| Coming {
            buffer,
            deal: Deal::of(self.program, op, offset),
            write,
        };
        let reads = self.program.loads_of(&op.body.exprs()).into_iter();
        let reads = reads.map(|(buffer, offset)| coming(buffer, offset, false));
        reads
            .chain([coming(store.buffer, store.offset, true)])
            .collect()
    }

    fn every_unit_reads(&mut self, out: &mut Vec<Stmt>, exprs: &[ExprId]) {
        let reads = self.program.loads_of(exprs).into_iter();
        let reads = reads.map(|(buffer, _)| Coming {
            buffer,
            deal: None,
            write: false,
        });
        self.access(out, reads.collect());
    }

    /// Adds a synchronisation if these accesses need one, then notes them.
    fn access(&mut self, out: &mut Vec<Stmt>, coming: Vec<Coming>) {
        if let Some(sync) = self.needed(&coming) {
            self.sync(out, sync);
        }
        for Coming {
            buffer,
            deal,
            write,
        } in coming
        {
            let pending = Pending {
                deal,
                write,
                known: BTreeSet::new(),
                lanes: self.lanes,
            };
            add(self.state.buffers.entry(buffer).or_default(), pending);
        }
    }

    /// The weakest synchronisation that lets these accesses happen.
    fn needed(&self, coming: &[Coming]) -> Option<Sync> {
        let nothing = vec![];
        let pairs = coming.iter().flat_map(|new| {
            let olds = self.state.buffers.get(&new.buffer).unwrap_or(&nothing);
            olds.iter().map(move |old| (old, new))
        });
        let pairs: Vec<_> = pairs.filter(|(old, new)| old.write || new.write).collect();
        let (mut crossing, mut local) = (vec![], false);
        for (old, new) in pairs {
            match new.deal {
                Some(Deal::One(unit)) if old.known.contains(&unit) => {}
                _ if old.deal.is_some() && old.deal == new.deal => local |= old.lanes,
                _ => crossing.push((old, new)),
            }
        }
        if crossing.is_empty() {
            return local.then_some(Sync::Unit);
        }
        // Whoever knows of all that crosses can tell the others.
        let mut tellers = crossing.iter().map(|(old, _)| {
            let own = match old.deal {
                Some(Deal::One(unit)) => Some(unit),
                _ => None,
            };
            old.known
                .iter()
                .copied()
                .chain(own)
                .collect::<BTreeSet<_>>()
        });
        let first = tellers.next().unwrap_or_default();
        let common = tellers.fold(first, |a, b| &a & &b);
        let from = common.first().map_or(Units::All, |&unit| Units::One(unit));
        let mut listeners = crossing.iter().map(|(_, new)| match new.deal {
            Some(Deal::One(unit)) => Some(unit),
            _ => None,
        });
        let one = listeners.next().flatten();
        let to = match one {
            Some(unit) if listeners.all(|u| u == one) => Units::One(unit),
            _ => Units::All,
        };
        Some(Sync::Wait { from, to })
    }

    fn sync(&mut self, out: &mut Vec<Stmt>, sync: Sync) {
        out.push(Stmt::Sync(sync));
        for pending in self.state.buffers.values_mut() {
            pending.retain_mut(|p| p.survives(sync));
        }
        self.state.buffers.retain(|_, pending| !pending.is_empty());
    }
}

impl Pending {
    /// What a synchronisation leaves of it.
    fn survives(&mut self, sync: Sync) -> bool {
        let Sync::Wait { from, to } = sync else {
            self.lanes = false;
            return true;
        };
        if from == Units::All || to == Units::All {
            self.lanes = false;
        }
        let told = match from {
            Units::All => true,
            Units::One(unit) => self.deal == Some(Deal::One(unit)) || self.known.contains(&unit),
        };
        match to {
            Units::All => !told,
            Units::One(unit) => {
                if told {
                    self.known.insert(unit);
                }
                true
            }
        }
    }
}

/// Adds an access to others of the same buffer. Of two that are alike, units know only what they know of both.
fn add(list: &mut Vec<Pending>, new: Pending) {
    match list
        .iter_mut()
        .find(|p| p.deal == new.deal && p.write == new.write)
    {
        Some(old) => {
            old.known = &old.known & &new.known;
            old.lanes |= new.lanes;
        }
        None => list.push(new),
    }
}

impl State {
    fn join(&self, other: &State) -> State {
        let mut joined = self.clone();
        for (buffer, pending) in &other.buffers {
            let list = joined.buffers.entry(*buffer).or_default();
            pending.iter().for_each(|p| add(list, p.clone()));
        }
        joined
    }
}
