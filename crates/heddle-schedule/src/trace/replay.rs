//! Replays recorded decisions without control flow.

use std::collections::BTreeMap;

use heddle_ir::Arena;

use super::needed::needed;
use super::{MOST_DECISIONS, MOST_NESTED, TraceError};
use heddle_uprogram::live::{Names, kept_over_calls};
use heddle_uprogram::program::{
    Buffer, BufferData, CallId, Local, LocalData, LocalKind, OperatorId, Stmt, UProgram,
};
use heddle_uprogram::renamed::BufferNames;

/// The program without control flow for these decisions: the first of the outputs that
/// [`record_decisions`](super::record_decisions) adds, cut to the length in the second.
/// Synchronisations must be placed again.
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
    /// Values live across each call that it may change.
    kept: BTreeMap<CallId, Names>,
    /// Meaning of buffer names in the current activation.
    names: BufferNames,
    /// Current call depth.
    depth: usize,
    /// Frame buffers at each depth.
    frames: BTreeMap<(usize, Buffer), Buffer>,
    /// Copies of operators, by the meaning of names.
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
                Stmt::Call(_) | Stmt::Fork(_) => {
                    for id in stmt.calls() {
                        self.call(*id)?;
                    }
                }
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
                // Copies refer to memory, not to names.
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
        let frame: Vec<_> = self.program.memory(call.procedure).collect();
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

    /// Assigns variables from others.
    fn set(&mut self, pairs: &[(Local, Local)]) {
        for &(local, from) in pairs {
            let value = self.program.pool.local(from);
            self.out.push(Stmt::Let(local, value));
        }
    }

    /// A new variable with this one's current value.
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

    /// A frame buffer at the depth of the new activation; successive activations share it.
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

    /// The copy of the operator for the current activation.
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
