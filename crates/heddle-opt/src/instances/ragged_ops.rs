//! The form of ops on arrays that differ in the size of their first axis.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp};
use heddle_ir::{Dim, FuncBuilder, Op, Value};

use super::indexed::is_by_row;
use super::lane::{Lane, Ragged};
use super::set::Set;
use crate::batch::{Refusal, Result};

impl Set<'_> {
    /// An op of which at least one operand is ragged.
    pub(super) fn ragged_op(
        &self,
        b: &mut FuncBuilder,
        op: &Op,
        args: &[Lane],
    ) -> Result<Vec<Lane>> {
        let refused = || Refusal::SizesByRow(op.name());
        match (op, args) {
            (Op::Unary(_) | Op::Cast { .. } | Op::Bitcast { .. }, &[Lane::Ragged(x)]) => {
                let x = self.packed(b, x)?;
                let data = b.op1(op.clone(), &[x.data])?;
                Ok(vec![Lane::Ragged(Ragged { data, ..x })])
            }
            (Op::Binary(_) | Op::Compare(_) | Op::Select, _) => {
                Ok(vec![self.elementwise(b, op, args)?])
            }
            (Op::Gather { axis: 0 }, &[Lane::Ragged(x), indices]) if !is_ragged(indices) => {
                let axes = rank(b, indices)?;
                let place = self.places_in(b, x, value(indices)?, axes)?;
                Ok(vec![Lane::Rows(b.gather(x.data, place)?)])
            }
            (Op::Gather { axis: 0 }, &[x, Lane::Ragged(indices)]) => {
                let indices = self.packed(b, indices)?;
                let data = match x {
                    Lane::Same(x) => b.gather(x, indices.data)?,
                    x => {
                        let x = self.as_ragged(b, x)?;
                        let own = |b: &mut FuncBuilder, v| self.repeated(b, v, indices.lens);
                        let (starts, lens) = (own(b, x.starts)?, own(b, x.lens)?);
                        let axes = b.rank(indices.data).ok_or(Refusal::UnknownRank)? - 1;
                        let of = Ragged { starts, lens, ..x };
                        let place = self.places_in(b, of, indices.data, axes)?;
                        b.gather(x.data, place)?
                    }
                };
                Ok(vec![Lane::Ragged(Ragged { data, ..indices })])
            }
            (Op::Concat { axis: 0 }, &[Lane::Ragged(x), ref more @ ..]) => {
                match self.append(b, x, more)? {
                    Some(all) => Ok(vec![Lane::Ragged(all)]),
                    None => Ok(vec![self.behind(b, args)?]),
                }
            }
            (Op::Concat { axis: 0 }, _) => Ok(vec![self.behind(b, args)?]),
            (
                Op::ScatterElements { .. } | Op::ScatterNd { .. } | Op::UpdateSlice,
                &[Lane::Ragged(x), ref by @ ..],
            ) => Ok(vec![self.write(b, op, x, by)?]),
            (Op::Shape, &[Lane::Ragged(x)]) => {
                let lens = b.op1(Op::Unsqueeze { axes: vec![1] }, &[x.lens])?;
                let rank = b.rank(x.data).ok_or(Refusal::UnknownRank)?;
                if rank == 1 {
                    return Ok(vec![Lane::Rows(lens)]);
                }
                let rest = b.sizes(x.data, 1..rank)?;
                let rest = self.spread(b, Lane::Same(rest))?;
                let all = b.op1(Op::Concat { axis: 1 }, &[lens, rest])?;
                Ok(vec![Lane::Rows(all)])
            }
            (Op::Slice { axes }, &[Lane::Ragged(x), ref bounds @ ..]) => match axes[..] {
                [0, ..] => Ok(vec![self.slice(b, axes, x, bounds)?]),
                _ => self.along(b, op, x, bounds),
            },
            (Op::Dot, &[Lane::Ragged(x), Lane::Same(w)]) => match (b.rank(x.data), b.rank(w)) {
                (Some(2), Some(2)) => self.along(b, op, x, &args[1..]),
                _ => Err(refused()),
            },
            (Op::Transpose { perm }, &[Lane::Ragged(x)]) if perm.first() == Some(&0) => {
                self.along(b, op, x, &[])
            }
            (Op::Gather { axis }, &[Lane::Ragged(x), ref rest @ ..]) if *axis > 0 => {
                self.along(b, op, x, rest)
            }
            (Op::GatherNd { .. }, &[x, indices]) => Ok(vec![self.read_tuples(b, op, x, indices)?]),
            (&Op::GatherElements { axis }, &[x, indices]) => {
                Ok(vec![self.read_elements(b, axis, x, indices)?])
            }
            (&Op::Unique { axis, sorted }, &[Lane::Ragged(x)]) => {
                self.different(b, axis, sorted, x)
            }
            (op, &[Lane::Ragged(x), ref rest @ ..]) if is_by_row(b, op, x) => {
                self.along(b, op, x, rest)
            }
            (Op::Concat { axis }, _) if *axis > 0 => Ok(vec![self.beside(b, op, args)?]),
            (op, &[Lane::Ragged(x)]) => self.ragged_reduction(b, op, x),
            _ => Err(refused()),
        }
    }

    /// A reduction, or an op that inserts or removes axes.
    fn ragged_reduction(&self, b: &mut FuncBuilder, op: &Op, x: Ragged) -> Result<Vec<Lane>> {
        match op {
            Op::Reduce { kind, axes, keep } if axes.contains(&0) => {
                Ok(vec![self.reduction(b, *kind, axes, *keep, x)?])
            }
            &Op::ArgReduce {
                kind,
                axis: 0,
                keep,
                last,
            } => Ok(vec![self.extreme(b, (kind, last), keep, x)?]),
            &Op::Cumulative {
                kind: ReduceOp::Sum,
                axis: 0,
                reverse,
                ..
            } if is_int(b, x.data) => Ok(vec![self.running(b, op, reverse, x)?]),
            Op::Reduce { axes, .. } | Op::Squeeze { axes } | Op::Unsqueeze { axes }
                if !axes.contains(&0) =>
            {
                self.along(b, op, x, &[])
            }
            Op::ArgReduce { axis, .. } | Op::Cumulative { axis, .. } if *axis > 0 => {
                self.along(b, op, x, &[])
            }
            _ => Err(Refusal::SizesByRow(op.name())),
        }
    }

    /// An op that does not touch the first axis, on all elements.
    pub(super) fn along(
        &self,
        b: &mut FuncBuilder,
        op: &Op,
        x: Ragged,
        rest: &[Lane],
    ) -> Result<Vec<Lane>> {
        let x = self.packed(b, x)?;
        let rest = rest.iter().map(|&lane| match lane {
            Lane::Same(v) => Ok(v),
            _ => Err(Refusal::SizesByRow(op.name())),
        });
        let rest: Result<Vec<Value>> = rest.collect();
        let results = b.op(op.clone(), &[vec![x.data], rest?].concat())?;
        let lane = |data| Lane::Ragged(Ragged { data, ..x });
        Ok(results.into_iter().map(lane).collect())
    }

    /// Arrays of each instance behind each other.
    fn behind(&self, b: &mut FuncBuilder, args: &[Lane]) -> Result<Lane> {
        let mut parts = vec![];
        for &lane in args {
            let part = self.as_ragged(b, lane)?;
            // Whole arrays are joined.
            let is_wide = self.kinds.borrow().stores.contains(&part.data);
            parts.push(match is_wide {
                true => self.packed(b, part)?,
                false => part,
            });
        }
        let mut parts = parts.into_iter();
        let mut all = parts.next().ok_or(Refusal::NoRows)?;
        for next in parts {
            let lens = b.binary(BinaryOp::Add, all.lens, next.lens)?;
            let places = self.places(b, lens)?;
            let own = |b: &mut FuncBuilder, v| b.gather(v, places.instance);
            let (first, behind) = (own(b, all.lens)?, b.size(all.data, 0)?);
            let in_first = b.compare(CompareOp::Lt, places.within, first)?;
            let from = own(b, all.starts)?;
            let from = b.binary(BinaryOp::Add, from, places.within)?;
            let start = own(b, next.starts)?;
            let other = b.binary(BinaryOp::Sub, places.within, first)?;
            let other = b.binary(BinaryOp::Add, other, start)?;
            let other = b.binary(BinaryOp::Add, other, behind)?;
            let place = b.select(in_first, from, other)?;
            let joined = b.join(&[all.data, next.data])?;
            all = Ragged::packed(b.gather(joined, place)?, places.starts, lens);
        }
        Ok(Lane::Ragged(all))
    }
}

fn is_ragged(lane: Lane) -> bool {
    matches!(lane, Lane::Ragged(_))
}

fn is_int(b: &FuncBuilder, value: Value) -> bool {
    let tensor = b.ty(value).as_tensor();
    tensor.is_some_and(|t| t.dtype.is_int())
}

/// The array, if sizes are the same for all.
pub(super) fn value(lane: Lane) -> Result<Value> {
    Ok(lane.batched().ok_or(Refusal::UnknownSize)?.value())
}

/// The number of axes in one instance.
pub(super) fn rank(b: &FuncBuilder, lane: Lane) -> Result<usize> {
    let (value, more) = match lane {
        Lane::Same(v) => (v, 0),
        Lane::Rows(v) => (v, 1),
        Lane::Ragged(r) => (r.data, 0),
    };
    Ok(b.rank(value).ok_or(Refusal::UnknownRank)? - more)
}

/// Is the size of the axis 1?
pub(super) fn has_one(b: &FuncBuilder, value: Value, axis: usize) -> bool {
    let tensor = b.ty(value).as_tensor();
    let shape = tensor.and_then(|t| t.shape.as_ref());
    shape.is_some_and(|shape| shape.get(axis).is_some_and(|d: &Dim| d.is(1)))
}
