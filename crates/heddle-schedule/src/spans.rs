//! From where to where in the program a buffer's contents are needed.

use std::collections::{BTreeMap, BTreeSet};

use super::plan_memory::is_planned;
use heddle_uprogram::live::Names;
use heddle_uprogram::program::{Buffer, ProcedureId, Stmt, Sync, UProgram};

/// A part of the program, by the numbers of its statements in the order of the text.
#[derive(Clone, Debug)]
pub(super) struct Span {
    /// The innermost block that has all of it.
    block: usize,
    /// The first statement.
    pub(super) first: usize,
    /// The last one, with all that is in it.
    pub(super) last: usize,
}

/// Where buffers are needed, and where all units wait for all.
pub(super) struct Spans {
    pub(super) buffers: BTreeMap<Buffer, Span>,
    blocks: Vec<Block>,
}

/// A block of statements.
#[derive(Default)]
struct Block {
    /// The block around it, and the statement there.
    parent: Option<(usize, Range)>,
    /// Whether it is repeated.
    is_loop: bool,
    /// Statements of this very block at which all units wait for all.
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
    /// What a procedure and those that it calls mention that is not theirs.
    captured: BTreeMap<ProcedureId, BTreeSet<Buffer>>,
}

impl Spans {
    /// Of a program with its synchronisations.
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

    /// Whether all units wait for all on every way from one span to the other, which comes later in the text, and on every
    /// way back around a loop.
    pub(super) fn all_wait_between(&self, a: &Span, b: &Span) -> bool {
        let block = self.common(a.block, b.block);
        let (from, to) = (self.lifted(a, block), self.lifted(b, block));
        let waits = &self.blocks[block].waits;
        // Two arms of a branch: no way leads from one to the other but around a loop.
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

    /// The innermost block around both.
    fn common(&self, mut a: usize, mut b: usize) -> usize {
        // A block has a higher number than those around it.
        while a != b {
            let later = if a > b { &mut a } else { &mut b };
            match self.blocks[*later].parent {
                Some((parent, _)) => *later = parent,
                None => return *later,
            }
        }
        a
    }

    /// The statements of a block that a span lies in.
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
            // What is in the statement lies between its first and its last number.
            let inner: Vec<(&[Stmt], bool)> = match stmt {
                Stmt::Loop { body, .. } => vec![(body, true)],
                Stmt::If {
                    then, otherwise, ..
                } => vec![(then, false), (otherwise, false)],
                _ => vec![],
            };
            let last = first + inner.iter().map(|(b, _)| count(b)).sum::<usize>();
            let range = Range { first, last };
            for (body, is_loop) in inner {
                let inside = self.open(Some((block, range)), is_loop);
                self.block(body, inside, owner);
            }
            match stmt {
                Stmt::Sync(Sync::ALL) => self.spans.blocks[block].waits.push(first),
                // Around the whole loop.
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

    /// The innermost loop around a block, as a statement of the block around it.
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

/// How many statements there are.
fn count(stmts: &[Stmt]) -> usize {
    let inner = |stmt: &Stmt| match stmt {
        Stmt::Loop { body, .. } => count(body),
        Stmt::If {
            then, otherwise, ..
        } => count(then) + count(otherwise),
        _ => 0,
    };
    stmts.iter().map(|s| 1 + inner(s)).sum()
}
