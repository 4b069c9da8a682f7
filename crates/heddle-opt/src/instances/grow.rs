//! Arrays that loops carry in place, with room that grows: elements are appended by loops that a
//! condition ends, or in a number that differs by instance.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, FuncBuilder, Op, Tensor, Value};

use super::lane::{Home, Lane, Ragged};
use super::leave::written;
use super::set::{Set, plus};
use crate::batch::{Refusal, Result};

/// The least room of a range that moves.
const LEAST: i64 = 16;

impl Set<'_> {
    /// Appends arrays to ranges, each of which has `room` elements. Ranges stay where they are while
    /// there is room.
    pub(super) fn append_growing(
        &self,
        b: &mut FuncBuilder,
        to: Ragged,
        home: Home,
        mut room: Value,
        more: &[Lane],
    ) -> Result<Ragged> {
        let mut all = to;
        for &lane in more {
            let own = self.as_ragged(b, lane)?;
            let own = self.packed(b, own)?;
            let lens = plus(b, all.lens, own.lens)?;
            (all, room) = self.with_room_for(b, all, room, lens)?;
            let places = self.places(b, own.lens)?;
            let end = plus(b, all.starts, all.lens)?;
            let first = b.gather(end, places.instance)?;
            let place = plus(b, first, places.within)?;
            let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[place])?;
            all.data = written(b, all.data, at, own.data)?;
            all.lens = lens;
        }
        let room = Some(room);
        all.home = Some(Home { room, ..home });
        Ok(all)
    }

    /// Ranges with room for so many elements, and that room. Where one is full, all that are more
    /// than half full move behind the others, to twice the room that they need.
    fn with_room_for(
        &self,
        b: &mut FuncBuilder,
        x: Ragged,
        room: Value,
        lens: Value,
    ) -> Result<(Ragged, Value)> {
        let is_full = b.compare(CompareOp::Gt, lens, room)?;
        let is_full = b.any(is_full)?;
        b.begin_region(&[]);
        let (zero, two, least) = (b.i64(0), b.i64(2), b.i64(LEAST));
        let wide = b.binary(BinaryOp::Mul, lens, two)?;
        let moves = b.compare(CompareOp::Gt, wide, room)?;
        let wide = b.binary(BinaryOp::Max, wide, least)?;
        let added = b.select(moves, wide, zero)?;
        let behind = b.size(x.data, 0)?;
        let before = self.sums_before(b, added)?;
        let to = plus(b, before, behind)?;
        let to = b.select(moves, to, x.starts)?;
        let rooms = b.select(moves, wide, room)?;
        let total = self.total(b, added)?;
        let none = self.zeros(b, x.data, total)?;
        let data = b.join(&[x.data, none])?;
        let own = b.select(moves, x.lens, zero)?;
        let moved = self.picked(b, x, x.starts, own, 1)?;
        let places = self.places(b, own)?;
        let first = b.gather(to, places.instance)?;
        let place = plus(b, first, places.within)?;
        let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[place])?;
        let data = written(b, data, at, moved.data)?;
        let then = b.end_region(&[data, to, rooms]);
        b.begin_region(&[]);
        let otherwise = b.end_region(&[x.data, x.starts, room]);
        match b.if_(is_full, then, otherwise)?[..] {
            [data, starts, room] => Ok((Ragged { data, starts, ..x }, room)),
            _ => Err(Refusal::NotEvaluated),
        }
    }

    /// So many elements of 0, each like those of an array.
    pub(super) fn zeros(&self, b: &mut FuncBuilder, like: Value, count: Value) -> Result<Value> {
        let rank = b.rank(like).ok_or(Refusal::UnknownRank)?;
        let (count, rest) = (b.vector_of(count)?, b.sizes(like, 1..rank)?);
        let sizes = b.join(&[count, rest])?;
        let dtype = b.ty(like).as_tensor().map(|t| t.dtype);
        let dtype = dtype.filter(|d| d.is_arith() || *d == DType::Bool);
        let zero = Tensor::splat(dtype.ok_or(Refusal::NoTensor)?, vec![], 0.0);
        let zero = b.constant(zero);
        Ok(b.op1(Op::Broadcast, &[zero, sizes])?)
    }

    /// Ranges with their room: elements, sizes, starts and rooms.
    pub(super) fn with_rooms(&self, b: &mut FuncBuilder, lane: Lane) -> Result<[Value; 4]> {
        let x = self.as_ragged(b, lane)?;
        Ok(match x.home.and_then(|home| home.room) {
            Some(room) => [x.data, x.lens, x.starts, room],
            None => {
                let x = self.packed(b, x)?;
                [x.data, x.lens, x.starts, x.lens]
            }
        })
    }
}
