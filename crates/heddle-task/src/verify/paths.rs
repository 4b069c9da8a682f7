//! Follows each access along all paths of the program to those that it conflicts with.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use heddle_ir::Entity;

use super::forks;
use super::frames::{Frames, Place};
use super::owner::Owner;
use super::{ScheduleError, buffer_name, operator_name};
use crate::expr::ExprId;
use crate::program::{Buffer, BufferKind, CallId, ProcedureId, Stmt, Sync, UProgram, Units};

/// Checks that conflicting accesses are ordered on every path.
pub fn verify_paths(program: &UProgram, lanes: bool) -> Result<(), ScheduleError> {
    let graph = Graph::new(program);
    for node in &graph.nodes {
        node.verify_alone(program)?;
    }
    for (start, node) in graph.nodes.iter().enumerate() {
        for access in &node.accesses {
            graph.follow(program, start, access, lanes)?;
        }
    }
    Ok(())
}

/// A step of the program.
struct Node {
    kind: Kind,
    /// What it is, for messages.
    name: String,
    accesses: Vec<Access>,
    next: Vec<usize>,
    /// Whether a team may be here beside others.
    in_team: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// An operator.
    Operator,
    /// Something that all units do for themselves.
    Units,
    Swap(Buffer, Buffer),
    Sync(Sync),
    /// Where a procedure is called; the step that comes after its return.
    Call(CallId, usize),
    /// Where a procedure ends.
    End(ProcedureId),
    /// Where a team goes to a call: otherwise the same.
    Part(CallId, usize),
    /// Where a call comes back.
    Back(CallId),
    /// Where a team's call comes back.
    PartBack(CallId),
    /// Where units part: the step after they have come together.
    Fork(usize),
    /// Where a team comes back to the others.
    Join,
}

struct Access {
    buffer: Buffer,
    owner: Owner,
    write: bool,
}

/// The program as steps with their successors.
#[derive(Default)]
struct Graph {
    nodes: Vec<Node>,
    /// Where each procedure begins and ends.
    procedures: BTreeMap<ProcedureId, (usize, usize)>,
    /// Procedures that may be run by a team beside others.
    teams: BTreeSet<ProcedureId>,
    frames: Frames,
}

/// Where an access is followed to, what its memory is called there, and who knows of it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Trace {
    node: usize,
    place: Place,
    known: BTreeSet<u32>,
    lanes: bool,
    /// Whether all units of the team know of it that is there, so that it matters only after the team has come back to others.
    told: bool,
    /// Whether units have other numbers now than those that touched it.
    apart: bool,
    /// Whether it is in a procedure that it has been followed into by a call of all units of a team.
    inside: bool,
}

impl Graph {
    fn new(program: &UProgram) -> Graph {
        let mut graph = Graph {
            frames: Frames::new(program),
            teams: forks::teams(program),
            ..Graph::default()
        };
        for (id, procedure) in program.procedures.iter() {
            let name = &procedure.name;
            let begin = graph.add(Kind::Units, format!("begin of {name}"), vec![], vec![]);
            let end = graph.add(Kind::End(id), format!("end of {name}"), vec![], vec![]);
            graph.procedures.insert(id, (begin, end));
        }
        graph.block(program, &program.body, vec![]);
        for (id, procedure) in program.procedures.iter() {
            let (begin, end) = graph.procedures[&id];
            let first = graph.nodes.len();
            let last = graph.block(program, &procedure.body, vec![begin]);
            last.into_iter().for_each(|n| graph.nodes[n].next.push(end));
            if graph.teams.contains(&id) {
                let own = (first..graph.nodes.len()).chain([begin, end]);
                own.for_each(|n| graph.nodes[n].in_team = true);
            }
        }
        graph
    }

    /// Adds statements behind the steps `from`; returns their last steps.
    fn block(&mut self, program: &UProgram, stmts: &[Stmt], mut from: Vec<usize>) -> Vec<usize> {
        for stmt in stmts {
            from = self.stmt(program, stmt, from);
        }
        from
    }

    fn stmt(&mut self, program: &UProgram, stmt: &Stmt, from: Vec<usize>) -> Vec<usize> {
        let reads = |exprs: &[ExprId]| {
            let loads = memory(program, exprs).into_iter();
            let reads = loads.map(|(buffer, _)| Access {
                buffer,
                owner: Owner::Any,
                write: false,
            });
            reads.collect::<Vec<_>>()
        };
        match stmt {
            Stmt::Run(id) => {
                let op = &program.operators[*id];
                let store = op.body.store();
                let access = |buffer, offset, write| Access {
                    buffer,
                    owner: Owner::of(program, op, offset),
                    write,
                };
                let loads = memory(program, &op.body.exprs()).into_iter();
                let mut accesses: Vec<_> = loads.map(|(b, o)| access(b, o, false)).collect();
                accesses.push(access(store.buffer, store.offset, true));
                if op.is_empty(&program.pool) {
                    accesses.clear();
                }
                // Sizes are read by all.
                let sizes: Vec<_> = op.axes.iter().map(|a| a.1).collect();
                accesses.extend(reads(&sizes));
                vec![self.add(Kind::Operator, operator_name(program, *id), accesses, from)]
            }
            Stmt::Let(local, expr) => {
                let name = &program.locals[*local].name;
                let name = format!("let {name}{}", local.index());
                vec![self.add(Kind::Units, name, reads(&[*expr]), from)]
            }
            Stmt::Check { cond, sizes, name } => {
                let accesses = reads(&[*cond, sizes[0], sizes[1]]);
                vec![self.add(Kind::Units, format!("check of {name}"), accesses, from)]
            }
            Stmt::Swap(a, b) => vec![self.add(Kind::Swap(*a, *b), "swap".into(), vec![], from)],
            Stmt::Sync(sync) => vec![self.add(Kind::Sync(*sync), "sync".into(), vec![], from)],
            Stmt::Call(id) => {
                let call = &program.calls[*id];
                let name = |what| format!("{what} {}", call.name);
                let exprs: Vec<_> = call.lets.iter().map(|l| l.1).collect();
                let args = self.add(Kind::Units, name("arguments of"), reads(&exprs), from);
                let (begin, end) = self.procedures[&call.procedure];
                let after = self.nodes.len() + 2;
                let go = self.add(Kind::Call(*id, after), name("call"), vec![], vec![args]);
                self.nodes[go].next.push(begin);
                let back = self.add(Kind::Back(*id), name("return"), vec![], vec![end]);
                vec![self.add(Kind::Units, name("after"), vec![], vec![back])]
            }
            Stmt::Fork(ids) => {
                let calls = || ids.iter().map(|id| &program.calls[*id]);
                let exprs: Vec<_> = calls().flat_map(|c| &c.lets).map(|l| l.1).collect();
                let names: Vec<_> = calls().map(|c| c.name.as_str()).collect();
                let name = format!("fork of {}", names.join(", "));
                let fork = self.nodes.len();
                let kind = Kind::Fork(fork + 2);
                self.add(kind, name.clone(), reads(&exprs), from);
                // Who read the arguments comes back as well.
                let join = self.add(Kind::Join, name.clone(), vec![], vec![fork]);
                let after = self.add(Kind::Units, name, vec![], vec![join]);
                for (id, call) in ids.iter().zip(calls()) {
                    let name = format!("call {}", call.name);
                    let (begin, end) = self.procedures[&call.procedure];
                    let go = self.add(Kind::Part(*id, join), name, vec![], vec![fork]);
                    self.nodes[go].next.push(begin);
                    let back = self.add(Kind::PartBack(*id), "return".into(), vec![], vec![end]);
                    self.nodes[back].next.push(join);
                }
                vec![after]
            }
            Stmt::Loop {
                trip, body, name, ..
            } => {
                let head = self.add(
                    Kind::Units,
                    format!("loop {name}"),
                    reads(trip.as_slice()),
                    from,
                );
                let last = self.block(program, body, vec![head]);
                last.into_iter().for_each(|n| self.nodes[n].next.push(head));
                vec![head]
            }
            Stmt::If {
                cond,
                then,
                otherwise,
            } => {
                let head = self.add(Kind::Units, "if".into(), reads(&[*cond]), from);
                let mut last = self.block(program, then, vec![head]);
                last.extend(self.block(program, otherwise, vec![head]));
                last
            }
        }
    }

    fn add(&mut self, kind: Kind, name: String, accesses: Vec<Access>, from: Vec<usize>) -> usize {
        let id = self.nodes.len();
        self.nodes.push(Node {
            kind,
            name,
            accesses,
            next: vec![],
            in_team: false,
        });
        from.into_iter().for_each(|n| self.nodes[n].next.push(id));
        id
    }

    /// Checks an access against all that may come after it before everybody knows of it.
    fn follow(
        &self,
        program: &UProgram,
        start: usize,
        access: &Access,
        lanes: bool,
    ) -> Result<(), ScheduleError> {
        let known = match access.owner {
            Owner::One(unit) => BTreeSet::from([unit]),
            _ => BTreeSet::new(),
        };
        let first = |&node: &usize| Trace {
            node,
            place: Place::Named(access.buffer),
            known: known.clone(),
            lanes,
            told: false,
            apart: false,
            inside: false,
        };
        let mut open: Vec<_> = self.nodes[start].next.iter().map(first).collect();
        let mut seen: HashSet<Trace> = open.iter().cloned().collect();
        while let Some(trace) = open.pop() {
            let node = &self.nodes[trace.node];
            // In the calls nobody knows what only some units knew of before.
            let parts = matches!(node.kind, Kind::Fork(_)) && !trace.told;
            let meets = |later: &&Access| {
                trace.place.is(later.buffer)
                    && (later.write || access.write)
                    && !trace.told
                    && !trace.orders(access, later)
            };
            if parts || node.accesses.iter().any(|later| meets(&later)) {
                return Err(ScheduleError::Unordered {
                    first: self.nodes[start].name.clone(),
                    second: node.name.clone(),
                    buffer: buffer_name(program, access.buffer),
                });
            }
            for next in self.step(program, trace, self.nodes[start].in_team) {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        Ok(())
    }

    /// Where a trace goes on; whether it began where a team may be. What was touched elsewhere and is told, is told to all units: only
    /// what all know gets into a fork, but for the reads of arguments, which come out of it by a step of their own.
    fn step(&self, program: &UProgram, mut trace: Trace, began_in_team: bool) -> Vec<Trace> {
        let node = &self.nodes[trace.node];
        let only_team = node.in_team && began_in_team;
        let places = match node.kind {
            Kind::Swap(a, b) => vec![trace.place.swapped(a, b)],
            Kind::Sync(sync) if trace.is_told(sync) => {
                trace.told = true;
                match only_team {
                    true => vec![trace.place],
                    false => vec![],
                }
            }
            // Only what all know comes here: they still know it when they have come together again.
            Kind::Fork(after) if trace.told => {
                return vec![Trace {
                    node: after,
                    ..trace
                }];
            }
            Kind::Join => {
                trace.told = false;
                trace.apart = true;
                trace.known.clear();
                vec![trace.place]
            }
            // Who went there together comes back together.
            Kind::PartBack(_) if trace.inside => vec![],
            Kind::Call(id, after) | Kind::Part(id, after) => {
                let kept = self.frames.kept(program, id, trace.place);
                let told = trace.told || self.frames.tells_all(program, id);
                let around = kept.filter(|_| !told || only_team);
                let mut next = self.frames.entered(program, id, trace.place);
                next.retain(|place| Some(*place) != around);
                let together = matches!(node.kind, Kind::Call(..));
                let inside = next.into_iter().map(|place| Trace {
                    node: node.next[0],
                    place,
                    inside: trace.inside || together,
                    ..trace.clone()
                });
                let around = around.map(|place| Trace {
                    node: after,
                    place,
                    told,
                    ..trace.clone()
                });
                return inside.chain(around).collect();
            }
            Kind::End(id) => vec![self.frames.out_of(program, id, trace.place)],
            Kind::Back(id) | Kind::PartBack(id) => {
                // It may have been followed into more than one.
                trace.inside = false;
                self.frames.back(program, id, trace.place)
            }
            _ => vec![trace.place],
        };
        let nexts = node
            .next
            .iter()
            .flat_map(|&node| places.iter().map(move |&place| (node, place)));
        nexts
            .map(|(node, place)| Trace {
                node,
                place,
                ..trace.clone()
            })
            .collect()
    }
}

impl Trace {
    /// Whether the later access comes after the one that is followed, on whatever unit.
    fn orders(&self, access: &Access, later: &Access) -> bool {
        match later.owner {
            Owner::One(unit) if self.apart => self.known.contains(&unit),
            _ if self.apart => false,
            Owner::One(unit) if self.known.contains(&unit) => {
                !self.lanes || access.owner != later.owner
            }
            // Memory that is used anew has its elements elsewhere.
            _ if self.place.is_reused() && !matches!(access.owner, Owner::One(_)) => false,
            _ => access.owner.is_same(&later.owner) && !self.lanes,
        }
    }

    /// Notes who knows after a synchronisation; says whether that is everybody.
    fn is_told(&mut self, sync: Sync) -> bool {
        let (from, to) = match sync {
            Sync::Unit => {
                self.lanes = false;
                return false;
            }
            Sync::Wait { from, to } => (from, to),
        };
        // Whoever tells or waits has its lanes wait for each other first.
        if from == Units::All || to == Units::All {
            self.lanes = false;
        }
        let tells = match from {
            Units::All => true,
            Units::One(unit) => self.known.contains(&unit),
        };
        match to {
            Units::All => tells,
            Units::One(unit) => {
                if tells {
                    self.known.insert(unit);
                }
                false
            }
        }
    }
}

impl Node {
    /// Checks that an operator does not read on one unit what it writes on another.
    fn verify_alone(&self, program: &UProgram) -> Result<(), ScheduleError> {
        for write in self.accesses.iter().filter(|a| a.write) {
            let clash = |read: &&Access| {
                !read.write && read.buffer == write.buffer && !read.owner.is_same(&write.owner)
            };
            if self.accesses.iter().any(|read| clash(&read)) {
                return Err(ScheduleError::Inside {
                    operator: self.name.clone(),
                    buffer: buffer_name(program, write.buffer),
                });
            }
        }
        Ok(())
    }
}

/// What expressions read of memory that the program writes.
pub fn memory(program: &UProgram, exprs: &[ExprId]) -> Vec<(Buffer, ExprId)> {
    let mut loads = vec![];
    for &root in exprs {
        program.pool.walk(root, &mut |_, e| {
            if let crate::Expr::Load(buffer, offset) = e {
                let read_only = |kind: &BufferKind| {
                    matches!(
                        kind,
                        BufferKind::Input
                            | BufferKind::Constant(_)
                            | BufferKind::Packed(_)
                            | BufferKind::Own
                            | BufferKind::Row
                    )
                };
                if !read_only(&program.buffers[buffer].kind) {
                    loads.push((buffer, offset));
                }
            }
        });
    }
    loads
}
