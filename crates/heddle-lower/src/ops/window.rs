//! Windows over spatial axes.

use heddle_ir::op::{BinaryOp, ReduceOp};
use heddle_ir::{DType, Type};

use super::super::{Cause, Lowerer, Result};
use crate::framed::WindowAxis;
use crate::value::{Val, View};
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::neutral::neutral;

impl Lowerer<'_> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn window(
        &mut self,
        kind: ReduceOp,
        args: &[Val],
        window: &[usize],
        strides: &[usize],
        dilations: &[usize],
        ty: &Type,
    ) -> Result<Val> {
        let x = self.ready(&args[0])?;
        let pads = self.element_list(&args[1])?;
        let shape = self.shape_of(ty)?;
        let fixed = shape.len() - window.len();
        let axis = |lowerer: &mut Self, i: usize| WindowAxis {
            places: shape[fixed + i],
            taps: lowerer.program.pool.int(window[i] as i64),
            stride: strides[i],
            dilation: dilations[i],
            pad: pads[i],
        };
        let axes: Vec<_> = (0..window.len()).map(|i| axis(self, i)).collect();
        let sizes: Vec<_> = axes.iter().map(|axis| axis.taps).collect();
        let dtype = x.dtype();
        let Some(neutral) = neutral(kind, dtype) else {
            return self.fail(Cause::Windows(dtype));
        };
        let map = self.framed(&x, axes, neutral)?;
        let (outer, index) = self.space(&shape, 0);
        let (inner, k) = self.space(&sizes, shape.len());
        let value = self.tap(&map, &index[..fixed], &index[fixed..], &k);
        self.fold_into(dtype, &shape, kind, inner, value, outer, &index, false)
    }

    /// The input of a convolution with zeros between its elements along each spatial axis
    /// (transposed convolution).
    pub(in super::super) fn spread(&mut self, x: &Val, distances: &[usize]) -> Result<Val> {
        if distances.iter().all(|&d| d == 1) {
            return Ok(x.clone());
        }
        let x = self.unchecked(x)?;
        let skip = x.shape().len() - distances.len();
        let mut shape = x.shape()[..skip].to_vec();
        let mut by = vec![self.program.pool.int(1); skip];
        for (&size, &distance) in x.shape()[skip..].iter().zip(distances) {
            let pool = &mut self.program.pool;
            let (zero, one) = (pool.int(0), pool.int(1));
            let distance = pool.int(distance as i64);
            let last = pool.difference(size, one);
            let spread = pool.product(last, distance);
            let size = pool.sum(spread, one);
            shape.push(pool.binary(BinaryOp::Max, DType::I64, size, zero));
            by.push(distance);
        }
        Ok(Val::lazy(x.dtype(), shape, View::Spread(by, x)))
    }
}

/// The place of element `k` of window `i`: `i * stride + k * dilation - pad`.
pub(in super::super) fn window_at(
    lowerer: &mut Lowerer,
    i: ExprId,
    stride: usize,
    k: ExprId,
    dilation: usize,
    pad: ExprId,
) -> ExprId {
    let pool = &mut lowerer.program.pool;
    let (stride, dilation) = (pool.int(stride as i64), pool.int(dilation as i64));
    let (start, step) = (pool.product(i, stride), pool.product(k, dilation));
    let at = pool.sum(start, step);
    pool.binary(BinaryOp::Sub, DType::I64, at, pad)
}
