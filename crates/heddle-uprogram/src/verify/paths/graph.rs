//! The program as steps with their successors, and what each step touches.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::Entity;

use crate::expr::ExprId;
use crate::program::{Buffer, BufferKind, CallId, ProcedureId, Stmt, Sync, UProgram};
use crate::verify::frames::Frames;
use crate::verify::owner::Owner;
use crate::verify::{forks, operator_name};

/// The program as steps with their successors.
#[derive(Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Where each procedure begins and ends.
    procedures: BTreeMap<ProcedureId, (usize, usize)>,
    /// Procedures that may be run by a team beside others.
    teams: BTreeSet<ProcedureId>,
    pub(super) frames: Frames,
}

/// A step of the program.
pub(super) struct Node {
    pub(super) kind: Kind,
    /// What it is, for messages.
    pub(super) name: String,
    pub(super) accesses: Vec<Access>,
    pub(super) next: Vec<usize>,
    /// Whether a team may be here beside others.
    pub(super) in_team: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
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

pub(super) struct Access {
    pub(super) buffer: Buffer,
    pub(super) owner: Owner,
    pub(super) write: bool,
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
