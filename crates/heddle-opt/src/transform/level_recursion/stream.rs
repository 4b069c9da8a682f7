//! Early work beside the levels (Cavs' streaming, §3.4).
//!
//! If the products of a level are too narrow to occupy all units, the loop over batches evaluates
//! early work for the states that come next in the order, beside the batch of a level, and not for
//! all states before the first level. The two do not depend on each other within an
//! iteration, so units that the level leaves idle do it without a wait in between.
//!
//! The loop carries the rows of early values that are ahead: those of the states from the batch's
//! first one on, in an array of constant size for each value. The rows that an iteration leaves, and
//! behind them its new ones, go to a second array, which takes the first one's place in the next
//! iteration; so what an iteration reads and what it writes are two buffers. When an iteration ends,
//! the rows of the next batch are there. It evaluates more, as many as its idle units have time for,
//! as long as there is room ([`Pace`]), so that a wide level is prepared during the narrow ones
//! before it.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, FuncBuilder, TensorType, Type, Value};

use super::evaluate::{Evaluation, Pass, SizesOf, written};
use super::rows::{Known, Rows, Which, zeros};
use crate::batch::{Refusal, Result};

/// The amount of early work in an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Early rows that idle units have time for, for each row of a batch.
    pub share: f64,
    /// Maximum number of states behind the next batch whose early rows are kept.
    pub ahead: usize,
}

impl Pace {
    /// The pace of two kinds in one loop.
    pub fn min(self, other: Self) -> Self {
        Self {
            share: self.share.min(other.share),
            ahead: self.ahead.min(other.ahead),
        }
    }
}

/// Early values of a kind that are evaluated beside the levels.
pub(super) struct Streamed {
    k: usize,
    values: Vec<Value>,
    /// The types of rows.
    types: Vec<Type>,
    /// Their sizes, `i64[rank]`.
    sizes: Vec<Value>,
}

/// Early rows that an iteration finds and leaves.
struct Window<'s> {
    streamed: &'s Streamed,
    /// For each value, the rows of the states from the batch's first one on.
    now: &'s [Value],
    /// For each value, an array whose content is not needed any more.
    free: &'s [Value],
}

/// Places of an iteration.
#[derive(Clone, Copy)]
struct Places {
    /// The batch's first.
    place: Value,
    /// The next batch's first.
    next: Value,
    /// The first whose early rows are not there.
    done: Value,
    /// The same when the iteration ends.
    then: Value,
}

/// Parts of [`Pace::share`].
const PARTS: i64 = 16;

impl Evaluation<'_, '_> {
    /// The early values of a kind for streaming. Those whose sizes nothing names are evaluated for
    /// all states at once, or left to the levels.
    pub(super) fn streamed(
        &mut self,
        b: &mut FuncBuilder,
        k: usize,
        sizes: SizesOf,
    ) -> Result<Option<Streamed>> {
        let values = self.policy.stages.plans[k].early.clone();
        let member = &self.recursion.members[self.recursion.kinds[k].member];
        let types = values.iter().map(|v| member.ty(member.func.ty(*v)));
        let types: Vec<Type> = types.collect();
        let shapes = types.iter().map(|row| row.as_tensor()?.shape.as_deref());
        let found = shapes.map(|shape| sizes(b, shape.ok_or(Refusal::UnknownRank)?));
        let Ok(found) = found.collect::<Result<Vec<Value>>>() else {
            self.all_of_kind(b, k, &values, sizes)?;
            return Ok(None);
        };
        self.list(b, k)?;
        Ok(Some(Streamed {
            k,
            values,
            types,
            sizes: found,
        }))
    }

    /// The batches from a place on, with early work beside them; gives the arrays of the pass with
    /// their results.
    pub(super) fn stream(
        &mut self,
        b: &mut FuncBuilder,
        pass: &Pass,
        first: Value,
        arrays: Vec<Value>,
        streamed: &[Streamed],
        sizes: SizesOf,
    ) -> Result<Vec<Value>> {
        let done = self.prepared(b, first)?;
        let mut windows = vec![];
        for own in streamed {
            let rows = self.early(b, own, [first, done], sizes)?;
            let zero = b.i64(0);
            for (value, rows) in rows.into_iter().enumerate() {
                let empty = self.window(b, own, value)?;
                windows.push([written(b, empty, rows, zero)?, empty]);
            }
        }
        let go = b.compare(CompareOp::Lt, first, self.walk.count)?;
        let scalar = Type::scalar(DType::I64);
        let buffers = [0, 1].map(|i| windows.iter().map(|w| w[i]).collect::<Vec<Value>>());
        let initial = [vec![first, done], arrays, buffers.concat()].concat();
        let types = initial.iter().map(|v| b.ty(*v).clone());
        let types: Vec<Type> = std::iter::once(scalar).chain(types).collect();
        let (_, inner) = b.begin_region(&types);
        let (place, done) = (inner[1], inner[2]);
        let (now, buffers) = inner[3..].split_at(inner.len() - 3 - 2 * windows.len());
        let (filled, free) = buffers.split_at(windows.len());
        let kind = b.gather(self.walk.kind, place)?;
        let count = self.batch_size(b, place)?;
        let next = b.binary(BinaryOp::Add, place, count)?;
        let places = Places {
            place,
            next,
            done,
            then: self.then(b, [next, count, done])?,
        };
        let mut left = vec![];
        for own in streamed {
            let range = left.len()..left.len() + own.values.len();
            let window = Window {
                streamed: own,
                now: &filled[range.clone()],
                free: &free[range],
            };
            left.extend(self.advanced(b, &window, places, sizes)?);
        }
        let mut at = filled.iter();
        for own in streamed {
            let from = self.number(b, own.k, place)?;
            let known = own.values.iter().zip(at.by_ref());
            let known = known.map(|(value, array)| (*value, Known::Ahead(*array, from)));
            self.known[own.k].extend(known);
        }
        let rows = self.level(b, pass, [place, kind, count], now)?;
        for own in streamed {
            self.known[own.k].retain(|value, _| !own.values.contains(value));
        }
        let more = b.compare(CompareOp::Lt, next, self.walk.count)?;
        let mut yields = vec![more, next, places.then];
        for (&array, &rows) in now.iter().zip(&rows) {
            yields.push(written(b, array, rows, place)?);
        }
        yields.extend(left);
        yields.extend(filled);
        let body = b.end_region(&yields);
        let count = now.len();
        let results = b.loop_(None, Some(go), &initial, body)?;
        Ok(results[2..][..count].to_vec())
    }

    /// The maximum number of rows of a window.
    fn room(&self) -> usize {
        self.policy.rows + self.policy.stages.pace.ahead
    }

    /// An array for early rows, without any.
    fn window(&self, b: &mut FuncBuilder, own: &Streamed, value: usize) -> Result<Value> {
        let room = b.i64(self.room() as i64);
        let array = zeros(b, &own.types[value], own.sizes[value], room)?;
        if let Type::Tensor(TensorType { dtype, shape }) = &own.types[value] {
            let room = Dim::from(self.room());
            let shape = shape.as_ref().map(|s| [&[room][..], s].concat());
            let dtype = *dtype;
            b.refine_type(array, Type::Tensor(TensorType { dtype, shape }))?;
        }
        Ok(array)
    }

    /// The place up to which early rows are evaluated before the batch at a place, and if there is
    /// room behind it.
    fn prepared(&self, b: &mut FuncBuilder, first: Value) -> Result<Value> {
        let (ahead, end) = (self.policy.stages.pace.ahead, self.batch_end(b, first)?);
        let ahead = b.i64(ahead as i64);
        let most = b.binary(BinaryOp::Add, end, ahead)?;
        Ok(b.binary(BinaryOp::Min, most, self.walk.count)?)
    }

    /// The end of the batch at a place; the number of states if there is none.
    fn batch_end(&self, b: &mut FuncBuilder, place: Value) -> Result<Value> {
        let (zero, one) = (b.i64(0), b.i64(1));
        let last = b.binary(BinaryOp::Sub, self.walk.count, one)?;
        let last = b.binary(BinaryOp::Max, last, zero)?;
        let at = b.binary(BinaryOp::Min, place, last)?;
        let end = b.gather(self.walk.end, at)?;
        let rest = b.binary(BinaryOp::Sub, end, at)?;
        let rest = b.binary(BinaryOp::Max, rest, one)?;
        let size = self.part_size(b, rest)?;
        let end = b.binary(BinaryOp::Add, at, size)?;
        Ok(b.binary(BinaryOp::Min, end, self.walk.count)?)
    }

    /// The place up to which early rows are there when an iteration ends: those of the next batch at
    /// least, and as many as idle units have time for, if there is room.
    fn then(&self, b: &mut FuncBuilder, [next, count, done]: [Value; 3]) -> Result<Value> {
        let share = (self.policy.stages.pace.share * PARTS as f64).round() as i64;
        let (share, parts, up) = (b.i64(share), b.i64(PARTS), b.i64(PARTS - 1));
        let new = b.binary(BinaryOp::Mul, count, share)?;
        let new = b.binary(BinaryOp::Add, new, up)?;
        let new = b.binary(BinaryOp::Div, new, parts)?;
        let wanted = b.binary(BinaryOp::Add, done, new)?;
        let least = self.batch_end(b, next)?;
        let wanted = b.binary(BinaryOp::Max, wanted, least)?;
        let most = self.prepared(b, next)?;
        Ok(b.binary(BinaryOp::Min, wanted, most)?)
    }

    /// The number of states of a kind in front of a place.
    fn number(&self, b: &mut FuncBuilder, k: usize, place: Value) -> Result<Value> {
        match self.lists[k] {
            Some([_, numbers]) => Ok(b.gather(numbers, place)?),
            None => Ok(place),
        }
    }

    /// Rows of the early values of a kind for its states between two places.
    fn early(
        &self,
        b: &mut FuncBuilder,
        own: &Streamed,
        [first, end]: [Value; 2],
        sizes: SizesOf,
    ) -> Result<Vec<Value>> {
        let first = self.number(b, own.k, first)?;
        let end = self.number(b, own.k, end)?;
        let mut rows = Rows {
            which: Which::From {
                place: first,
                number: None,
            },
            count: b.binary(BinaryOp::Sub, end, first)?,
            dim: Dim::Unknown(Some(self.room() as u64)),
        };
        if let Some([places, _]) = self.lists[own.k] {
            let places = rows.part(b, places, first)?;
            let numbers = None;
            rows.which = Which::At { places, numbers };
        }
        self.of_kind_if_any(b, own.k, &rows, &own.values, &own.types, sizes)
    }

    /// The window of the next batch: what is left of this one's, and new rows.
    fn advanced(
        &self,
        b: &mut FuncBuilder,
        window: &Window,
        places: Places,
        sizes: SizesOf,
    ) -> Result<Vec<Value>> {
        let Places {
            place,
            next,
            done,
            then,
        } = places;
        let (own, zero) = (window.streamed, b.i64(0));
        let new = self.early(b, own, [done, then], sizes)?;
        let numbers = [place, next, done].map(|place| self.number(b, own.k, place));
        let [place, next, done] = numbers;
        let (place, next, done) = (place?, next?, done?);
        let used = b.binary(BinaryOp::Sub, next, place)?;
        let left = Rows {
            which: Which::From {
                place: used,
                number: None,
            },
            count: b.binary(BinaryOp::Sub, done, next)?,
            dim: Dim::Unknown(Some(self.policy.stages.pace.ahead as u64)),
        };
        let mut filled = vec![];
        for ((&now, &free), new) in window.now.iter().zip(window.free).zip(new) {
            let mut array = free;
            if self.policy.stages.pace.ahead > 0 {
                let kept = left.part(b, now, used)?;
                array = written(b, array, kept, zero)?;
            }
            filled.push(written(b, array, new, left.count)?);
        }
        Ok(filled)
    }
}
