//! Blocks without needless ends, in the order in which they run.

use super::graph::{Block, Edge, End, Move, Source, Step};
use super::recursion::Recursion;

/// Joins blocks where control only goes on, and puts those that are reached in reverse postorder:
/// what a call does comes before what follows the call, and a loop before what follows it. The
/// first block of the first function comes first.
pub(super) fn ordered(
    recursion: &Recursion,
    mut blocks: Vec<Block>,
    mut entries: Vec<usize>,
) -> (Vec<Block>, Vec<usize>) {
    skip_empty(&mut blocks);
    join(&mut blocks, &entries);
    let mut walk = Walk {
        recursion,
        blocks: &blocks,
        entries: &entries,
        is_seen: vec![false; blocks.len()],
        done: vec![],
    };
    walk.visit(entries[0]);
    let order: Vec<usize> = walk.done.into_iter().rev().collect();
    let mut place = vec![0; blocks.len()];
    for (k, &block) in order.iter().enumerate() {
        place[block] = k;
    }
    let moved = order.iter().map(|&block| {
        let mut block = blocks[block].clone();
        match &mut block.end {
            End::Goto(edge) => edge.to = place[edge.to],
            End::Branch(_, edges) => edges.iter_mut().for_each(|e| e.to = place[e.to]),
            End::Calls(_, next) => *next = place[*next],
            End::Return(_) => {}
        }
        block
    });
    let moved = moved.collect();
    entries.iter_mut().for_each(|entry| *entry = place[*entry]);
    (moved, entries)
}

/// Lets branches go to what follows blocks without instructions.
fn skip_empty(blocks: &mut [Block]) {
    for k in 0..blocks.len() {
        let End::Branch(test, mut edges) = blocks[k].end.clone() else {
            continue;
        };
        for edge in &mut edges {
            while let Some(on) = beyond(blocks, edge) {
                *edge = on;
            }
        }
        blocks[k].end = End::Branch(test, edges);
    }
}

/// The edge that leads to where the block behind an edge goes, if that does nothing else.
fn beyond(blocks: &[Block], edge: &Edge) -> Option<Edge> {
    let block = &blocks[edge.to];
    let End::Goto(on) = &block.end else {
        return None;
    };
    if !block.arrivals.is_empty() || !block.steps.is_empty() {
        return None;
    }
    let source = |from: Source| {
        let moved = |v| edge.moves.iter().find(|(to, _)| *to == v).map(|m| m.1);
        match from {
            // The elements of a scan output are there only behind the edge.
            Source::Value(v) => Some(moved(v).unwrap_or(from)).filter(|from| !from.is_scan()),
            _ => Some(from).filter(|from| from.values().all(|v| moved(v).is_none())),
        }
    };
    let mut moves: Vec<Move> = edge.moves.clone();
    for &(to, from) in &on.moves {
        moves.push((to, source(from)?));
    }
    Some(Edge { to: on.to, moves })
}

/// Puts a block in place of an edge to it if it has no other, or no instructions.
fn join(blocks: &mut [Block], entries: &[usize]) {
    let mut edges = vec![0; blocks.len()];
    entries.iter().for_each(|&entry| edges[entry] += 1);
    for block in blocks.iter() {
        block.end.next().iter().for_each(|&to| edges[to] += 1);
    }
    for k in 0..blocks.len() {
        while let End::Goto(edge) = &blocks[k].end {
            let next = &blocks[edge.to];
            let is_short = edges[edge.to] == 1 || next.steps.is_empty();
            if edge.to == k || !is_short || !next.arrivals.is_empty() {
                break;
            }
            let (moves, next) = (edge.moves.clone(), next.clone());
            if edges[edge.to] > 1 {
                // The block stays, for others.
                next.end.next().iter().for_each(|&to| edges[to] += 1);
            }
            blocks[k].steps.push(Step::Moves(moves));
            blocks[k].steps.extend(next.steps);
            blocks[k].end = next.end;
        }
    }
}

struct Walk<'a> {
    recursion: &'a Recursion<'a>,
    blocks: &'a [Block],
    entries: &'a [usize],
    is_seen: Vec<bool>,
    /// The blocks in postorder.
    done: Vec<usize>,
}

impl Walk<'_> {
    fn visit(&mut self, block: usize) {
        if std::mem::replace(&mut self.is_seen[block], true) {
            return;
        }
        let found = &self.blocks[block];
        for next in found.end.next().into_iter().rev() {
            self.visit(next);
        }
        let function = &self.recursion.functions[found.function];
        for &site in found.end.sites().iter().rev() {
            if let Some(callee) = self.recursion.callee(&function.insts[site].op) {
                self.visit(self.entries[callee]);
            }
        }
        self.done.push(block);
    }
}
