//! Arrays that differ by instance in another axis than the first, such as the scores `[n, n]` of
//! all pairs of words.
//!
//! Each is a row as large as the largest instance's. Elements outside of an instance's array hold
//! anything, and are replaced in front of ops that combine elements along such an axis. Ranges
//! become such rows where an op needs their first axis elsewhere, and rows whose first axis alone
//! differs are ranges again.

mod moved;
mod order;
mod products;
mod rules;
mod shapes;

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp};
use heddle_ir::{DType, FuncBuilder, Inst, Op, Tensor, Value};

use super::lane::{Lane, Padded, Ragged};
use super::set::{Set, largest, plus};
use crate::batch::{Batched, Refusal, Result};

impl Padded {
    /// Arrays of one shape.
    fn whole(b: &FuncBuilder, data: Batched) -> Result<Self> {
        let rank = b.rank(data.value()).ok_or(Refusal::UnknownRank)?;
        let sizes = vec![None; rank - data.is_rows() as usize];
        Ok(Padded { data, sizes })
    }

    /// Those of the instances with these numbers, `i64[k]`, as large as the largest of these.
    pub(super) fn of(&self, b: &mut FuncBuilder, ids: Value) -> Result<Self> {
        let Batched::Rows(rows) = self.data else {
            return Ok(self.clone());
        };
        let mut data = b.gather(rows, ids)?;
        let mut sizes = vec![];
        for (axis, size) in self.sizes.iter().enumerate() {
            let lens = size.map(|lens| b.gather(lens, ids)).transpose()?;
            if let Some(lens) = lens {
                let end = largest(b, lens)?;
                let (start, end, one) = (b.i64s(&[0]), b.vector_of(end)?, b.i64s(&[1]));
                let axes = vec![axis + 1];
                data = b.op1(Op::Slice { axes }, &[data, start, end, one])?;
            }
            sizes.push(lens);
        }
        let data = Batched::Rows(data);
        Ok(Padded { data, sizes })
    }

    fn rank(&self) -> usize {
        self.sizes.len()
    }

    /// The size that all instances have, if it is static.
    fn has_one(&self, b: &FuncBuilder, axis: usize) -> bool {
        let at = axis + self.data.is_rows() as usize;
        self.sizes[axis].is_none() && super::ragged_ops::has_one(b, self.data.value(), at)
    }
}

impl Set<'_> {
    /// Evaluates an instruction on rows as large as the largest. A result that differs in another
    /// axis than the first stays in that form; ops without a rule for it evaluate it again for each
    /// instance.
    pub(super) fn inst_padded(&mut self, b: &mut FuncBuilder, inst: Inst) -> Result<()> {
        let data = &self.source.insts[inst];
        let args: Result<Vec<Padded>> = data.args.iter().map(|&v| self.padded(b, v)).collect();
        let found = self.padded_op(b, inst, &args?)?;
        let mut is_done = true;
        for (&value, padded) in data.results.iter().zip(found) {
            match self.unpadded(b, &padded)? {
                Some(lane) => {
                    self.state(b, value, lane)?;
                    self.padded.remove(&value);
                    self.values.insert(value, lane);
                }
                None => {
                    self.values.remove(&value);
                    self.padded.insert(value, padded);
                    is_done = false;
                }
            }
        }
        if !is_done {
            self.postponed.push(inst);
        }
        Ok(())
    }

    /// Takes values in padded form; those that need none as lanes.
    pub(super) fn take_padded(
        &mut self,
        b: &mut FuncBuilder,
        values: Vec<(Value, Padded)>,
    ) -> Result<()> {
        for (value, padded) in values {
            match self.unpadded(b, &padded)? {
                Some(lane) => {
                    self.state(b, value, lane)?;
                    self.values.insert(value, lane);
                }
                None => {
                    self.padded.insert(value, padded);
                }
            }
        }
        Ok(())
    }

    /// A source value in padded form.
    fn padded(&self, b: &mut FuncBuilder, value: Value) -> Result<Padded> {
        if let Some(padded) = self.padded.get(&value) {
            return Ok(padded.clone());
        }
        match self.value(value)? {
            Lane::Ragged(x) => self.ranges_padded(b, x),
            lane => Padded::whole(b, lane.batched().ok_or(Refusal::NotEvaluated)?),
        }
    }

    /// Ranges as rows of the longest. Behind a range are elements of others.
    fn ranges_padded(&self, b: &mut FuncBuilder, x: Ragged) -> Result<Padded> {
        let one = b.i64(1);
        let longest = largest(b, x.lens)?;
        let within = b.iota(longest)?;
        let starts = b.op1(Op::Unsqueeze { axes: vec![1] }, &[x.starts])?;
        let place = plus(b, starts, within)?;
        let last = b.size(x.data, 0)?;
        let last = b.binary(BinaryOp::Sub, last, one)?;
        let place = b.binary(BinaryOp::Min, place, last)?;
        let rows = b.gather(x.data, place)?;
        let mut padded = Padded::whole(b, Batched::Rows(rows))?;
        padded.sizes[0] = Some(x.lens);
        Ok(padded)
    }

    /// The lane of rows of one shape, or of which only the first axis differs.
    fn unpadded(&self, b: &mut FuncBuilder, x: &Padded) -> Result<Option<Lane>> {
        let Some((first, rest)) = x.sizes.split_first() else {
            return Ok(Some(x.data.into()));
        };
        let lens = match *first {
            _ if rest.iter().any(Option::is_some) => return Ok(None),
            None => return Ok(Some(x.data.into())),
            Some(lens) => lens,
        };
        let all = self.as_ragged(b, x.data.into())?;
        Ok(Some(Lane::Ragged(Ragged {
            lens,
            is_packed: false,
            ..all
        })))
    }

    /// Rows with this number in the elements that are outside of an instance's array along axes.
    fn masked(
        &self,
        b: &mut FuncBuilder,
        x: &Padded,
        axes: &[usize],
        with: Value,
    ) -> Result<Batched> {
        let mut data = x.data;
        for &axis in axes {
            let Some(lens) = x.sizes[axis] else { continue };
            let rows = data.value();
            let size = b.size(rows, axis + 1)?;
            let within = b.iota(size)?;
            let lens = b.op1(Op::Unsqueeze { axes: vec![1] }, &[lens])?;
            let is_inside = b.compare(CompareOp::Lt, within, lens)?;
            let others: Vec<usize> = (1..=x.rank()).filter(|k| *k != axis + 1).collect();
            let is_inside = match others.is_empty() {
                true => is_inside,
                false => b.op1(Op::Unsqueeze { axes: others }, &[is_inside])?,
            };
            data = Batched::Rows(b.select(is_inside, rows, with)?);
        }
        Ok(data)
    }

    /// [`Set::masked`] with what a reduction of this kind leaves as it is.
    fn masked_for(
        &self,
        b: &mut FuncBuilder,
        x: &Padded,
        axes: &[usize],
        kind: ReduceOp,
    ) -> Result<Batched> {
        let dtype = element(b, x)?;
        let none = b.constant(Tensor::splat(dtype, vec![0], 0.0));
        let neutral = b.op1(over_first(kind), &[none])?;
        self.masked(b, x, axes, neutral)
    }
}

/// The type of the elements, which must be numbers or `bool`.
fn element(b: &FuncBuilder, x: &Padded) -> Result<DType> {
    let dtype = b.ty(x.data.value()).as_tensor().map(|t| t.dtype);
    let dtype = dtype.filter(|d| d.is_arith() || *d == DType::Bool);
    dtype.ok_or(Refusal::NoTensor)
}

/// A reduction of a vector.
fn over_first(kind: ReduceOp) -> Op {
    Op::Reduce {
        kind,
        axes: vec![0],
        keep: false,
    }
}
