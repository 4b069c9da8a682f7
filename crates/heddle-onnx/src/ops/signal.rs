//! Signal processing: DFT, STFT, windows. All is computed in double precision and rounded once.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Op, Value};

use super::cx::{NodeCx, Result};
use super::elem::dtype_of;
use super::sizes::Int;
use super::{OpError, Table};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("DFT", dft),
    ("STFT", stft),
    ("HannWindow", hann_window),
    ("HammingWindow", hamming_window),
    ("BlackmanWindow", blackman_window),
    ("MelWeightMatrix", mel_weight_matrix),
];

/// DFT 17 (`axis` an attribute, 1 if missing), 20 (an input, -2 if missing).
fn dft(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = cx.dtype(x)?;
    let rank = cx.rank(x)?;
    let axis = match (cx.opset, cx.opt(2)) {
        (..20, _) => Int::Const(cx.int_or("axis", 1)),
        (_, None) => Int::Const(-2),
        (_, Some(axis)) => cx.int_scalar(axis)?,
    };
    if rank < 2 {
        let message = format!("the input must have 2 axes or more, not {rank}");
        return Err(OpError::Invalid(message));
    }
    let wide = cx.cast(x, DType::F64)?;
    let y = match axis {
        Int::Const(axis) => {
            let axis = cx.axis(axis, rank)?;
            if axis + 1 == rank {
                let message = "the last axis holds real and imaginary parts".into();
                return Err(OpError::Invalid(message));
            }
            let size = cx.size(x, axis)?;
            dft_along(cx, wide, axis, size)?
        }
        Int::Value(axis) => dft_along_computed(cx, wide, axis)?,
    };
    Ok(vec![cx.cast(y, dtype)?])
}

/// The transform that the node's attributes and its length describe.
fn dft_along(cx: &mut NodeCx, x: Value, axis: usize, size: Int) -> Result<Value> {
    let (inverse, onesided) = (cx.flag("inverse", false), cx.flag("onesided", false));
    let length = match cx.opt(1) {
        Some(length) => cx.int_scalar(length)?,
        None if inverse && onesided => {
            let gaps = cx.int_sub(size, 1)?;
            cx.int_mul(gaps, 2)?
        }
        None => size,
    };
    transform(cx, x, axis, length, inverse, onesided)
}

/// [`dft_along`] an axis that only the run knows: axes before and after it are joined first.
fn dft_along_computed(cx: &mut NodeCx, x: Value, axis: Value) -> Result<Value> {
    let rank = cx.rank(x)? as i64;
    let shape = cx.shape_of(x)?;
    let parts = cx.size(x, rank as usize - 1)?;
    let (zero, one, count) = (cx.b.i64(0), cx.b.i64(1), cx.b.i64(rank));
    let from_end = cx.add(axis, count)?;
    let negative = cx.compare(CompareOp::Lt, axis, zero)?;
    let axis = cx.select(negative, from_end, axis)?;
    let size = cx.gather(shape, axis, 0)?;
    let index: Vec<i64> = (0..rank).collect();
    let index = cx.b.i64s(&index);
    let is_axis = cx.compare(CompareOp::Eq, index, axis)?;
    let is_before = cx.compare(CompareOp::Lt, index, axis)?;
    let is_after = cx.compare(CompareOp::Gt, index, axis)?;
    let last = cx.b.i64(rank - 1);
    let is_last = cx.compare(CompareOp::Eq, index, last)?;
    let before = cx.select(is_before, shape, one)?;
    let before = cx.reduce(ReduceOp::Prod, before, &[0], false)?;
    let signal = cx.select(is_last, one, shape)?;
    let after = cx.select(is_after, signal, one)?;
    let after = cx.reduce(ReduceOp::Prod, after, &[0], false)?;
    let joined = [before, size, after].map(Int::Value);
    let x = cx.reshape_ints(x, &[&joined[..], &[parts]].concat())?;
    let y = dft_along(cx, x, 1, Int::Value(size))?;
    let (points, parts) = (cx.size_of(y, 1)?, cx.size_of(y, 3)?);
    let result = cx.select(is_axis, points, shape)?;
    let result = cx.select(is_last, parts, result)?;
    cx.reshape_to(y, result)
}

/// STFT 17. A real signal may also have two axes, as PyTorch's exporter writes it.
fn stft(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (mut x, step) = (cx.input(0)?, cx.input(1)?);
    let dtype = cx.dtype(x)?;
    if cx.rank(x)? == 2 {
        x = cx.unsqueeze(x, &[2])?;
    }
    if cx.rank(x)? != 3 {
        let message = format!("the signal must have 2 or 3 axes, not {}", cx.b.ty(x));
        return Err(OpError::Invalid(message));
    }
    let size = cx.size(x, 1)?;
    let window = cx.opt(2);
    let length = match (cx.opt(3), window) {
        (Some(length), _) => cx.int_scalar(length)?,
        (None, Some(window)) => cx.size(window, 0)?,
        (None, None) => size,
    };
    let step = cx.int_scalar(step)?;
    if step.as_const().is_some_and(|s| s < 1) {
        return Err(OpError::Invalid("frame_step must be positive".into()));
    }
    // Frames are rows of indices into the signal.
    let room = cx.int_sub(size, length)?;
    let count = cx.int_div(room, step)?;
    let count = cx.int_add(count, 1)?;
    let (zero, count, step) = (cx.b.i64(0), cx.int_value(count), cx.int_value(step));
    let starts = cx.range(zero, count)?;
    let starts = cx.mul(starts, step)?;
    let starts = cx.unsqueeze(starts, &[1])?;
    let within = cx.int_value(length);
    let within = cx.range(zero, within)?;
    let places = cx.add(starts, within)?;
    let x = cx.cast(x, DType::F64)?;
    let mut frames = cx.gather(x, places, 1)?;
    if let Some(window) = window {
        let window = cx.cast(window, DType::F64)?;
        let window = cx.unsqueeze(window, &[1])?;
        frames = cx.mul(frames, window)?;
    }
    let onesided = cx.flag("onesided", true);
    let y = transform(cx, frames, 2, length, false, onesided)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// The Fourier transform of `length` points along an axis of `x[…, 1 or 2]`, which is cut or
/// filled up with zeros: by the matrix of its factors.
fn transform(
    cx: &mut NodeCx,
    x: Value,
    axis: usize,
    length: Int,
    inverse: bool,
    onesided: bool,
) -> Result<Value> {
    let shape = cx.shape(x)?;
    let last = shape.len() - 1;
    let complex = match shape[last].as_const() {
        Some(1) => false,
        Some(2) => true,
        _ => {
            let message = format!("a last axis of size {}, not 1 or 2", shape[last]);
            return Err(OpError::Unsupported(message));
        }
    };
    let half = cx.int_div(length, 2)?;
    let half = cx.int_add(half, 1)?;
    let (points_in, points_out) = match (inverse, onesided) {
        (_, false) => (length, length),
        (false, true) => (length, half),
        (true, true) => (half, length),
    };
    let size = cx.size(x, axis)?;
    let used = cx.int_min(size, points_in)?;
    let (start, end) = (cx.b.i64s(&[0]), cx.ints_value(&[used])?);
    let step = cx.b.i64s(&[1]);
    let x = cx.op(Op::Slice { axes: vec![axis] }, &[x, start, end, step])?;

    // Angles are reduced to one turn before they become real numbers.
    let (zero, rows) = (cx.b.i64(0), cx.int_value(used));
    let rows = cx.range(zero, rows)?;
    let columns = cx.int_value(points_out);
    let columns = cx.range(zero, columns)?;
    let column = cx.unsqueeze(rows, &[1])?;
    let product = cx.mul(column, columns)?;
    let turn = cx.int_value(length);
    let product = cx.binary(BinaryOp::Mod, product, turn)?;
    let angle = cx.cast(product, DType::F64)?;
    let unit = cx.real_like(angle, std::f64::consts::TAU)?;
    let points = cx.cast(turn, DType::F64)?;
    let angle = cx.mul(angle, unit)?;
    let angle = cx.div(angle, points)?;
    let mut cos = cx.unary(UnaryOp::Cos, angle)?;
    let mut sin = cx.unary(UnaryOp::Sin, angle)?;
    if inverse {
        if onesided {
            // Frequencies other than the first, and the middle one, stand for their mirror
            // images, too.
            let twice = cx.b.i64(2);
            let doubled = cx.mul(rows, twice)?;
            let first = cx.compare(CompareOp::Eq, rows, zero)?;
            let middle = cx.compare(CompareOp::Eq, doubled, turn)?;
            let single = cx.binary(BinaryOp::Or, first, middle)?;
            let (one, two) = (cx.b.scalar(DType::F64, 1.0), cx.b.scalar(DType::F64, 2.0));
            let times = cx.select(single, one, two)?;
            let times = cx.unsqueeze(times, &[1])?;
            cos = cx.mul(cos, times)?;
            sin = cx.mul(sin, times)?;
        }
        cos = cx.div(cos, points)?;
        sin = cx.div(sin, points)?;
    } else {
        sin = cx.unary(UnaryOp::Neg, sin)?;
    }

    // The axis comes last, is multiplied and goes back.
    let mut to_last: Vec<usize> = (0..last).filter(|a| *a != axis).collect();
    to_last.push(axis);
    let mut back: Vec<usize> = (0..last - 1).collect();
    back.insert(axis, last - 1);
    let times = |cx: &mut NodeCx, x: Value, matrix: Value| {
        let product = match last {
            1 => {
                let row = cx.unsqueeze(x, &[0])?;
                let row = cx.op(Op::Dot, &[row, matrix])?;
                cx.squeeze(row, &[0])?
            }
            _ => cx.op(Op::Dot, &[x, matrix])?,
        };
        cx.transpose(product, &back)
    };
    let part = |cx: &mut NodeCx, i: i64| {
        let i = cx.b.i64(i);
        let part = cx.gather(x, i, last)?;
        cx.transpose(part, &to_last)
    };
    // (re + i im) (cos + i sin)
    let re = part(cx, 0)?;
    let mut real = times(cx, re, cos)?;
    let mut imaginary = times(cx, re, sin)?;
    if complex {
        let im = part(cx, 1)?;
        let crossed = times(cx, im, sin)?;
        real = cx.sub(real, crossed)?;
        let crossed = times(cx, im, cos)?;
        imaginary = cx.add(imaginary, crossed)?;
    }
    let real = cx.unsqueeze(real, &[last])?;
    if inverse && onesided {
        return Ok(real);
    }
    let imaginary = cx.unsqueeze(imaginary, &[last])?;
    cx.concat(&[real, imaginary], last)
}

/// HannWindow 17.
fn hann_window(cx: &mut NodeCx) -> Result<Vec<Value>> {
    window(cx, &[0.5, -0.5])
}

/// HammingWindow 17.
fn hamming_window(cx: &mut NodeCx) -> Result<Vec<Value>> {
    window(cx, &[25.0 / 46.0, -21.0 / 46.0])
}

/// BlackmanWindow 17.
fn blackman_window(cx: &mut NodeCx) -> Result<Vec<Value>> {
    window(cx, &[0.42, -0.5, 0.08])
}

/// A sum of cosines of multiples of the angle, from the constant on.
fn window(cx: &mut NodeCx, coefficients: &[f64]) -> Result<Vec<Value>> {
    let size = cx.input(0)?;
    let size = cx.int_scalar(size)?;
    let to = dtype_of(cx.int_or("output_datatype", 1))?;
    let turn = match cx.flag("periodic", true) {
        true => size,
        false => cx.int_sub(size, 1)?,
    };
    let (zero, end) = (cx.b.i64(0), cx.int_value(size));
    let index = cx.range(zero, end)?;
    let index = cx.cast(index, DType::F64)?;
    let unit = cx.real_like(index, std::f64::consts::TAU)?;
    let angle = cx.mul(index, unit)?;
    let turn = cx.num_of(turn)?;
    let turn = cx.num_value(turn);
    let angle = cx.div(angle, turn)?;
    let mut sum = cx.real_like(angle, coefficients[0])?;
    for (multiple, &coefficient) in coefficients.iter().enumerate().skip(1) {
        let multiple = cx.real_like(angle, multiple as f64)?;
        let angle = cx.mul(angle, multiple)?;
        let cos = cx.unary(UnaryOp::Cos, angle)?;
        let coefficient = cx.real_like(cos, coefficient)?;
        let term = cx.mul(cos, coefficient)?;
        sum = cx.add(sum, term)?;
    }
    Ok(vec![cx.cast(sum, to)?])
}

/// MelWeightMatrix 17: triangles over the bins of a spectrum, `[length / 2 + 1, mel bins]`.
fn mel_weight_matrix(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let mut integers = vec![];
    for i in 0..3 {
        let value = cx.input(i)?;
        integers.push(cx.int_scalar(value)?);
    }
    let (bands, length, rate) = (integers[0], integers[1], integers[2]);
    let to = dtype_of(cx.int_or("output_datatype", 1))?;
    let mut mels = vec![];
    for i in 3..5 {
        // 2595 * log10(1 + hertz / 700)
        let hertz = cx.input(i)?;
        let hertz = cx.cast(hertz, DType::F64)?;
        let hertz = cx.reshape(hertz, &[])?;
        let corner = cx.real_like(hertz, 700.0)?;
        let ratio = cx.div(hertz, corner)?;
        let log = cx.unary(UnaryOp::Log1p, ratio)?;
        let factor = cx.real_like(log, 2595.0 / std::f64::consts::LN_10)?;
        mels.push(cx.mul(log, factor)?);
    }
    let edges = cx.int_add(bands, 2)?;
    let span = cx.sub(mels[1], mels[0])?;
    let count = cx.num_of(edges)?;
    let count = cx.num_value(count);
    let step = cx.div(span, count)?;
    let (zero, edges) = (cx.b.i64(0), cx.int_value(edges));
    let index = cx.range(zero, edges)?;
    let index = cx.cast(index, DType::F64)?;
    let mel = cx.mul(index, step)?;
    let mel = cx.add(mel, mels[0])?;
    let factor = cx.real_like(mel, std::f64::consts::LN_10 / 2595.0)?;
    let power = cx.mul(mel, factor)?;
    let hertz = cx.unary(UnaryOp::Expm1, power)?;
    let corner = cx.real_like(hertz, 700.0)?;
    let hertz = cx.mul(hertz, corner)?;
    let points = cx.int_add(length, 1)?;
    let points = cx.num_of(points)?;
    let scaled = cx.with_num(BinaryOp::Mul, hertz, points)?;
    let rate = cx.num_of(rate)?;
    let bins = cx.with_num(BinaryOp::Div, scaled, rate)?;
    let bins = cx.unary(UnaryOp::Floor, bins)?;

    // Each band rises from one edge to the next and falls to the one after.
    let low = cx.slice(bins, 0, 0, -2)?;
    let centre = cx.slice(bins, 0, 1, -1)?;
    let high = cx.slice(bins, 0, 2, i64::MAX)?;
    let rows = cx.int_div(length, 2)?;
    let rows = cx.int_add(rows, 1)?;
    let rows = cx.int_value(rows);
    let row = cx.range(zero, rows)?;
    let row = cx.cast(row, DType::F64)?;
    let row = cx.unsqueeze(row, &[1])?;
    let (above, below) = (cx.sub(row, low)?, cx.sub(high, row)?);
    let (width_low, width_high) = (cx.sub(centre, low)?, cx.sub(high, centre)?);
    let (rise, fall) = (cx.div(above, width_low)?, cx.div(below, width_high)?);
    let [none, one] = [0.0, 1.0].map(|v| cx.b.scalar(DType::F64, v));
    let before_high = cx.compare(CompareOp::Lt, row, high)?;
    let weight = cx.select(before_high, fall, none)?;
    let before_centre = cx.compare(CompareOp::Lt, row, centre)?;
    let weight = cx.select(before_centre, rise, weight)?;
    let at_centre = cx.compare(CompareOp::Eq, row, centre)?;
    let weight = cx.select(at_centre, one, weight)?;
    let before_low = cx.compare(CompareOp::Lt, row, low)?;
    let weight = cx.select(before_low, none, weight)?;
    Ok(vec![cx.cast(weight, to)?])
}
