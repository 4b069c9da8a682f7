//! The largest and smallest elements of padded rows, and sorting.

use heddle_ir::op::{BinaryOp, CompareOp, Extreme, PadMode, ReduceOp};
use heddle_ir::{DType, FuncBuilder, Op, Tensor, Value};

use super::super::lane::Ragged;
use super::super::ragged::are_equal;
use super::super::segments::EMPTY;
use super::super::set::Set;
use super::super::set::largest;
use super::rules::{kind_of, with_none, without};
use super::{Padded, element, over_first};
use crate::batch::{Batched, Refusal, Result};

impl Set<'_> {
    /// The largest or smallest elements along an axis; their number may differ by instance. Elements
    /// outside of an instance's array come last.
    pub(super) fn padded_top(
        &self,
        b: &mut FuncBuilder,
        op: &Op,
        (axis, kind): (usize, Extreme),
        args: &[Padded],
    ) -> Result<Vec<Padded>> {
        let [x, count] = args else {
            return Err(Refusal::NotEvaluated);
        };
        let zero = b.i64(0);
        let mut sizes = with_none(&x.sizes, &[axis]);
        let own = count.data.value();
        let mut most = own;
        if count.data.is_rows() {
            most = largest(b, own)?;
            sizes[axis] = Some(own);
        }
        let may_misfit = match x.sizes[axis] {
            Some(lens) => !are_equal(b.func(), lens, own),
            None => count.data.is_rows(),
        };
        if may_misfit {
            let mut wrong = b.compare(CompareOp::Lt, own, zero)?;
            if let Some(lens) = x.sizes[axis] {
                let more = b.compare(CompareOp::Gt, own, lens)?;
                wrong = b.binary(BinaryOp::Or, wrong, more)?;
            }
            let message = "`top_k` asks for more elements than the array of an instance has";
            most = self.unless(b, wrong, message, most)?;
        }
        let fill = self.last(b, x, kind)?;
        let mut data = self.masked(b, x, &[axis], fill)?;
        if count.data.is_rows() {
            // Each instance has a part of its own of an array that all share.
            data = Batched::Rows(self.spread(b, data.into())?);
        }
        let data = match x.sizes[axis] {
            // Without instances there are no elements.
            Some(_) => self.at_least(b, data, axis, most, fill)?,
            None => data,
        };
        self.rule(b, op, &[data, Batched::Same(most)], &sizes)
    }

    /// The place of the first extreme along an axis.
    pub(super) fn padded_extreme(
        &self,
        b: &mut FuncBuilder,
        op: &Op,
        (axis, kind, keep): (usize, Extreme, bool),
        x: &Padded,
    ) -> Result<Vec<Padded>> {
        let sizes = match keep {
            true => with_none(&x.sizes, &[axis]),
            false => without(&x.sizes, &[axis]),
        };
        let Some(lens) = x.sizes[axis] else {
            return self.rule(b, op, &[x.data], &sizes);
        };
        // The last of equal elements may be outside.
        if matches!(op, Op::ArgReduce { last: true, .. }) {
            return Err(Refusal::SizesByRow(op.name()));
        }
        // An instance without elements has no extreme, unless its result has no elements either.
        let zero = b.i64(0);
        let mut wrong = b.compare(CompareOp::Eq, lens, zero)?;
        for (other, size) in x.sizes.iter().enumerate().filter(|(k, _)| *k != axis) {
            let size = match *size {
                Some(lens) => lens,
                None => b.size(x.data.value(), other + 1)?,
            };
            let is_some = b.compare(CompareOp::Gt, size, zero)?;
            wrong = b.binary(BinaryOp::And, wrong, is_some)?;
        }
        let mut own = x.clone();
        own.sizes[axis] = Some(self.unless(b, wrong, EMPTY, lens)?);
        let data = self.masked_for(b, &own, &[axis], kind_of(kind))?;
        self.rule(b, op, &[data], &sizes)
    }

    /// The places of the elements of vectors that are not zero, `[1, ?]`.
    pub(super) fn padded_places(&self, b: &mut FuncBuilder, x: &Padded) -> Result<Vec<Padded>> {
        let lane = self.unpadded(b, x)?.filter(|_| x.rank() == 1);
        let x = self.as_ragged(b, lane.ok_or(Refusal::SizesByRow("nonzero"))?)?;
        let x = self.packed(b, x)?;
        let (ids, _) = self.those(b, x.data)?;
        let places = self.places(b, x.lens)?;
        let data = b.gather(places.within, ids)?;
        let holds = b.cast(DType::Bool, x.data)?;
        let holds = b.cast(DType::I64, holds)?;
        let offsets = self.offsets(b, x)?;
        let kind = ReduceOp::Sum;
        let lens = b.op1(Op::SegmentReduce { kind }, &[holds, offsets])?;
        let starts = self.sums_before(b, lens)?;
        let mut found = self.ranges_padded(b, Ragged::packed(data, starts, lens))?;
        let axes = vec![1];
        found.data = Batched::Rows(b.op1(Op::Unsqueeze { axes }, &[found.data.value()])?);
        found.sizes.insert(0, None);
        Ok(vec![found])
    }

    /// A number that comes last in an order that begins with the largest or smallest.
    fn last(&self, b: &mut FuncBuilder, x: &Padded, kind: Extreme) -> Result<Value> {
        let dtype = element(b, x)?;
        if kind == Extreme::Min && dtype.is_float() {
            return Ok(b.scalar(dtype, f64::NAN));
        }
        let none = b.constant(Tensor::splat(dtype, vec![0], 0.0));
        Ok(b.op1(over_first(kind_of(kind)), &[none])?)
    }

    /// Rows with at least so many elements along an axis.
    fn at_least(
        &self,
        b: &mut FuncBuilder,
        x: Batched,
        axis: usize,
        count: Value,
        with: Value,
    ) -> Result<Batched> {
        let rows = x.value();
        let (rank, zero) = (b.rank(rows).ok_or(Refusal::UnknownRank)?, b.i64(0));
        let size = b.size(rows, axis + 1)?;
        let more = b.binary(BinaryOp::Sub, count, size)?;
        let more = b.binary(BinaryOp::Max, more, zero)?;
        let more = b.vector_of(more)?;
        let (front, back) = (
            b.i64s(&vec![0; rank + axis + 1]),
            b.i64s(&vec![0; rank - axis - 2]),
        );
        let pads = b.join(&[front, more, back])?;
        let mode = PadMode::Constant;
        Ok(Batched::Rows(b.op1(Op::Pad { mode }, &[rows, pads, with])?))
    }
}
