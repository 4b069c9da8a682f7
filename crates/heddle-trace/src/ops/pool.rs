//! Pooling.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, ScatterReduce, UnaryOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::Table;
use super::args::Int;
use super::conv::spread;
use super::cx::NodeCx;
use crate::error::{Result, invalid, refuse};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("_adaptive_avg_pool2d", |cx| adaptive(cx, 2)),
    ("_adaptive_avg_pool2d_backward", adaptive_gradient),
    ("_adaptive_avg_pool3d", |cx| adaptive(cx, 3)),
    ("adaptive_avg_pool1d", |cx| adaptive(cx, 1)),
    ("adaptive_avg_pool2d", |cx| adaptive(cx, 2)),
    ("avg_pool1d", |cx| average(cx, 1)),
    ("avg_pool2d", |cx| average(cx, 2)),
    ("avg_pool2d_backward", average_gradient),
    ("avg_pool3d", |cx| average(cx, 3)),
    ("max_pool2d", |cx| largest(cx, 2, false)),
    ("max_pool2d_with_indices", |cx| largest(cx, 2, true)),
    ("max_pool3d_with_indices", |cx| largest(cx, 3, true)),
    ("max_pool2d_with_indices_backward", largest_gradient),
];

/// Windows over the last axes of an array.
struct Windows {
    window: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    pads: Vec<i64>,
    /// Padding behind each axis that fits all windows: with `ceil_mode` the last one may reach further.
    ends: Vec<Int>,
    /// The first of the axes.
    first: usize,
}

impl Windows {
    /// From the argument at `i` on.
    fn of(cx: &mut NodeCx, x: Value, i: usize, count: usize, has_dilation: bool) -> Result<Self> {
        let Some(first) = cx.rank(x)?.checked_sub(count) else {
            return invalid(format!(
                "{} axes can't be pooled along {count}",
                cx.rank(x)?
            ));
        };
        let window = cx.positive(i, "kernel_size", count, &[])?;
        let sizes: Vec<i64> = window.iter().map(|&n| n as i64).collect();
        let strides = cx.positive(i + 1, "stride", count, &sizes)?;
        let pads = cx.per_axis(i + 2, "padding", count, &[0])?;
        if pads.iter().zip(&sizes).any(|(p, n)| *p < 0 || *p > *n) {
            return invalid(format!("padding {pads:?} of windows {window:?}"));
        }
        let (dilations, ceils) = match has_dilation {
            true => (
                cx.positive(i + 3, "dilation", count, &[1])?,
                cx.flag(i + 4, "ceil_mode", false)?,
            ),
            false => (vec![1; count], cx.flag(i + 3, "ceil_mode", false)?),
        };
        let mut ends: Vec<Int> = pads.iter().map(|&p| Int::Const(p)).collect();
        if ceils {
            for i in 0..count {
                let span = (window[i] as i64 - 1)
                    .saturating_mul(dilations[i] as i64)
                    .saturating_add(1);
                let (pad, stride) = (pads[i], strides[i] as i64);
                let size = cx.size(x, first + i)?;
                let padded = cx.int_add(size, 2 * pad)?;
                let room = cx.int_sub(padded, span)?;
                let steps = cx.int_add(room, stride - 1)?;
                let steps = cx.int_div(steps, stride)?;
                // A window that begins behind the input is left out.
                let begun = cx.int_add(size, pad - 1)?;
                let begun = cx.int_div(begun, stride)?;
                let steps = cx.int_min(steps, begun)?;
                let end = cx.int_mul(steps, stride)?;
                let end = cx.int_add(end, span)?;
                let front = cx.int_add(size, pad)?;
                ends[i] = cx.int_sub(end, front)?;
            }
        }
        Ok(Self {
            window,
            strides,
            dilations,
            pads,
            ends,
            first,
        })
    }

    fn pads_value(&self, cx: &mut NodeCx) -> Result<Value> {
        let begins: Vec<Int> = self.pads.iter().map(|&p| Int::Const(p)).collect();
        cx.ints_value(&[begins, self.ends.clone()].concat())
    }

    fn reduce(&self, cx: &mut NodeCx, kind: ReduceOp, x: Value) -> Result<Value> {
        let pads = self.pads_value(cx)?;
        let op = Op::Window {
            kind,
            window: self.window.clone(),
            strides: self.strides.clone(),
            dilations: self.dilations.clone(),
        };
        cx.op(op, &[x, pads])
    }

    /// The number of elements of each window, one axis after the other: with `padded`, those of the stated padding, too.
    fn counts(&self, cx: &mut NodeCx, x: Value, padded: bool) -> Result<Value> {
        let count = self.window.len();
        let mut counts = cx.like(x, 1.0)?;
        for i in 0..count {
            let mut size = cx.size(x, self.first + i)?;
            let mut pads = [Int::Const(self.pads[i]), self.ends[i]];
            if padded {
                size = cx.int_add(size, 2 * self.pads[i])?;
                pads = [Int::Const(0), cx.int_sub(self.ends[i], self.pads[i])?];
            }
            let one = cx.like(x, 1.0)?;
            let ones = cx.filled(one, &[size])?;
            let pads = cx.ints_value(&pads)?;
            let op = Op::Window {
                kind: ReduceOp::Sum,
                window: vec![self.window[i]],
                strides: vec![self.strides[i]],
                dilations: vec![1],
            };
            let row = cx.op(op, &[ones, pads])?;
            let row = cx.per_channel(row, count - 1 - i)?;
            counts = cx.mul(counts, row)?;
        }
        Ok(counts)
    }
}

fn average(cx: &mut NodeCx, count: usize) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let windows = Windows::of(cx, x, 1, count, false)?;
    let padded = cx.flag(5, "count_include_pad", true)?;
    let divisor = cx.opt_float(6, "divisor_override")?;
    let mean = |cx: &mut NodeCx, x: Value| {
        let sum = windows.reduce(cx, ReduceOp::Sum, x)?;
        let count = match divisor {
            Some(divisor) => cx.like(x, divisor)?,
            None => windows.counts(cx, x, padded)?,
        };
        cx.div(sum, count)
    };
    Ok(vec![match cx.dtype(x)?.is_float() {
        true => cx.on_floats(x, mean)?,
        false => mean(cx, x)?,
    }])
}

fn largest(cx: &mut NodeCx, count: usize, has_indices: bool) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let windows = Windows::of(cx, x, 1, count, true)?;
    let y = windows.reduce(cx, ReduceOp::Max, x)?;
    if !has_indices {
        return Ok(vec![y]);
    }
    let indices = largest_indices(cx, x, y, &windows)?;
    Ok(vec![y, indices])
}

/// The place in the flattened plane of each window's first largest element.
fn largest_indices(cx: &mut NodeCx, x: Value, y: Value, windows: &Windows) -> Result<Value> {
    let count = windows.window.len();
    let sizes = windows.window.iter();
    let total = sizes.fold(1usize, |all, n| all.saturating_mul(*n));
    if total > 4096 {
        return refuse(format!("indices of windows of {total} elements"));
    }
    let first = windows.first;
    // Row-major weights of the plane.
    let mut weights = vec![Int::Const(1); count];
    for i in (0..count - 1).rev() {
        let size = cx.size(x, first + i + 1)?;
        weights[i] = cx.int_mul(weights[i + 1], size)?;
    }
    let minus_one = cx.b.i64(-1);
    let mut found = minus_one;
    // From the last element to the first, so that the first one stays.
    for place in (0..total).rev() {
        let mut rest = place;
        let mut offsets = vec![0usize; count];
        for i in (0..count).rev() {
            offsets[i] = rest % windows.window[i];
            rest /= windows.window[i];
        }
        let (mut value, mut index, mut inside) = (x, cx.b.i64(0), cx.b.scalar(DType::Bool, 1.0));
        for i in 0..count {
            let size = cx.size(x, first + i)?;
            let steps = cx.size(y, first + i)?;
            let at = cx.iota(steps)?;
            let at = cx.times(at, windows.strides[i] as f64)?;
            let offset = (offsets[i] * windows.dilations[i]) as i64 - windows.pads[i];
            let at = cx.plus(at, offset as f64)?;
            let zero = cx.b.i64(0);
            let end = cx.int_value(size);
            let above = cx.compare(CompareOp::Ge, at, zero)?;
            let below = cx.compare(CompareOp::Lt, at, end)?;
            let fits = cx.binary(BinaryOp::And, above, below)?;
            let safe = cx.select(fits, at, zero)?;
            value = cx.gather(value, safe, first + i)?;
            let weight = cx.int_value(weights[i]);
            let part = cx.mul(safe, weight)?;
            let part = cx.per_channel(part, count - 1 - i)?;
            index = cx.add(index, part)?;
            let fits = cx.per_channel(fits, count - 1 - i)?;
            inside = cx.binary(BinaryOp::And, inside, fits)?;
        }
        let mut same = cx.compare(CompareOp::Eq, value, y)?;
        if cx.dtype(x)?.is_float() {
            let nan = cx.unary(UnaryOp::IsNan, value)?;
            same = cx.binary(BinaryOp::Or, same, nan)?;
        }
        let same = cx.binary(BinaryOp::And, same, inside)?;
        found = cx.select(same, index, found)?;
    }
    Ok(found)
}

/// Gradients go to the places that the indices name.
fn largest_gradient(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (gradient, x, indices) = (
        cx.value(0, "grad_output")?,
        cx.value(1, "self")?,
        cx.value(7, "indices")?,
    );
    let rank = cx.rank(x)?;
    if rank < 2 {
        return invalid("it has no plane");
    }
    let sizes = cx.sizes(x)?;
    let plane = cx.int_mul(sizes[rank - 2], sizes[rank - 1])?;
    let behind = |cx: &mut NodeCx, v: Value| {
        let of = cx.sizes(v)?;
        let plane = cx.int_mul(of[rank - 2], of[rank - 1])?;
        cx.reshape(v, &[&of[..rank - 2], &[plane]].concat())
    };
    let (gradient, indices) = (behind(cx, gradient)?, behind(cx, indices)?);
    let zero = cx.like(gradient, 0.0)?;
    let zeros = cx.filled(zero, &[&sizes[..rank - 2], &[plane]].concat())?;
    let op = Op::ScatterElements {
        axis: rank - 2,
        reduce: ScatterReduce::Add,
    };
    let y = cx.op(op, &[zeros, indices, gradient])?;
    Ok(vec![cx.reshape(y, &sizes)?])
}

/// Means of as many parts of each axis as the result has elements; parts may overlap.
fn adaptive(cx: &mut NodeCx, count: usize) -> Result<Vec<Value>> {
    let (x, sizes) = (cx.value(0, "self")?, cx.size_list(1, "output_size")?);
    let Some(first) = cx.rank(x)?.checked_sub(count) else {
        return invalid(format!(
            "{} axes can't be pooled along {count}",
            cx.rank(x)?
        ));
    };
    if sizes.len() != count {
        return invalid(format!("{} sizes for {count} axes", sizes.len()));
    }
    Ok(vec![cx.on_floats(x, |cx, mut x| {
        if sizes.iter().all(|n| n.as_const() == Some(1)) {
            let axes: Vec<usize> = (first..first + count).collect();
            return cx.mean(x, &axes, true);
        }
        for (i, &size) in sizes.iter().enumerate() {
            x = adaptive_axis(cx, x, first + i, size)?;
        }
        Ok(x)
    })?])
}

/// Each window's gradient, shared by its elements.
fn average_gradient(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (dy, x) = (cx.value(0, "grad_output")?, cx.value(1, "self")?);
    let windows = Windows::of(cx, x, 2, 2, false)?;
    let padded = cx.flag(6, "count_include_pad", true)?;
    let count = match cx.opt_float(7, "divisor_override")? {
        Some(divisor) => cx.like(x, divisor)?,
        None => windows.counts(cx, x, padded)?,
    };
    let each = cx.div(dy, count)?;
    let dx = spread(
        cx,
        each,
        x,
        &windows.window,
        &windows.strides,
        &windows.pads,
    )?;
    Ok(vec![dx])
}

fn adaptive_gradient(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (mut dy, x) = (cx.value(0, "grad_output")?, cx.value(1, "self")?);
    let rank = cx.rank(x)?;
    if rank < 2 || cx.rank(dy)? != rank {
        return invalid("it has no plane");
    }
    for axis in [rank - 2, rank - 1] {
        let (size, parts) = (cx.size(x, axis)?, cx.size(dy, axis)?);
        let dtype = cx.dtype(dy)?;
        let (inside, counts) = shares(cx, size, parts, dtype)?;
        dy = cx.swap(dy, axis, rank - 1)?;
        let each = cx.div(dy, counts)?;
        let inside = cx.swap(inside, 0, 1)?;
        let spread = cx.matmul(each, inside)?;
        dy = cx.swap(spread, axis, rank - 1)?;
    }
    Ok(vec![dy])
}

/// Means of parts of one axis: a product with the matrix of the parts' elements.
fn adaptive_axis(cx: &mut NodeCx, x: Value, axis: usize, parts: Int) -> Result<Value> {
    let rank = cx.rank(x)?;
    let size = cx.size(x, axis)?;
    if size.as_const().is_some() && size.as_const() == parts.as_const() {
        return Ok(x);
    }
    let dtype = cx.dtype(x)?;
    let (inside, counts) = shares(cx, size, parts, dtype)?;
    let x = cx.swap(x, axis, rank - 1)?;
    let sums = cx.matmul(x, inside)?;
    let means = cx.div(sums, counts)?;
    cx.swap(means, axis, rank - 1)
}

/// For parts of an axis, part `i` from `i*size/parts` to `ceil((i+1)*size/parts)`: the matrix `[size, parts]` that is 1 where an element
/// is in a part, and the number of elements of each part.
fn shares(cx: &mut NodeCx, size: Int, parts: Int, dtype: DType) -> Result<(Value, Value)> {
    let (size, parts_value) = (cx.int_value(size), cx.int_value(parts));
    let steps = cx.iota(parts)?;
    let begins = cx.mul(steps, size)?;
    let begins = cx.div(begins, parts_value)?;
    let ends = cx.plus(steps, 1.0)?;
    let ends = cx.mul(ends, size)?;
    let ends = cx.add(ends, parts_value)?;
    let ends = cx.plus(ends, -1.0)?;
    let ends = cx.div(ends, parts_value)?;
    let places = cx.iota(Int::Value(size))?;
    let places = cx.unsqueeze(places, &[1])?;
    let above = cx.compare(CompareOp::Ge, places, begins)?;
    let below = cx.compare(CompareOp::Lt, places, ends)?;
    let inside = cx.binary(BinaryOp::And, above, below)?;
    let counts = cx.sub(ends, begins)?;
    Ok((cx.cast(inside, dtype)?, cx.cast(counts, dtype)?))
}
