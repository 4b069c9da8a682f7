//! Convolutions and pooling windows.

use heddle_ir::op::ReduceOp;

use crate::context::Context;
use crate::error::Fault;
use crate::value::Array;

/// Cross-correlation over zero-padded input.
pub fn conv(
    _cx: &Context,
    x: &Array,
    _w: &Array,
    _pads: &[i64],
    _spacing: [&[usize]; 3],
    _groups: usize,
) -> Result<Array, Fault> {
    Err(Fault::dtype("conv", x.dtype))
}

/// Reductions of windows.
pub fn window(
    _cx: &Context,
    x: &Array,
    _pads: &[i64],
    _kind: ReduceOp,
    _sizes: [&Vec<usize>; 3],
) -> Result<Array, Fault> {
    Err(Fault::dtype("window", x.dtype))
}
