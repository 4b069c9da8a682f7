//! Coalesces the result of a branch with the array that one of its arms passes on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::coalesce_copies::copied;
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::live::Names;
use heddle_uprogram::program::{Body, Buffer, BufferKind, OperatorId, Stmt, UProgram};

/// Removes copies `to = from` that one arm of a branch makes, so that the other arm updates the array in place: a residual block that is
/// skipped then costs nothing. Both become one buffer if
///
/// - nothing reads `from` after the branch, and nothing touches `to` before it; or a loop's body swaps both behind the branch, and the
///   swap goes too;
/// - the other arm touches `from` no more once it has begun to write `to`, but for the operator that writes first, which may read each
///   element at the place where it stores its result.
///
/// A buffer that only a loop's body touches holds nothing from one iteration to the next, as in [`plan_memory`](crate::plan_memory()).
/// Buffers that procedures touch, inputs and outputs stay as they are.
pub fn coalesce_arms(program: &mut UProgram) {
    let mut body = std::mem::take(&mut program.body);
    let mut next = 0;
    let nodes = numbered(&body, &mut next);
    let mut arms = Arms {
        program,
        foreign: foreign(program),
        runs: BTreeMap::new(),
        places: BTreeMap::new(),
        names: BTreeMap::new(),
        copies: BTreeSet::new(),
    };
    arms.collect(&nodes);
    arms.block(&nodes, &mut vec![]);
    let Arms {
        names, mut copies, ..
    } = arms;
    if copies.is_empty() {
        program.body = body;
        return;
    }
    drop(nodes);
    // The other arm may copy the array before it changes some elements.
    let name = |buffer: Buffer| names.get(&buffer).copied().unwrap_or(buffer);
    let is_idle =
        |id: &OperatorId| copied(program, *id).is_some_and(|(to, from, _)| name(to) == name(from));
    copies.extend(program.operators.keys().filter(is_idle));
    remove(&mut body, &copies, &names);
    program.body = body;
    program.rename_buffers(&names);
    for old in names.keys() {
        // The buffer is unused now.
        program.buffers[*old].len = program.pool.int(0);
    }
    program.drop_idle_operators();
}

/// A statement, its number and those of the nested ones in text order, and its blocks.
struct Node<'b> {
    stmt: &'b Stmt,
    range: Range<usize>,
    blocks: [Vec<Node<'b>>; 2],
}

fn numbered<'b>(block: &'b [Stmt], next: &mut usize) -> Vec<Node<'b>> {
    let mut nodes = vec![];
    for stmt in block {
        let first = *next;
        *next += 1;
        let blocks = stmt.blocks().map(|inner| numbered(inner, next));
        nodes.push(Node {
            stmt,
            range: first..*next,
            blocks,
        });
    }
    nodes
}

/// The numbers of statements that follow each other.
fn range(nodes: &[Node<'_>]) -> Range<usize> {
    match (nodes.first(), nodes.last()) {
        (Some(first), Some(last)) => first.range.start..last.range.end,
        _ => 0..0,
    }
}

/// Buffers that procedures touch, inputs and outputs.
fn foreign(program: &UProgram) -> BTreeSet<Buffer> {
    let ports = program.inputs.iter().chain(&program.outputs);
    let mut names = Names::default();
    names.buffers.extend(ports.map(|port| port.buffer));
    for (_, procedure) in program.procedures.iter() {
        names.mention(program, &procedure.body);
    }
    names.buffers
}

/// A block around a statement of it, and the place of that statement.
type Around<'n, 'b> = (&'n [Node<'b>], usize);

struct Arms<'p> {
    program: &'p UProgram,
    foreign: BTreeSet<Buffer>,
    /// The number of statements that run an operator.
    runs: BTreeMap<OperatorId, usize>,
    /// The numbers of the statements that touch a buffer, sorted.
    places: BTreeMap<Buffer, Vec<usize>>,
    /// New names of buffers.
    names: BTreeMap<Buffer, Buffer>,
    /// Copies that go.
    copies: BTreeSet<OperatorId>,
}

impl Arms<'_> {
    fn collect(&mut self, nodes: &[Node<'_>]) {
        for node in nodes {
            let mut names = Names::default();
            names.used_by(self.program, node.stmt);
            for buffer in names.buffers {
                let places = self.places.entry(buffer).or_default();
                places.push(node.range.start);
            }
            if let Stmt::Run(id) = node.stmt {
                *self.runs.entry(*id).or_default() += 1;
            }
            node.blocks.iter().for_each(|inner| self.collect(inner));
        }
    }

    fn name(&self, buffer: Buffer) -> Buffer {
        self.names.get(&buffer).copied().unwrap_or(buffer)
    }

    /// The number of statements in a range that touch a buffer.
    fn touches(&self, buffer: Buffer, range: Range<usize>) -> usize {
        let places = self.places.get(&buffer).map_or(&[][..], |places| places);
        let until = |end: usize| places.partition_point(|place| *place < end);
        until(range.end).saturating_sub(until(range.start))
    }

    /// Inner branches first, since an outer one may pass on what they give.
    fn block<'n, 'b>(&mut self, nodes: &'n [Node<'b>], around: &mut Vec<Around<'n, 'b>>) {
        for (i, node) in nodes.iter().enumerate() {
            around.push((nodes, i));
            node.blocks
                .iter()
                .for_each(|inner| self.block(inner, around));
            if matches!(node.stmt, Stmt::If { .. }) {
                let [then, otherwise] = &node.blocks;
                self.arm((then, otherwise), around);
                self.arm((otherwise, then), around);
            }
            around.pop();
        }
    }

    /// Finds the copies of an arm that can go.
    fn arm(&mut self, (arm, other): (&[Node<'_>], &[Node<'_>]), around: &[Around<'_, '_>]) {
        for (k, node) in arm.iter().enumerate() {
            let Stmt::Run(id) = node.stmt else {
                continue;
            };
            let Some(both) = copied(self.program, *id) else {
                continue;
            };
            let (to, from) = (self.name(both.0), self.name(both.1));
            if to == from
                || self.runs[id] > 1
                || ![to, from].iter().all(|buffer| self.is_own(*buffer))
                || self.touches(to, range(arm)) > 1
                || self.touches(from, range(&arm[k + 1..])) > 0
                || !self.updates(other, (to, from))
            {
                continue;
            }
            let swap = self.swap(around, (to, from));
            if swap.is_some() || self.takes_turns(around, (to, from)) {
                let gone = [Some(node.range.start), swap];
                let mut places = self.places.remove(&from).unwrap_or_default();
                places.extend(self.places.remove(&to).unwrap_or_default());
                places.retain(|place| !gone.contains(&Some(*place)));
                places.sort_unstable();
                places.dedup();
                self.places.insert(from, places);
                let names = self.names.values_mut().filter(|name| **name == to);
                names.for_each(|name| *name = from);
                self.names.insert(to, from);
                self.copies.insert(*id);
            }
        }
    }

    fn is_own(&self, buffer: Buffer) -> bool {
        let data = &self.program.buffers[buffer];
        matches!(data.kind, BufferKind::Scratch)
            && data.procedure.is_none()
            && !self.foreign.contains(&buffer)
    }

    /// True if an arm can write the result over the array.
    fn updates(&self, arm: &[Node<'_>], (to, from): (Buffer, Buffer)) -> bool {
        let is_writer = |node: &Node<'_>| self.touches(to, node.range.clone()) > 0;
        let Some(first) = arm.iter().position(is_writer) else {
            return true;
        };
        let node = &arm[first];
        let in_place = match node.stmt {
            Stmt::Run(id) => self.reads_in_place(*id, from),
            _ => self.touches(from, node.range.clone()) == 0,
        };
        in_place && self.touches(from, range(&arm[first + 1..])) == 0
    }

    /// True if an operator reads no element of a buffer other than at the place where it stores its result.
    fn reads_in_place(&self, id: OperatorId, buffer: Buffer) -> bool {
        let (program, op) = (self.program, &self.program.operators[id]);
        let (mut elsewhere, results) = match &op.body {
            Body::Map { value, .. } => (vec![], vec![*value]),
            Body::Contract(c) => (vec![c.a.value, c.b.value], vec![c.finish]),
            body => (body.exprs().to_vec(), vec![]),
        };
        elsewhere.extend(op.axes.iter().map(|axis| axis.1).chain(op.grow));
        let at = op.body.store().offset;
        let loads = |exprs: Vec<ExprId>| program.pool.loads(exprs).into_iter();
        loads(elsewhere).all(|load| self.name(load.0) != buffer)
            && loads(results).all(|load| self.name(load.0) != buffer || load.1 == at)
    }

    /// True if nothing touches the result before the branch, nor the array after it.
    fn takes_turns(&self, around: &[Around<'_, '_>], (to, from): (Buffer, Buffer)) -> bool {
        let is_swapped = |stmt: &Stmt| matches!(stmt, Stmt::Swap(a, b) if [*a, *b].iter().any(|x| [to, from].contains(&self.name(*x))));
        let in_range = |range: Range<usize>| [to, from].map(|x| self.touches(x, range.clone()));
        let all = in_range(0..usize::MAX);
        for (depth, (block, i)) in around.iter().enumerate().rev() {
            let own = in_range(range(block));
            if self.touches(to, range(&block[..*i])) > 0
                || self.touches(from, range(&block[i + 1..])) > 0
                || block.iter().any(|node| is_swapped(node.stmt))
            {
                return false;
            }
            if own == all {
                return true;
            }
            let Some((block, i)) = depth.checked_sub(1).map(|depth| around[depth]) else {
                return false;
            };
            // The other arm runs in the place of this one.
            let both = in_range(block[i].range.clone());
            if !matches!(block[i].stmt, Stmt::If { .. }) || (0..2).all(|k| both[k] > own[k]) {
                return false;
            }
        }
        false
    }

    /// The number of the swap by which the result becomes the array of the next iteration, if nothing else touches either behind the
    /// branch, nor the result before it.
    fn swap(&self, around: &[Around<'_, '_>], (to, from): (Buffer, Buffer)) -> Option<usize> {
        let (block, i) = *around.last()?;
        let (outer, k) = *around.get(around.len().checked_sub(2)?)?;
        let is_swap = |node: &&Node<'_>| matches!(node.stmt, Stmt::Swap(a, b) if [[to, from], [from, to]].contains(&[self.name(*a), self.name(*b)]));
        let after = &block[i + 1..];
        let swap = after.iter().find(is_swap)?;
        let fits = matches!(outer[k].stmt, Stmt::Loop { .. })
            && self.touches(to, range(&block[..i])) == 0
            && [to, from]
                .iter()
                .all(|buffer| self.touches(*buffer, range(after)) == 1)
            && self.touches(to, range(block)) == self.touches(to, 0..usize::MAX);
        fits.then_some(swap.range.start)
    }
}

/// Removes copies, and swaps of buffers that are one.
fn remove(block: &mut Vec<Stmt>, copies: &BTreeSet<OperatorId>, names: &BTreeMap<Buffer, Buffer>) {
    let name = |buffer: &Buffer| *names.get(buffer).unwrap_or(buffer);
    block.retain(|stmt| match stmt {
        Stmt::Run(id) => !copies.contains(id),
        Stmt::Swap(a, b) => name(a) != name(b),
        _ => true,
    });
    for stmt in block {
        let blocks = stmt.blocks_mut();
        blocks.for_each(|inner| remove(inner, copies, names));
    }
}
