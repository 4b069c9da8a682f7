//! Writes to arrays that differ by instance, in place.

use heddle_ir::op::{CompareOp, ReduceOp, ScatterReduce};
use heddle_ir::{FuncBuilder, Op, Value, ValueDef};

use super::carried::ANY_NUMBER;
use super::lane::{Home, Lane, Ragged};
use super::leave::written;
use super::set::{Set, plus};
use crate::batch::{Refusal, Result};

impl Set<'_> {
    /// Appends elements to arrays with room behind them; `None` if there is none, or if it is not
    /// known how many elements these are.
    pub(super) fn append(
        &self,
        b: &mut FuncBuilder,
        to: Ragged,
        more: &[Lane],
    ) -> Result<Option<Ragged>> {
        let Some(home) = to.home else { return Ok(None) };
        if let Some(room) = home.room {
            return self.append_growing(b, to, home, room, more).map(Some);
        }
        let counts: Option<Vec<u32>> = more.iter().map(|&lane| static_size(b, lane)).collect();
        let Some(counts) = counts else {
            self.context
                .grown
                .borrow_mut()
                .insert(home.param, ANY_NUMBER);
            return Ok(None);
        };
        let mut all = to;
        let mut grown = home.grown;
        for (&lane, &count) in more.iter().zip(&counts) {
            let rows = self.spread(b, lane)?;
            let end = plus(b, all.starts, all.lens)?;
            let end = b.op1(Op::Unsqueeze { axes: vec![1] }, &[end])?;
            let (size, within) = (b.i64(count.into()), 0..i64::from(count));
            let within = b.i64s(&within.collect::<Vec<i64>>());
            let place = plus(b, end, within)?;
            let at = b.op1(Op::Unsqueeze { axes: vec![2] }, &[place])?;
            all.data = written(b, all.data, at, rows)?;
            all.lens = plus(b, all.lens, size)?;
            grown += count;
        }
        let param = home.param;
        let home = Some(Home { grown, ..home });
        let mut most = self.context.grown.borrow_mut();
        let most = most.entry(param).or_default();
        *most = grown.max(*most);
        all.home = home;
        Ok(Some(all))
    }

    /// An op that writes elements of ranges.
    pub(super) fn write(
        &self,
        b: &mut FuncBuilder,
        op: &Op,
        x: Ragged,
        by: &[Lane],
    ) -> Result<Lane> {
        let x = match x.home {
            Some(_) => x,
            None => self.packed(b, x)?,
        };
        let refused = || Refusal::SizesByRow(op.name());
        let is_ragged = |lane: &Lane| matches!(lane, Lane::Ragged(_));
        let data = match (op, by) {
            (Op::ScatterElements { .. } | Op::ScatterNd { .. }, &[indices, updates])
                if by.iter().any(is_ragged) =>
            {
                self.write_ranges(b, op, x, (indices, updates))?
            }
            (Op::ScatterElements { axis: 0, reduce }, &[indices, updates])
                if b.rank(x.data) == Some(1) =>
            {
                let indices = self.spread(b, indices)?;
                let place = self.places_in(b, x, indices, 1)?;
                let at = b.op1(Op::Unsqueeze { axes: vec![2] }, &[place])?;
                let updates = self.spread(b, updates)?;
                let op = Op::ScatterNd { reduce: *reduce };
                b.op1(op, &[x.data, at, updates])?
            }
            (Op::ScatterNd { .. }, &[indices, updates]) => {
                let indices = self.spread(b, indices)?;
                let at = self.tuples(b, x, indices)?;
                let updates = self.spread(b, updates)?;
                b.op1(op.clone(), &[x.data, at, updates])?
            }
            (Op::UpdateSlice, &[update, starts]) => self.write_slice(b, x, update, starts)?,
            _ => return Err(refused()),
        };
        Ok(Lane::Ragged(Ragged { data, ..x }))
    }

    /// Lets instances that take the other arm of a branch go on in the arrays that the first arm's
    /// instances wrote: each writes to its own ranges only.
    pub(super) fn go_on_in(&self, b: &FuncBuilder, set: &mut Set, first: &[Lane]) {
        let mut done: Vec<Value> = vec![];
        for &lane in first {
            let Lane::Ragged(Ragged {
                data,
                home: Some(home),
                ..
            }) = lane
            else {
                continue;
            };
            let Some(from) = self.origin(b, data) else {
                continue;
            };
            if done.contains(&home.param) || from == data {
                continue;
            }
            done.push(home.param);
            for lane in set.values.values_mut() {
                if let Lane::Ragged(x) = lane
                    && x.home.is_some()
                    && x.data == from
                {
                    x.data = data;
                }
            }
        }
    }

    /// Ranges of two arms; `place` is the place of each instance among the first's and the
    /// second's.
    pub(super) fn joined(
        &self,
        b: &mut FuncBuilder,
        x: Ragged,
        y: Ragged,
        place: Value,
    ) -> Result<Lane> {
        let home = match (x.home, y.home) {
            (Some(h), Some(g))
                if h.param == g.param
                    && makers(b, y.data).any(|v| v == x.data)
                    && self.origin(b, x.data) == self.origin(b, y.data) =>
            {
                let room = match (h.room, g.room) {
                    (Some(h), Some(g)) => {
                        let rooms = b.join(&[h, g])?;
                        Some(b.gather(rooms, place)?)
                    }
                    _ => None,
                };
                let grown = h.grown.max(g.grown);
                let param = h.param;
                Some(Home { param, grown, room })
            }
            _ => None,
        };
        let (data, behind) = match home {
            Some(_) => (y.data, y.starts),
            None if x.data == y.data => (y.data, y.starts),
            None => {
                let first = b.size(x.data, 0)?;
                (b.join(&[x.data, y.data])?, plus(b, y.starts, first)?)
            }
        };
        let (starts, lens) = (b.join(&[x.starts, behind])?, b.join(&[x.lens, y.lens])?);
        Ok(Lane::Ragged(Ragged {
            data,
            starts: b.gather(starts, place)?,
            lens: b.gather(lens, place)?,
            is_packed: false,
            home,
        }))
    }

    /// The array of this set's values from which writes in place made another.
    fn origin(&self, b: &FuncBuilder, data: Value) -> Option<Value> {
        let is_own = |v: &Value| {
            let is_it = |lane: &Lane| matches!(lane, Lane::Ragged(x) if x.data == *v);
            self.values.values().any(is_it)
        };
        makers(b, data).find(is_own)
    }

    /// Index tuples of each instance as those of all elements.
    pub(super) fn tuples(&self, b: &mut FuncBuilder, x: Ragged, indices: Value) -> Result<Value> {
        let axis = b.rank(indices).ok_or(Refusal::UnknownRank)? - 1;
        let shape = b.ty(indices).as_tensor().and_then(|t| t.shape.as_ref());
        let width = shape.and_then(|shape| shape.last()?.as_const());
        if width.is_none_or(|width| width == 0) {
            return Err(Refusal::SizesByRow("an index tuple"));
        }
        let cut = |b: &mut FuncBuilder, from: i64, to: i64| {
            let (from, to, one) = (b.i64s(&[from]), b.i64s(&[to]), b.i64s(&[1]));
            b.op1(Op::Slice { axes: vec![axis] }, &[indices, from, to, one])
        };
        let (first, rest) = (cut(b, 0, 1)?, cut(b, 1, i64::MAX)?);
        let place = self.places_in(b, x, first, axis)?;
        let rest = b.cast(heddle_ir::DType::I64, rest)?;
        Ok(b.op1(Op::Concat { axis }, &[place, rest])?)
    }

    /// An update of a box that covers all axes but the first.
    fn write_slice(
        &self,
        b: &mut FuncBuilder,
        x: Ragged,
        update: Lane,
        starts: Lane,
    ) -> Result<Value> {
        let (update, starts) = (self.spread(b, update)?, self.spread(b, starts)?);
        let shape = |v: Value, skip: usize| {
            let shape = b.ty(v).as_tensor()?.shape.as_ref()?;
            shape.get(skip..)?.iter().map(|d| d.as_const()).collect()
        };
        let own: Option<Vec<i64>> = shape(x.data, 1);
        if own.is_none() || own != shape(update, 2) {
            return Err(Refusal::SizesByRow("update_slice"));
        }
        let cut = |b: &mut FuncBuilder, from: i64, to: i64| {
            let (from, to, one) = (b.i64s(&[from]), b.i64s(&[to]), b.i64s(&[1]));
            b.op1(Op::Slice { axes: vec![1] }, &[starts, from, to, one])
        };
        let (first, rest) = (cut(b, 0, 1)?, cut(b, 1, i64::MAX)?);
        let count = b.size(update, 1)?;
        let lens = b.op1(Op::Unsqueeze { axes: vec![1] }, &[x.lens])?;
        let begin = b.op1(Op::Unsqueeze { axes: vec![1] }, &[x.starts])?;
        // A box that does not lie inside is written behind the array, which is an error.
        let (zero, behind) = (b.i64(0), plus(b, first, count)?);
        let far = b.compare(CompareOp::Gt, behind, lens)?;
        let before = b.compare(CompareOp::Lt, first, zero)?;
        let aside = b.compare(CompareOp::Ne, rest, zero)?;
        let outside = b.op1(Op::Concat { axis: 1 }, &[far, before, aside])?;
        let outside = b.op1(
            Op::Reduce {
                kind: ReduceOp::Max,
                axes: vec![1],
                keep: true,
            },
            &[outside],
        )?;
        let within = b.iota(count)?;
        let place = plus(b, first, within)?;
        let place = plus(b, begin, place)?;
        let size = b.size(x.data, 0)?;
        let place = b.select(outside, size, place)?;
        let at = b.op1(Op::Unsqueeze { axes: vec![2] }, &[place])?;
        // Boxes that do not lie inside have one place.
        let reduce = ScatterReduce::Set;
        Ok(b.op1(Op::ScatterNd { reduce }, &[x.data, at, update])?)
    }
}

/// The first size of each instance's array, if it is static.
fn static_size(b: &FuncBuilder, lane: Lane) -> Option<u32> {
    let (value, axis) = match lane {
        Lane::Same(v) => (v, 0),
        Lane::Rows(v) => (v, 1),
        Lane::Ragged(_) => return None,
    };
    let shape = b.ty(value).as_tensor()?.shape.as_ref()?;
    u32::try_from(shape.get(axis)?.as_const()?).ok()
}

/// An array, and those from which writes in place made it.
fn makers(b: &FuncBuilder, data: Value) -> impl Iterator<Item = Value> {
    std::iter::successors(Some(data), |&v| {
        let ValueDef::Result(inst, k) = b.func().values[v].def else {
            return None;
        };
        let made = &b.func().insts[inst];
        match made.op {
            Op::ScatterNd { .. } => Some(made.args[0]),
            // Ranges that had room.
            Op::If => Some(b.func().regions[made.regions[1]].yields[k as usize]),
            _ => None,
        }
    })
}
