//! Chooses which axis each operator is dealt out by, so that as little data as possible crosses units.
//!
//! An operator may be dealt out by any of its parallel axes, whole or in blocks, in grains, or run on one unit. Each choice has
//! a time, by the cost model; each pair of operators that touch the same memory, one of them writing, costs a synchronisation if they
//! deal it out differently. One operator after the other takes the choice that is best next to what the others have chosen, until
//! nothing changes. What is tried is what its neighbours' choices suggest: a gate axis of four times the hidden
//! size is dealt out in blocks because who reads it is dealt out by the hidden size.
//!
//! It is a descent: it may end in a choice that changing two operators at once would improve. The result is kept if
//! it takes less time, synchronisations as placed included, than what was there before.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::deal::Deal;
use crate::latency::{Latency, UNKNOWN_TRIP, total_with, trips};
use crate::memo::{ByShare, Memo};
use heddle_uprogram::contract::panel_width;
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Body, Buffer, OperatorId, Share, Split, Stmt, Sync, UProgram};

/// Deals out the program's operators. Operators that one unit must run are left as they are.
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

/// Sweeps over all operators; they settle after a few.
const MAX_ROUNDS: usize = 8;

/// An operator's access to memory.
struct Access {
    op: Option<OperatorId>,
    offset: ExprId,
    write: bool,
    /// How often the statement runs.
    often: f64,
}

/// An access that must agree with another one, and how it deals out what it touches.
type Other = (usize, Option<Rc<Deal>>);

/// What operators do to memory. Buffers whose names are exchanged, or that a call passes, are one.
struct Graph {
    /// Each operator's accesses, by class of buffers.
    nodes: BTreeMap<OperatorId, Vec<(Buffer, usize)>>,
    accesses: Vec<Access>,
    /// Accesses to each class of buffers.
    classes: BTreeMap<Buffer, Vec<usize>>,
    /// How accesses deal out what they touch, and how long operators take: each is asked for over and over.
    dealt: RefCell<ByShare<Option<Rc<Deal>>>>,
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
            dealt: RefCell::default(),
            memo: Memo::default(),
        };
        visit_all(program, &mut |stmt, often| {
            let mut add = |op, buffer, offset, write| {
                let class = root(&parents, buffer);
                let id = graph.accesses.len();
                graph.accesses.push(Access {
                    op,
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

    /// Gives an operator the best share next to those of the others; says whether it is another one.
    fn improve(&self, program: &mut UProgram, latency: &dyn Latency, id: OperatorId) -> bool {
        let Share::Dealt(now) = program.operators[id].share else {
            return false;
        };
        let deals = self.deals(program, id);
        let mut best = (self.cost(program, latency, id, &deals, now), now);
        for split in self.candidates(program, id, &deals) {
            let cost = self.cost(program, latency, id, &deals, split);
            if cost < best.0 * (1.0 - 1e-9) {
                best = (cost, split);
            }
        }
        program.operators[id].share = Share::Dealt(best.1);
        best.1 != now
    }

    /// How the others deal out what this operator touches: for each of its accesses those that must agree with it.
    fn deals(&self, program: &UProgram, id: OperatorId) -> Vec<Vec<Other>> {
        let others = |&(class, own): &(Buffer, usize)| {
            let touching = self.classes[&class].iter().copied();
            let touching = touching.filter(|&other| {
                let (a, b) = (&self.accesses[own], &self.accesses[other]);
                other != own && (a.write || b.write)
            });
            let deal = |other: usize| {
                self.accesses[other].op.filter(|&op| op != id)?;
                self.deal(program, other)
            };
            touching.map(|other| (other, deal(other))).collect()
        };
        self.nodes[&id].iter().map(others).collect()
    }

    /// How an access deals out what it touches, as its operator is shared now.
    fn deal(&self, program: &UProgram, access: usize) -> Option<Rc<Deal>> {
        let Access { op, offset, .. } = self.accesses[access];
        let op = &program.operators[op?];
        let deal = || Deal::of(program, op, offset).map(Rc::new);
        self.dealt.borrow_mut().get(access, op.share, deal)
    }

    /// Each axis, and what the others' choices suggest.
    fn candidates(
        &self,
        program: &mut UProgram,
        id: OperatorId,
        deals: &[Vec<Other>],
    ) -> Vec<Split> {
        let op = program.operators[id].clone();
        let axes = op.axes.iter().enumerate();
        let mut candidates: Vec<_> = axes
            .map(|(axis, &(_, period))| Split::whole(axis, period))
            .collect();
        if let Body::Contract(c) = &op.body
            && let Some(axis) = op.axes.iter().position(|a| a.0 == c.columns)
        {
            // Whole panels: what two units share of one, both compute.
            candidates.push(Split {
                grain: panel_width(c.dtype),
                ..Split::whole(axis, op.axes[axis].1)
            });
        }
        for ((_, own), others) in self.nodes[&id].iter().zip(deals) {
            let mut seen: Vec<&Deal> = vec![];
            for deal in others.iter().filter_map(|o| o.1.as_deref()) {
                if seen.contains(&deal) {
                    continue;
                }
                seen.push(deal);
                for axis in 0..op.axes.len() {
                    let split = deal.split(program, &op, self.accesses[*own].offset, axis);
                    candidates.extend(split.filter(|s| !candidates.contains(s)));
                }
            }
        }
        candidates
    }

    /// The operator's time and that of the synchronisations that it has a part in.
    fn cost(
        &self,
        program: &mut UProgram,
        latency: &dyn Latency,
        id: OperatorId,
        deals: &[Vec<Other>],
        split: Split,
    ) -> f64 {
        let before = std::mem::replace(&mut program.operators[id].share, Share::Dealt(split));
        let share = program.operators[id].share;
        let often = self.accesses[self.nodes[&id][0].1].often;
        let mut cost = often * self.memo.time(program, latency, id, share);
        for (&(_, own), others) in self.nodes[&id].iter().zip(deals) {
            let deal = self.deal(program, own);
            for (other, theirs) in others {
                let access = &self.accesses[*other];
                let theirs = match access.op == Some(id) {
                    true => self.deal(program, *other),
                    false => theirs.clone(),
                };
                if deal.is_none() || deal != theirs {
                    cost += latency.sync(Sync::ALL) * often.min(access.often);
                }
            }
        }
        program.operators[id].share = before;
        cost
    }
}

/// Calls `see` with each statement of the program and its procedures, and how often it runs.
pub(super) fn visit_all(program: &UProgram, see: &mut dyn FnMut(&Stmt, f64)) {
    visit(program, &program.body, 1.0, see);
    for (_, procedure) in program.procedures.iter() {
        visit(program, &procedure.body, UNKNOWN_TRIP, see);
    }
}

/// Calls `see` with each statement and how often it runs.
pub(super) fn visit(
    program: &UProgram,
    stmts: &[Stmt],
    often: f64,
    see: &mut dyn FnMut(&Stmt, f64),
) {
    for stmt in stmts {
        see(stmt, often);
        match stmt {
            Stmt::Loop { trip, body, .. } => {
                visit(program, body, often * trips(program, *trip), see);
            }
            Stmt::If {
                then, otherwise, ..
            } => {
                visit(program, then, often / 2.0, see);
                visit(program, otherwise, often / 2.0, see);
            }
            _ => {}
        }
    }
}

fn root(parents: &BTreeMap<Buffer, Buffer>, mut buffer: Buffer) -> Buffer {
    while let Some(&parent) = parents.get(&buffer) {
        buffer = parent;
    }
    buffer
}
