//! Live ranges of buffers.

use std::collections::{BTreeMap, BTreeSet};

use heddle_uprogram::live::Names;
use heddle_uprogram::program::{Buffer, BufferKind, ProcedureId, Stmt, UProgram};

/// A live range: numbers of statements in text order.
#[derive(Clone, Debug)]
pub(super) struct Span {
    /// The innermost block that contains it.
    block: usize,
    /// The first statement.
    pub(super) first: usize,
    /// The last statement, including nested ones.
    pub(super) last: usize,
}

/// Live ranges of buffers, and the program's barriers.
pub(super) struct Spans {
    pub(super) buffers: BTreeMap<Buffer, Span>,
    blocks: Vec<Block>,
}

/// A block of statements.
#[derive(Default)]
struct Block {
    /// The enclosing block, and the statement's range there.
    parent: Option<(usize, Range)>,
    /// True for a loop's body.
    is_loop: bool,
    /// Barriers directly in this block.
    waits: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Range {
    first: usize,
    last: usize,
}

struct Walk<'p> {
    program: &'p UProgram,
    spans: Spans,
    next: usize,
    /// Foreign buffers that a procedure and its callees refer to.
    captured: BTreeMap<ProcedureId, BTreeSet<Buffer>>,
}

impl Spans {
    /// Collects them from a program with synchronisations.
    pub(super) fn of(program: &UProgram) -> Spans {
        let mut walk = Walk {
            program,
            spans: Spans {
                buffers: BTreeMap::new(),
                blocks: vec![],
            },
            next: 0,
            captured: BTreeMap::new(),
        };
        for (id, _) in program.procedures.iter() {
            let mut names = Names::default();
            for inner in program.callees(id).into_iter().chain([id]) {
                names.mention(program, &program.procedures[inner].body);
            }
            walk.captured.insert(id, names.buffers);
        }
        let procedures = program.procedures.iter().map(|(id, p)| (Some(id), &p.body));
        for (owner, body) in procedures.chain([(None, &program.body)]) {
            let block = walk.open(None, false);
            walk.block(body, block, owner);
        }
        walk.spans
    }

    /// True if every path from one live range to the later one, and every back edge between them,
    /// has a barrier.
    pub(super) fn all_wait_between(&self, a: &Span, b: &Span) -> bool {
        let block = self.common(a.block, b.block);
        let (from, to) = (self.lifted(a, block), self.lifted(b, block));
        let waits = &self.blocks[block].waits;
        // In two arms of a branch, only a back edge leads from one to the other.
        let arms = from.last >= to.first;
        if !arms && !waits.iter().any(|&w| from.last < w && w < to.first) {
            return false;
        }
        let mut at = block;
        let mut waited = false;
        loop {
            let data = &self.blocks[at];
            let (from, to) = (self.lifted(a, at), self.lifted(b, at));
            let (first, last) = (from.first.min(to.first), from.last.max(to.last));
            waited |= data.waits.iter().any(|&w| w < first || w > last);
            if data.is_loop {
                return waited;
            }
            match data.parent {
                Some((parent, _)) => at = parent,
                None => return true,
            }
        }
    }

    /// The innermost block that contains both.
    fn common(&self, mut a: usize, mut b: usize) -> usize {
        // Nested blocks have higher numbers.
        while a != b {
            let later = if a > b { &mut a } else { &mut b };
            match self.blocks[*later].parent {
                Some((parent, _)) => *later = parent,
                None => return *later,
            }
        }
        a
    }

    /// A live range in terms of an enclosing block's statements.
    fn lifted(&self, span: &Span, block: usize) -> Range {
        let (mut at, mut range) = (
            span.block,
            Range {
                first: span.first,
                last: span.last,
            },
        );
        while at != block {
            match self.blocks[at].parent {
                Some((parent, outer)) => (at, range) = (parent, outer),
                None => break,
            }
        }
        range
    }
}

impl Walk<'_> {
    fn open(&mut self, parent: Option<(usize, Range)>, is_loop: bool) -> usize {
        self.spans.blocks.push(Block {
            parent,
            is_loop,
            waits: vec![],
        });
        self.spans.blocks.len() - 1
    }

    fn block(&mut self, stmts: &[Stmt], block: usize, owner: Option<ProcedureId>) {
        for stmt in stmts {
            let first = self.next;
            self.next += 1;
            let mut names = Names::default();
            names.used_by(self.program, stmt);
            for id in stmt.calls() {
                let callee = self.program.calls[*id].procedure;
                names.buffers.extend(&self.captured[&callee]);
            }
            // Nested statements have numbers between the first and the last.
            let last = first + count(std::slice::from_ref(stmt)) - 1;
            let range = Range { first, last };
            let is_loop = matches!(stmt, Stmt::Loop { .. });
            for body in stmt.blocks().into_iter().filter(|b| !b.is_empty()) {
                let inside = self.open(Some((block, range)), is_loop);
                self.block(body, inside, owner);
            }
            match stmt {
                Stmt::Sync(sync) if sync.is_of_all() => self.spans.blocks[block].waits.push(first),
                // Live throughout the loop.
                Stmt::Swap(..) => {
                    let around = self.loop_of(block);
                    let (block, range) = around.unwrap_or((block, range));
                    self.mention(&names, block, range, owner);
                    continue;
                }
                _ => {}
            }
            self.mention(&names, block, Range { first, last: first }, owner);
        }
    }

    /// The innermost enclosing loop, as a statement of its parent block.
    fn loop_of(&self, mut block: usize) -> Option<(usize, Range)> {
        loop {
            let data = &self.spans.blocks[block];
            let parent = data.parent?;
            if data.is_loop {
                return Some(parent);
            }
            block = parent.0;
        }
    }

    fn mention(&mut self, names: &Names, block: usize, range: Range, owner: Option<ProcedureId>) {
        let here = Span {
            block,
            first: range.first,
            last: range.last,
        };
        for &buffer in &names.buffers {
            let own = self.program.buffers[buffer].procedure == owner;
            if !own || !is_planned(self.program, buffer) {
                continue;
            }
            let span = match self.spans.buffers.get(&buffer) {
                None => here.clone(),
                Some(known) => {
                    let block = self.spans.common(known.block, block);
                    let a = self.spans.lifted(known, block);
                    let b = self.spans.lifted(&here, block);
                    Span {
                        block,
                        first: a.first.min(b.first),
                        last: a.last.max(b.last),
                    }
                }
            };
            self.spans.buffers.insert(buffer, span);
        }
    }
}

/// The number of statements, nested ones included.
fn count(stmts: &[Stmt]) -> usize {
    let inner = |stmt: &Stmt| stmt.blocks().map(count).iter().sum::<usize>();
    stmts.iter().map(|s| 1 + inner(s)).sum()
}

/// True for memory that can be planned.
fn is_planned(program: &UProgram, buffer: Buffer) -> bool {
    matches!(program.buffers[buffer].kind, BufferKind::Scratch)
}
