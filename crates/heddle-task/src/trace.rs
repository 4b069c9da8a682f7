//! Makes the program that a tracer would: the decisions of one run are recorded, and replayed without control flow.
//!
//! This is the bound that control flow is measured against (Cocktailer §5.2 compares with a traced program, too). The operators
//! are the scheduled program's own, each as often as the run executed it; what is gone is loops, branches and whatever
//! only they need. Values stay computed: a traced program is right for other inputs that decide alike.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::{Arena, DType};

use crate::expr::{Expr, ExprId};
use crate::live::{Names, kept_over_calls};
use crate::program::{
    Body, Buffer, BufferData, BufferKind, CallId, Local, LocalData, LocalKind, Operator,
    OperatorId, Port, Share, Stmt, Store, UProgram,
};
use crate::renamed::BufferNames;

/// More decisions than a trace is made of: its text would be too much for any compiler.
const MOST_DECISIONS: i64 = 1 << 20;

/// Calls that a trace may nest.
const MOST_NESTED: usize = 1024;

/// Why a program could not be traced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The run is too long.
    #[error("the run makes {0} decisions, and a trace holds {MOST_DECISIONS} at most")]
    TooLong(i64),
    /// The record is another program's.
    #[error("the record of decisions does not fit the program")]
    Mismatch,
    /// The run recurs too deep.
    #[error(
        "the run nests more than {MOST_NESTED} calls, and a trace has memory of its own for each"
    )]
    TooDeep,
}

/// Adds two outputs to a program, after its own: the decisions of a run in order, a byte each, and how many there were. A loop
/// decides 1 before each iteration and 0 at its end, a branch 1 if its condition holds.
///
/// Synchronisations are dropped, to be placed anew.
pub fn record_decisions(program: &mut UProgram) {
    let one = program.pool.int(1);
    let room = program.pool.int(MOST_DECISIONS);
    let mut output = |name: &str, dtype, len| {
        let data = BufferData {
            dtype,
            len,
            kind: BufferKind::Output,
            procedure: None,
            name: name.into(),
        };
        let buffer = program.buffers.push(data);
        program.outputs.push(Port {
            name: name.into(),
            buffer,
            shape: vec![len],
        });
        buffer
    };
    let decisions = output("decisions", DType::U8, room);
    let decided = output("decided", DType::I64, one);
    let mut recorder = Recorder {
        decisions,
        decided,
        program,
    };
    let procedures: Vec<_> = recorder.program.procedures.keys().collect();
    for id in procedures {
        let body = std::mem::take(&mut recorder.program.procedures[id].body);
        recorder.program.procedures[id].body = recorder.block(body);
    }
    let body = std::mem::take(&mut recorder.program.body);
    let zero = recorder.program.pool.int(0);
    let mut out = vec![recorder.store(decided, zero, zero)];
    out.extend(recorder.block(body));
    program.body = out;
}

struct Recorder<'p> {
    program: &'p mut UProgram,
    decisions: Buffer,
    decided: Buffer,
}

impl Recorder<'_> {
    fn block(&mut self, stmts: Vec<Stmt>) -> Vec<Stmt> {
        let mut out = vec![];
        for stmt in stmts {
            match stmt {
                Stmt::Loop {
                    iteration,
                    trip,
                    cond,
                    body,
                    name,
                } => {
                    let body = self.decided(true, body);
                    out.push(Stmt::Loop {
                        iteration,
                        trip,
                        cond,
                        body,
                        name,
                    });
                    out.extend(self.decided(false, vec![]));
                }
                Stmt::If {
                    cond,
                    then,
                    otherwise,
                } => out.push(Stmt::If {
                    cond,
                    then: self.decided(true, then),
                    otherwise: self.decided(false, otherwise),
                }),
                Stmt::Sync(_) => {}
                stmt => out.push(stmt),
            }
        }
        out
    }

    /// A block that notes this decision first.
    fn decided(&mut self, decision: bool, stmts: Vec<Stmt>) -> Vec<Stmt> {
        let pool = &mut self.program.pool;
        let (zero, one, last) = (pool.int(0), pool.int(1), pool.int(MOST_DECISIONS - 1));
        let count = pool.add(Expr::Load(self.decided, zero));
        let place = pool.binary(heddle_ir::op::BinaryOp::Min, DType::I64, count, last);
        let value = pool.add(Expr::Num(DType::U8, decision as u64));
        let next = pool.sum(count, one);
        let mut out = vec![
            self.store(self.decisions, place, value),
            self.store(self.decided, zero, next),
        ];
        out.extend(self.block(stmts));
        out
    }

    /// One unit writes one element.
    fn store(&mut self, buffer: Buffer, offset: ExprId, value: ExprId) -> Stmt {
        let store = Store { buffer, offset };
        Stmt::Run(self.program.operators.push(Operator {
            axes: vec![],
            share: Share::One(0),
            body: Body::Map { store, value },
            name: "decision".into(),
        }))
    }
}

/// The program without control flow that does what it did when it decided like this: the elements of the first of the
/// outputs that [`record_decisions`] adds, as many as the second says. Synchronisations are to be placed.
pub fn replay(program: &UProgram, decisions: &[u8], count: i64) -> Result<UProgram, TraceError> {
    if count > MOST_DECISIONS {
        return Err(TraceError::TooLong(count));
    }
    let decisions = usize::try_from(count).ok().and_then(|n| decisions.get(..n));
    let mut traced = program.clone();
    let mut replay = Replay {
        program: &mut traced,
        decisions: decisions.ok_or(TraceError::Mismatch)?.iter(),
        out: vec![],
        kept: kept_over_calls(program),
        names: BufferNames::new(),
        depth: 0,
        frames: BTreeMap::new(),
        copies: BTreeMap::new(),
    };
    replay.block(&program.body)?;
    if replay.decisions.next().is_some() {
        return Err(TraceError::Mismatch);
    }
    let body = std::mem::take(&mut replay.out);
    traced.body = needed(&traced, body);
    traced.procedures = Arena::default();
    traced.calls = Arena::default();
    Ok(traced)
}

struct Replay<'p, 'd> {
    program: &'p mut UProgram,
    decisions: std::slice::Iter<'d, u8>,
    out: Vec<Stmt>,
    /// What callers look at after a call that may change it.
    kept: BTreeMap<CallId, Names>,
    /// What names of buffers mean in the activation at hand.
    names: BufferNames,
    /// How many calls it is in.
    depth: usize,
    /// The buffers of frames at each depth.
    frames: BTreeMap<(usize, Buffer), Buffer>,
    /// Copies of operators, by what names meant.
    copies: BTreeMap<(OperatorId, BufferNames), OperatorId>,
}

impl Replay<'_, '_> {
    fn block(&mut self, stmts: &[Stmt]) -> Result<(), TraceError> {
        for stmt in stmts {
            match stmt {
                Stmt::Loop {
                    iteration, body, ..
                } => {
                    let mut i = 0;
                    while self.next()? {
                        let value = self.program.pool.int(i);
                        self.out.push(Stmt::Let(*iteration, value));
                        self.block(body)?;
                        i += 1;
                    }
                }
                Stmt::If {
                    then, otherwise, ..
                } => match self.next()? {
                    true => self.block(then)?,
                    false => self.block(otherwise)?,
                },
                Stmt::Sync(_) => {}
                Stmt::Call(id) => self.call(*id)?,
                Stmt::Run(id) if self.depth > 0 => {
                    let copy = self.copy(*id);
                    self.out.push(Stmt::Run(copy));
                }
                Stmt::Let(local, expr) => {
                    let value = self.program.pool.renamed(*expr, &self.names);
                    self.out.push(Stmt::Let(*local, value));
                }
                Stmt::Check { cond, sizes, name } => {
                    let [cond, a, b] = [*cond, sizes[0], sizes[1]]
                        .map(|e| self.program.pool.renamed(e, &self.names));
                    self.out.push(Stmt::Check {
                        cond,
                        sizes: [a, b],
                        name: name.clone(),
                    });
                }
                // In a copy names already say which memory they mean.
                Stmt::Swap(a, b) if self.depth > 0 => {
                    let (to_a, to_b) = (self.meant(*b), self.meant(*a));
                    self.names.extend([(*a, to_a), (*b, to_b)]);
                }
                stmt => self.out.push(stmt.clone()),
            }
        }
        Ok(())
    }

    /// An activation of a procedure.
    fn call(&mut self, id: CallId) -> Result<(), TraceError> {
        if self.depth == MOST_NESTED {
            return Err(TraceError::TooDeep);
        }
        let call = self.program.calls[id].clone();
        let body = self.program.procedures[call.procedure].body.clone();
        let kept = self.kept.get(&id).cloned().unwrap_or_default().locals;
        let kept: Vec<_> = kept.into_iter().map(|l| (l, self.held(l))).collect();
        // All arguments are evaluated before any parameter is set.
        let args = call.lets.iter().map(|&(local, expr)| {
            let value = self.program.pool.renamed(expr, &self.names);
            let copy = self.variable(local);
            self.out.push(Stmt::Let(copy, value));
            (local, copy)
        });
        let args: Vec<_> = args.collect();
        self.set(&args);

        let mut names = self.names.clone();
        let frame: Vec<_> = self.program.frame(call.procedure).collect();
        for buffer in frame {
            let own = self.own(buffer);
            names.insert(buffer, own);
        }
        let params = call.buffers.iter();
        names.extend(params.map(|&(param, arg)| (param, self.meant(arg))));
        let before = std::mem::replace(&mut self.names, names);
        self.depth += 1;
        self.block(&body)?;
        self.depth -= 1;
        self.names = before;
        self.set(&kept);
        Ok(())
    }

    /// Sets variables to what others hold.
    fn set(&mut self, pairs: &[(Local, Local)]) {
        for &(local, from) in pairs {
            let value = self.program.pool.local(from);
            self.out.push(Stmt::Let(local, value));
        }
    }

    /// A new variable that holds what this one does now.
    fn held(&mut self, local: Local) -> Local {
        let copy = self.variable(local);
        self.set(&[(copy, local)]);
        copy
    }

    /// A new variable of another's type.
    fn variable(&mut self, like: Local) -> Local {
        let data = LocalData {
            kind: LocalKind::Variable,
            ..self.program.locals[like].clone()
        };
        self.program.locals.push(data)
    }

    fn meant(&self, buffer: Buffer) -> Buffer {
        self.names.get(&buffer).copied().unwrap_or(buffer)
    }

    /// A buffer of a frame at the depth of the activation that begins: one activation after the other has it.
    fn own(&mut self, buffer: Buffer) -> Buffer {
        let program = &mut *self.program;
        let frame = self.frames.entry((self.depth, buffer));
        *frame.or_insert_with(|| {
            let data = BufferData {
                procedure: None,
                ..program.buffers[buffer].clone()
            };
            program.buffers.push(data)
        })
    }

    /// The operator as the activation at hand runs it.
    fn copy(&mut self, id: OperatorId) -> OperatorId {
        let program = &mut *self.program;
        let copy = self.copies.entry((id, self.names.clone()));
        *copy.or_insert_with(|| {
            let op = program.operators[id].clone();
            let op = program.renamed(&op, &self.names);
            program.operators.push(op)
        })
    }

    fn next(&mut self) -> Result<bool, TraceError> {
        self.decisions
            .next()
            .map(|d| *d != 0)
            .ok_or(TraceError::Mismatch)
    }
}

/// The statements of a straight line that the outputs depend on.
fn needed(program: &UProgram, stmts: Vec<Stmt>) -> Vec<Stmt> {
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

/// What is read after a place.
struct Live<'p> {
    program: &'p UProgram,
    buffers: BTreeSet<Buffer>,
    locals: BTreeSet<Local>,
}

impl Live<'_> {
    /// Whether a statement does something that is needed after it; then what it reads is needed before it.
    fn keep(&mut self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::Run(id) => {
                let op = &self.program.operators[*id];
                let needed = self.buffers.contains(&op.body.store().buffer);
                if needed {
                    let sizes = op.axes.iter().map(|a| a.1);
                    let reads = op.body.exprs().into_iter().chain(sizes);
                    reads.for_each(|expr| self.read(expr));
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
