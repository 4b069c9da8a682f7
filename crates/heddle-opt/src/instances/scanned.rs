//! Scan outputs of loops that all instances run alike.
//!
//! Without iterations, the sizes of a scan output's elements are those that its type states, and 0
//! where it states none. Sizes that differ by instance have no name in a program for many, so there
//! they are computed.

use std::collections::BTreeSet;

use heddle_ir::op::BinaryOp;
use heddle_ir::{Dim, FuncBuilder, LoopView, Op, Type, Value, ValueDef};

use super::lane::Lane;
use super::set::Set;
use super::sizes::dims_of;
use crate::batch::{Refusal, Result};
use crate::uses::Seen;

impl Set<'_> {
    /// A scan output that is the same for all, with the sizes that it has in the source if there is
    /// no iteration.
    pub(super) fn scanned(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        scan: Value,
        result: Value,
    ) -> Result<Value> {
        let stated = dims_of(self.source, result);
        let found = b.ty(scan).as_tensor().and_then(|t| t.shape.clone());
        let (Some(stated), Some(found)) = (stated, found) else {
            return Ok(scan);
        };
        let is_open = |dim: &Dim| matches!(dim, Dim::Unknown(_));
        let mut inner = stated.iter().zip(&found).skip(1);
        let is_as_stated = inner.all(|(stated, found)| match is_open(stated) {
            true => is_open(found),
            false => !self.differs(stated),
        });
        if is_as_stated || self.surely_iterates(view) {
            return Ok(scan);
        }
        let (count, one) = (b.size(scan, 0)?, b.i64(1));
        let some = b.binary(BinaryOp::Min, count, one)?;
        let mut sizes = vec![b.vector_of(count)?];
        for (axis, dim) in stated.iter().enumerate().skip(1) {
            let size = match dim {
                Dim::Unknown(_) => {
                    let size = b.size(scan, axis)?;
                    b.binary(BinaryOp::Mul, size, some)?
                }
                dim => self.size_alone(b, dim)?.ok_or(Refusal::UnknownSize)?,
            };
            sizes.push(b.vector_of(size)?);
        }
        let shape = b.join(&sizes)?;
        Ok(b.op1(Op::Reshape, &[scan, shape])?)
    }

    fn surely_iterates(&self, view: &LoopView) -> bool {
        let trip = view.trip.and_then(|v| self.source.constant(v)?.to_i64s());
        view.cond.is_none() && trip.is_some_and(|trip| trip.iter().all(|n| *n > 0))
    }

    /// Stacked rows, of which the iterations come first, with the instances first.
    pub(super) fn turned(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        mut scan: Value,
        result: Value,
    ) -> Result<Value> {
        let stated = self.ty(result, Lane::Rows(scan));
        if let Type::Tensor(mut t) = stated
            && let Some(shape) = &mut t.shape
        {
            // Without iterations the sizes of the elements are those that the type states.
            shape.swap(0, 1);
            let is_open = |dim: &Dim| matches!(dim, Dim::Unknown(_));
            if shape.iter().skip(2).any(is_open) {
                return Err(Refusal::UnknownSize);
            }
            if shape.get(1).is_some_and(is_open) && !self.surely_iterates(view) {
                let (times, rows) = (b.size(scan, 0)?, self.count);
                let mut sizes = vec![b.vector_of(times)?, b.vector_of(rows)?];
                for dim in &shape[2..] {
                    let size = b.size_of(dim)?.ok_or(Refusal::UnknownSize)?;
                    sizes.push(b.vector_of(size)?);
                }
                let sizes = b.join(&sizes)?;
                scan = b.op1(Op::Reshape, &[scan, sizes])?;
            }
            let stated = Type::Tensor(t);
            let met = b.ty(scan).meet(&stated).unwrap_or(stated);
            b.refine_type(scan, met)?;
        }
        let rank = b.rank(scan).ok_or(Refusal::UnknownRank)?;
        let perm = [vec![1, 0], (2..rank).collect()].concat();
        Ok(b.op1(Op::Transpose { perm }, &[scan])?)
    }

    /// A size of an array that is the same for all, from parameters that are, too.
    fn size_alone(&self, b: &mut FuncBuilder, dim: &Dim) -> Result<Option<Value>> {
        let mut own = |b: &mut FuncBuilder, name: &str| {
            let Some((param, axis)) = self.param_of_size(name) else {
                return Ok(None);
            };
            match self.values.get(&param) {
                Some(&Lane::Same(param)) => b.size(param, axis).map(Some),
                _ => Ok(None),
            }
        };
        Ok(b.size_by(dim, &mut own)?)
    }

    /// A parameter of the function, and its axis of the size with this name.
    fn param_of_size(&self, name: &str) -> Option<(Value, usize)> {
        let params = self.source.regions[self.source.body].params.iter();
        let mut named = params.filter_map(|&param| {
            let dims = dims_of(self.source, param)?;
            Some((param, dims.iter().position(|d| *d == Dim::sym(name))?))
        });
        named.next()
    }

    /// The parameters whose sizes scan outputs among these need, as far as this set has them.
    pub(super) fn params_of_scans(&self, seen: &Seen) -> Vec<Value> {
        let mut params = BTreeSet::new();
        for &value in &seen.defined {
            let is_loop = match self.source.values[value].def {
                ValueDef::Result(inst, _) => matches!(self.source.insts[inst].op, Op::Loop { .. }),
                ValueDef::Param(..) => false,
            };
            let dims = dims_of(self.source, value).filter(|_| is_loop);
            for dim in dims.iter().flatten().skip(1).filter(|d| self.differs(d)) {
                let Some(expr) = dim.as_expr() else { continue };
                expr.for_each_sym(&mut |name| {
                    params.extend(self.param_of_size(name).map(|(param, _)| param));
                });
            }
        }
        let has = |param: &Value| self.values.contains_key(param);
        params.into_iter().filter(has).collect()
    }
}
