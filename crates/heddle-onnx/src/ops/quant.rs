//! Quantisation: QuantizeLinear, DequantizeLinear and the integer matrix products.

use heddle_ir::op::{CompareOp, ReduceOp, ScaleRounding, UnaryOp};
use heddle_ir::{DType, Dim, Emit, Op, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use crate::refusal::Refusal;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("QuantizeLinear", quantize_linear),
    ("DequantizeLinear", dequantize_linear),
    ("DynamicQuantizeLinear", dynamic_quantize_linear),
    ("MatMulInteger", matmul_integer),
    ("QLinearMatMul", qlinear_matmul),
];

/// Operators that com.microsoft has under the same names, for types that ONNX adopted later.
pub(super) const MICROSOFT: Table = &[
    ("QuantizeLinear", quantize_linear),
    ("DequantizeLinear", dequantize_linear),
];

/// QuantizeLinear 10, 13, 19, 21, 23, 24, 25, 28: `saturate(round(x / scale) + zero point)`.
fn quantize_linear(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, scale) = (cx.input(0)?, cx.input(1)?);
    let zero = cx.opt(2);
    let to = match (zero, cx.dtype_attr("output_dtype")?) {
        (Some(z), stated) => {
            let dtype = cx.dtype(z)?;
            if stated.is_some_and(|s| s != dtype) {
                return invalid(format!(
                    "output_dtype is not that of the zero point, {dtype}"
                ));
            }
            dtype
        }
        (None, stated) => stated.unwrap_or(DType::U8),
    };
    let precision = match cx.dtype_attr("precision")? {
        Some(p) => p,
        None if cx.dtype(scale)?.is_float() => cx.dtype(scale)?,
        None if cx.dtype(x)?.is_float() => cx.dtype(x)?,
        None => DType::F32,
    };
    let layout = Layout::of(cx, x, scale)?;
    let scale = cx.cast(scale, precision)?;
    let scale = layout.spread(cx, x, scale)?;
    let value = cx.cast(x, precision)?;
    let quotient = cx.div(value, scale)?;
    let zero = zero.map(|z| layout.spread_zero(cx, x, z)).transpose()?;

    if to.is_small_float() {
        let mut sum = quotient;
        if let Some(zero) = zero {
            let zero = cx.cast(zero, precision)?;
            sum = cx.add(sum, zero)?;
        }
        let op = Op::Cast {
            to,
            saturate: cx.flag("saturate", true),
            round: ScaleRounding::Up,
        };
        return Ok(vec![cx.op(op, &[sum])?]);
    }
    Ok(vec![saturated(cx, quotient, zero, to)?])
}

/// DequantizeLinear 10, 13, 19, 21, 23, 24, 25, 28: `(x - zero point) * scale`.
fn dequantize_linear(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, scale) = (cx.input(0)?, cx.input(1)?);
    let (dtype, scale_dtype) = (cx.dtype(x)?, cx.dtype(scale)?);
    let to = cx.dtype_attr("output_dtype")?.unwrap_or(scale_dtype);
    if !to.is_float() {
        return invalid(format!("dequantised values are floats, not {to}"));
    }
    let layout = Layout::of(cx, x, scale)?;
    // Products of half floats are rounded once, at the end.
    let compute = match (scale_dtype, to) {
        (DType::F64, _) | (_, DType::F64) => DType::F64,
        _ => DType::F32,
    };
    let zero = cx.opt(2);
    let zero = zero.map(|z| layout.spread_zero(cx, x, z)).transpose()?;
    let difference = match zero {
        Some(zero) if dtype.is_small_float() => {
            let (x, zero) = (cx.cast(x, compute)?, cx.cast(zero, compute)?);
            cx.sub(x, zero)?
        }
        Some(zero) => {
            let (x, zero) = (cx.cast(x, DType::I64)?, cx.cast(zero, DType::I64)?);
            let difference = cx.sub(x, zero)?;
            cx.cast(difference, compute)?
        }
        None => cx.cast(x, compute)?,
    };
    let scale = cx.cast(scale, compute)?;
    let scale = layout.spread(cx, x, scale)?;
    let product = cx.mul(difference, scale)?;
    Ok(vec![cx.cast(product, to)?])
}

/// DynamicQuantizeLinear 11: to `u8`, over a range that has 0 in it.
fn dynamic_quantize_linear(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    Ok(quantized(cx, x)?.to_vec())
}

/// The same of any array: the integers, their scale and their zero point.
pub(super) fn quantized(cx: &mut NodeCx, x: Value) -> Result<[Value; 3]> {
    let axes: Vec<usize> = (0..cx.rank(x)?).collect();
    let zero = cx.real_like(x, 0.0)?;
    let highest = cx.reduce(ReduceOp::Max, x, &axes, false)?;
    let highest = cx.max(highest, zero)?;
    let lowest = cx.reduce(ReduceOp::Min, x, &axes, false)?;
    let lowest = cx.min(lowest, zero)?;
    // An empty range holds only 0, for which any scale but 0 is exact.
    let range = cx.sub(highest, lowest)?;
    let empty = cx.compare(CompareOp::Eq, range, zero)?;
    let one = cx.real_like(x, 1.0)?;
    let range = cx.select(empty, one, range)?;
    let levels = cx.real_like(x, 255.0)?;
    let scale = cx.div(range, levels)?;
    let start = cx.sub(zero, lowest)?;
    let start = cx.div(start, scale)?;
    let zero_point = saturated(cx, start, None, DType::U8)?;
    let quotient = cx.div(x, scale)?;
    let y = saturated(cx, quotient, Some(zero_point), DType::U8)?;
    Ok([y, scale, zero_point])
}

/// MatMulInteger 10.
pub(super) fn matmul_integer(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let (a_zero, b_zero) = (cx.opt(2), cx.opt(3));
    Ok(vec![centered_matmul(cx, a, a_zero, b, b_zero)?])
}

/// QLinearMatMul 10, 21.
fn qlinear_matmul(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, a_scale, a_zero) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let (b, b_scale, b_zero) = (cx.input(3)?, cx.input(4)?, cx.input(5)?);
    let (y_scale, y_zero) = (cx.input(6)?, cx.input(7)?);
    let product = centered_matmul(cx, a, Some(a_zero), b, Some(b_zero))?;
    let vector = cx.rank(a)? == 1;
    let a_scale = per_row(cx, a_scale, vector)?;
    let scale = cx.mul(a_scale, b_scale)?;
    let y_scale = per_row(cx, y_scale, vector)?;
    let scale = cx.div(scale, y_scale)?;
    let y_zero = per_row(cx, y_zero, vector)?;
    Ok(vec![requantize(cx, product, scale, y_zero)?])
}

/// The product of `a` and `b` less their zero points, in `i32`.
pub(super) fn centered_matmul(
    cx: &mut NodeCx,
    a: Value,
    a_zero: Option<Value>,
    b: Value,
    b_zero: Option<Value>,
) -> Result<Value> {
    let vector = cx.rank(a)? == 1;
    let a_zero = a_zero.map(|z| per_row(cx, z, vector)).transpose()?;
    let a = centered(cx, a, a_zero)?;
    let b = centered(cx, b, b_zero)?;
    cx.matmul(a, b)
}

/// A parameter of a matrix: one number, or a list with one for each row, which gets an axis for
/// the columns.
fn per_row(cx: &mut NodeCx, parameter: Value, vector: bool) -> Result<Value> {
    let shape = cx.shape(parameter)?;
    match shape.as_slice() {
        [one] if one.is(1) => cx.squeeze(parameter, &[0]),
        [_] if !vector => cx.unsqueeze(parameter, &[1]),
        _ => Ok(parameter),
    }
}

/// `x - zero` as `i32`.
pub(super) fn centered(cx: &mut NodeCx, x: Value, zero: Option<Value>) -> Result<Value> {
    let x = cx.cast(x, DType::I32)?;
    let Some(zero) = zero else {
        return Ok(x);
    };
    let zero = cx.cast(zero, DType::I32)?;
    cx.sub(x, zero)
}

/// A number that may be given as a list of one.
pub(super) fn scalar(cx: &mut NodeCx, x: Value) -> Result<Value> {
    match cx.shape(x)?.as_slice() {
        [one] if one.is(1) => cx.squeeze(x, &[0]),
        _ => Ok(x),
    }
}

/// `saturate(round(x * scale) + zero)` of integers, with the zero point's type.
pub(super) fn requantize(cx: &mut NodeCx, x: Value, scale: Value, zero: Value) -> Result<Value> {
    let to = cx.dtype(zero)?;
    let scale = cx.widen(scale)?;
    let dtype = cx.dtype(scale)?;
    let x = cx.cast(x, dtype)?;
    let product = cx.mul(x, scale)?;
    saturated(cx, product, Some(zero), to)
}

/// `saturate(round(x) + zero)`, ties to even. NaN gives the zero point.
pub(super) fn saturated(
    cx: &mut NodeCx,
    x: Value,
    zero: Option<Value>,
    to: DType,
) -> Result<Value> {
    let (low, high) = integer_range(to)?;
    let rounded = cx.unary(UnaryOp::Round, x)?;
    // Clamps values far outside every range, so that sums do not overflow.
    let rounded = cx.widen(rounded)?;
    let limits = [-1e6, 1e6].map(|v| cx.real_like(rounded, v));
    let [far_low, far_high] = limits;
    let rounded = cx.max(rounded, far_low?)?;
    let rounded = cx.min(rounded, far_high?)?;
    let mut sum = cx.cast(rounded, DType::I32)?;
    if let Some(zero) = zero {
        let zero = cx.cast(zero, DType::I32)?;
        sum = cx.add(sum, zero)?;
    }
    let (low, high) = (cx.real_like(sum, low)?, cx.real_like(sum, high)?);
    let clamped = cx.max(sum, low)?;
    let clamped = cx.min(clamped, high)?;
    cx.cast(clamped, to)
}

fn integer_range(dtype: DType) -> Result<(f64, f64)> {
    Ok(match dtype {
        DType::U2 => (0.0, 3.0),
        DType::I2 => (-2.0, 1.0),
        DType::U4 => (0.0, 15.0),
        DType::I4 => (-8.0, 7.0),
        DType::U8 => (0.0, 255.0),
        DType::I8 => (-128.0, 127.0),
        DType::U16 => (0.0, 65535.0),
        DType::I16 => (-32768.0, 32767.0),
        other => {
            return Err(Refusal::Quantisation(other).into());
        }
    })
}

/// Granularity of scales.
enum Layout {
    /// One scale.
    Tensor,
    /// One scale for each index along an axis.
    Axis(usize),
    /// One scale for each block of elements along an axis.
    Block { axis: usize, size: i64 },
}

impl Layout {
    fn of(cx: &NodeCx, x: Value, scale: Value) -> Result<Self> {
        let (rank, scales) = (cx.rank(x)?, cx.shape(scale)?);
        let axis = cx.int_or("axis", 1);
        match cx.int_or("block_size", 0) {
            _ if scales.is_empty() => Ok(Layout::Tensor),
            _ if scales.iter().all(|d| d.is(1)) && scales.len() == 1 => Ok(Layout::Tensor),
            0 if scales.len() == 1 => Ok(Layout::Axis(cx.axis(axis, rank)?)),
            size if size > 0 && scales.len() == rank => Ok(Layout::Block {
                axis: cx.axis(axis, rank)?,
                size,
            }),
            size => invalid(format!(
                "scales of {} axes for {rank} axes with block_size {size}",
                scales.len()
            )),
        }
    }

    /// A parameter for each element of `x`, up to broadcasting.
    fn spread(&self, cx: &mut NodeCx, x: Value, parameter: Value) -> Result<Value> {
        match *self {
            Layout::Tensor => scalar(cx, parameter),
            Layout::Axis(axis) => {
                let rank = cx.rank(x)?;
                cx.along(parameter, axis, rank)
            }
            Layout::Block { axis, size } => {
                let positions = cx.positions(x, axis)?;
                let size = cx.b.i64(size);
                let blocks = cx.div(positions, size)?;
                cx.gather(parameter, blocks, axis)
            }
        }
    }

    /// [`spread`](Self::spread) for a zero point, which may be one number although scales are many.
    fn spread_zero(&self, cx: &mut NodeCx, x: Value, zero: Value) -> Result<Value> {
        let shape = cx.shape(zero)?;
        if shape.iter().all(|d: &Dim| d.is(1)) && shape.len() <= 1 {
            return scalar(cx, zero);
        }
        self.spread(cx, x, zero)
    }
}
