//! Signal processing: DFT, STFT, windows. All is computed in double precision and rounded once.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use super::elem::dtype_of;
use super::sizes::Int;
use crate::refusal::Refusal;

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
        return invalid(format!("the input must have 2 axes or more, not {rank}"));
    }
    let wide = cx.cast(x, DType::F64)?;
    let y = match axis {
        Int::Const(axis) => {
            let axis = cx.axis(axis, rank)?;
            if axis + 1 == rank {
                return invalid("the last axis holds real and imaginary parts");
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
    let transform = Transform {
        axis,
        length,
        inverse,
        onesided,
    };
    transform.apply(cx, x)
}

/// [`dft_along`] a dynamic axis: axes before and after it are joined first.
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
        return invalid(format!(
            "the signal must have 2 or 3 axes, not {}",
            cx.b.ty(x)
        ));
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
        return invalid("frame_step must be positive");
    }
    // Frames are rows of indices into the signal.
    let room = cx.int_sub(size, length)?;
    let count = cx.int_div(room, step)?;
    let count = cx.int_add(count, 1)?;
    let (starts, step) = (cx.iota(count)?, cx.int_value(step));
    let starts = cx.mul(starts, step)?;
    let starts = cx.unsqueeze(starts, &[1])?;
    let within = cx.iota(length)?;
    let places = cx.add(starts, within)?;
    let x = cx.cast(x, DType::F64)?;
    let mut frames = cx.gather(x, places, 1)?;
    if let Some(window) = window {
        let window = cx.cast(window, DType::F64)?;
        let window = cx.unsqueeze(window, &[1])?;
        frames = cx.mul(frames, window)?;
    }
    let transform = Transform {
        axis: 2,
        length,
        inverse: false,
        onesided: cx.flag("onesided", true),
    };
    let y = transform.apply(cx, frames)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// A discrete Fourier transform along one axis.
struct Transform {
    axis: usize,
    /// Number of points; the signal is cut to it or zero-padded.
    length: Int,
    inverse: bool,
    onesided: bool,
}

/// Factors of a transform, `f64[points in, points out]`.
struct Factors {
    cos: Value,
    sin: Value,
}

impl Transform {
    /// Transforms `x[…, 1 or 2]`, whose last axis holds real and imaginary parts, by the matrix of
    /// factors.
    fn apply(&self, cx: &mut NodeCx, x: Value) -> Result<Value> {
        let shape = cx.shape(x)?;
        let last = shape.len() - 1;
        let complex = match shape[last].as_const() {
            Some(1) => false,
            Some(2) => true,
            _ => return Err(Refusal::SignalParts(shape[last].clone()).into()),
        };
        let half = cx.int_div(self.length, 2)?;
        let half = cx.int_add(half, 1)?;
        let (points_in, points_out) = match (self.inverse, self.onesided) {
            (_, false) => (self.length, self.length),
            (false, true) => (self.length, half),
            (true, true) => (half, self.length),
        };
        let size = cx.size(x, self.axis)?;
        let used = cx.int_min(size, points_in)?;
        let x = cx.cut(x, self.axis, 0, used)?;
        let factors = self.factors(cx, used, points_out)?;

        // (re + i im) (cos + i sin)
        let re = self.rows(cx, x, 0)?;
        let mut real = self.multiply(cx, re, factors.cos)?;
        let mut imaginary = self.multiply(cx, re, factors.sin)?;
        if complex {
            let im = self.rows(cx, x, 1)?;
            let crossed = self.multiply(cx, im, factors.sin)?;
            real = cx.sub(real, crossed)?;
            let crossed = self.multiply(cx, im, factors.cos)?;
            imaginary = cx.add(imaginary, crossed)?;
        }
        let real = cx.unsqueeze(real, &[last])?;
        if self.inverse && self.onesided {
            return Ok(real);
        }
        let imaginary = cx.unsqueeze(imaginary, &[last])?;
        cx.concat(&[real, imaginary], last)
    }

    /// Factors from `points_in` points to `points_out`.
    fn factors(&self, cx: &mut NodeCx, points_in: Int, points_out: Int) -> Result<Factors> {
        let (rows, columns) = (cx.iota(points_in)?, cx.iota(points_out)?);
        let turn = cx.int_value(self.length);
        let (mut cos, mut sin) = cx.fourier(rows, columns, turn)?;
        if !self.inverse {
            sin = cx.neg(sin)?;
            return Ok(Factors { cos, sin });
        }
        if self.onesided {
            // Frequencies other than the first and the middle one stand for their mirror images,
            // too.
            let (zero, twice) = (cx.b.i64(0), cx.b.i64(2));
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
        let points = cx.cast(turn, DType::F64)?;
        Ok(Factors {
            cos: cx.div(cos, points)?,
            sin: cx.div(sin, points)?,
        })
    }

    /// The real (0) or imaginary (1) parts of `x`, with the transformed axis last.
    fn rows(&self, cx: &mut NodeCx, x: Value, part: usize) -> Result<Value> {
        let last = cx.rank(x)? - 1;
        let mut to_last: Vec<usize> = (0..last).filter(|a| *a != self.axis).collect();
        to_last.push(self.axis);
        let part = cx.pick(x, part, last)?;
        cx.transpose(part, &to_last)
    }

    /// Multiplies rows by a matrix of factors, and moves the axis back to its place.
    fn multiply(&self, cx: &mut NodeCx, rows: Value, matrix: Value) -> Result<Value> {
        let product = cx.matmul(rows, matrix)?;
        let last = cx.rank(rows)? - 1;
        let mut back: Vec<usize> = (0..last).collect();
        back.insert(self.axis, last);
        cx.transpose(product, &back)
    }
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
    let index = cx.iota(size)?;
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
    let index = cx.iota(edges)?;
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
    let row = cx.iota(rows)?;
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
