//! Functions are cut into blocks at their calls of each other.

use std::collections::HashSet;

use heddle_ir::{Entity, Function, Inst, LoopView, Value};

use super::graph::{Block, Edge, End, Move, Source, Step, Test};
use super::recursion::Recursion;
use crate::batch::{Refusal, Result};
use crate::uses::{Seen, count_uses};

/// Limit on the blocks of a recursion.
const MOST_BLOCKS: usize = 256;

/// The blocks of all functions, and the first of each function.
pub(super) fn cut(recursion: &Recursion) -> Result<(Vec<Block>, Vec<usize>)> {
    let (mut blocks, mut entries) = (vec![], vec![]);
    for (function, source) in recursion.functions.iter().enumerate() {
        let mut cutter = Cutter {
            recursion,
            function,
            source,
            uses: count_uses(source),
            blocks,
        };
        let body = &source.regions[source.body];
        let end = End::Return(body.yields.clone());
        entries.push(cutter.sequence(vec![], &body.insts, end)?);
        blocks = cutter.blocks;
    }
    Ok((blocks, entries))
}

struct Cutter<'a> {
    recursion: &'a Recursion<'a>,
    function: usize,
    source: &'a Function,
    /// The number of uses of each value.
    uses: Vec<u32>,
    blocks: Vec<Block>,
}

impl Cutter<'_> {
    /// The number of a block that is filled later.
    fn reserve(&mut self) -> Result<usize> {
        if self.blocks.len() == MOST_BLOCKS {
            return Err(Refusal::ManyCalls);
        }
        self.blocks.push(Block {
            function: self.function,
            arrivals: vec![],
            steps: vec![],
            end: End::Return(vec![]),
        });
        Ok(self.blocks.len() - 1)
    }

    /// The block that begins with these instructions; behind the last of them it ends so.
    fn sequence(&mut self, arrivals: Vec<Inst>, insts: &[Inst], end: End) -> Result<usize> {
        let block = self.reserve()?;
        self.fill(block, arrivals, insts, end)?;
        Ok(block)
    }

    fn fill(&mut self, block: usize, arrivals: Vec<Inst>, insts: &[Inst], end: End) -> Result<()> {
        let is_cut = |&inst: &Inst| self.is_site(inst) || self.has_sites(inst);
        let first = insts.iter().position(is_cut).unwrap_or(insts.len());
        let mut own = insts[..first].to_vec();
        let end = match insts.get(first) {
            None => end,
            Some(&inst) if self.is_site(inst) => {
                let (now, sites, rest) = self.at_once(&insts[first..]);
                own.extend(now);
                let next = self.sequence(sites.clone(), &rest, end)?;
                End::Calls(sites, next)
            }
            Some(&inst) => {
                let behind = self.sequence(vec![], &insts[first + 1..], end)?;
                match LoopView::of(self.source, inst) {
                    Some(view) => self.repeat(&view, behind)?,
                    None => self.branch(inst, behind)?,
                }
            }
        };
        let made = &mut self.blocks[block];
        made.arrivals = arrivals;
        made.steps = own.into_iter().map(Step::Inst).collect();
        made.end = end;
        Ok(())
    }

    fn is_site(&self, inst: Inst) -> bool {
        let op = &self.source.insts[inst].op;
        self.recursion.callee(op).is_some()
    }

    fn has_sites(&self, inst: Inst) -> bool {
        let mut found = false;
        for &region in &self.source.insts[inst].regions {
            self.source.for_each_inst_in(region, &mut |_, data| {
                found |= self.recursion.callee(&data.op).is_some();
            });
        }
        found
    }

    /// The instructions that need none of the calls which can be done now, these calls, and the rest.
    fn at_once(&self, insts: &[Inst]) -> (Vec<Inst>, Vec<Inst>, Vec<Inst>) {
        let (mut now, mut sites, mut rest) = (vec![], vec![], vec![]);
        let mut late: HashSet<Value> = HashSet::new();
        for &inst in insts {
            let needs = uses(self.source, inst);
            let of = match needs.iter().any(|v| late.contains(v)) || self.has_sites(inst) {
                true => &mut rest,
                false if self.is_site(inst) => &mut sites,
                false => {
                    now.push(inst);
                    continue;
                }
            };
            of.push(inst);
            late.extend(&self.source.insts[inst].results);
        }
        (now, sites, rest)
    }

    fn branch(&mut self, inst: Inst, behind: usize) -> Result<End> {
        let data = &self.source.insts[inst];
        let mut edges = vec![];
        for &arm in &data.regions {
            let region = &self.source.regions[arm];
            let join = Edge {
                to: behind,
                moves: moves(&data.results, &region.yields),
            };
            let to = self.sequence(vec![], &region.insts, End::Goto(join))?;
            edges.push(Edge { to, moves: vec![] });
        }
        let edges = edges.try_into().map_err(|_| Refusal::NotEvaluated)?;
        Ok(End::Branch(Test::Value(data.args[0]), edges))
    }

    fn repeat(&mut self, view: &LoopView, behind: usize) -> Result<End> {
        let body = self.reserve()?;
        let scans = view.scans.iter().copied().zip(view.stacked.iter().copied());
        let scans = scans.filter(|(scan, _)| self.uses[scan.index()] > 0);
        let scans: Vec<(Value, Value)> = scans.collect();
        let trip = view.trip.filter(|_| view.cond.is_none());
        let none = scans.iter().map(|&(scan, _)| (scan, Source::Empty(trip)));
        let longer = scans.iter().map(|&(scan, element)| {
            let has_room = trip.is_some();
            let longer = Source::Longer {
                scan,
                element,
                has_room,
            };
            (scan, longer)
        });
        let test = |number, cond, values: &[Value], scans: Vec<Move>| {
            let mut enter = moves(&view.params, values);
            enter.push((view.iteration, number));
            enter.extend(&scans);
            let mut leave = moves(&view.last, values);
            leave.extend(scans);
            let edges = [(body, enter), (behind, leave)].map(|(to, moves)| Edge { to, moves });
            let trip = view.trip;
            End::Branch(Test::Iteration { number, trip, cond }, edges)
        };
        let after = Source::After(view.iteration);
        let again = test(after, view.next_cond, &view.next, longer.collect());
        let insts = &self.source.regions[view.body].insts;
        self.fill(body, vec![], insts, again)?;
        Ok(test(Source::Zero, view.cond, &view.inits, none.collect()))
    }
}

fn moves(to: &[Value], from: &[Value]) -> Vec<Move> {
    let from = from.iter().map(|&v| Source::Value(v));
    to.iter().copied().zip(from).collect()
}

/// The values from elsewhere that an instruction and its regions use.
pub(super) fn uses(source: &Function, inst: Inst) -> Vec<Value> {
    let mut seen = Seen::default();
    seen.visit(source, inst);
    seen.free().collect()
}
