//! The arrays of frames, and the lists of those that are ready.

use heddle_ir::op::{BinaryOp, CompareOp, ScatterReduce};
use heddle_ir::{DType, Dim, FuncBuilder, Op, Tensor, Type, Value};

use super::drive::Driver;
use super::slots::{Place, RangeSlot};
use super::stores::{Range, Store};
use crate::batch::{Refusal, Result};
use crate::instances::leave::written;
use crate::instances::levels::with_rows;
use crate::instances::set::plus;

/// The arrays of frames, and the lists of those that are ready.
#[derive(Clone)]
pub(super) struct State {
    /// The frames that are ready, in any order: `i64[ready]`.
    pub ready: Value,
    /// The next block of each of them.
    pub at: Value,
    /// The first of these blocks, which runs next, and the number of its frames.
    pub number: Value,
    pub count: Value,
    /// The number of free frames.
    pub free_count: Value,
    /// The free frames come first: `i64[frames]`, as are the following.
    pub free: Value,
    /// The instance.
    pub who: Value,
    /// The place of its results among those of all calls: that of the caller's frame times the most
    /// calls that one has open, and the number of the call.
    pub back: Value,
    /// The number of open calls.
    pub open: Value,
    /// The block that follows these.
    pub after: Value,
    /// The last of some frames that return to it.
    pub last: Value,
    /// Saved values: `[frames, …]`.
    pub slots: Vec<Value>,
    /// Results of calls: `[frames · most calls, …]`.
    pub results: Vec<Value>,
    /// The stores, of any size.
    pub stores: Vec<Value>,
    /// The size of each store beyond which it is tidied.
    pub limits: Vec<Value>,
}

/// The number of the values in front of [`State::slots`].
const FIRST_SLOT: usize = 11;

impl State {
    pub fn values(&self) -> Vec<Value> {
        let mut all = vec![self.ready, self.at, self.number, self.count];
        all.extend([self.free_count, self.free, self.who, self.back]);
        all.extend([self.open, self.after, self.last]);
        all.extend(&self.slots);
        all.extend(&self.results);
        all.extend(&self.stores);
        all.extend(&self.limits);
        all
    }

    /// Saved ranges.
    pub fn range(&self, slot: &RangeSlot) -> Range {
        Range {
            start: self.slots[slot.start],
            len: self.slots[slot.len],
            room: slot.room.map(|room| self.slots[room]),
        }
    }

    /// Ranges that are results of calls.
    pub fn result_range(&self, slot: &RangeSlot) -> Range {
        Range {
            start: self.results[slot.start],
            len: self.results[slot.len],
            room: None,
        }
    }
}

/// Zeros of a type, a row for each of so many.
pub(super) fn zeros(b: &mut FuncBuilder, ty: &Type, count: Value) -> Result<Value> {
    let tensor = ty.as_tensor().ok_or(Refusal::NoTensor)?;
    let shape = tensor.shape.as_ref().ok_or(Refusal::UnknownRank)?;
    if !tensor.dtype.is_arith() && tensor.dtype != DType::Bool {
        return Err(Refusal::NoTensor);
    }
    let mut sizes = vec![b.vector_of(count)?];
    for dim in shape {
        let size = b.size_of(dim)?.ok_or(Refusal::UnknownSize)?;
        sizes.push(b.vector_of(size)?);
    }
    let sizes = b.join(&sizes)?;
    let zero = b.constant(Tensor::splat(tensor.dtype, vec![], 0.0));
    let all = b.op1(Op::Broadcast, &[zero, sizes])?;
    if let Some(met) = b.ty(all).meet(&with_rows(ty)) {
        b.refine_type(all, met)?;
    }
    Ok(all)
}

/// An array with rows written at places, each of them once.
pub(super) fn put(b: &mut FuncBuilder, x: Value, places: Value, rows: Value) -> Result<Value> {
    let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[places])?;
    written(b, x, at, rows)
}

/// An array with numbers combined with those at places.
pub(super) fn combined(
    b: &mut FuncBuilder,
    x: Value,
    places: Value,
    reduce: ScatterReduce,
    rows: Value,
) -> Result<Value> {
    let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[places])?;
    Ok(b.op1(Op::ScatterNd { reduce }, &[x, at, rows])?)
}

/// So many times the same number.
pub(super) fn filled(b: &mut FuncBuilder, number: Value, count: Value) -> Result<Value> {
    let count = b.vector_of(count)?;
    Ok(b.op1(Op::Broadcast, &[number, count])?)
}

impl Driver<'_> {
    /// The instances' first activations, each in a frame that stays its own. There are no others.
    pub(super) fn begun(&self, b: &mut FuncBuilder) -> Result<State> {
        let count = self.top.count;
        let (zero, most) = (b.i64(0), b.i64(self.slots.most_calls as i64));
        let all = b.iota(count)?;
        let none = filled(b, zero, count)?;
        let entry = b.i64(self.entries[0] as i64);
        let (slots, stores) = self.first_rows(b)?;
        let mut limits = vec![];
        for &store in &stores {
            let size = b.size(store, 0)?;
            limits.push(self.limit_beyond(b, size, all)?);
        }
        let places = b.binary(BinaryOp::Mul, count, most)?;
        let results = self.slots.results.types.iter();
        let results = results.map(|ty| zeros(b, ty, places));
        Ok(State {
            results: results.collect::<Result<Vec<Value>>>()?,
            slots,
            stores,
            limits,
            ready: all,
            at: filled(b, entry, count)?,
            number: entry,
            count,
            free_count: zero,
            free: none,
            who: all,
            back: b.binary(BinaryOp::Mul, all, most)?,
            open: none,
            after: none,
            last: none,
        })
    }

    /// The saved values of the instances' first activations, and the stores of these.
    fn first_rows(&self, b: &mut FuncBuilder) -> Result<(Vec<Value>, Vec<Value>)> {
        let (mut slots, mut stores) = (vec![None; self.slots.own.types.len()], vec![]);
        for ty in &self.slots.stores {
            let none = b.i64(0);
            let none = zeros(b, ty, none)?;
            stores.push(Store::of(b, none)?);
        }
        for (&param, &lane) in self.recursion.params(0).iter().zip(self.args) {
            if !self.live.before[self.entries[0]].contains(&param) {
                continue;
            }
            let place = self.slots.of[&(0, param)];
            let rows = match place {
                Place::Row(slot) => {
                    let rows = self.top.spread(b, lane)?;
                    let met = b.ty(rows).meet(&with_rows(&self.slots.own.types[slot]));
                    b.refine_type(rows, met.ok_or(Refusal::UnknownSize)?)?;
                    vec![rows]
                }
                Place::Range(k) => {
                    let slot = &self.slots.own.ranges[k];
                    let range = self.stored(b, self.top, lane, &mut stores[slot.store])?;
                    range.rows(slot.room.is_some())
                }
            };
            for (slot, rows) in self.slots.own.parts(place).into_iter().zip(rows) {
                slots[slot] = Some(rows);
            }
        }
        let mut all = vec![];
        for (slot, ty) in slots.into_iter().zip(&self.slots.own.types) {
            all.push(match slot {
                Some(rows) => rows,
                None => zeros(b, ty, self.top.count)?,
            });
        }
        let mut data = vec![];
        for (store, ty) in stores.into_iter().zip(&self.slots.stores) {
            data.push(store.added(b, ty, false)?.behind);
        }
        Ok((all, data))
    }

    /// The types of [`State::values`].
    pub(super) fn state_types(&self) -> Vec<Type> {
        let numbers = Type::tensor(DType::I64, [Dim::UNKNOWN]);
        let mut types = vec![numbers; FIRST_SLOT];
        types[2..5].fill(Type::scalar(DType::I64));
        let slots = &self.slots;
        let rows = slots.own.types.iter().chain(&slots.results.types);
        types.extend(rows.chain(&slots.stores).map(with_rows));
        types.resize(types.len() + slots.stores.len(), Type::scalar(DType::I64));
        types
    }

    /// The state that [`State::values`] lists.
    pub(super) fn state(&self, values: &[Value]) -> State {
        let (slots, rest) = values[FIRST_SLOT..].split_at(self.slots.own.types.len());
        let (results, rest) = rest.split_at(self.slots.results.types.len());
        let (stores, limits) = rest.split_at(self.slots.stores.len());
        State {
            ready: values[0],
            at: values[1],
            number: values[2],
            count: values[3],
            free_count: values[4],
            free: values[5],
            who: values[6],
            back: values[7],
            open: values[8],
            after: values[9],
            last: values[10],
            slots: slots.to_vec(),
            results: results.to_vec(),
            stores: stores.to_vec(),
            limits: limits.to_vec(),
        }
    }

    /// More frames: enough for the calls of the next block, and twice as many as there are, so that
    /// they seldom move; unless a limit forbids that. Stores lose what is not in use.
    pub(super) fn grown(&self, b: &mut FuncBuilder, state: &State) -> Result<State> {
        let (zero, most) = (b.i64(0), b.i64(self.slots.most_calls as i64));
        let count = b.size(state.free, 0)?;
        let need = self.needed(b, state)?;
        let lacks = b.binary(BinaryOp::Sub, need, state.free_count)?;
        let mut more = b.binary(BinaryOp::Max, count, lacks)?;
        if !self.slots.stores.is_empty() {
            // Frames may be enough, and stores too large.
            let is_short = b.compare(CompareOp::Gt, lacks, zero)?;
            more = b.select(is_short, more, zero)?;
        }
        if let Some(limit) = self.limit {
            let limit = b.i64(limit);
            let room = b.binary(BinaryOp::Sub, limit, count)?;
            let room = b.binary(BinaryOp::Max, room, zero)?;
            more = b.binary(BinaryOp::Min, more, room)?;
        }
        let none = filled(b, zero, more)?;
        let numbers = b.iota(more)?;
        let (new, place) = (
            plus(b, numbers, count)?,
            plus(b, numbers, state.free_count)?,
        );
        let mut longer = |v: Value| b.join(&[v, none]);
        let (free, who, back) = (longer(state.free)?, longer(state.who)?, longer(state.back)?);
        let (open, after, last) = (
            longer(state.open)?,
            longer(state.after)?,
            longer(state.last)?,
        );
        let free = put(b, free, place, new)?;
        let mut slots = vec![];
        for (&v, ty) in state.slots.iter().zip(&self.slots.own.types) {
            let none = zeros(b, ty, more)?;
            slots.push(b.join(&[v, none])?);
        }
        let places = b.binary(BinaryOp::Mul, more, most)?;
        let mut results = vec![];
        for (&v, ty) in state.results.iter().zip(&self.slots.results.types) {
            let none = zeros(b, ty, places)?;
            results.push(b.join(&[v, none])?);
        }
        let state = State {
            free_count: plus(b, state.free_count, more)?,
            free,
            who,
            back,
            open,
            after,
            last,
            slots,
            results,
            ..state.clone()
        };
        self.tidied(b, state)
    }
}
