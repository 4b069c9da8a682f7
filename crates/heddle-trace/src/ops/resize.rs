//! Images in other sizes, and images read at computed places.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::Table;
use super::args::Int;
use super::cx::NodeCx;
use crate::error::{OpError, Result, invalid, refuse};
use crate::graph::Arg;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("grid_sampler_2d", grid_sampler),
    ("upsample_bilinear2d.vec", |cx| {
        let aligns = cx.flag(2, "align_corners", false)?;
        let axes = targets(cx, 2, 1, 3)?;
        each_axis(cx, &axes, |cx, x, axis| linear(cx, x, axis, aligns))
    }),
    ("upsample_linear1d.vec", |cx| {
        let aligns = cx.flag(2, "align_corners", false)?;
        let axes = targets(cx, 1, 1, 3)?;
        each_axis(cx, &axes, |cx, x, axis| linear(cx, x, axis, aligns))
    }),
    ("upsample_nearest1d.vec", |cx| {
        let axes = targets(cx, 1, 1, 2)?;
        each_axis(cx, &axes, nearest)
    }),
    ("upsample_nearest2d.vec", |cx| {
        let axes = targets(cx, 2, 1, 2)?;
        each_axis(cx, &axes, nearest)
    }),
    ("upsample_nearest3d.vec", |cx| {
        let axes = targets(cx, 3, 1, 2)?;
        each_axis(cx, &axes, nearest)
    }),
];

/// A spatial axis and its new size.
#[derive(Clone, Copy)]
struct Target {
    axis: usize,
    from: Int,
    to: Int,
    /// The factor, if it is stated.
    factor: Option<f64>,
}

/// From the arguments of sizes and factors, one of which is given.
fn targets(cx: &mut NodeCx, count: usize, sizes: usize, factors: usize) -> Result<Vec<Target>> {
    let x = cx.value(0, "input")?;
    if cx.rank(x)? != count + 2 {
        return invalid(format!("the input has {} axes", cx.rank(x)?));
    }
    let sizes = match cx.arg(sizes, "output_size") {
        Some(_) => Some(cx.size_list(sizes, "output_size")?),
        None => None,
    };
    let factors = match cx.arg(factors, "scale_factors") {
        Some(_) => {
            let all = cx
                .list(factors, "scale_factors")?
                .iter()
                .map(|arg| match arg {
                    Arg::Float(x) => Ok(x.0),
                    Arg::Int(n) => Ok(*n as f64),
                    _ => refuse("a factor that the run computes"),
                });
            Some(all.collect::<Result<Vec<f64>>>()?)
        }
        None => None,
    };
    let mut found = vec![];
    for i in 0..count {
        let from = cx.size(x, i + 2)?;
        let factor = factors.as_ref().and_then(|f| f.get(i)).copied();
        let to = match (sizes.as_ref().and_then(|s| s.get(i)), factor) {
            (Some(size), _) => *size,
            (None, Some(factor)) => match from {
                Int::Const(n) => Int::Const((n as f64 * factor).floor() as i64),
                Int::Value(n) => {
                    let n = cx.cast(n, DType::F64)?;
                    let n = cx.times(n, factor)?;
                    let n = cx.unary(UnaryOp::Floor, n)?;
                    Int::Value(cx.cast(n, DType::I64)?)
                }
            },
            (None, None) => {
                return Err(OpError::Invalid("it has neither sizes nor factors".into()));
            }
        };
        found.push(Target {
            axis: i + 2,
            from,
            to,
            factor,
        });
    }
    Ok(found)
}

fn each_axis(
    cx: &mut NodeCx,
    axes: &[Target],
    work: impl Fn(&mut NodeCx, Value, Target) -> Result<Value>,
) -> Result<Vec<Value>> {
    let mut x = cx.value(0, "input")?;
    for &axis in axes {
        x = work(cx, x, axis)?;
    }
    Ok(vec![x])
}

/// Elements of the source for one of the result, in `f32` as PyTorch counts them, or in `f64` for `f64`.
fn scale(cx: &mut NodeCx, target: Target, dtype: DType) -> Result<Value> {
    if let Some(factor) = target.factor {
        return Ok(cx.b.scalar(dtype, 1.0 / factor));
    }
    let one = cx.b.scalar(dtype, 1.0);
    let (from, to) = (cx.real(target.from, one)?, cx.real(target.to, one)?);
    cx.div(from, to)
}

fn counting_type(cx: &NodeCx, x: Value) -> Result<DType> {
    Ok(match cx.dtype(x)? {
        DType::F64 => DType::F64,
        _ => DType::F32,
    })
}

fn nearest(cx: &mut NodeCx, x: Value, target: Target) -> Result<Value> {
    let dtype = DType::F32;
    let places = cx.iota(target.to)?;
    let places = cx.cast(places, dtype)?;
    let scale = scale(cx, target, dtype)?;
    let places = cx.mul(places, scale)?;
    let places = cx.unary(UnaryOp::Floor, places)?;
    let places = cx.cast(places, DType::I64)?;
    let last = cx.int_sub(target.from, 1)?;
    let last = cx.int_value(last);
    let places = cx.binary(BinaryOp::Min, places, last)?;
    cx.gather(x, places, target.axis)
}

fn linear(cx: &mut NodeCx, x: Value, target: Target, aligns: bool) -> Result<Value> {
    let dtype = counting_type(cx, x)?;
    let places = cx.iota(target.to)?;
    let places = cx.cast(places, dtype)?;
    let last = cx.int_sub(target.from, 1)?;
    let places = if aligns {
        let steps = cx.int_sub(target.to, 1)?;
        let steps = cx.int_max(steps, 1)?;
        let (last, steps) = (cx.real(last, places)?, cx.real(steps, places)?);
        let scale = cx.div(last, steps)?;
        cx.mul(places, scale)?
    } else {
        let scale = scale(cx, target, dtype)?;
        let middle = cx.plus(places, 0.5)?;
        let middle = cx.mul(middle, scale)?;
        let place = cx.plus(middle, -0.5)?;
        cx.at_least(place, 0.0)?
    };
    let last = cx.int_value(last);
    let low = cx.cast(places, DType::I64)?;
    let low = cx.binary(BinaryOp::Min, low, last)?;
    let high = cx.plus(low, 1.0)?;
    let high = cx.binary(BinaryOp::Min, high, last)?;
    let whole = cx.cast(low, dtype)?;
    let share = cx.sub(places, whole)?;
    let share = cx.at_most(share, 1.0)?;
    let behind = cx.rank(x)? - 1 - target.axis;
    let share = cx.per_channel(share, behind)?;
    let (a, b) = (
        cx.gather(x, low, target.axis)?,
        cx.gather(x, high, target.axis)?,
    );
    let from = cx.dtype(x)?;
    let (a, b) = (cx.cast(a, dtype)?, cx.cast(b, dtype)?);
    let one = cx.like(share, 1.0)?;
    let rest = cx.sub(one, share)?;
    let (a, b) = (cx.mul(a, rest)?, cx.mul(b, share)?);
    let y = cx.add(a, b)?;
    cx.cast(y, from)
}

/// `x[n, c, h, w]` at `grid[n, p, q, 2]`: the last axis holds column and row, from -1 to 1.
fn grid_sampler(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, grid) = (cx.value(0, "input")?, cx.value(1, "grid")?);
    let (mode, padding) = (cx.int(2, "interpolation_mode")?, cx.int(3, "padding_mode")?);
    let aligns = cx.flag(4, "align_corners", false)?;
    if !(0..=2).contains(&mode) || !(0..=2).contains(&padding) {
        return refuse(format!(
            "interpolation_mode {mode} with padding_mode {padding}"
        ));
    }
    let (sizes, out) = (cx.sizes(x)?, cx.sizes(grid)?);
    if sizes.len() != 4 || out.len() != 4 {
        return invalid("images and grids have four axes");
    }
    let count = cx.int_mul(out[1], out[2])?;
    let plane = cx.int_mul(sizes[2], sizes[3])?;
    let flat = cx.reshape(x, &[sizes[0], sizes[1], plane])?;
    // Rows and columns, each `[n, 1, p*q]`.
    let mut places = vec![];
    for (k, size) in [(1, sizes[2]), (0, sizes[3])] {
        let k = cx.b.i64(k);
        let at = cx.gather(grid, k, 3)?;
        let at = cx.reshape(at, &[sizes[0], Int::Const(1), count])?;
        let at = unscaled(cx, at, size, aligns)?;
        places.push(match mode {
            // The padding is that of each of the points.
            2 => at,
            _ => placed(cx, at, size, padding, aligns)?,
        });
    }
    let own = |axis: usize| (places[axis], sizes[axis + 2]);
    if mode == 2 {
        let sum = bicubic(cx, flat, [own(0), own(1)], padding, aligns)?;
        let shape = [sizes[0], sizes[1], out[1], out[2]];
        return Ok(vec![cx.reshape(sum, &shape)?]);
    }
    let corners: &[[f64; 2]] = match mode {
        0 => &[[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]],
        _ => &[[0.0, 0.0]],
    };
    let mut sum = None;
    for corner in corners {
        let mut weight = cx.like(places[0], 1.0)?;
        let mut inside = cx.b.scalar(DType::Bool, 1.0);
        let mut index = cx.b.i64(0);
        for axis in 0..2 {
            let (at, size) = (places[axis], sizes[axis + 2]);
            let whole = match mode {
                0 => {
                    let low = cx.unary(UnaryOp::Floor, at)?;
                    let share = cx.sub(at, low)?;
                    let share = if corner[axis] == 1.0 {
                        share
                    } else {
                        let one = cx.like(share, 1.0)?;
                        cx.sub(one, share)?
                    };
                    weight = cx.mul(weight, share)?;
                    cx.plus(low, corner[axis])?
                }
                _ => cx.unary(UnaryOp::Round, at)?,
            };
            let last = cx.int_sub(size, 1)?;
            let last = cx.real(last, whole)?;
            let above = cx.compare_with(CompareOp::Ge, whole, 0.0)?;
            let below = cx.compare(CompareOp::Le, whole, last)?;
            let fits = cx.binary(BinaryOp::And, above, below)?;
            inside = cx.binary(BinaryOp::And, inside, fits)?;
            let zero = cx.like(whole, 0.0)?;
            let safe = cx.select(fits, whole, zero)?;
            let safe = cx.cast(safe, DType::I64)?;
            let size = cx.int_value(size);
            index = match axis {
                0 => safe,
                _ => {
                    let row = cx.mul(index, size)?;
                    cx.add(row, safe)?
                }
            };
        }
        let index = cx.filled(index, &[sizes[0], sizes[1], count])?;
        let value = cx.op(Op::GatherElements { axis: 2 }, &[flat, index])?;
        let zero = cx.like(value, 0.0)?;
        let mut value = cx.select(inside, value, zero)?;
        if mode == 0 {
            let weight = cx.select(inside, weight, zero)?;
            value = cx.mul(value, weight)?;
        }
        sum = Some(match sum {
            Some(sum) => cx.add(sum, value)?,
            None => value,
        });
    }
    let sum = sum.ok_or_else(|| OpError::Invalid("there is no corner".into()))?;
    Ok(vec![
        cx.reshape(sum, &[sizes[0], sizes[1], out[1], out[2]])?,
    ])
}

/// The sum of the four by four points around places, weighted by cubic polynomials.
fn bicubic(
    cx: &mut NodeCx,
    flat: Value,
    places: [(Value, Int); 2],
    padding: i64,
    aligns: bool,
) -> Result<Value> {
    let mut axes = vec![];
    for (at, size) in places {
        let low = cx.unary(UnaryOp::Floor, at)?;
        let share = cx.sub(at, low)?;
        let last = cx.int_sub(size, 1)?;
        let mut points = vec![];
        for k in 0..4 {
            let whole = cx.plus(low, f64::from(k) - 1.0)?;
            let whole = placed(cx, whole, size, padding, aligns)?;
            let last = cx.real(last, whole)?;
            let above = cx.compare_with(CompareOp::Ge, whole, 0.0)?;
            let below = cx.compare(CompareOp::Le, whole, last)?;
            let fits = cx.binary(BinaryOp::And, above, below)?;
            let zero = cx.like(whole, 0.0)?;
            let safe = cx.select(fits, whole, zero)?;
            let place = cx.cast(safe, DType::I64)?;
            let weight = cubic(cx, share, k)?;
            points.push((place, cx.select(fits, weight, zero)?));
        }
        axes.push(points);
    }
    let shape = cx.sizes(flat)?;
    let width = cx.int_value(places[1].1);
    let mut sum = None;
    for &(row, by_row) in &axes[0] {
        let row = cx.mul(row, width)?;
        for &(column, by_column) in &axes[1] {
            let index = cx.add(row, column)?;
            let count = cx.size(index, 2)?;
            let index = cx.filled(index, &[shape[0], shape[1], count])?;
            let value = cx.op(Op::GatherElements { axis: 2 }, &[flat, index])?;
            let weight = cx.mul(by_row, by_column)?;
            let value = cx.mul(value, weight)?;
            sum = Some(match sum {
                Some(sum) => cx.add(sum, value)?,
                None => value,
            });
        }
    }
    sum.ok_or_else(|| OpError::Invalid("there is no point".into()))
}

/// The weight of the `k`-th of four points, the second of which is `share` below the place.
fn cubic(cx: &mut NodeCx, share: Value, k: u32) -> Result<Value> {
    const A: f64 = -0.75;
    let forth = k < 2;
    let near = match forth {
        true => share,
        false => {
            let one = cx.like(share, 1.0)?;
            cx.sub(one, share)?
        }
    };
    // Coefficients of the powers 3 to 0, Horner's way.
    let (x, coefficients) = match k {
        1 | 2 => (near, [A + 2.0, -(A + 3.0), 0.0, 1.0]),
        _ => (cx.plus(near, 1.0)?, [A, -5.0 * A, 8.0 * A, -4.0 * A]),
    };
    let mut y = cx.like(x, coefficients[0])?;
    for c in &coefficients[1..] {
        y = cx.mul(y, x)?;
        y = cx.plus(y, *c)?;
    }
    Ok(y)
}

/// Places from -1 to 1 as places of an axis.
fn unscaled(cx: &mut NodeCx, at: Value, size: Int, aligns: bool) -> Result<Value> {
    let size = cx.real(size, at)?;
    let shifted = cx.plus(at, 1.0)?;
    if aligns {
        let half = cx.times(shifted, 0.5)?;
        let last = cx.plus(size, -1.0)?;
        return cx.mul(half, last);
    }
    let wide = cx.mul(shifted, size)?;
    let wide = cx.plus(wide, -1.0)?;
    cx.times(wide, 0.5)
}

/// Places of an axis within its padding: 0 zeros, 1 the border, 2 mirrored.
fn placed(cx: &mut NodeCx, at: Value, size: Int, padding: i64, aligns: bool) -> Result<Value> {
    let size = cx.real(size, at)?;
    let last = cx.plus(size, -1.0)?;
    let mut place = at;
    if padding == 2 {
        let (least, span) = if aligns { (0.0, last) } else { (-0.5, size) };
        let gap = cx.plus(place, -least)?;
        let gap = cx.unary(UnaryOp::Abs, gap)?;
        let extra = cx.binary(BinaryOp::Rem, gap, span)?;
        let flips = cx.div(gap, span)?;
        let flips = cx.unary(UnaryOp::Floor, flips)?;
        let two = cx.like(flips, 2.0)?;
        let odd = cx.binary(BinaryOp::Rem, flips, two)?;
        let is_odd = cx.compare_with(CompareOp::Ne, odd, 0.0)?;
        let back = cx.sub(span, extra)?;
        let mirrored = cx.select(is_odd, back, extra)?;
        let mirrored = cx.plus(mirrored, least)?;
        let is_point = cx.compare_with(CompareOp::Le, span, 0.0)?;
        let zero = cx.like(place, 0.0)?;
        place = cx.select(is_point, zero, mirrored)?;
    }
    if padding > 0 {
        place = cx.at_least(place, 0.0)?;
        place = cx.binary(BinaryOp::Min, place, last)?;
    }
    Ok(place)
}
