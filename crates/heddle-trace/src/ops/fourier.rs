//! Fourier transforms by the matrix of factors, computed in double precision and rounded once.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::args::Int;
use super::cx::NodeCx;
use crate::error::{Result, invalid};

/// Parts of complex numbers.
type Parts = (Value, Value);

/// `_fft_c2c(self, dim, normalization, forward)`.
pub(super) fn complex_to_complex(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (re, im) = cx.complex(0, "self")?;
    let dtype = cx.dtype(re)?;
    let axes = axes(cx, re)?;
    let is_forward = cx.flag(3, "forward", true)?;
    let count = cx.count(re, &axes)?;
    let mut parts = (cx.cast(re, DType::F64)?, cx.cast(im, DType::F64)?);
    for axis in axes {
        let points = cx.size(parts.0, axis)?;
        parts = along(cx, parts.0, Some(parts.1), axis, points, points, is_forward)?;
    }
    finish(cx, parts, count, dtype)
}

/// `_fft_r2c(self, dim, normalization, onesided)`: of the last of `dim` the first half.
pub(super) fn real_to_complex(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let dtype = cx.dtype(x)?;
    let axes = axes(cx, x)?;
    let Some((&last, before)) = axes.split_last() else {
        return invalid("it has no axes to transform");
    };
    let count = cx.count(x, &axes)?;
    let points = cx.size(x, last)?;
    let kept = match cx.flag(3, "onesided", true)? {
        true => half(cx, points)?,
        false => points,
    };
    let x = cx.cast(x, DType::F64)?;
    let mut parts = along(cx, x, None, last, points, kept, true)?;
    for &axis in before {
        let points = cx.size(parts.0, axis)?;
        parts = along(cx, parts.0, Some(parts.1), axis, points, points, true)?;
    }
    finish(cx, parts, count, dtype)
}

/// `_fft_c2r(self, dim, normalization, last_dim_size)`: the inverse, from the first half of the last of `dim`.
pub(super) fn complex_to_real(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (re, im) = cx.complex(0, "self")?;
    let dtype = cx.dtype(re)?;
    let axes = axes(cx, re)?;
    let points = cx.size_arg(3, "last_dim_size")?;
    let Some((&last, before)) = axes.split_last() else {
        return invalid("it has no axes to transform");
    };
    let count = cx.count(re, before)?;
    let count = cx.int_mul(count, points)?;
    let mut parts = (cx.cast(re, DType::F64)?, cx.cast(im, DType::F64)?);
    for &axis in before {
        let points = cx.size(parts.0, axis)?;
        parts = along(cx, parts.0, Some(parts.1), axis, points, points, false)?;
    }
    let used = half(cx, points)?;
    let (mut re, mut im) = parts;
    for part in [&mut re, &mut im] {
        *part = cx.slice(*part, last, 0.into(), used, 1.into())?;
    }
    // Frequencies other than the first and the middle one stand for their mirror images, too.
    let number = cx.iota(used)?;
    let turn = cx.int_value(points);
    let doubled = cx.add(number, number)?;
    let (is_first, is_middle) = (
        cx.compare_with(CompareOp::Eq, number, 0.0)?,
        cx.compare(CompareOp::Eq, doubled, turn)?,
    );
    let is_single = cx.binary(BinaryOp::Or, is_first, is_middle)?;
    let (one, two) = (cx.b.scalar(DType::F64, 1.0), cx.b.scalar(DType::F64, 2.0));
    let times = cx.select(is_single, one, two)?;
    let behind = cx.rank(re)? - 1 - last;
    let times = cx.per_channel(times, behind)?;
    for part in [&mut re, &mut im] {
        *part = cx.mul(*part, times)?;
    }
    let made = along(cx, re, Some(im), last, points, points, false)?.0;
    let made = scaled(cx, made, count)?;
    Ok(vec![cx.cast(made, dtype)?])
}

/// The axes of the argument `dim`, in its order.
fn axes(cx: &mut NodeCx, x: Value) -> Result<Vec<usize>> {
    let rank = cx.rank(x)?;
    let axes = cx.ints(1, "dim")?;
    axes.into_iter().map(|axis| cx.axis(axis, rank)).collect()
}

/// Frequencies of which the others are mirror images.
fn half(cx: &mut NodeCx, points: Int) -> Result<Int> {
    let half = cx.int_div(points, 2)?;
    cx.int_add(half, 1)
}

/// The first `kept` of `points` frequencies along an axis. Real numbers have no `im`.
fn along(
    cx: &mut NodeCx,
    re: Value,
    im: Option<Value>,
    axis: usize,
    points: Int,
    kept: Int,
    is_forward: bool,
) -> Result<Parts> {
    let last = cx.rank(re)? - 1;
    let size = cx.size(re, axis)?;
    let (rows, columns, points) = (cx.iota(size)?, cx.iota(kept)?, cx.int_value(points));
    let (cos, sin) = cx.fourier(rows, columns, points)?;
    let sin = match is_forward {
        true => cx.unary(UnaryOp::Neg, sin)?,
        false => sin,
    };
    // (re + i im) (cos + i sin)
    let rows = cx.swap(re, axis, last)?;
    let (mut re, mut made) = (cx.matmul(rows, cos)?, cx.matmul(rows, sin)?);
    if let Some(im) = im {
        let rows = cx.swap(im, axis, last)?;
        let (a, b) = (cx.matmul(rows, sin)?, cx.matmul(rows, cos)?);
        (re, made) = (cx.sub(re, a)?, cx.add(made, b)?);
    }
    Ok((cx.swap(re, axis, last)?, cx.swap(made, axis, last)?))
}

/// Divided as the argument `normalization` says: by nothing, the root of the number of points, or their number.
fn scaled(cx: &mut NodeCx, x: Value, count: Int) -> Result<Value> {
    let count = cx.real(count, x)?;
    match cx.int(2, "normalization")? {
        0 => Ok(x),
        1 => {
            let root = cx.unary(UnaryOp::Sqrt, count)?;
            cx.div(x, root)
        }
        2 => cx.div(x, count),
        other => invalid(format!("normalization is {other}")),
    }
}

fn finish(cx: &mut NodeCx, (re, im): Parts, count: Int, dtype: DType) -> Result<Vec<Value>> {
    let (re, im) = (scaled(cx, re, count)?, scaled(cx, im, count)?);
    let pairs = cx.join(re, im)?;
    Ok(vec![cx.cast(pairs, dtype)?])
}
