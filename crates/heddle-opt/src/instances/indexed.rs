//! Reads and writes by index tuples where ranges take part, and the different elements of ranges.
//!
//! Places within an instance's range become places in the array of all; those outside of the range are
//! outside of the array, which is an error, as alone.

use heddle_ir::op::{BinaryOp, ScatterReduce};
use heddle_ir::{FuncBuilder, Op, Value};

use super::lane::{Lane, Ragged};
use super::ragged::are_equal;
use super::set::Set;
use crate::batch::{Refusal, Result};

impl Set<'_> {
    /// A read by index tuples.
    pub(super) fn read_tuples(
        &self,
        b: &mut FuncBuilder,
        op: &Op,
        x: Lane,
        indices: Lane,
    ) -> Result<Lane> {
        match (op, x, indices) {
            // The ranges are the first axis that both share.
            (&Op::GatherNd { batch_dims: 1.. }, ..) => self.beside(b, op, &[x, indices]),
            (_, Lane::Same(x), Lane::Ragged(indices)) => {
                let indices = self.packed(b, indices)?;
                let data = b.op1(op.clone(), &[x, indices.data])?;
                Ok(Lane::Ragged(Ragged { data, ..indices }))
            }
            (_, x, Lane::Ragged(indices)) => {
                let (x, indices) = (self.as_ragged(b, x)?, self.packed(b, indices)?);
                let of = self.by_element(b, x, indices)?;
                let at = self.tuples(b, of, indices.data)?;
                let data = b.op1(op.clone(), &[x.data, at])?;
                Ok(Lane::Ragged(Ragged { data, ..indices }))
            }
            (_, Lane::Ragged(x), indices) => {
                let indices = self.spread(b, indices)?;
                let at = self.tuples(b, x, indices)?;
                Ok(Lane::Rows(b.op1(op.clone(), &[x.data, at])?))
            }
            _ => Err(Refusal::SizesByRow(op.name())),
        }
    }

    /// A read of an element for each index, along an axis.
    pub(super) fn read_elements(
        &self,
        b: &mut FuncBuilder,
        axis: usize,
        x: Lane,
        indices: Lane,
    ) -> Result<Lane> {
        let (op, refused) = (Op::GatherElements { axis }, || {
            Refusal::SizesByRow("gather_elements")
        });
        let (Lane::Ragged(indices), x) = (indices, self.as_ragged(b, x)?) else {
            return Err(refused());
        };
        if axis > 0 {
            // Other arrays may have more elements than there are indices.
            return match are_equal(b.func(), x.lens, indices.lens) {
                true => self.beside(b, &op, &[Lane::Ragged(x), Lane::Ragged(indices)]),
                false => Err(refused()),
            };
        }
        let indices = self.packed(b, indices)?;
        let of = self.by_element(b, x, indices)?;
        let axes = b.rank(indices.data).ok_or(Refusal::UnknownRank)? - 1;
        let place = self.places_in(b, of, indices.data, axes)?;
        let data = b.op1(op, &[x.data, place])?;
        Ok(Lane::Ragged(Ragged { data, ..indices }))
    }

    /// Writes by indices or index tuples, of which there are ranges, too.
    pub(super) fn write_ranges(
        &self,
        b: &mut FuncBuilder,
        op: &Op,
        x: Ragged,
        (indices, updates): (Lane, Lane),
    ) -> Result<Value> {
        let parts = vec![self.as_ragged(b, indices)?, self.as_ragged(b, updates)?];
        let [indices, updates] = self.alike(b, parts, false)?[..] else {
            return Err(Refusal::NotEvaluated);
        };
        let of = self.by_element(b, x, indices)?;
        let at = match op {
            Op::ScatterNd { .. } => self.tuples(b, of, indices.data)?,
            &Op::ScatterElements { axis: 0, reduce } if b.rank(x.data) == Some(1) => {
                let place = self.places_in(b, of, indices.data, 0)?;
                let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[place])?;
                return Ok(b.op1(Op::ScatterNd { reduce }, &[x.data, at, updates.data])?);
            }
            Op::ScatterElements { axis: 0, .. } if x.home.is_none() => {
                let axes = b.rank(indices.data).ok_or(Refusal::UnknownRank)? - 1;
                self.places_in(b, of, indices.data, axes)?
            }
            _ => return Err(Refusal::SizesByRow(op.name())),
        };
        Ok(b.op1(op.clone(), &[x.data, at, updates.data])?)
    }

    /// Ranges, one for each element of others.
    fn by_element(&self, b: &mut FuncBuilder, x: Ragged, elements: Ragged) -> Result<Ragged> {
        Ok(Ragged {
            starts: self.repeated(b, x.starts, elements.lens)?,
            lens: self.repeated(b, x.lens, elements.lens)?,
            home: None,
            ..x
        })
    }

    /// The different elements of each range. Numbers of the different ones of all ranges take the
    /// place of elements; an instance and such a number together are an integer that is no other
    /// instance's.
    pub(super) fn different(
        &self,
        b: &mut FuncBuilder,
        axis: Option<usize>,
        sorted: bool,
        x: Ragged,
    ) -> Result<Vec<Lane>> {
        let rank = b.rank(x.data).ok_or(Refusal::UnknownRank)?;
        if axis != Some(0) && (axis, rank) != (None, 1) {
            return Err(Refusal::SizesByRow("unique"));
        }
        let unique = |axis, sorted| Op::Unique { axis, sorted };
        let (x, places) = (self.packed(b, x)?, self.places(b, x.lens)?);
        let all = b.op(unique(axis, true), &[x.data])?;
        let most = b.size(all[1], 0)?;
        let base = b.binary(BinaryOp::Mul, places.instance, most)?;
        let keys = b.binary(BinaryOp::Add, base, all[2])?;
        // Elements are in the order of the instances, and so are the first ones of each.
        let own = b.op(unique(Some(0), sorted), &[keys])?;
        let [_, first, inverse, counts] = own[..] else {
            return Err(Refusal::NotEvaluated);
        };
        let whose = b.gather(places.instance, first)?;
        let (none, one, zero) = (b.size(whose, 0)?, b.i64(1), b.i64(0));
        let shape = b.vector_of(none)?;
        let ones = b.op1(Op::Broadcast, &[one, shape])?;
        let instances = b.vector_of(self.count)?;
        let zeros = b.op1(Op::Broadcast, &[zero, instances])?;
        let add = Op::ScatterElements {
            axis: 0,
            reduce: ScatterReduce::Add,
        };
        let lens = b.op1(add, &[zeros, whose, ones])?;
        let starts = self.sums_before(b, lens)?;
        let elements = b.gather(x.data, first)?;
        let begin = b.gather(places.starts, whose)?;
        let first = b.binary(BinaryOp::Sub, first, begin)?;
        let begin = b.gather(starts, places.instance)?;
        let inverse = b.binary(BinaryOp::Sub, inverse, begin)?;
        let made = |data| Lane::Ragged(Ragged::packed(data, starts, lens));
        Ok(vec![
            made(elements),
            made(first),
            Lane::Ragged(Ragged { data: inverse, ..x }),
            made(counts),
        ])
    }
}

/// Does each element along the first axis of the first operand have a result of its own?
pub(super) fn is_by_row(b: &FuncBuilder, op: &Op, x: Ragged) -> bool {
    match op {
        Op::Conv { .. } => true,
        Op::Window { window, .. } => b.rank(x.data).is_some_and(|rank| rank > window.len()),
        _ => false,
    }
}
