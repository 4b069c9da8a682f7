//! The executor: it runs blocks until no frame is ready.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, ScatterReduce, UnaryOp};
use heddle_ir::{DType, FuncBuilder, Op, Tensor, Type, Value};

use super::choice::Running;
use super::graph::{Block, End};
use super::live::Live;
use super::recursion::Recursion;
use super::slots::{Place, Slots};
use super::state::{State, combined, filled, put, zeros};
use crate::batch::{Refusal, Result};
use crate::instances::lane::{Lane, Ragged};
use crate::instances::set::{Set, open, plus};

pub(super) struct Driver<'a> {
    pub recursion: &'a Recursion<'a>,
    /// The blocks in the order in which they run.
    pub blocks: &'a [Block],
    /// The first block of each function.
    pub entries: &'a [usize],
    pub live: &'a Live,
    pub slots: &'a Slots,
    /// For each function the instances, with what stays with them.
    pub own: &'a [Set<'a>],
    /// The instances.
    pub top: &'a Set<'a>,
    /// The arguments of their first activations.
    pub args: &'a [Lane],
    /// The most frames.
    pub limit: Option<i64>,
}

impl Driver<'_> {
    /// The results of all instances.
    pub fn run(&self, b: &mut FuncBuilder) -> Result<Vec<Lane>> {
        let state = self.begun(b)?;
        let last = self.until_done(b, &state)?;
        let Some(_) = self.limit else {
            return self.gathered(b, &last, state.back);
        };
        let (short, _) = self.goes_on(b, &last)?;
        b.begin_region(&[]);
        let rows = self.depth_first(b)?;
        let then = b.end_region(&rows);
        b.begin_region(&[]);
        let lanes = self.gathered(b, &last, state.back)?;
        let mut rows = vec![];
        for lane in lanes {
            match lane {
                Lane::Ragged(x) => {
                    let x = self.top.packed(b, x)?;
                    rows.extend([x.data, x.lens]);
                }
                lane => rows.push(self.top.spread(b, lane)?),
            }
        }
        let otherwise = b.end_region(&rows);
        let mut rows = b.if_(short, then, otherwise)?.into_iter();
        let mut next = || rows.next().ok_or(Refusal::NotEvaluated);
        let mut lanes = vec![];
        for place in &self.slots.results_of[0] {
            let data = next()?;
            lanes.push(match place {
                Place::Row(_) => Lane::Rows(data),
                Place::Range(_) => {
                    let lens = next()?;
                    let starts = self.top.sums_before(b, lens)?;
                    Lane::Ragged(Ragged::packed(data, starts, lens))
                }
            });
        }
        Ok(lanes)
    }

    /// The last state. With a limit, frames may be ready in it that lack others for their calls.
    fn until_done(&self, b: &mut FuncBuilder, state: &State) -> Result<State> {
        let zero = b.i64(0);
        let going = b.compare(CompareOp::Lt, zero, self.top.count)?;
        // Arrays keep their size in the inner loop, which writes to them in place.
        let types = [vec![Type::scalar(DType::I64)], self.state_types()].concat();
        let (_, params) = b.begin_region(&types);
        let state_here = self.state(&params[1..]);
        let mut state_here = self.grown(b, &state_here)?;
        if self.limit.is_some() {
            (state_here.number, state_here.count) = self.next(b, &state_here)?;
        }
        let begins = match self.limit {
            None => b.constant(Tensor::splat(DType::Bool, vec![], 1.0)),
            Some(_) => self.goes_on(b, &state_here)?.1,
        };
        let (_, params) = b.begin_region(&types);
        let now = self.state(&params[1..]);
        let next = self.step(b, &now)?;
        let (more, enough) = self.goes_on(b, &next)?;
        let mut goes_on = b.binary(BinaryOp::And, more, enough)?;
        if let Some(crowded) = self.is_crowded(b, &next)? {
            let roomy = b.op1(Op::Unary(UnaryOp::Not), &[crowded])?;
            goes_on = b.binary(BinaryOp::And, goes_on, roomy)?;
        }
        let body = b.end_region(&[vec![goes_on], next.values()].concat());
        let last = b.loop_(None, Some(begins), &state_here.values(), body)?;
        let (mut more, _) = self.goes_on(b, &self.state(&last))?;
        if let Some(limit) = self.limit {
            let (count, limit) = (b.size(self.state(&last).free, 0)?, b.i64(limit));
            let mut grows = b.compare(CompareOp::Lt, count, limit)?;
            if let Some(crowded) = self.is_crowded(b, &self.state(&last))? {
                grows = b.binary(BinaryOp::Or, grows, crowded)?;
            }
            more = b.binary(BinaryOp::And, more, grows)?;
        }
        let body = b.end_region(&[vec![more], last].concat());
        let last = b.loop_(None, Some(going), &state.values(), body)?;
        Ok(self.state(&last))
    }

    /// The results of the instances' first activations.
    fn gathered(&self, b: &mut FuncBuilder, last: &State, at: Value) -> Result<Vec<Lane>> {
        let own = self.slots.results_of[0].iter();
        own.map(|&place| match place {
            Place::Row(slot) => {
                let rows = b.gather(last.results[slot], at)?;
                Ok(Lane::Rows(self.stated(b, slot, rows)?))
            }
            Place::Range(k) => {
                let slot = &self.slots.results.ranges[k];
                let range = last.result_range(slot).of(b, at)?;
                Ok(Lane::Ragged(range.ragged(last.stores[slot.store])))
            }
        })
        .collect()
    }

    /// The same by calls for one instance after the other: rows, or elements behind each other and
    /// the size of each instance's.
    fn depth_first(&self, b: &mut FuncBuilder) -> Result<Vec<Value>> {
        let places = &self.slots.results_of[0];
        let mut inits = vec![];
        for &place in places {
            if let Place::Range(k) = place {
                let (ty, none) = (
                    &self.slots.stores[self.slots.results.ranges[k].store],
                    b.i64(0),
                );
                inits.push(zeros(b, ty, none)?);
            }
        }
        let carried = inits.iter().map(|&v| open(b.ty(v)));
        let types: Vec<Type> = std::iter::once(Type::scalar(DType::I64))
            .chain(carried)
            .collect();
        let (_, params) = b.begin_region(&types);
        let args = self.args.iter().map(|lane| lane.one(b, params[0]));
        let args = args.collect::<Result<Vec<Value>>>()?;
        let callee = self.recursion.ids[0];
        let sig = &self.recursion.module.functions[callee].sig;
        let results = b.call(callee, sig, &args)?;
        let (mut next, mut stacked) = (vec![], vec![]);
        for (&place, &result) in places.iter().zip(&results) {
            match place {
                Place::Row(_) => stacked.push(result),
                Place::Range(_) => {
                    stacked.push(b.size(result, 0)?);
                    next.push(b.join(&[params[1 + next.len()], result])?);
                }
            }
        }
        let body = b.end_region(&[next, stacked].concat());
        let all = b.loop_(Some(self.top.count), None, &inits, body)?;
        let (data, rows) = all.split_at(inits.len());
        let mut data = data.iter().copied();
        let mut found = vec![];
        for (&place, &rows) in places.iter().zip(rows) {
            match place {
                Place::Row(slot) => found.push(self.stated(b, slot, rows)?),
                Place::Range(_) => {
                    found.extend(data.next());
                    found.push(rows);
                }
            }
        }
        Ok(found)
    }

    /// Rows of results with the sizes that are stated.
    fn stated(&self, b: &mut FuncBuilder, slot: usize, rows: Value) -> Result<Value> {
        let ty = &self.slots.results.types[slot];
        let met = b.ty(rows).meet(&self.top.in_lane(ty, Lane::Rows(rows)));
        b.refine_type(rows, met.ok_or(Refusal::UnknownSize)?)?;
        Ok(rows)
    }

    /// Is a frame ready, and are there enough for the calls of the next block?
    fn goes_on(&self, b: &mut FuncBuilder, state: &State) -> Result<(Value, Value)> {
        let zero = b.i64(0);
        let more = b.compare(CompareOp::Lt, zero, state.count)?;
        let need = self.needed(b, state)?;
        let enough = b.compare(CompareOp::Le, need, state.free_count)?;
        Ok((more, enough))
    }

    /// The number of frames for the calls of the next block.
    pub(super) fn needed(&self, b: &mut FuncBuilder, state: &State) -> Result<Value> {
        let calls = self.calls(b, state.number)?;
        Ok(b.binary(BinaryOp::Mul, calls, state.count)?)
    }

    /// The number of calls that each frame of a block does.
    pub(super) fn calls(&self, b: &mut FuncBuilder, number: Value) -> Result<Value> {
        self.table(b, &|block| block.end.sites().len() as i64, number)
    }

    /// The first of the blocks of frames that are ready, and the number of these frames.
    pub(super) fn first(&self, b: &mut FuncBuilder, at: Value) -> Result<(Value, Value)> {
        let first = Op::Reduce {
            kind: ReduceOp::Min,
            axes: vec![0],
            keep: false,
        };
        let (number, last) = (b.op1(first, &[at])?, b.i64(self.blocks.len() as i64 - 1));
        // Without frames, the number is that of some block.
        let number = b.binary(BinaryOp::Min, number, last)?;
        let runs = b.compare(CompareOp::Eq, at, number)?;
        let runs = b.cast(DType::I64, runs)?;
        Ok((number, self.top.total(b, runs)?))
    }

    /// The next block, for its frames that run.
    fn step(&self, b: &mut FuncBuilder, state: &State) -> Result<State> {
        let (number, count) = (state.number, state.count);
        let runs = self.running(b, state)?;
        let waits = b.op1(Op::Unary(UnaryOp::Not), &[runs])?;
        let ((runs, _), (waits, _)) = (self.top.those(b, runs)?, self.top.those(b, waits)?);
        let (ids, ready) = (b.gather(state.ready, runs)?, b.gather(state.ready, waits)?);
        let at = b.gather(state.at, waits)?;
        let who = b.gather(state.who, ids)?;
        let running = Running {
            number,
            ids,
            who,
            state,
        };
        let written = self.chosen(b, &running)?;
        let mut state = State {
            ready,
            at,
            ..state.clone()
        };
        let (done, back) = self.returning(b, &state, number, ids, count)?;
        let calls = self.called(b, &mut state, number, ids, count)?;
        for (places, rows) in [(ids, &written.own), (calls.0, &written.args)] {
            for &(slot, rows) in rows {
                let places = first_of(b, places, rows)?;
                state.slots[slot] = put(b, state.slots[slot], places, rows)?;
            }
        }
        for &(slot, rows) in &written.results {
            let places = first_of(b, back, rows)?;
            state.results[slot] = put(b, state.results[slot], places, rows)?;
        }
        for (store, added) in state.stores.iter_mut().zip(&written.stores) {
            *store = added.to(b, *store)?;
        }
        let woken = self.returned(b, &mut state, done, back)?;
        let next = written.next.ok_or(Refusal::NotEvaluated)?;
        let on = first_of(b, ids, next)?;
        let after = b.gather(state.after, woken)?;
        state.ready = b.join(&[calls.0, woken, on, state.ready])?;
        state.at = b.join(&[calls.1, after, next, state.at])?;
        (state.number, state.count) = self.next(b, &state)?;
        Ok(state)
    }

    /// A number for each block.
    fn table(&self, b: &mut FuncBuilder, of: &dyn Fn(&Block) -> i64, at: Value) -> Result<Value> {
        let all: Vec<i64> = self.blocks.iter().map(of).collect();
        let all = b.i64s(&all);
        Ok(b.gather(all, at)?)
    }

    /// The frames that end with this block, and the places of their results.
    fn returning(
        &self,
        b: &mut FuncBuilder,
        state: &State,
        number: Value,
        ids: Value,
        count: Value,
    ) -> Result<(Value, Value)> {
        let ends = |block: &Block| matches!(block.end, End::Return(_)) as i64;
        let ends = self.table(b, &ends, number)?;
        let count = b.binary(BinaryOp::Mul, ends, count)?;
        let done = cut(b, ids, count)?;
        let back = b.gather(state.back, done)?;
        Ok((done, back))
    }

    /// New frames for the calls that this block does, and the blocks that they begin with.
    fn called(
        &self,
        b: &mut FuncBuilder,
        state: &mut State,
        number: Value,
        ids: Value,
        count: Value,
    ) -> Result<(Value, Value)> {
        let most = b.i64(self.slots.most_calls as i64);
        let calls = self.calls(b, number)?;
        let after = |block: &Block| match block.end {
            End::Calls(_, next) => next as i64,
            _ => 0,
        };
        let after = self.table(b, &after, number)?;
        let new = b.binary(BinaryOp::Mul, calls, count)?;
        state.free_count = b.binary(BinaryOp::Sub, state.free_count, new)?;
        let numbers = b.iota(new)?;
        let place = plus(b, numbers, state.free_count)?;
        let frames = b.gather(state.free, place)?;
        let call = b.binary(BinaryOp::Div, numbers, count)?;
        let before = b.binary(BinaryOp::Mul, call, count)?;
        let caller = b.binary(BinaryOp::Sub, numbers, before)?;
        let caller = b.gather(ids, caller)?;
        let who = b.gather(state.who, caller)?;
        let back = b.binary(BinaryOp::Mul, caller, most)?;
        let back = plus(b, back, call)?;
        state.who = put(b, state.who, frames, who)?;
        state.back = put(b, state.back, frames, back)?;
        let (open, after) = (filled(b, calls, count)?, filled(b, after, count)?);
        state.open = put(b, state.open, ids, open)?;
        state.after = put(b, state.after, ids, after)?;
        let first = b.binary(BinaryOp::Mul, number, most)?;
        let site = plus(b, first, call)?;
        let entries = self.first_blocks();
        let entries = b.i64s(&entries);
        Ok((frames, b.gather(entries, site)?))
    }

    /// For each block and call of it the block that the called function begins with.
    fn first_blocks(&self) -> Vec<i64> {
        let mut all = vec![];
        for block in self.blocks {
            let source = &self.recursion.functions[block.function];
            let sites = block.end.sites().iter();
            let callees = sites.filter_map(|s| self.recursion.callee(&source.insts[*s].op));
            let mut own: Vec<i64> = callees.map(|k| self.entries[k] as i64).collect();
            own.resize(self.slots.most_calls, 0);
            all.extend(own);
        }
        all
    }

    /// Gives frames back; the callers that have no more open calls.
    fn returned(
        &self,
        b: &mut FuncBuilder,
        state: &mut State,
        done: Value,
        back: Value,
    ) -> Result<Value> {
        let most = b.i64(self.slots.most_calls as i64);
        let (zero, less) = (b.i64(0), b.i64(-1));
        let count = b.size(done, 0)?;
        let caller = b.binary(BinaryOp::Div, back, most)?;
        let ones = filled(b, less, count)?;
        state.open = combined(b, state.open, caller, ScatterReduce::Add, ones)?;
        let open = b.gather(state.open, caller)?;
        let mut wakes = b.compare(CompareOp::Eq, open, zero)?;
        if self.slots.most_calls > 1 {
            // The last of those that return to one frame wakes it.
            let numbers = b.iota(count)?;
            state.last = combined(b, state.last, caller, ScatterReduce::Set, ones)?;
            state.last = combined(b, state.last, caller, ScatterReduce::Max, numbers)?;
            let last = b.gather(state.last, caller)?;
            let is_last = b.compare(CompareOp::Eq, last, numbers)?;
            wakes = b.binary(BinaryOp::And, wakes, is_last)?;
        }
        let (woken, _) = self.top.those(b, wakes)?;
        let woken = b.gather(caller, woken)?;
        // The frame of an instance's first activation stays.
        let is_free = b.compare(CompareOp::Ne, caller, done)?;
        let (free, count) = self.top.those(b, is_free)?;
        let free = b.gather(done, free)?;
        let place = b.iota(count)?;
        let place = plus(b, place, state.free_count)?;
        state.free = put(b, state.free, place, free)?;
        state.free_count = plus(b, state.free_count, count)?;
        Ok(woken)
    }
}

/// The first numbers of a list, as many as there are rows.
fn first_of(b: &mut FuncBuilder, list: Value, rows: Value) -> Result<Value> {
    let count = b.size(rows, 0)?;
    cut(b, list, count)
}

/// So many of the first numbers of a list.
pub(super) fn cut(b: &mut FuncBuilder, list: Value, count: Value) -> Result<Value> {
    let (from, to, step) = (b.i64s(&[0]), b.vector_of(count)?, b.i64s(&[1]));
    Ok(b.op1(Op::Slice { axes: vec![0] }, &[list, from, to, step])?)
}
