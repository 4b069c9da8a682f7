//! The form of ops on arrays that differ in the size of their first axis.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{Dim, FuncBuilder, Op, Value};

use super::lane::{Lane, Ragged};
use super::ragged::are_equal;
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
                [0] => Ok(vec![self.slice(b, x, bounds)?]),
                [0, ..] => Err(refused()),
                _ => self.along(b, op, x, bounds),
            },
            (Op::Dot, &[Lane::Ragged(x), Lane::Same(w)]) => match (b.rank(x.data), b.rank(w)) {
                (Some(2), Some(2)) => self.along(b, op, x, &args[1..]),
                _ => Err(refused()),
            },
            (
                Op::Reduce { axes, .. } | Op::Squeeze { axes } | Op::Unsqueeze { axes },
                &[Lane::Ragged(x)],
            ) if !axes.contains(&0) => self.along(b, op, x, &[]),
            (Op::ArgReduce { axis, .. } | Op::Cumulative { axis, .. }, &[Lane::Ragged(x)])
                if *axis > 0 =>
            {
                self.along(b, op, x, &[])
            }
            (Op::Concat { axis }, _) if *axis > 0 => {
                let parts = self.alike(b, args)?;
                let data: Vec<Value> = parts.iter().map(|x| x.data).collect();
                let data = b.op1(op.clone(), &data)?;
                Ok(vec![Lane::Ragged(Ragged { data, ..parts[0] })])
            }
            _ => Err(refused()),
        }
    }

    /// An op that does not touch the first axis, on all elements.
    fn along(&self, b: &mut FuncBuilder, op: &Op, x: Ragged, rest: &[Lane]) -> Result<Vec<Lane>> {
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
        let parts: Result<Vec<Ragged>> = args.iter().map(|&x| self.as_ragged(b, x)).collect();
        let mut parts = parts?.into_iter();
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

    /// Arrays with a first axis as ranges.
    pub(super) fn as_ragged(&self, b: &mut FuncBuilder, lane: Lane) -> Result<Ragged> {
        let (data, size, step) = match lane {
            Lane::Ragged(x) => return Ok(x),
            Lane::Same(x) => (x, b.size(x, 0)?, b.i64(0)),
            Lane::Rows(x) => {
                let rank = b.rank(x).ok_or(Refusal::UnknownRank)?;
                let (each, rest) = (b.size(x, 1)?, b.sizes(x, 2..rank)?);
                let total = b.binary(BinaryOp::Mul, self.count, each)?;
                let total = b.vector_of(total)?;
                let shape = b.join(&[total, rest])?;
                (b.op1(Op::Reshape, &[x, shape])?, each, each)
            }
        };
        let instances = b.iota(self.count)?;
        let starts = b.binary(BinaryOp::Mul, instances, step)?;
        Ok(Ragged {
            data,
            starts,
            lens: self.spread(b, Lane::Same(size))?,
            is_packed: matches!(lane, Lane::Rows(_)),
            home: None,
        })
    }

    /// All operands as packed arrays of the same ranges.
    fn alike(&self, b: &mut FuncBuilder, args: &[Lane]) -> Result<Vec<Ragged>> {
        let mut parts = vec![];
        for &lane in args {
            let Lane::Ragged(x) = lane else {
                return Err(Refusal::SizesByRow("concat"));
            };
            parts.push(x);
        }
        let first = parts[0];
        if parts
            .iter()
            .any(|x| !are_equal(b.func(), x.lens, first.lens))
        {
            return Err(Refusal::SizesByRow("sizes that may differ"));
        }
        parts.into_iter().map(|x| self.packed(b, x)).collect()
    }

    /// An elementwise op. Operands that do not have the first axis are repeated along it.
    fn elementwise(&self, b: &mut FuncBuilder, op: &Op, args: &[Lane]) -> Result<Lane> {
        let refused = || Refusal::SizesByRow(op.name());
        let ragged = args.iter().filter(|lane| is_ragged(**lane));
        let ragged: Vec<Lane> = ragged.copied().collect();
        let ranges = self.alike(b, &ragged)?[0];
        let ranks: Result<Vec<usize>> = args.iter().map(|&lane| rank(b, lane)).collect();
        let ranks = ranks?;
        let most = ranks.iter().copied().max().unwrap_or(0);
        let mut operands = vec![];
        for (&lane, &own) in args.iter().zip(&ranks) {
            operands.push(match lane {
                Lane::Ragged(_) if own < most => return Err(refused()),
                Lane::Ragged(x) => self.packed(b, x)?.data,
                Lane::Same(v) if own < most || has_one(b, v, 0) => v,
                Lane::Rows(v) if own < most => {
                    let all = self.repeated(b, v, ranges.lens)?;
                    match own + 1 < most {
                        true => {
                            let axes = (1..most - own).collect();
                            b.op1(Op::Unsqueeze { axes }, &[all])?
                        }
                        false => all,
                    }
                }
                Lane::Same(_) | Lane::Rows(_) => return Err(refused()),
            });
        }
        let data = b.op1(op.clone(), &operands)?;
        Ok(Lane::Ragged(Ragged { data, ..ranges }))
    }

    /// A slice of each range, with Python's bounds.
    fn slice(&self, b: &mut FuncBuilder, x: Ragged, bounds: &[Lane]) -> Result<Lane> {
        let [start, end, step] = *bounds else {
            return Err(Refusal::NotEvaluated);
        };
        let step = match step {
            Lane::Same(v) => b.func().constant(v).and_then(|t| t.to_vec::<i64>()),
            _ => None,
        };
        let step = match step.as_deref() {
            Some(&[step @ (1 | -1)]) => step,
            _ => return Err(Refusal::SizesByRow("slice")),
        };
        let (zero, one) = (b.i64(0), b.i64(1));
        if is_turn(b, bounds) {
            let last = b.binary(BinaryOp::Sub, x.lens, one)?;
            let starts = b.binary(BinaryOp::Add, x.starts, last)?;
            return Ok(Lane::Ragged(self.picked(b, x, starts, x.lens, -1)?));
        }
        // Forwards from the first to before the last; backwards the range moves down by one.
        let mut bound = |lane: Lane| -> Result<Value> {
            let axis = match lane {
                Lane::Same(_) => 0,
                _ => 1,
            };
            let v = b.op1(Op::Squeeze { axes: vec![axis] }, &[value(lane)?])?;
            let is_negative = b.compare(CompareOp::Lt, v, zero)?;
            let from_end = b.binary(BinaryOp::Add, v, x.lens)?;
            let v = b.select(is_negative, from_end, v)?;
            let (low, high) = match step {
                1 => (zero, x.lens),
                _ => (b.i64(-1), b.binary(BinaryOp::Sub, x.lens, one)?),
            };
            let v = b.binary(BinaryOp::Max, v, low)?;
            Ok(b.binary(BinaryOp::Min, v, high)?)
        };
        let (start, end) = (bound(start)?, bound(end)?);
        let len = match step {
            1 => b.binary(BinaryOp::Sub, end, start)?,
            _ => b.binary(BinaryOp::Sub, start, end)?,
        };
        let lens = b.binary(BinaryOp::Max, len, zero)?;
        let starts = match (step, bounds[0]) {
            (1, Lane::Same(v)) if is_zero(b, v) => x.starts,
            _ => b.binary(BinaryOp::Add, x.starts, start)?,
        };
        Ok(Lane::Ragged(match step {
            1 => Ragged {
                starts,
                lens,
                is_packed: false,
                home: x.home.filter(|_| starts == x.starts),
                ..x
            },
            _ => self.picked(b, x, starts, lens, step)?,
        }))
    }
}

/// A slice of all elements, from the last to the first.
fn is_turn(b: &FuncBuilder, bounds: &[Lane]) -> bool {
    let constant = |lane: &Lane| match lane {
        Lane::Same(v) => b.func().constant(*v)?.to_vec::<i64>()?.first().copied(),
        _ => None,
    };
    let bounds: Option<Vec<i64>> = bounds.iter().map(constant).collect();
    matches!(bounds.as_deref(), Some(&[-1 | i64::MAX, end, -1]) if end < -i64::from(u32::MAX))
}

fn is_zero(b: &FuncBuilder, v: Value) -> bool {
    b.func().constant(v).and_then(|t| t.to_i64s()).as_deref() == Some(&[0])
}

fn is_ragged(lane: Lane) -> bool {
    matches!(lane, Lane::Ragged(_))
}

/// The array, if sizes are the same for all.
fn value(lane: Lane) -> Result<Value> {
    Ok(lane.batched().ok_or(Refusal::UnknownSize)?.value())
}

/// The number of axes in one instance.
fn rank(b: &FuncBuilder, lane: Lane) -> Result<usize> {
    let (value, more) = match lane {
        Lane::Same(v) => (v, 0),
        Lane::Rows(v) => (v, 1),
        Lane::Ragged(r) => (r.data, 0),
    };
    Ok(b.rank(value).ok_or(Refusal::UnknownRank)? - more)
}

/// Is the size of the axis 1?
fn has_one(b: &FuncBuilder, value: Value, axis: usize) -> bool {
    let tensor = b.ty(value).as_tensor();
    let shape = tensor.and_then(|t| t.shape.as_ref());
    shape.is_some_and(|shape| shape.get(axis).is_some_and(|d: &Dim| d.is(1)))
}
