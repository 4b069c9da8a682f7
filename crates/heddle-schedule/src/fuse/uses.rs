//! Readers and writers of buffers.

use std::collections::{BTreeSet, HashMap, HashSet};

use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Buffer, BufferKind, OperatorId, Stmt, UProgram};

/// Readers and writers of buffers in the whole program.
#[derive(Debug, Default)]
pub struct Uses {
    readers: HashMap<Buffer, BTreeSet<OperatorId>>,
    writers: HashMap<Buffer, BTreeSet<OperatorId>>,
    /// Buffers that statements refer to directly: read by all units, swapped, or passed.
    named: HashSet<Buffer>,
    /// Those of them that more than swaps refers to, and the pairs that are swapped.
    passed: HashSet<Buffer>,
    swaps: Vec<[Buffer; 2]>,
}

impl Uses {
    /// Collects the uses of a program.
    pub fn of(program: &UProgram) -> Uses {
        let mut uses = Uses::default();
        program.for_each_stmt(&mut |stmt| uses.stmt(program, stmt));
        uses
    }

    /// The only writer of a scratch buffer that no statement refers to.
    pub fn sole_writer(&self, program: &UProgram, buffer: Buffer) -> Option<OperatorId> {
        let kind = &program.buffers[buffer].kind;
        let is_port = || program.outputs.iter().any(|p| p.buffer == buffer);
        let scratch = match kind {
            BufferKind::Segment => !is_port(),
            kind => matches!(kind, BufferKind::Scratch),
        };
        let writers = self.writers.get(&buffer)?;
        let sole = writers.first().copied().filter(|_| writers.len() == 1);
        sole.filter(|_| scratch && !self.named.contains(&buffer))
    }

    /// The operators that read a buffer.
    pub fn readers(&self, buffer: Buffer) -> Vec<OperatorId> {
        let readers = self.readers.get(&buffer).into_iter().flatten();
        readers.copied().collect()
    }

    /// The operators that write a buffer.
    pub fn writers(&self, buffer: Buffer) -> Vec<OperatorId> {
        let writers = self.writers.get(&buffer).into_iter().flatten();
        writers.copied().collect()
    }

    /// This buffer and all that swaps exchange it with, so that they lie alike; `None` if other statements refer to one of them.
    pub fn swapped_with(&self, buffer: Buffer) -> Option<BTreeSet<Buffer>> {
        let (mut all, mut open) = (BTreeSet::from([buffer]), vec![buffer]);
        while let Some(buffer) = open.pop() {
            let own = self.swaps.iter().filter(|pair| pair.contains(&buffer));
            for other in own.flatten() {
                if all.insert(*other) {
                    open.push(*other);
                }
            }
        }
        let is_passed = |buffer| self.passed.contains(buffer);
        (!all.iter().any(is_passed)).then_some(all)
    }

    /// Adds the uses of an operator.
    pub fn add(&mut self, program: &UProgram, id: OperatorId) {
        for buffer in read_by(program, id) {
            self.readers.entry(buffer).or_default().insert(id);
        }
        let store = program.operators[id].body.store().buffer;
        self.writers.entry(store).or_default().insert(id);
    }

    /// Removes the uses of an operator, before it changes or goes.
    pub fn remove(&mut self, program: &UProgram, id: OperatorId) {
        for buffer in read_by(program, id) {
            self.readers.entry(buffer).or_default().remove(&id);
        }
        let store = program.operators[id].body.store().buffer;
        self.writers.entry(store).or_default().remove(&id);
    }

    fn stmt(&mut self, program: &UProgram, stmt: &Stmt) {
        match stmt {
            Stmt::Run(id) => self.add(program, *id),
            Stmt::Let(_, expr) | Stmt::If { cond: expr, .. } => self.name(program, *expr),
            Stmt::Check { cond, sizes, .. } => {
                let exprs = [*cond, sizes[0], sizes[1]];
                exprs.into_iter().for_each(|e| self.name(program, e));
            }
            Stmt::Swap(a, b) => {
                self.named.extend([*a, *b]);
                self.swaps.push([*a, *b]);
            }
            Stmt::Loop { trip, .. } => trip.iter().for_each(|&t| self.name(program, t)),
            Stmt::Call(_) | Stmt::Fork(_) => {
                for id in stmt.calls() {
                    let call = &program.calls[*id];
                    call.lets.iter().for_each(|l| self.name(program, l.1));
                    let buffers = call.buffers.iter().flat_map(|b| [b.0, b.1]);
                    self.passed.extend(buffers.clone());
                    self.named.extend(buffers);
                }
            }
            Stmt::Sync(_) => {}
        }
    }

    fn name(&mut self, program: &UProgram, expr: ExprId) {
        let read = loads(program, [expr]);
        self.passed.extend(&read);
        self.named.extend(read);
    }
}

fn read_by(program: &UProgram, id: OperatorId) -> HashSet<Buffer> {
    loads(program, program.operators[id].exprs())
}

/// The buffers that expressions load from.
pub fn loads(program: &UProgram, exprs: impl IntoIterator<Item = ExprId>) -> HashSet<Buffer> {
    let loads = program.pool.loads(exprs).into_iter();
    loads.map(|(buffer, _)| buffer).collect()
}

/// True if the expressions read no element of the buffer other than that at this offset.
pub fn only_loads(program: &UProgram, exprs: &[ExprId], buffer: Buffer, at: ExprId) -> bool {
    let mut loads = program.pool.loads(exprs.iter().copied()).into_iter();
    loads.all(|(b, offset)| b != buffer || offset == at)
}

/// The operator that a statement runs.
pub fn ran(stmt: &Stmt) -> Option<OperatorId> {
    match stmt {
        Stmt::Run(id) => Some(*id),
        _ => None,
    }
}
