//! Ops that give the first axis of an instance's array another size.

use heddle_ir::op::{BinaryOp, CompareOp, PadMode, ReduceOp};
use heddle_ir::{DType, Dim, FuncBuilder, Function, Inst, Op, Tensor, Value};

use super::lane::{Lane, Ragged};
use super::ragged_ops::{has_one, rank};
use super::set::{Set, plus};
use crate::batch::{Refusal, Result};

impl Set<'_> {
    /// An op whose result differs in size by instance by its operands' values, or that changes
    /// ranges' sizes; `None` if it is another op.
    pub(super) fn resized(
        &self,
        b: &mut FuncBuilder,
        inst: Inst,
        args: &[Lane],
    ) -> Result<Option<Lane>> {
        let is_ragged = |lane: Lane| matches!(lane, Lane::Ragged(_));
        let by_row = |lanes: &[Lane]| lanes.iter().any(|lane| !lane.is_same());
        let lane = match (&self.source.insts[inst].op, args) {
            (Op::Reshape, &[x, shape]) if is_ragged(x) || by_row(&[shape]) => {
                let x = self.as_ragged(b, x)?;
                self.reshaped(b, inst, x, shape)?
            }
            (op @ Op::UpdateSlice, &[x, ref by @ ..]) if !is_ragged(x) && by_row(&by[1..]) => {
                let x = self.as_ragged(b, x)?;
                self.write(b, op, x, by)?
            }
            (Op::Broadcast, &[x, shape]) if is_ragged(x) || by_row(&[shape]) => {
                self.broadcast_to(b, inst, x, shape)?
            }
            (&Op::Pad { mode }, &[x, pads, value]) if is_ragged(x) || by_row(&[pads]) => {
                let x = self.as_ragged(b, x)?;
                self.extended(b, inst, mode, (x, pads, value))?
            }
            (Op::Slice { axes }, &[x, ref bounds @ ..])
                if axes.first() == Some(&0) && (is_ragged(x) || by_row(bounds)) =>
            {
                let x = self.as_ragged(b, x)?;
                let mut found = self.slice(b, axes, x, bounds)?;
                if let (Lane::Ragged(x), Some(lens)) = (&mut found, self.sizes_of_result(inst)) {
                    x.lens = lens;
                }
                found
            }
            _ => return Ok(None),
        };
        self.in_one_size(b, inst, lane).map(Some)
    }

    /// Rows, if the type of the result states one size for all instances.
    fn in_one_size(&self, b: &mut FuncBuilder, inst: Inst, lane: Lane) -> Result<Lane> {
        let result = self.source.insts[inst].results[0];
        let dims = dims_of(self.source, result).ok_or(Refusal::UnknownRank)?;
        let (Lane::Ragged(x), Some(first)) = (lane, dims.first()) else {
            return Ok(lane);
        };
        if self.differs(first) {
            return Ok(lane);
        }
        let Some(size) = b.size_of(first)? else {
            return Ok(lane);
        };
        let x = self.packed(b, x)?;
        let rest = b.sizes(x.data, 1..dims.len())?;
        let (count, size) = (b.vector_of(self.count)?, b.vector_of(size)?);
        let shape = b.join(&[count, size, rest])?;
        Ok(Lane::Rows(b.op1(Op::Reshape, &[x.data, shape])?))
    }

    /// A reshape that splits and merges inner axes, also with the first.
    fn reshaped(&self, b: &mut FuncBuilder, inst: Inst, x: Ragged, shape: Lane) -> Result<Lane> {
        let data = &self.source.insts[inst];
        let (Some(from), Some(to)) = (
            dims_of(self.source, data.args[0]),
            dims_of(self.source, data.results[0]),
        ) else {
            return Err(Refusal::UnknownRank);
        };
        let refused = || Refusal::SizesByRow("reshape");
        let ([first, from @ ..], [open, to @ ..]) = (&from[..], &to[..]) else {
            return Err(refused());
        };
        if !self.differs(open) {
            return Err(refused());
        }
        let (own, inner) = (Dim::product(from), Dim::product(to));
        let sizes = self.stated(b, to)?;
        let lens = match self.sizes_of(inst, open) {
            Some(lens) => lens,
            None => {
                let derived = self.left_over(b, x, (&own, &inner), sizes)?;
                let is_some = own.equals(&inner) || inner.as_const().is_some_and(|n| n > 0);
                let is_whole = is_some && first.mul(&own).equals(&open.mul(&inner));
                match is_whole || leaves_one_open(self.source, data.args[1]) {
                    true => derived,
                    false => self.as_stated(b, shape, derived, sizes)?,
                }
            }
        };
        let x = self.packed(b, x)?;
        let starts = match lens == x.lens {
            true => x.starts,
            false => self.sums_before(b, lens)?,
        };
        let total = self.elements(b, lens)?;
        let total = b.vector_of(total)?;
        let shape = b.join(&[total, sizes])?;
        let data = b.op1(Op::Reshape, &[x.data, shape])?;
        Ok(Lane::Ragged(Ragged::packed(data, starts, lens)))
    }

    /// The first sizes of ranges with inner axes of these sizes, which are products.
    fn left_over(
        &self,
        b: &mut FuncBuilder,
        x: Ragged,
        (own, inner): (&Dim, &Dim),
        sizes: Value,
    ) -> Result<Value> {
        if own.equals(inner) {
            return Ok(x.lens);
        }
        let rank = b.rank(x.data).ok_or(Refusal::UnknownRank)?;
        let each = b.sizes(x.data, 1..rank)?;
        let (each, by) = (product(b, each)?, product(b, sizes)?);
        let all = b.binary(BinaryOp::Mul, x.lens, each)?;
        let lens = b.binary(BinaryOp::Div, all, by)?;
        if let (Some(own), Some(inner)) = (own.as_const(), inner.as_const())
            && inner > 0
            && own % inner == 0
        {
            return Ok(lens);
        }
        let again = b.binary(BinaryOp::Mul, lens, by)?;
        let wrong = b.compare(CompareOp::Ne, again, all)?;
        self.unless(b, wrong, MISFIT, lens)
    }

    /// The first sizes that a shape states, which must be those derived from the elements or -1.
    /// Without elements, inner sizes of 0 say nothing about the first.
    fn as_stated(
        &self,
        b: &mut FuncBuilder,
        shape: Lane,
        derived: Value,
        sizes: Value,
    ) -> Result<Value> {
        let (stated, any, zero) = (self.column(b, shape, 0)?, b.i64(-1), b.i64(0));
        let by = product(b, sizes)?;
        let says_nothing = b.compare(CompareOp::Eq, by, zero)?;
        let lens = b.select(says_nothing, stated, derived)?;
        let far = b.compare(CompareOp::Ne, stated, lens)?;
        let is_size = b.compare(CompareOp::Ne, stated, any)?;
        let wrong = b.binary(BinaryOp::And, far, is_size)?;
        let negative = b.compare(CompareOp::Lt, lens, zero)?;
        let wrong = b.binary(BinaryOp::Or, wrong, negative)?;
        self.unless(b, wrong, MISFIT, lens)
    }

    /// An array repeated to a shape whose first size differs by instance.
    fn broadcast_to(&self, b: &mut FuncBuilder, inst: Inst, x: Lane, shape: Lane) -> Result<Lane> {
        let data = &self.source.insts[inst];
        let dims = dims_of(self.source, data.results[0]).ok_or(Refusal::UnknownRank)?;
        let stated = dims_of(self.source, data.args[1]).and_then(|d| d.first()?.as_const());
        let stated = stated.ok_or(Refusal::UnknownRank)? as usize;
        let (first, inner) = dims.split_first().ok_or(Refusal::UnknownRank)?;
        if stated < dims.len() {
            return match (x, shape) {
                (Lane::Ragged(x), Lane::Same(_)) => {
                    Ok(self.along(b, &Op::Broadcast, x, &[shape])?[0])
                }
                _ => Err(Refusal::SizesByRow("broadcast")),
            };
        }
        let lens = match self.sizes_of(inst, first) {
            Some(lens) => lens,
            None => {
                let (lens, zero) = (self.column(b, shape, 0)?, b.i64(0));
                let wrong = b.compare(CompareOp::Lt, lens, zero)?;
                self.unless(b, wrong, MISFIT, lens)?
            }
        };
        let total = self.elements(b, lens)?;
        let (total, inner) = (b.vector_of(total)?, self.stated(b, inner)?);
        let shape = b.join(&[total, inner])?;
        let starts = self.sums_before(b, lens)?;
        let is_short = rank(b, x)? < dims.len();
        if let Lane::Same(x) = x
            && (is_short || has_one(b, x, 0))
        {
            let data = b.op1(Op::Broadcast, &[x, shape])?;
            return Ok(Lane::Ragged(Ragged::packed(data, starts, lens)));
        }
        // As an operand beside an array of that shape.
        let value = match x {
            Lane::Same(v) | Lane::Rows(v) => v,
            Lane::Ragged(x) => x.data,
        };
        let dtype = b.ty(value).as_tensor().map(|t| t.dtype);
        let dtype = dtype.filter(|d| d.is_arith() || *d == DType::Bool);
        let zero = Tensor::splat(dtype.ok_or(Refusal::NoTensor)?, vec![], 0.0);
        let zero = b.constant(zero);
        let like = b.op1(Op::Broadcast, &[zero, shape])?;
        let like = Lane::Ragged(Ragged::packed(like, starts, lens));
        let yes = Lane::Same(b.constant(Tensor::splat(DType::Bool, vec![], 1.0)));
        self.elementwise(b, &Op::Select, &[yes, x, like])
    }

    /// Ranges with elements added in front and behind, or removed there.
    fn extended(
        &self,
        b: &mut FuncBuilder,
        inst: Inst,
        mode: PadMode,
        (mut x, pads, value): (Ragged, Lane, Lane),
    ) -> Result<Lane> {
        let refused = || Refusal::SizesByRow("pad");
        let Lane::Same(fill) = value else {
            return Err(refused());
        };
        let rank = b.rank(x.data).ok_or(Refusal::UnknownRank)?;
        if rank > 1 {
            let Lane::Same(pads) = pads else {
                return Err(refused());
            };
            // Other axes first.
            let places: Vec<i64> = (0..2 * rank as i64).collect();
            let (place, size) = (b.i64s(&places), b.i64(rank as i64));
            let axis = b.binary(BinaryOp::Mod, place, size)?;
            let zero = b.i64(0);
            let is_first = b.compare(CompareOp::Eq, axis, zero)?;
            let others = b.select(is_first, zero, pads)?;
            let op = Op::Pad { mode };
            let found = self.along(b, &op, x, &[Lane::Same(others), value])?;
            let [Lane::Ragged(wide)] = found[..] else {
                return Err(refused());
            };
            x = wide;
        }
        let x = self.packed(b, x)?;
        let (front, back) = (self.column(b, pads, 0)?, self.column(b, pads, rank)?);
        let zero = b.i64(0);
        let lens = plus(b, x.lens, front)?;
        let lens = plus(b, lens, back)?;
        let mut wrong = b.compare(CompareOp::Lt, lens, zero)?;
        if mode != PadMode::Constant {
            let is_empty = b.compare(CompareOp::Eq, x.lens, zero)?;
            let grows = b.compare(CompareOp::Gt, lens, zero)?;
            let nothing = b.binary(BinaryOp::And, is_empty, grows)?;
            wrong = b.binary(BinaryOp::Or, wrong, nothing)?;
        }
        let message = "the padding of an array does not fit its size in an instance";
        let lens = match self.sizes_of_result(inst) {
            Some(lens) => lens,
            None => self.unless(b, wrong, message, lens)?,
        };
        let places = self.places(b, lens)?;
        let own = |b: &mut FuncBuilder, v| b.gather(v, places.instance);
        let (front, size, start) = (own(b, front)?, own(b, x.lens)?, own(b, x.starts)?);
        let at = b.binary(BinaryOp::Sub, places.within, front)?;
        let (source, is_added) = self.padded_from(b, mode, at, size)?;
        let place = plus(b, start, source)?;
        let data = match is_added {
            None => b.gather(x.data, place)?,
            Some(is_added) => {
                let (sizes, one) = (b.sizes(x.data, 1..rank)?, b.i64s(&[1]));
                let shape = b.join(&[one, sizes])?;
                let row = b.op1(Op::Broadcast, &[fill, shape])?;
                let (behind, all) = (b.size(x.data, 0)?, b.join(&[x.data, row])?);
                let place = b.select(is_added, behind, place)?;
                b.gather(all, place)?
            }
        };
        Ok(Lane::Ragged(Ragged::packed(data, places.starts, lens)))
    }

    /// The elements that padding repeats, for places from the first element on, and where it adds a
    /// value instead.
    fn padded_from(
        &self,
        b: &mut FuncBuilder,
        mode: PadMode,
        at: Value,
        size: Value,
    ) -> Result<(Value, Option<Value>)> {
        let (zero, one) = (b.i64(0), b.i64(1));
        let last = b.binary(BinaryOp::Sub, size, one)?;
        let source = match mode {
            PadMode::Constant => {
                let before = b.compare(CompareOp::Lt, at, zero)?;
                let behind = b.compare(CompareOp::Ge, at, size)?;
                return Ok((at, Some(b.binary(BinaryOp::Or, before, behind)?)));
            }
            PadMode::Edge => {
                let at = b.binary(BinaryOp::Max, at, zero)?;
                b.binary(BinaryOp::Min, at, last)?
            }
            PadMode::Wrap => b.binary(BinaryOp::Mod, at, size)?,
            PadMode::Reflect => {
                let period = plus(b, last, last)?;
                let period = b.binary(BinaryOp::Max, period, one)?;
                let there = b.binary(BinaryOp::Mod, at, period)?;
                let back = b.binary(BinaryOp::Sub, period, there)?;
                let at = b.binary(BinaryOp::Min, there, back)?;
                b.binary(BinaryOp::Min, at, last)?
            }
        };
        Ok((source, None))
    }

    /// An element of a vector for each instance, `i64[instances]`.
    fn column(&self, b: &mut FuncBuilder, vector: Lane, place: usize) -> Result<Value> {
        let place = b.i64(place as i64);
        match vector {
            Lane::Same(v) => {
                let one = b.gather(v, place)?;
                self.spread(b, Lane::Same(one))
            }
            Lane::Rows(v) => Ok(b.op1(Op::Gather { axis: 1 }, &[v, place])?),
            Lane::Ragged(_) => Err(Refusal::UnknownRank),
        }
    }

    /// The sizes that a type states, `i64[k]`; those that differ by instance are refused.
    fn stated(&self, b: &mut FuncBuilder, dims: &[Dim]) -> Result<Value> {
        let mut sizes = vec![];
        for dim in dims {
            let size = b.size_of(dim)?.filter(|_| !self.differs(dim));
            sizes.push(b.vector_of(size.ok_or(Refusal::UnknownSize)?)?);
        }
        match sizes.is_empty() {
            true => Ok(b.i64s(&[])),
            false => Ok(b.join(&sizes)?),
        }
    }

    /// The sizes of ranges whose first axis has this size in the source, if an operand or a
    /// parameter has it.
    fn sizes_of(&self, inst: Inst, dim: &Dim) -> Option<Value> {
        dim.as_expr()?;
        let params = &self.source.regions[self.source.body].params;
        let mut known = self.source.insts[inst].args.iter().chain(params);
        known.find_map(|&value| match self.values.get(&value)? {
            Lane::Ragged(x) if dims_of(self.source, value)?.first()?.equals(dim) => Some(x.lens),
            _ => None,
        })
    }

    fn sizes_of_result(&self, inst: Inst) -> Option<Value> {
        let dims = dims_of(self.source, self.source.insts[inst].results[0])?;
        self.sizes_of(inst, dims.first()?)
    }
}

const MISFIT: &str = "an array of an instance does not have the size that its shape states";

/// The sizes of a value of the source.
pub(super) fn dims_of(source: &Function, value: Value) -> Option<Vec<Dim>> {
    source.ty(value).as_tensor()?.shape.clone()
}

/// Is it a constant shape in which one size is what is left?
pub(super) fn leaves_one_open(source: &Function, shape: Value) -> bool {
    let sizes = source.constant(shape).and_then(|t| t.to_i64s());
    sizes.is_some_and(|sizes| sizes.contains(&-1))
}

/// The product of a vector's elements, `i64[]`.
fn product(b: &mut FuncBuilder, sizes: Value) -> Result<Value> {
    let op = Op::Reduce {
        kind: ReduceOp::Prod,
        axes: vec![0],
        keep: false,
    };
    Ok(b.op1(op, &[sizes])?)
}
