//! Ranges of arrays.

use heddle_ir::op::{BinaryOp, ReduceOp, ScatterReduce};
use heddle_ir::{DType, FuncBuilder, Function, InstData, Op, Tensor, Type, Value, ValueDef};

use super::lane::{Lane, Ragged};
use super::set::{Set, plus};
use crate::batch::{Batched, Refusal, Result};

/// The elements of packed ranges.
pub(super) struct Places {
    /// The instance of each element: `i64[total]`.
    pub instance: Value,
    /// Its place within the instance's range: `i64[total]`.
    pub within: Value,
    /// The first element of each instance: `i64[instances]`.
    pub starts: Value,
}

impl Set<'_> {
    /// The elements of packed ranges of these sizes.
    pub(super) fn places(&self, b: &mut FuncBuilder, lens: Value) -> Result<Places> {
        let total = self.elements(b, lens)?;
        self.places_of(b, lens, total)
    }

    /// The number of elements of ranges of these sizes. If a parameter has such ranges, it is the size
    /// of their array, which is known before the run.
    pub(super) fn elements(&self, b: &mut FuncBuilder, lens: Value) -> Result<Value> {
        let params = &self.source.regions[self.source.body].params;
        let known = params
            .iter()
            .find_map(|param| match self.values.get(param)? {
                Lane::Ragged(x) if x.is_packed && are_equal(b.func(), x.lens, lens) => Some(x.data),
                _ => None,
            });
        match known {
            Some(data) => Ok(b.size(data, 0)?),
            None => self.total(b, lens),
        }
    }

    /// [`Set::places`] of ranges that have so many elements together.
    pub(super) fn places_of(
        &self,
        b: &mut FuncBuilder,
        lens: Value,
        total: Value,
    ) -> Result<Places> {
        let starts = self.sums_before(b, lens)?;
        // An element belongs to the last instance that begins at it or before.
        let (one, zero) = (b.i64(1), b.constant(Tensor::scalar(0i64)));
        let size = plus(b, total, one)?;
        let size = b.vector_of(size)?;
        let none = b.op1(Op::Broadcast, &[zero, size])?;
        let count = b.vector_of(self.count)?;
        let ones = b.op1(Op::Broadcast, &[one, count])?;
        let scatter = Op::ScatterElements {
            axis: 0,
            reduce: ScatterReduce::Add,
        };
        let begin = b.op1(scatter, &[none, starts, ones])?;
        let sums = Op::Cumulative {
            kind: ReduceOp::Sum,
            axis: 0,
            exclusive: false,
            reverse: false,
        };
        let begun = b.op1(sums, &[begin])?;
        let (from, to, step) = (b.i64s(&[0]), b.vector_of(total)?, b.i64s(&[1]));
        let begun = b.op1(Op::Slice { axes: vec![0] }, &[begun, from, to, step])?;
        let instance = b.binary(BinaryOp::Sub, begun, one)?;
        let dim = b.known(total).and_then(|known| known.first().cloned());
        if let Some(dim) = dim.filter(|dim| dim.as_expr().is_some()) {
            b.refine_type(instance, Type::tensor(DType::I64, [dim]))?;
        }
        let all = b.iota(total)?;
        let first = b.gather(starts, instance)?;
        let within = b.binary(BinaryOp::Sub, all, first)?;
        Ok(Places {
            instance,
            within,
            starts,
        })
    }

    /// The same ranges behind each other.
    pub(super) fn packed(&self, b: &mut FuncBuilder, ragged: Ragged) -> Result<Ragged> {
        match ragged.is_packed {
            true => Ok(ragged),
            false => self.picked(b, ragged, ragged.starts, ragged.lens, 1),
        }
    }

    /// Ranges of an array's elements, from `starts` on and `step` apart, behind each other.
    pub(super) fn picked(
        &self,
        b: &mut FuncBuilder,
        of: Ragged,
        starts: Value,
        lens: Value,
        step: i64,
    ) -> Result<Ragged> {
        let places = self.places(b, lens)?;
        let step = b.i64(step);
        let far = b.binary(BinaryOp::Mul, places.within, step)?;
        let first = b.gather(starts, places.instance)?;
        let from = plus(b, first, far)?;
        Ok(Ragged::packed(
            b.gather(of.data, from)?,
            places.starts,
            lens,
        ))
    }

    /// The integers from `start` to before `limit` for each instance.
    pub(super) fn range_to(
        &self,
        b: &mut FuncBuilder,
        start: Batched,
        limit: Batched,
        step: Batched,
    ) -> Result<Lane> {
        let is_int = |b: &FuncBuilder| matches!(b.ty(start.value()), Type::Tensor(t) if t.dtype == DType::I64);
        let step = b.func().constant(step.value()).and_then(|t| t.to_i64s());
        if !is_int(b) || step.as_deref() != Some(&[1]) {
            return Err(Refusal::SizesByRow("range"));
        }
        let (start, limit) = (self.spread(b, start.into())?, self.spread(b, limit.into())?);
        let (size, zero) = (b.binary(BinaryOp::Sub, limit, start)?, b.i64(0));
        let lens = b.binary(BinaryOp::Max, size, zero)?;
        let places = self.places(b, lens)?;
        let first = b.gather(start, places.instance)?;
        let data = plus(b, first, places.within)?;
        Ok(Lane::Ragged(Ragged::packed(data, places.starts, lens)))
    }

    /// Rows, one for each element of ranges of these sizes.
    pub(super) fn repeated(&self, b: &mut FuncBuilder, rows: Value, lens: Value) -> Result<Value> {
        let places = self.places(b, lens)?;
        Ok(b.gather(rows, places.instance)?)
    }

    /// Places within an instance's range as places in the array; those outside are outside of it.
    /// `indices` are integers, negative ones counted from the end, and may have more axes.
    pub(super) fn places_in(
        &self,
        b: &mut FuncBuilder,
        of: Ragged,
        indices: Value,
        axes: usize,
    ) -> Result<Value> {
        let indices = b.cast(DType::I64, indices)?;
        let more = |b: &mut FuncBuilder, v: Value| match axes {
            0 => Ok(v),
            _ => b.op1(
                Op::Unsqueeze {
                    axes: (1..=axes).collect(),
                },
                &[v],
            ),
        };
        let (starts, lens) = (more(b, of.starts)?, more(b, of.lens)?);
        let zero = b.i64(0);
        let is_negative = b.compare(heddle_ir::op::CompareOp::Lt, indices, zero)?;
        let from_end = plus(b, indices, lens)?;
        let place = b.select(is_negative, from_end, indices)?;
        let before = b.compare(heddle_ir::op::CompareOp::Lt, place, zero)?;
        let behind = b.compare(heddle_ir::op::CompareOp::Ge, place, lens)?;
        let outside = b.binary(BinaryOp::Or, before, behind)?;
        let place = plus(b, starts, place)?;
        let size = b.size(of.data, 0)?;
        Ok(b.select(outside, size, place)?)
    }
}

/// Are sizes of ranges certainly the same? Both are known not to be negative.
pub(super) fn are_equal(f: &Function, x: Value, y: Value) -> bool {
    is_same(f, x, y, MAX_DEPTH)
        || not_below_zero(f, x).is_some_and(|x| is_same(f, x, y, MAX_DEPTH))
        || not_below_zero(f, y).is_some_and(|y| is_same(f, x, y, MAX_DEPTH))
}

/// Limit on the instructions behind each other that are compared.
const MAX_DEPTH: usize = 8;

fn is_same(f: &Function, x: Value, y: Value, depth: usize) -> bool {
    let (x, y) = (as_it_was(f, x), as_it_was(f, y));
    if x == y {
        return true;
    }
    let (ValueDef::Result(i, m), ValueDef::Result(j, n)) = (f.values[x].def, f.values[y].def)
    else {
        return false;
    };
    let (i, j) = (&f.insts[i], &f.insts[j]);
    let mut args = i.args.iter().zip(&j.args);
    depth > 0
        && m == n
        && i.op == j.op
        && i.regions.is_empty()
        && i.args.len() == j.args.len()
        && args.all(|(&x, &y)| is_same(f, x, y, depth - 1))
}

/// The operand, where axes were added and removed again.
fn as_it_was(f: &Function, x: Value) -> Value {
    let made = |v: Value| f.def_inst(v).map(|inst| &f.insts[inst]);
    if let Some(InstData {
        op: Op::Squeeze { axes: removed },
        args,
        ..
    }) = made(x)
        && let Some(InstData {
            op: Op::Unsqueeze { axes: added },
            args,
            ..
        }) = made(args[0])
        && removed == added
    {
        return as_it_was(f, args[0]);
    }
    x
}

/// The operand of a maximum with 0.
fn not_below_zero(f: &Function, x: Value) -> Option<Value> {
    let made = &f.insts[f.def_inst(x)?];
    let is_zero = |v: &Value| f.constant(*v).and_then(|t| t.to_i64s()).as_deref() == Some(&[0]);
    match (&made.op, &made.args[..]) {
        (Op::Binary(BinaryOp::Max), [x, zero]) if is_zero(zero) => Some(*x),
        _ => None,
    }
}
