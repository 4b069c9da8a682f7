//! Ops that become index arithmetic on their operands.

use heddle_ir::infer::shape::slice_bounds;
use heddle_ir::op::{BinaryOp, CompareOp, PadMode};
use heddle_ir::{DType, Type};

use super::super::{Lowerer, Result};
use super::dtype_of;
use crate::value::{Val, View};
use heddle_uprogram::expr::{ExprId, Pool};

impl Lowerer<'_> {
    pub(super) fn unsqueeze(&mut self, axes: &[usize], x: &Val, ty: &Type) -> Result<Val> {
        let rank = x.shape().len() + axes.len();
        let kept = (0..rank).filter(|k| !axes.contains(k)).map(Some).collect();
        self.view(ty, View::Axes(kept, x.clone()))
    }

    pub(super) fn squeeze(&mut self, axes: &[usize], x: &Val, ty: &Type) -> Result<Val> {
        let mut next = 0..;
        let kept = (0..x.shape().len()).map(|k| match axes.contains(&k) {
            true => None,
            false => next.next(),
        });
        let kept = kept.collect();
        self.view(ty, View::Axes(kept, x.clone()))
    }

    pub(super) fn concat(&mut self, axis: usize, args: &[Val], ty: &Type) -> Result<Val> {
        let parts = args.iter().map(|a| self.unchecked(a));
        let parts = parts.collect::<Result<_>>()?;
        self.view(ty, View::Concat(axis, parts))
    }

    pub(super) fn pad(&mut self, mode: PadMode, args: &[Val], ty: &Type) -> Result<Val> {
        let mut before = self.element_list(&args[1])?;
        before.truncate(before.len() / 2);
        if mode != PadMode::Constant {
            let shape = self.shape_of(ty)?;
            // A repeated axis must have an element.
            for (&size, &to) in args[0].shape().iter().zip(&shape) {
                let pool = &mut self.program.pool;
                let zero = pool.int(0);
                let some = pool.compare(CompareOp::Gt, DType::I64, size, zero);
                let none = pool.compare(CompareOp::Eq, DType::I64, to, zero);
                let cond = pool.or(some, none);
                self.check(cond, size, to);
            }
            return self.view(ty, View::Border(mode, before, args[0].clone()));
        }
        let x = self.unchecked(&args[0])?;
        self.view(ty, View::Pad(before, x, args[2].clone()))
    }

    pub(super) fn slice(&mut self, axes: &[usize], args: &[Val], ty: &Type) -> Result<Val> {
        let x = &args[0];
        let (zero, one) = (self.program.pool.int(0), self.program.pool.int(1));
        let mut bounds = vec![(zero, one); x.shape().len()];
        let starts = self.element_list(&args[1])?;
        let ends = self.element_list(&args[2])?;
        let steps = self.element_list(&args[3])?;
        for (k, &axis) in axes.iter().enumerate() {
            let first = self.slice_start(x.shape()[axis], starts[k], ends[k], steps[k]);
            bounds[axis] = (first, steps[k]);
        }
        self.view(ty, View::Slice(bounds, x.clone()))
    }

    /// The start of a slice. One without elements starts within the axis, too: its first place may be loaded where a mask says that the
    /// value is not used.
    fn slice_start(&mut self, size: ExprId, start: ExprId, end: ExprId, step: ExprId) -> ExprId {
        let pool = &mut self.program.pool;
        if let (Some(size), Some(start), Some(end), Some(by)) = (
            pool.as_int(size),
            pool.as_int(start),
            pool.as_int(end),
            pool.as_int(step),
        ) {
            let start = slice_bounds(size, start, end, by).0;
            return pool.int(start.min(size - 1).max(0));
        }
        if pool.as_int(start) == Some(0) && pool.as_int(step).is_some_and(|by| by > 0) {
            return start;
        }
        let (zero, one) = (pool.int(0), pool.int(1));
        let place = slice_place(pool, size, start);
        let last = pool.difference(size, one);
        let place = pool.binary(BinaryOp::Min, DType::I64, place, last);
        pool.binary(BinaryOp::Max, DType::I64, place, zero)
    }

    /// The range of a slice's start or end.
    pub(in super::super) fn slice_limits(&mut self, size: ExprId, step: ExprId) -> [ExprId; 2] {
        let pool = &mut self.program.pool;
        let (zero, one, minus) = (pool.int(0), pool.int(1), pool.int(-1));
        let last = pool.difference(size, one);
        let forward = pool.compare(CompareOp::Gt, DType::I64, step, zero);
        let low = pool.select(DType::I64, forward, zero, minus);
        let high = pool.select(DType::I64, forward, size, last);
        [low, high]
    }

    /// A slice's start or end, clamped.
    pub(in super::super) fn slice_clamped(
        &mut self,
        size: ExprId,
        place: ExprId,
        [low, high]: [ExprId; 2],
    ) -> ExprId {
        let pool = &mut self.program.pool;
        let place = slice_place(pool, size, place);
        let place = pool.binary(BinaryOp::Max, DType::I64, place, low);
        pool.binary(BinaryOp::Min, DType::I64, place, high)
    }

    pub(super) fn range(&mut self, args: &[Val], ty: &Type) -> Result<Val> {
        let shape = self.shape_of(ty)?;
        let (start, step) = (self.scalar(&args[0])?, self.scalar(&args[2])?);
        let val = Val::lazy(dtype_of(ty), shape, View::Range(start, step));
        Ok(self.settled(val))
    }
}

/// A slice's start or end, from the end of the axis if negative.
fn slice_place(pool: &mut Pool, size: ExprId, place: ExprId) -> ExprId {
    let zero = pool.int(0);
    let from_end = pool.sum(place, size);
    let negative = pool.compare(CompareOp::Lt, DType::I64, place, zero);
    pool.select(DType::I64, negative, from_end, place)
}
