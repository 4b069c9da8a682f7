//! Reductions over axes that differ in size.

use heddle_ir::op::{BinaryOp, CompareOp, Extreme, ReduceOp, UnaryOp};
use heddle_ir::{DType, FuncBuilder, Op, Value};

use super::lane::{Lane, Ragged};
use super::set::Set;
use crate::batch::{Refusal, Result};

impl Set<'_> {
    /// A reduction over the first axis and others. Elements are combined in the same order as alone.
    pub(super) fn reduction(
        &self,
        b: &mut FuncBuilder,
        kind: ReduceOp,
        axes: &[usize],
        keep: bool,
        x: Ragged,
    ) -> Result<Lane> {
        let x = self.packed(b, x)?;
        let rank = b.rank(x.data).ok_or(Refusal::UnknownRank)?;
        let offsets = self.offsets(b, x)?;
        let inner: Vec<usize> = axes.iter().copied().filter(|&axis| axis > 0).collect();
        let (data, offsets) = match inner.len() {
            0 => (x.data, offsets),
            // The other reduced axes become one with the first.
            count => {
                let kept = (1..rank).filter(|axis| !inner.contains(axis));
                let perm: Vec<usize> = [0].into_iter().chain(inner.clone()).chain(kept).collect();
                let data = b.op1(Op::Transpose { perm }, &[x.data])?;
                let each = b.sizes(data, 1..1 + count)?;
                let each = b.op1(over_all(ReduceOp::Prod), &[each])?;
                let size = b.size(data, 0)?;
                let size = b.binary(BinaryOp::Mul, size, each)?;
                let (size, rest) = (b.vector_of(size)?, b.sizes(data, 1 + count..rank)?);
                let shape = b.join(&[size, rest])?;
                let data = b.op1(Op::Reshape, &[data, shape])?;
                (data, b.binary(BinaryOp::Mul, offsets, each)?)
            }
        };
        let found = b.op1(Op::SegmentReduce { kind }, &[data, offsets])?;
        let axes = axes.iter().map(|axis| axis + 1).collect();
        Ok(Lane::Rows(match keep {
            true => b.op1(Op::Unsqueeze { axes }, &[found])?,
            false => found,
        }))
    }

    /// The place of the extreme along the first axis: the first or last place that holds the
    /// extreme of the range, or NaN.
    pub(super) fn extreme(
        &self,
        b: &mut FuncBuilder,
        (kind, last): (Extreme, bool),
        keep: bool,
        x: Ragged,
    ) -> Result<Lane> {
        let x = Ragged {
            lens: self.not_empty(b, x.lens)?,
            ..self.packed(b, x)?
        };
        let rank = b.rank(x.data).ok_or(Refusal::UnknownRank)?;
        let (offsets, places) = (self.offsets(b, x)?, self.places(b, x.lens)?);
        let kind = match kind {
            Extreme::Max => ReduceOp::Max,
            Extreme::Min => ReduceOp::Min,
        };
        let most = b.op1(Op::SegmentReduce { kind }, &[x.data, offsets])?;
        let most = b.gather(most, places.instance)?;
        let mut holds = b.compare(CompareOp::Eq, x.data, most)?;
        let dtype = b.ty(x.data).as_tensor().map(|t| t.dtype);
        if dtype.is_some_and(DType::is_float) {
            let is_nan = b.op1(Op::Unary(UnaryOp::IsNan), &[x.data])?;
            holds = b.binary(BinaryOp::Or, holds, is_nan)?;
        }
        let (kind, far) = match last {
            true => (ReduceOp::Max, b.i64(-1)),
            false => (ReduceOp::Min, b.i64(i64::MAX)),
        };
        let within = match rank {
            1 => places.within,
            _ => {
                let axes = (1..rank).collect();
                b.op1(Op::Unsqueeze { axes }, &[places.within])?
            }
        };
        let place = b.select(holds, within, far)?;
        let place = b.op1(Op::SegmentReduce { kind }, &[place, offsets])?;
        Ok(Lane::Rows(match keep {
            true => b.op1(Op::Unsqueeze { axes: vec![1] }, &[place])?,
            false => place,
        }))
    }

    /// Running sums of integers along the first axis: those along all ranges, less those in front of
    /// each range or behind it.
    pub(super) fn running(
        &self,
        b: &mut FuncBuilder,
        op: &Op,
        is_reverse: bool,
        x: Ragged,
    ) -> Result<Lane> {
        let x = self.packed(b, x)?;
        let data = b.op1(op.clone(), &[x.data])?;
        let aside = Op::Cumulative {
            kind: ReduceOp::Sum,
            axis: 0,
            exclusive: false,
            reverse: is_reverse,
        };
        let sums = self.reduction(b, ReduceOp::Sum, &[0], false, x)?;
        let Lane::Rows(sums) = sums else {
            return Err(Refusal::NotEvaluated);
        };
        let upto = b.op1(aside, &[sums])?;
        let others = b.binary(BinaryOp::Sub, upto, sums)?;
        let others = self.repeated(b, others, x.lens)?;
        let data = b.binary(BinaryOp::Sub, data, others)?;
        Ok(Lane::Ragged(Ragged { data, ..x }))
    }

    /// The offsets of packed ranges, `i64[instances + 1]`.
    pub(super) fn offsets(&self, b: &mut FuncBuilder, x: Ragged) -> Result<Value> {
        let end = self.total(b, x.lens)?;
        let end = b.vector_of(end)?;
        Ok(b.join(&[x.starts, end])?)
    }

    /// Sizes of which none may be 0.
    fn not_empty(&self, b: &mut FuncBuilder, lens: Value) -> Result<Value> {
        let zero = b.i64(0);
        let wrong = b.compare(CompareOp::Eq, lens, zero)?;
        self.unless(b, wrong, EMPTY, lens)
    }
}

pub(super) const EMPTY: &str =
    "an arg-reduction needs an element, and the array of an instance has none";

/// A reduction of a vector to a scalar.
fn over_all(kind: ReduceOp) -> Op {
    Op::Reduce {
        kind,
        axes: vec![0],
        keep: false,
    }
}
