//! Chooses the split of each operator so that as little data as possible crosses units.
//!
//! An operator can be split along any of its parallel axes, whole or in blocks, with a grain, or
//! run on one unit. Each choice has a time by the cost model, and each pair of operators that touch
//! the same memory, one of them writing, costs a synchronisation if their partitions of it differ, and the time to read what
//! the other one wrote.
//! Coordinate descent: one operator after the other takes its best choice given those of the
//! others, until nothing changes. Candidates come from the neighbours' partitions: a gate axis of
//! four times the hidden size is split in blocks because its reader is split along the hidden size.
//!
//! The descent may end in a local minimum that only changing two operators at once would leave. The
//! result is kept if the program, with its synchronisations as placed, takes less time than before.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cost::{remote_part, transfer_time, written};
use crate::latency::Latency;
use crate::memo::{ByShare, Memo};
use crate::partition::Partition;
use crate::total::total_with;
use crate::trips::visit_all;
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Body, Buffer, OperatorId, Share, Split, Stmt, Sync, UProgram};

/// Splits the program's operators. Operators on one unit stay there.
pub fn align_splits(program: &mut UProgram, latency: &dyn Latency) {
    let before = program.clone();
    let graph = Graph::new(program);
    for round in 0..MAX_ROUNDS {
        let mut order: Vec<_> = graph.nodes.keys().copied().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut changed = false;
        for id in order {
            changed |= graph.improve(program, latency, id);
        }
        if !changed {
            break;
        }
    }
    let [new, old] = [&*program, &before].map(|p| total_with(p, latency, &graph.memo));
    if new >= old {
        *program = before;
    }
}

/// Limit on sweeps over all operators; a few suffice.
const MAX_ROUNDS: usize = 8;

/// An operator's access to memory.
struct Access {
    op: Option<OperatorId>,
    buffer: Buffer,
    offset: ExprId,
    write: bool,
    /// Estimated number of times the statement runs.
    often: f64,
}

/// A conflicting access and its partition.
type Other = (usize, Option<Rc<Partition>>);

/// The operators' accesses. Buffers that are swapped, or passed by a call, form one class.
struct Graph {
    /// Each operator's accesses, by class of buffers.
    nodes: BTreeMap<OperatorId, Vec<(Buffer, usize)>>,
    accesses: Vec<Access>,
    /// Accesses to each class of buffers.
    classes: BTreeMap<Buffer, Vec<usize>>,
    /// Caches of partitions and of times.
    known: RefCell<ByShare<Option<Rc<Partition>>>>,
    memo: Memo,
}

impl Graph {
    fn new(program: &UProgram) -> Self {
        let mut parents = BTreeMap::new();
        visit_all(program, &mut |stmt, _| {
            let pairs = match stmt {
                Stmt::Swap(a, b) => vec![(*a, *b)],
                stmt => {
                    let calls = stmt.calls().iter();
                    calls
                        .flat_map(|c| program.calls[*c].buffers.clone())
                        .collect()
                }
            };
            for (a, b) in pairs {
                let (a, b) = (root(&parents, a), root(&parents, b));
                if a != b {
                    parents.insert(a, b);
                }
            }
        });
        let mut graph = Self {
            nodes: BTreeMap::new(),
            accesses: vec![],
            classes: BTreeMap::new(),
            known: RefCell::default(),
            memo: Memo::default(),
        };
        visit_all(program, &mut |stmt, often| {
            let mut add = |op, buffer, offset, write| {
                let class = root(&parents, buffer);
                let id = graph.accesses.len();
                graph.accesses.push(Access {
                    op,
                    buffer,
                    offset,
                    write,
                    often,
                });
                graph.classes.entry(class).or_default().push(id);
                if let Some(op) = op {
                    graph.nodes.entry(op).or_default().push((class, id));
                }
            };
            match stmt {
                Stmt::Run(id) => {
                    let op = &program.operators[*id];
                    let store = op.body.store();
                    add(Some(*id), store.buffer, store.offset, true);
                    for (buffer, offset) in program.loads_of(&op.body.exprs()) {
                        add(Some(*id), buffer, offset, false);
                    }
                }
                Stmt::Let(_, expr)
                | Stmt::If { cond: expr, .. }
                | Stmt::Check { cond: expr, .. } => {
                    for (buffer, offset) in program.loads_of(&[*expr]) {
                        add(None, buffer, offset, false);
                    }
                }
                _ => {}
            }
        });
        graph
    }

    /// Gives an operator its best split, given those of the others; returns true if it changed.
    fn improve(&self, program: &mut UProgram, latency: &dyn Latency, id: OperatorId) -> bool {
        let Share::Split(now) = program.operators[id].share else {
            return false;
        };
        let partitions = self.partitions(program, id);
        let mut best = (self.cost(program, latency, id, &partitions, now), now);
        for split in self.candidates(program, id, &partitions) {
            let cost = self.cost(program, latency, id, &partitions, split);
            if cost < best.0 * (1.0 - 1e-9) {
                best = (cost, split);
            }
        }
        program.operators[id].share = Share::Split(best.1);
        best.1 != now
    }

    /// For each of the operator's accesses the conflicting ones, with their partitions.
    fn partitions(&self, program: &UProgram, id: OperatorId) -> Vec<Vec<Other>> {
        let others = |&(class, own): &(Buffer, usize)| {
            let touching = self.classes[&class].iter().copied();
            let touching = touching.filter(|&other| {
                let (a, b) = (&self.accesses[own], &self.accesses[other]);
                other != own && (a.write || b.write)
            });
            let partition = |other: usize| {
                self.accesses[other].op.filter(|&op| op != id)?;
                self.partition(program, other)
            };
            touching.map(|other| (other, partition(other))).collect()
        };
        self.nodes[&id].iter().map(others).collect()
    }

    /// The partition of the elements that an access touches, under its operator's current share.
    fn partition(&self, program: &UProgram, access: usize) -> Option<Rc<Partition>> {
        let Access { op, offset, .. } = self.accesses[access];
        let op = &program.operators[op?];
        let partition = || Partition::of(program, op, offset).map(Rc::new);
        let placement = (op.team, op.share);
        self.known.borrow_mut().get(access, placement, partition)
    }

    /// Each axis split whole, and the splits that the others' partitions suggest.
    fn candidates(
        &self,
        program: &mut UProgram,
        id: OperatorId,
        partitions: &[Vec<Other>],
    ) -> Vec<Split> {
        let op = program.operators[id].clone();
        let axes = op.axes.iter().enumerate();
        let mut candidates: Vec<_> = axes
            .map(|(axis, &(_, period))| Split::whole(axis, period))
            .collect();
        if let Body::Contract(c) = &op.body
            && let Some(axis) = op.axes.iter().position(|a| a.0 == c.columns)
        {
            // Whole tiles: two units that share a tile would both compute it.
            let split = Split {
                grain: c.tile,
                ..Split::whole(axis, op.axes[axis].1)
            };
            candidates.extend((c.tile > 1).then_some(split));
        }
        for ((_, own), others) in self.nodes[&id].iter().zip(partitions) {
            let mut seen: Vec<&Partition> = vec![];
            for partition in others.iter().filter_map(|o| o.1.as_deref()) {
                if seen.contains(&partition) {
                    continue;
                }
                seen.push(partition);
                for axis in 0..op.axes.len() {
                    let split = partition.split(program, &op, self.accesses[*own].offset, axis);
                    candidates.extend(split.filter(|s| !candidates.contains(s)));
                }
            }
        }
        candidates
    }

    /// The time that the reader of two conflicting accesses with different partitions takes longer, since other units have
    /// written what it reads.
    fn transfer(
        &self,
        program: &UProgram,
        latency: &dyn Latency,
        one: &Access,
        other: &Access,
    ) -> f64 {
        let (read, write) = match one.write {
            true => (other, one),
            false => (one, other),
        };
        let (Some(reader), Some(writer), false) = (read.op, write.op, read.write) else {
            return 0.0;
        };
        let machine = latency.machine();
        let theirs = self.memo.touched(program, latency, writer);
        let share = program.operators[writer].share;
        let bytes = written(machine, &theirs, write.buffer, share);
        let touched = self.memo.touched(program, latency, reader);
        let part = remote_part(machine);
        transfer_time(machine, program, &touched, read.buffer, bytes, part)
    }

    /// The operator's time, plus that of synchronisations with its neighbours and of data that crosses units.
    fn cost(
        &self,
        program: &mut UProgram,
        latency: &dyn Latency,
        id: OperatorId,
        partitions: &[Vec<Other>],
        split: Split,
    ) -> f64 {
        let before = std::mem::replace(&mut program.operators[id].share, Share::Split(split));
        let share = program.operators[id].share;
        let often = self.accesses[self.nodes[&id][0].1].often;
        let mut cost = often * self.memo.time(program, latency, id, share);
        for (&(_, own), others) in self.nodes[&id].iter().zip(partitions) {
            let partition = self.partition(program, own);
            for (other, theirs) in others {
                let access = &self.accesses[*other];
                let theirs = match access.op == Some(id) {
                    true => self.partition(program, *other),
                    false => theirs.clone(),
                };
                if partition.is_none() || partition != theirs {
                    let transfer = self.transfer(program, latency, &self.accesses[own], access);
                    cost += (latency.sync(Sync::ALL) + transfer) * often.min(access.often);
                }
            }
        }
        program.operators[id].share = before;
        cost
    }
}

fn root(parents: &BTreeMap<Buffer, Buffer>, mut buffer: Buffer) -> Buffer {
    while let Some(&parent) = parents.get(&buffer) {
        buffer = parent;
    }
    buffer
}
