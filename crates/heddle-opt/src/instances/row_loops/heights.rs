//! The order of activations: by height, in one pass over them and what they need.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, ScatterReduce};
use heddle_ir::{DType, FuncBuilder, Op, Type, Value};

use super::Activations;
use crate::batch::Result;
use crate::instances::lane::Ragged;
use crate::instances::set::plus;

/// Dependences between activations.
pub struct Needs {
    /// For each activation, earlier ones of its instance whose rows it reads; the total stands for
    /// none.
    pub before: Ragged,
    /// For each activation, later ones whose rows it reads: they must not be written by then. The
    /// total plus one stands for none.
    pub behind: Ragged,
}

/// Activations by height.
pub struct Order {
    /// `i64[total]`.
    pub all: Value,
    /// `i64[heights]`: the place of the first of each height.
    pub first: Value,
    /// `i64[heights]`: their number.
    pub counts: Value,
    /// `i64[]`: the number of heights.
    pub heights: Value,
}

/// Appends the computation of the order. Activations of an instance follow each other, and need only
/// earlier ones, so one pass finds all heights.
pub fn order(b: &mut FuncBuilder, all: &Activations, needs: &Needs) -> Result<Order> {
    let height = heights(b, all, needs)?;
    let (one, minus) = (b.i64(1), b.i64s(&[-1]));
    let some = b.join(&[height, minus])?;
    let (kind, axes, keep) = (ReduceOp::Max, vec![0], false);
    let highest = b.op1(Op::Reduce { kind, axes, keep }, &[some])?;
    let heights = plus(b, highest, one)?;
    let (zero, size) = (b.i64(0), b.vector_of(heights)?);
    let none = b.op1(Op::Broadcast, &[zero, size])?;
    let total = b.vector_of(all.total)?;
    let ones = b.op1(Op::Broadcast, &[one, total])?;
    let scatter = Op::ScatterElements {
        axis: 0,
        reduce: ScatterReduce::Add,
    };
    let counts = b.op1(scatter, &[none, height, ones])?;
    let sums = Op::Cumulative {
        kind: ReduceOp::Sum,
        axis: 0,
        exclusive: true,
        reverse: false,
    };
    let first = b.op1(sums, &[counts])?;
    Ok(Order {
        all: sorted(b, all, height, first)?,
        first,
        counts,
        heights,
    })
}

/// `i64[total]`: the height of each activation.
fn heights(b: &mut FuncBuilder, all: &Activations, needs: &Needs) -> Result<Value> {
    let (zero, one, two) = (b.i64(0), b.i64(1), b.i64(2));
    // A missing row has a place of its own below all heights, which no activation writes.
    let size = plus(b, all.total, two)?;
    let size = b.vector_of(size)?;
    let start = b.op1(Op::Broadcast, &[zero, size])?;
    let (below, at) = (b.i64s(&[-1]), b.vector_of(all.total)?);
    let start = b.op1(Op::UpdateSlice, &[start, below, at])?;
    // The second pass over what activations read is needed only if some of it is written later.
    let none = plus(b, all.total, one)?;
    let is_later = b.compare(CompareOp::Ne, needs.behind.data, none)?;
    let is_later = b.cast(DType::I64, is_later)?;
    let nothing = b.i64s(&[0]);
    let is_later = b.join(&[is_later, nothing])?;
    let (kind, axes, keep) = (ReduceOp::Max, vec![0], false);
    let some_later = b.op1(Op::Reduce { kind, axes, keep }, &[is_later])?;
    let types = [Type::scalar(DType::I64), b.ty(start).clone()];
    let (_, params) = b.begin_region(&types);
    let (k, now) = (params[0], params[1]);
    let own = b.gather(now, k)?;
    let height = over(b, needs.before, k, None, own, |b, needed, so_far| {
        let under = b.gather(now, needed)?;
        let above = plus(b, under, one)?;
        Ok(b.binary(BinaryOp::Max, so_far, above)?)
    })?;
    let (row, at) = (b.vector_of(height)?, b.vector_of(k)?);
    let now = b.op1(Op::UpdateSlice, &[now, row, at])?;
    let now = over(
        b,
        needs.behind,
        k,
        Some(some_later),
        now,
        |b, later, now| {
            let known = b.gather(now, later)?;
            let known = b.binary(BinaryOp::Max, known, height)?;
            let (row, at) = (b.vector_of(known)?, b.vector_of(later)?);
            Ok(b.op1(Op::UpdateSlice, &[now, row, at])?)
        },
    )?;
    let body = b.end_region(&[now]);
    let heights = b.loop_(Some(all.total), None, &[start], body)?[0];
    let (from, to, step) = (b.i64s(&[0]), b.vector_of(all.total)?, b.i64s(&[1]));
    Ok(b.op1(Op::Slice { axes: vec![0] }, &[heights, from, to, step])?)
}

/// A loop over the elements of an activation's range, whose number is multiplied by `times` first.
fn over(
    b: &mut FuncBuilder,
    of: Ragged,
    activation: Value,
    times: Option<Value>,
    init: Value,
    step: impl FnOnce(&mut FuncBuilder, Value, Value) -> Result<Value>,
) -> Result<Value> {
    let (start, mut trip) = (
        b.gather(of.starts, activation)?,
        b.gather(of.lens, activation)?,
    );
    if let Some(times) = times {
        trip = b.binary(BinaryOp::Mul, trip, times)?;
    }
    let types = [Type::scalar(DType::I64), b.ty(init).clone()];
    let (_, params) = b.begin_region(&types);
    let place = plus(b, start, params[0])?;
    let element = b.gather(of.data, place)?;
    let next = step(b, element, params[1])?;
    let body = b.end_region(&[next]);
    Ok(b.loop_(Some(trip), None, &[init], body)?[0])
}

/// `i64[total]`: activations by height, in their order; `first` are the places of the first ones.
fn sorted(b: &mut FuncBuilder, all: &Activations, height: Value, first: Value) -> Result<Value> {
    let (one, none) = (b.i64(1), b.iota(all.total)?);
    let types = [first, none].map(|v| b.ty(v).clone());
    let types = [vec![Type::scalar(DType::I64)], types.to_vec()].concat();
    let (_, params) = b.begin_region(&types);
    let [k, next, order] = params[..] else {
        return Err(crate::batch::Refusal::LoopParameter);
    };
    let own = b.gather(height, k)?;
    let place = b.gather(next, own)?;
    let (number, at) = (b.vector_of(k)?, b.vector_of(place)?);
    let order = b.op1(Op::UpdateSlice, &[order, number, at])?;
    let behind = plus(b, place, one)?;
    let (behind, at) = (b.vector_of(behind)?, b.vector_of(own)?);
    let next = b.op1(Op::UpdateSlice, &[next, behind, at])?;
    let body = b.end_region(&[next, order]);
    Ok(b.loop_(Some(all.total), None, &[first, none], body)?[1])
}
