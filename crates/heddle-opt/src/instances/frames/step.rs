//! Evaluation of a block for some activations.

use std::collections::HashSet;

use heddle_ir::op::BinaryOp;
use heddle_ir::{Dim, FuncBuilder, Inst, Op, Type, Value};

use super::choice::Running;
use super::drive::Driver;
use super::graph::{End, Source, Step, Test};
use super::slots::described;
use super::state::zeros;
use crate::batch::{Refusal, Result};
use crate::instances::blocks::Block as Part;
use crate::instances::lane::Lane;
use crate::instances::levels::with_rows;
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
        let set = self.entered(b, number, running)?;
        let block = &self.blocks[number];
        let function = block.function;
        let mut written = Written::default();
        let mut saved: Vec<(Value, Lane)> = vec![];
        match &block.end {
            End::Return(values) => {
                for (&slot, &v) in self.slots.results[function].iter().zip(values) {
                    let ty = &self.slots.result_types[slot];
                    let lane = self.known(&set, v)?;
                    let rows = self.rows(b, &set, (function, v), lane, ty)?;
                    written.results.push((slot, rows));
                }
            }
            End::Calls(sites, next) => {
                self.push(b, &set, sites, &mut written)?;
                for &v in &self.live.before[*next] {
                    if self.live.made[number].contains(&v) {
                        saved.push((v, self.known(&set, v)?));
                    }
                }
            }
            End::Goto(edge) => {
                let to = b.i64(edge.to as i64);
                written.next = Some(set.spread(b, Lane::Same(to))?);
                saved = self.along(b, &set, number, &edge.moves, edge.to)?;
            }
            End::Branch(test, edges) => {
                let holds = self.test(b, &set, test)?;
                let to = edges.each_ref().map(|edge| b.i64(edge.to as i64));
                let args = [holds, Lane::Same(to[0]), Lane::Same(to[1])];
                let next = set.op(b, &Op::Select, &args)?[0];
                written.next = Some(set.spread(b, next)?);
                for edge in edges {
                    for (v, lane) in self.along(b, &set, number, &edge.moves, edge.to)? {
                        if saved.iter().all(|(known, _)| *known != v) {
                            saved.push((v, lane));
                        }
                    }
                }
            }
        }
        for (v, lane) in saved {
            let var = (function, v);
            let slot = self.slots.of[&var];
            let rows = self.rows(b, &set, var, lane, &self.slots.types[slot])?;
            written.own.push((slot, rows));
        }
        Ok(written)
    }

    /// The set of these activations with all that the block makes.
    fn entered(&self, b: &mut FuncBuilder, number: usize, running: &Running) -> Result<Set<'_>> {
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
        for &v in &self.live.before[number] {
            let slot = self.slots.of[&(block.function, v)];
            let row = b.gather(state.slots[slot], ids)?;
            set.values.insert(v, Lane::Rows(row));
        }
        for (k, &site) in block.arrivals.iter().enumerate() {
            let callee = self.recursion.callee(&source.insts[site].op);
            let callee = callee.ok_or(Refusal::NotEvaluated)?;
            let place = self.result_place(b, ids, k)?;
            for (&v, &slot) in source.insts[site]
                .results
                .iter()
                .zip(&self.slots.results[callee])
            {
                let row = b.gather(state.results[slot], place)?;
                set.values.insert(v, Lane::Rows(row));
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
                        moved.push((to, self.source(b, &set, from)?));
                    }
                    set.values.extend(moved);
                }
            }
        }
        Ok(set)
    }

    /// The values that an edge's end reads from the frame and that the block made.
    fn along(
        &self,
        b: &mut FuncBuilder,
        set: &Set,
        number: usize,
        moves: &[(Value, Source)],
        to: usize,
    ) -> Result<Vec<(Value, Lane)>> {
        let mut saved = vec![];
        for &v in &self.live.before[to] {
            let moved = moves.iter().find(|m| m.0 == v);
            if let Some(&(_, from)) = moved {
                saved.push((v, self.source(b, set, from)?));
            } else if self.live.made[number].contains(&v) {
                saved.push((v, self.known(set, v)?));
            }
        }
        Ok(saved)
    }

    /// The arguments of calls.
    fn push(
        &self,
        b: &mut FuncBuilder,
        set: &Set,
        sites: &[Inst],
        written: &mut Written,
    ) -> Result<()> {
        let source = set.source;
        let mut args: Vec<(usize, Vec<Option<Value>>)> = vec![];
        for (k, &site) in sites.iter().enumerate() {
            let data = &source.insts[site];
            let callee = self
                .recursion
                .callee(&data.op)
                .ok_or(Refusal::NotEvaluated)?;
            let entry = self.entries[callee];
            for (&param, &arg) in self.recursion.params(callee).iter().zip(&data.args) {
                let var = (callee, param);
                if !self.live.before[entry].contains(&param) {
                    continue;
                }
                let slot = self.slots.of[&var];
                let lane = self.known(set, arg)?;
                let rows = self.rows(b, set, var, lane, &self.slots.types[slot])?;
                let found = args.iter().position(|(own, _)| *own == slot);
                let place = found.unwrap_or_else(|| {
                    args.push((slot, vec![None; sites.len()]));
                    args.len() - 1
                });
                args[place].1[k] = Some(rows);
            }
        }
        for (slot, rows) in args {
            let mut all = vec![];
            for rows in rows {
                all.push(match rows {
                    Some(rows) => rows,
                    None => zeros(b, &self.slots.types[slot], set.count)?,
                });
            }
            written.args.push((slot, b.join(&all)?));
        }
        Ok(())
    }

    /// A value that the block has made or read.
    fn known(&self, set: &Set, v: Value) -> Result<Lane> {
        let refused = |_| Refusal::NoRow(described(set.source, v));
        set.value(v).map_err(refused)
    }

    fn source(&self, b: &mut FuncBuilder, set: &Set, source: Source) -> Result<Lane> {
        match source {
            Source::Value(v) => self.known(set, v),
            Source::Zero => Ok(Lane::Same(b.i64(0))),
            Source::After(v) => {
                let one = Lane::Same(b.i64(1));
                let args = [self.known(set, v)?, one];
                Ok(set.op(b, &Op::Binary(BinaryOp::Add), &args)?[0])
            }
        }
    }

    /// A `bool` for each activation.
    fn test(&self, b: &mut FuncBuilder, set: &Set, test: &Test) -> Result<Lane> {
        match test {
            Test::Value(v) => self.known(set, *v),
            Test::Iteration { number, trip, cond } => {
                let number = self.source(b, set, *number)?;
                let trip = trip.map(|v| self.known(set, v)).transpose()?;
                let cond = cond.map(|v| self.known(set, v)).transpose()?;
                set.goes_on(b, cond, trip, number)
            }
        }
    }

    /// Rows of the type of a slot.
    fn rows(
        &self,
        b: &mut FuncBuilder,
        set: &Set,
        var: (usize, Value),
        lane: Lane,
        ty: &Type,
    ) -> Result<Value> {
        let refused = || Refusal::NoRow(described(&self.recursion.functions[var.0], var.1));
        let rows = set.spread(b, lane).map_err(|_| refused())?;
        let met = b.ty(rows).meet(&with_rows(ty)).ok_or_else(refused)?;
        b.refine_type(rows, met)?;
        Ok(rows)
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
