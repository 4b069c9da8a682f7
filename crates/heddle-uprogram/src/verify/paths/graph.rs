//! The program as a graph of steps with their accesses.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::Entity;

use crate::expr::ExprId;
use crate::program::{Body, Buffer, CallId, Local, Operator, ProcedureId, Stmt, Sync, UProgram};
use crate::verify::frames::Frames;
use crate::verify::owner::{Lane, Owner};
use crate::verify::reach::Reach;
use crate::verify::{forks, operator_name};

/// The program as a graph of steps.
#[derive(Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Entry and exit steps of each procedure.
    procedures: BTreeMap<ProcedureId, (usize, usize)>,
    /// Procedures that teams may run.
    teams: BTreeSet<ProcedureId>,
    pub(super) frames: Frames,
}

/// A step of the program.
pub(super) struct Node {
    pub(super) kind: Kind,
    /// Its name in messages.
    pub(super) name: String,
    pub(super) accesses: Vec<Access>,
    /// The variable that it assigns.
    pub(super) assigns: Option<Local>,
    pub(super) next: Vec<usize>,
    /// True if a team may be here while other units are elsewhere.
    pub(super) in_team: bool,
    /// True if a unit's lanes meet at its end.
    pub(super) lanes_meet: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// An operator.
    Operator,
    /// A step of every unit.
    Units,
    Swap(Buffer, Buffer),
    Sync(Sync),
    /// A call; the step after its return.
    Call(CallId, usize),
    /// The exit of a procedure.
    End(ProcedureId),
    /// A team's call; the step after its return.
    TeamCall(CallId, usize),
    /// Return from a call.
    Return(CallId),
    /// Return from a team's call.
    TeamReturn(CallId),
    /// A fork; the step after the join.
    Fork(usize),
    /// Join of the teams.
    Join,
}

pub(super) struct Access {
    pub(super) buffer: Buffer,
    /// True if it is at the offset of the operator's result, where each point has an element for itself.
    pub(super) of_point: bool,
    pub(super) owner: Owner,
    pub(super) lane: Lane,
    pub(super) write: bool,
    pub(super) reach: Reach,
}

impl Graph {
    pub(super) fn new(program: &UProgram) -> Graph {
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
        let all = graph.of_copies(program, "begin", vec![]);
        let last = graph.block(program, &program.body, all);
        graph.of_copies(program, "end", last);
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

    /// The begin or the end of a program, where each unit that has a copy of an array reads it, as it were: nobody stores to it before,
    /// or after. No step if there is no such array.
    fn of_copies(&mut self, program: &UProgram, what: &str, from: Vec<usize>) -> Vec<usize> {
        let copies = program.mirrors().map(|(buffer, mirror)| Access {
            buffer,
            of_point: false,
            owner: match mirror.is_of_all() {
                true => Owner::Any,
                false => Owner::Member(mirror.cluster.team, Box::new(Owner::Any)),
            },
            lane: Lane::Any,
            write: false,
            reach: Reach::default(),
        });
        let accesses: Vec<_> = copies.collect();
        match accesses.is_empty() {
            true => from,
            false => vec![self.add(Kind::Units, format!("the program's {what}"), accesses, from)],
        }
    }

    /// Appends statements to the steps `from`; returns the last steps.
    fn block(&mut self, program: &UProgram, stmts: &[Stmt], mut from: Vec<usize>) -> Vec<usize> {
        for stmt in stmts {
            from = self.stmt(program, stmt, from);
        }
        from
    }

    fn stmt(&mut self, program: &UProgram, stmt: &Stmt, from: Vec<usize>) -> Vec<usize> {
        let reads = |exprs: &[ExprId]| {
            let loads = program.loads_of(exprs).into_iter();
            let reads = loads.map(|(buffer, _)| Access {
                buffer,
                of_point: false,
                owner: match program.buffers[buffer].kind.is_of_each() {
                    true => Owner::Each,
                    false => Owner::Any,
                },
                lane: Lane::Any,
                write: false,
                reach: Reach::default(),
            });
            reads.collect::<Vec<_>>()
        };
        match stmt {
            Stmt::Run(id) => {
                let op = &program.operators[*id];
                let store = op.body.store();
                let is_of_points = gives_each_point_an_element(program, op);
                let access = |buffer, offset, write| Access {
                    buffer,
                    of_point: is_of_points && offset == store.offset,
                    owner: Owner::of(program, op, buffer, offset),
                    lane: match write && op.gathers(program).is_some() {
                        // Other lanes take the numbers of all units than those that compute the own ones.
                        true => Lane::Any,
                        false => Lane::of(program, op, offset),
                    },
                    write,
                    reach: Reach::of(program, op, offset),
                };
                let loads = program.loads_of(&op.body.exprs()).into_iter();
                let mut accesses: Vec<_> = loads.map(|(b, o)| access(b, o, false)).collect();
                accesses.push(access(store.buffer, store.offset, true));
                if op.is_empty(&program.pool) {
                    accesses.clear();
                }
                // All units read sizes.
                let sizes: Vec<_> = op.axes.iter().map(|a| a.1).collect();
                accesses.extend(reads(&sizes));
                let node = self.add(Kind::Operator, operator_name(program, *id), accesses, from);
                self.nodes[node].lanes_meet = op.gathers(program).is_some();
                vec![node]
            }
            Stmt::Let(local, expr) => {
                let name = &program.locals[*local].name;
                let name = format!("let {name}{}", local.index());
                let node = self.add(Kind::Units, name, reads(&[*expr]), from);
                self.nodes[node].assigns = Some(*local);
                vec![node]
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
                let back = self.add(Kind::Return(*id), name("return"), vec![], vec![end]);
                vec![self.add(Kind::Units, name("after"), vec![], vec![back])]
            }
            Stmt::Fork(ids) => {
                let calls = ids.iter().map(|id| &program.calls[*id]);
                let exprs: Vec<_> = calls.flat_map(|c| &c.lets).map(|l| l.1).collect();
                vec![self.fork(program, ids, reads(&exprs), from)]
            }
            Stmt::Loop {
                iteration,
                trip,
                body,
                name,
                ..
            } => {
                let head = self.add(
                    Kind::Units,
                    format!("loop {name}"),
                    reads(trip.as_slice()),
                    from,
                );
                self.nodes[head].assigns = Some(*iteration);
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

    /// Adds the teams' calls between a fork and its join; returns the step after the join.
    fn fork(
        &mut self,
        program: &UProgram,
        ids: &[CallId],
        arguments: Vec<Access>,
        from: Vec<usize>,
    ) -> usize {
        let calls = || ids.iter().map(|id| &program.calls[*id]);
        let names: Vec<_> = calls().map(|c| c.name.as_str()).collect();
        let name = format!("fork of {}", names.join(", "));
        let fork = self.nodes.len();
        self.add(Kind::Fork(fork + 2), name.clone(), arguments, from);
        // The arguments' reads continue at the join.
        let join = self.add(Kind::Join, name.clone(), vec![], vec![fork]);
        let after = self.add(Kind::Units, name, vec![], vec![join]);
        for (id, call) in ids.iter().zip(calls()) {
            let name = format!("call {}", call.name);
            let (begin, end) = self.procedures[&call.procedure];
            let go = self.add(Kind::TeamCall(*id, join), name, vec![], vec![fork]);
            self.nodes[go].next.push(begin);
            let back = self.add(Kind::TeamReturn(*id), "return".into(), vec![], vec![end]);
            self.nodes[back].next.push(join);
        }
        after
    }

    fn add(&mut self, kind: Kind, name: String, accesses: Vec<Access>, from: Vec<usize>) -> usize {
        let id = self.nodes.len();
        self.nodes.push(Node {
            kind,
            name,
            accesses,
            assigns: None,
            next: vec![],
            in_team: false,
            lanes_meet: false,
        });
        from.into_iter().for_each(|n| self.nodes[n].next.push(id));
        id
    }
}

/// Does each point write an element for itself, as is assumed of lowering, at an offset that does not depend on data? Only the unit that
/// computes the point writes the element then.
fn gives_each_point_an_element(program: &UProgram, op: &Operator) -> bool {
    let of_points = matches!(
        op.body,
        Body::Map { .. } | Body::Fold { .. } | Body::ArgFold { .. } | Body::Contract(_)
    );
    of_points && !program.loads(op.body.store().offset)
}
