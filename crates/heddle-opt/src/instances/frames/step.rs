//! Evaluation of a block for some activations.

use std::collections::{HashMap, HashSet};

use heddle_ir::op::BinaryOp;
use heddle_ir::{Dim, FuncBuilder, Op, Value};

use super::choice::Running;
use super::drive::Driver;
use super::graph::{End, Source, Step, Test};
use super::saved::{Activations, Saved};
use super::slots::{Place, described};
use super::stores::{Added, Store};
use crate::batch::{Refusal, Result};
use crate::instances::blocks::Block as Part;
use crate::instances::lane::Lane;
use crate::instances::set::Set;

/// Rows that a block writes, by slot: each has one for each activation, or one for each call.
#[derive(Default)]
pub(super) struct Written {
    /// Values of the activations.
    pub own: Vec<(usize, Value)>,
    /// Arguments of calls, those of all activations' first calls first.
    pub args: Vec<(usize, Value)>,
    /// Results of the activations.
    pub results: Vec<(usize, Value)>,
    /// The elements that are added to each store.
    pub stores: Vec<Added>,
    /// The next block of each activation, unless it calls or returns: `i64[activations]`.
    pub next: Option<Value>,
}

impl Driver<'_> {
    /// A block for the activations that run.
    pub(super) fn block(
        &self,
        b: &mut FuncBuilder,
        number: usize,
        running: &Running,
    ) -> Result<Written> {
        let mut all = self.entered(b, number, running)?;
        let block = &self.blocks[number];
        let function = block.function;
        let mut written = Written::default();
        let mut saved: Vec<(Value, Saved)> = vec![];
        match &block.end {
            End::Return(values) => {
                for (&place, &v) in self.slots.results_of[function].iter().zip(values) {
                    let lane = Saved::Lane(self.known(&all.set, v)?);
                    let rows = self.rows(
                        b,
                        &mut all,
                        (function, v),
                        lane,
                        (&self.slots.results, place),
                    )?;
                    written.results.extend(rows);
                }
            }
            End::Calls(sites, next) => {
                self.push(b, &mut all, sites, &mut written)?;
                for &v in &self.live.before[*next] {
                    if self.live.made[number].contains(&v) {
                        saved.push((v, Saved::Lane(self.known(&all.set, v)?)));
                    }
                }
            }
            End::Goto(edge) => {
                let to = b.i64(edge.to as i64);
                written.next = Some(all.set.spread(b, Lane::Same(to))?);
                self.along(b, &mut all, number, edge, &mut saved)?;
            }
            End::Branch(test, edges) => {
                let holds = self.test(b, &all.set, test)?;
                let to = edges.each_ref().map(|edge| b.i64(edge.to as i64));
                let args = [holds, Lane::Same(to[0]), Lane::Same(to[1])];
                let next = all.set.op(b, &Op::Select, &args)?[0];
                written.next = Some(all.set.spread(b, next)?);
                for edge in edges {
                    self.along(b, &mut all, number, edge, &mut saved)?;
                }
            }
        }
        for (v, value) in saved {
            let var = (function, v);
            let place = (&self.slots.own, self.slots.of[&var]);
            let rows = self.rows(b, &mut all, var, value, place)?;
            written.own.extend(rows);
        }
        let types = self.slots.stores.iter().zip(&self.slots.grows);
        for (store, (ty, &grows)) in all.stores.into_iter().zip(types) {
            written.stores.push(store.added(b, ty, grows)?);
        }
        Ok(written)
    }

    /// The set of these activations with all that the block makes.
    fn entered(
        &self,
        b: &mut FuncBuilder,
        number: usize,
        running: &Running,
    ) -> Result<Activations<'_>> {
        let (ids, state) = (running.ids, running.state);
        let block = &self.blocks[number];
        let source = &self.recursion.functions[block.function];
        let own = &self.own[block.function];
        let count = b.size(ids, 0)?;
        let first = block.steps.iter().find_map(|step| match step {
            Step::Inst(inst) if !source.insts[*inst].args.is_empty() => Some(*inst),
            _ => None,
        });
        let site = block.arrivals.first().or(first.as_ref());
        if let Some(&inst) = site.or(block.end.sites().first()) {
            self.top.context.mark(b, count, Part::frames(source, inst));
        }
        let mut set = Set::new(source, self.top.context, count, Dim::UNKNOWN);
        set.kinds.borrow_mut().stores.extend(&state.stores);
        let mut scans = HashMap::new();
        for &v in &self.live.before[number] {
            match self.slots.of[&(block.function, v)] {
                Place::Row(slot) => {
                    let row = b.gather(state.slots[slot], ids)?;
                    set.values.insert(v, Lane::Rows(row));
                }
                Place::Range(k) => {
                    let range = state.range(&self.slots.own.ranges[k]).of(b, ids)?;
                    if block.moves().any(|m| m.0 == v && m.1.is_scan()) {
                        scans.insert(v, range);
                    } else if self.live.needs[number].contains(&v) {
                        let data = state.stores[self.slots.own.ranges[k].store];
                        let lane = range.read(b, data, &self.top.context.ty(source.ty(v)))?;
                        set.values.insert(v, lane);
                    }
                }
            }
        }
        for (k, &site) in block.arrivals.iter().enumerate() {
            let callee = self.recursion.callee(&source.insts[site].op);
            let callee = callee.ok_or(Refusal::NotEvaluated)?;
            let place = self.result_place(b, ids, k)?;
            let results = source.insts[site].results.iter();
            for (&v, &of) in results.zip(&self.slots.results_of[callee]) {
                let lane = match of {
                    Place::Row(slot) => Lane::Rows(b.gather(state.results[slot], place)?),
                    Place::Range(k) => {
                        let slot = &self.slots.results.ranges[k];
                        let range = state.result_range(slot).of(b, place)?;
                        let ty = self.top.context.ty(source.ty(v));
                        range.read(b, state.stores[slot.store], &ty)?
                    }
                };
                set.values.insert(v, lane);
            }
        }
        let reads: HashSet<Value> = self.live.needs[number]
            .iter()
            .chain(&self.live.made[number])
            .copied()
            .collect();
        for &v in &self.live.needs[number] {
            if let Some(inst) = source.def_inst(v)
                && source.insts[inst].args.is_empty()
                && !set.values.contains_key(&v)
                && !own.values.contains_key(&v)
            {
                set.inst(b, inst)?;
            }
        }
        let mut of_instance: Vec<Value> = own.values.keys().copied().collect();
        of_instance.retain(|v| reads.contains(v));
        of_instance.sort();
        for v in of_instance {
            let lane = own.value(v)?.of(b, running.who)?;
            set.values.insert(v, lane);
        }
        for step in &block.steps {
            match step {
                Step::Inst(inst) => {
                    let results = &source.insts[*inst].results;
                    if results.iter().any(|v| !own.values.contains_key(v)) {
                        set.inst(b, *inst)?;
                    }
                }
                Step::Moves(moves) => {
                    let mut moved = vec![];
                    for &(to, from) in moves {
                        moved.push((to, self.lane(b, &set, from)?));
                    }
                    set.values.extend(moved);
                }
            }
        }
        let mut stores = vec![];
        for &data in &state.stores {
            stores.push(Store::of(b, data)?);
        }
        Ok(Activations { set, scans, stores })
    }

    /// A value that the block has made or read.
    pub(super) fn known(&self, set: &Set, v: Value) -> Result<Lane> {
        let refused = |_| Refusal::NoRow(described(set.source, v));
        set.value(v).map_err(refused)
    }

    /// The value that a variable gets in a block.
    pub(super) fn lane(&self, b: &mut FuncBuilder, set: &Set, source: Source) -> Result<Lane> {
        match source {
            Source::Value(v) => self.known(set, v),
            Source::Zero => Ok(Lane::Same(b.i64(0))),
            Source::After(v) => {
                let one = Lane::Same(b.i64(1));
                let args = [self.known(set, v)?, one];
                Ok(set.op(b, &Op::Binary(BinaryOp::Add), &args)?[0])
            }
            Source::Empty(_) | Source::Longer { .. } => Err(Refusal::NotEvaluated),
        }
    }

    /// A `bool` for each activation.
    fn test(&self, b: &mut FuncBuilder, set: &Set, test: &Test) -> Result<Lane> {
        match test {
            Test::Value(v) => self.known(set, *v),
            Test::Iteration { number, trip, cond } => {
                let number = self.lane(b, set, *number)?;
                let trip = trip.map(|v| self.known(set, v)).transpose()?;
                let cond = cond.map(|v| self.known(set, v)).transpose()?;
                set.goes_on(b, cond, trip, number)
            }
        }
    }

    /// The places of the results of activations' calls of this number.
    fn result_place(&self, b: &mut FuncBuilder, ids: Value, call: usize) -> Result<Value> {
        if self.slots.most_calls == 1 {
            return Ok(ids);
        }
        let (most, call) = (b.i64(self.slots.most_calls as i64), b.i64(call as i64));
        let first = b.binary(BinaryOp::Mul, ids, most)?;
        Ok(b.binary(BinaryOp::Add, first, call)?)
    }
}
