//! Maps that windows are read from without a test at each element: what lies outside of a map is in memory, too.

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use super::{Lowerer, Result};
use crate::value::{Val, clamped, linear, within};
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{Body, Store};

/// A spatial axis of windows: element `place * stride + tap * dilation - pad` of the map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowAxis {
    /// Windows.
    pub(crate) places: ExprId,
    /// Size of a window.
    pub(crate) taps: ExprId,
    /// Elements from one window to the next.
    pub(crate) stride: usize,
    /// Elements from one tap to the next.
    pub(crate) dilation: usize,
    /// Elements before the map.
    pub(crate) pad: ExprId,
}

/// A map whose windows all lie inside. Its last axis is in phases where windows are more than one element apart: neighbouring
/// windows then have neighbours at each tap, so that they are computed side by side.
#[derive(Debug)]
pub(crate) struct Framed {
    map: Val,
    axes: Vec<WindowAxis>,
    /// The last axis is two: `phases`, and elements that far apart.
    phases: Option<ExprId>,
}

impl Lowerer<'_> {
    /// The map `[…, spatial axes…]` with `neutral` (bits of its type) around it, copied where windows reach past it or lie some
    /// elements apart along the last axis.
    pub(crate) fn framed(
        &mut self,
        x: &Val,
        axes: Vec<WindowAxis>,
        neutral: u64,
    ) -> Result<Framed> {
        let leading = x.shape().len() - axes.len();
        let pool = &mut self.program.pool;
        let needed: Vec<ExprId> = axes.iter().map(|axis| axis.needed(pool)).collect();
        let inside = |(i, axis): (usize, &WindowAxis)| {
            let (needed, size) = (pool.as_int(needed[i]), pool.as_int(x.shape()[leading + i]));
            pool.as_int(axis.pad) == Some(0) && needed.zip(size).is_some_and(|(n, size)| n <= size)
        };
        let inside = axes.iter().enumerate().all(inside);
        let last = axes
            .last()
            .filter(|a| a.stride > 1 && pool.as_int(a.taps) != Some(1));
        let phases = last.map(|axis| pool.int(axis.stride as i64));
        if inside && phases.is_none() {
            let map = x.clone();
            return Ok(Framed { map, axes, phases });
        }
        // Both arms of a choice are evaluated: the lookup of an element that does not exist must not be an error.
        let x = &self.unchecked(x)?;
        let pool = &mut self.program.pool;
        let mut shape = [&x.shape()[..leading], &needed].concat();
        if let (Some(phases), Some(axis)) = (phases, axes.last()) {
            let steps = axis.in_phase(pool, phases);
            let outer = shape.len() - 1;
            shape.splice(outer.., [phases, steps]);
        }
        let (outer, index) = self.space(&shape, 0);
        let pool = &mut self.program.pool;
        let mut at = index.clone();
        if let Some(phases) = phases
            && let (Some(step), Some(phase)) = (at.pop(), at.pop())
        {
            let first = pool.product(step, phases);
            at.push(pool.sum(first, phase));
        }
        let mut exists = pool.add(Expr::Num(DType::Bool, 1));
        for (i, axis) in axes.iter().enumerate() {
            let at = &mut at[leading + i];
            *at = pool.difference(*at, axis.pad);
            exists = within(pool, exists, *at, x.shape()[leading + i]);
        }
        let at: Vec<ExprId> = at.into_iter().map(|i| clamped(pool, exists, i)).collect();
        let own = x.read(pool, &at);
        let nothing = pool.add(Expr::Num(x.dtype(), neutral));
        let value = pool.select(x.dtype(), exists, own, nothing);
        let buffer = self.scratch(x.dtype(), &shape)?;
        let offset = linear(&mut self.program.pool, &shape, &index);
        let store = Store { buffer, offset };
        self.run(outer, Body::Map { store, value });
        let dtype = x.dtype();
        let map = Val::Stored {
            buffer,
            dtype,
            shape,
        };
        Ok(Framed { map, axes, phases })
    }

    /// The element of a framed map at a tap of a window.
    pub(crate) fn tap(
        &mut self,
        map: &Framed,
        leading: &[ExprId],
        place: &[ExprId],
        taps: &[ExprId],
    ) -> ExprId {
        let pool = &mut self.program.pool;
        let mut index = leading.to_vec();
        for (i, axis) in map.axes.iter().enumerate() {
            let [stride, dilation] = [axis.stride, axis.dilation].map(|n| pool.int(n as i64));
            let step = pool.product(taps[i], dilation);
            match map.phases {
                Some(phases) if i + 1 == map.axes.len() => {
                    index.push(pool.binary(BinaryOp::Mod, DType::I64, step, phases));
                    let step = pool.binary(BinaryOp::Div, DType::I64, step, phases);
                    index.push(pool.sum(place[i], step));
                }
                _ => {
                    let start = pool.product(place[i], stride);
                    index.push(pool.sum(start, step));
                }
            }
        }
        map.map.read(pool, &index)
    }
}

impl WindowAxis {
    /// Elements that windows reach. A sum of products, so that a bound of it follows from bounds of the sizes.
    fn needed(&self, pool: &mut Pool) -> ExprId {
        let [stride, dilation] = [self.stride as i64, self.dilation as i64];
        let [less, zero] = [stride + dilation - 1, 0].map(|n| pool.int(n));
        let [stride, dilation] = [stride, dilation].map(|n| pool.int(n));
        let (places, taps) = (
            pool.product(self.places, stride),
            pool.product(self.taps, dilation),
        );
        let all = pool.sum(places, taps);
        let count = pool.difference(all, less);
        pool.binary(BinaryOp::Max, DType::I64, count, zero)
    }

    /// Elements of one phase that windows reach.
    fn in_phase(&self, pool: &mut Pool, phases: ExprId) -> ExprId {
        let [dilation, zero] = [self.dilation as i64, 0].map(|n| pool.int(n));
        let taps = pool.product(self.taps, dilation);
        let last = pool.difference(taps, dilation);
        let last = pool.binary(BinaryOp::Max, DType::I64, last, zero);
        let steps = pool.binary(BinaryOp::Div, DType::I64, last, phases);
        pool.sum(self.places, steps)
    }
}
