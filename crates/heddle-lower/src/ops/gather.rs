//! Reading by index.

use std::ops::Range;

use heddle_ir::{DType, Type};
use heddle_uprogram::expr::Expr;

use super::super::{Cause, Lowerer, Result};
use crate::value::{Val, View};

impl Lowerer<'_> {
    pub(super) fn gather(&mut self, axis: usize, args: &[Val], ty: &Type) -> Result<Val> {
        // Elements that are read several times, as where a map is made larger, are computed once.
        let pool = &mut self.program.pool;
        let reads = pool.product_of(args[1].shape());
        let most = pool.as_int(reads).zip(pool.as_int(args[0].shape()[axis]));
        let x = match most.is_some_and(|(reads, elements)| reads > elements) {
            true => self.ready(&args[0])?,
            false => args[0].clone(),
        };
        let x = self.found_by(axis..axis + 1, &x, &args[1])?;
        self.view(ty, View::Gather(axis, x, args[1].clone()))
    }

    pub(super) fn gather_elements(&mut self, axis: usize, args: &[Val], ty: &Type) -> Result<Val> {
        let x = self.found_by(axis..axis + 1, &args[0], &args[1])?;
        self.view(ty, View::GatherElements(axis, x, args[1].clone()))
    }

    pub(super) fn gather_nd(&mut self, batch: usize, args: &[Val], ty: &Type) -> Result<Val> {
        let indices = &args[1];
        let depth = indices.shape().last().copied();
        let Some(depth) = depth.and_then(|d| self.program.pool.as_int(d)) else {
            return self.fail(Cause::TupleLength);
        };
        let x = self.found_by(batch..batch + depth as usize, &args[0], indices)?;
        self.view(ty, View::GatherNd(batch, x, indices.clone()))
    }

    /// The operand of a gather whose indices go along these axes. The check of an index is a part of
    /// reading there; where the elements are the same all along an axis (they were broadcast), a
    /// read has no such part: few indices are checked here then, for many the operand is stored.
    fn found_by(&mut self, axes: Range<usize>, x: &Val, indices: &Val) -> Result<Val> {
        if self.reads_along(axes.clone(), x) {
            return Ok(x.clone());
        }
        let (Some(count), true) = (self.at_most(indices, super::super::WIDE), axes.len() == 1)
        else {
            return self.stored(x);
        };
        let size = x.shape()[axes.start];
        for k in 0..count {
            let place = self.index_of(k, indices.shape());
            let pool = &mut self.program.pool;
            let i = indices.read(pool, &place);
            let i = pool.cast(indices.dtype(), DType::I64, i);
            let i = pool.index(i, size);
            self.let_expr(DType::I64, i);
        }
        Ok(x.clone())
    }

    /// Does the element that is read depend on the index along each of these axes?
    fn reads_along(&mut self, mut axes: Range<usize>, x: &Val) -> bool {
        if let Val::Stored { .. } = x {
            return true;
        }
        let any_size = self.program.pool.int(2);
        let (_, index) = self.space(&vec![any_size; x.shape().len()], 0);
        let pool = &mut self.program.pool;
        let element = x.read(pool, &index);
        axes.all(|axis| {
            let along = pool[index[axis]];
            pool.any(element, &|e: Expr| e == along)
        })
    }
}
