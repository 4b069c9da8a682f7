//! Resize and Upsample: each axis in turn is sampled at computed places.

mod sampling;
mod settings;

use heddle_ir::op::{BinaryOp, UnaryOp};
use heddle_ir::{DType, Dim, Emit, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid, required};
use super::num::Num;
use super::sizes::Int;
use sampling::{Axis, resample};
use settings::{Places, Settings};

/// The operators of this file.
pub(super) const OPS: Table = &[("Resize", resize), ("Upsample", upsample)];

/// Resize 10, 11, 13, 18, 19.
fn resize(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let settings = match cx.opset {
        ..11 => Settings::simple(cx, true)?,
        _ => Settings::of(cx)?,
    };
    let rank = cx.rank(x)?;
    let axes: Vec<usize> = match cx.ints("axes") {
        Some(axes) => {
            let axes = axes.iter().map(|&a| cx.axis(a, rank));
            axes.collect::<Result<_>>()?
        }
        None => (0..rank).collect(),
    };
    let (roi, scales, sizes) = match cx.opset {
        ..11 => (None, cx.opt(1), None),
        _ => (cx.opt(1), cx.opt(2), cx.opt(3)),
    };
    let scales = not_empty(cx, scales)?;
    let sizes = not_empty(cx, sizes)?;
    let mut plan = match (scales, sizes) {
        (Some(scales), None) => by_scales(cx, x, &axes, scales)?,
        (None, Some(sizes)) => by_sizes(cx, x, &axes, sizes)?,
        (Some(_), Some(_)) => return invalid("it has both scales and sizes; one of them must go"),
        (None, None) => return invalid("it has neither scales nor sizes"),
    };
    if settings.places == Places::Crop {
        let roi = roi.ok_or_else(|| OpError::Invalid("tf_crop_and_resize needs a roi".into()))?;
        let roi = cx.num_elements(roi, 2 * axes.len())?;
        for (i, axis) in plan.iter_mut().enumerate() {
            axis.crop = Some((roi[i], roi[axes.len() + i]));
        }
    }
    Ok(vec![resample(cx, x, &settings, &plan)?])
}

/// Upsample 1 (a scale for each of two axes), 7 (scales as an attribute), 9.
fn upsample(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let axes: Vec<usize> = (0..cx.rank(x)?).collect();
    let scales = match cx.floats("scales") {
        _ if cx.opset < 7 => {
            let scale = |name: &str| required(cx.float(name), name);
            let (high, wide) = (scale("height_scale")?, scale("width_scale")?);
            cx.b.constant(heddle_ir::Tensor::vector(&[1.0, 1.0, high, wide]))
        }
        Some(list) if cx.opset < 9 => cx.b.constant(heddle_ir::Tensor::vector(list)),
        _ => cx.input(1)?,
    };
    let plan = by_scales(cx, x, &axes, scales)?;
    let settings = Settings::simple(cx, false)?;
    Ok(vec![resample(cx, x, &settings, &plan)?])
}

fn not_empty(cx: &NodeCx, list: Option<Value>) -> Result<Option<Value>> {
    let Some(list) = list else {
        return Ok(None);
    };
    let empty = cx.shape(list)?.first().is_some_and(|d| d.is(0));
    Ok(Some(list).filter(|_| !empty))
}

fn by_scales(cx: &mut NodeCx, x: Value, axes: &[usize], scales: Value) -> Result<Vec<Axis>> {
    check_length(cx, scales, axes.len())?;
    let numbers = cx.num_elements(scales, axes.len())?;
    let mut plan = vec![];
    for (&axis, &scale) in axes.iter().zip(&numbers) {
        let from = cx.size(x, axis)?;
        let to = match (from, scale) {
            (_, Num::Const(s)) if s <= 0.0 || !s.is_finite() => {
                return invalid(format!("scale {s}"));
            }
            // Sizes are products in single precision, as shape inference has them.
            (Int::Const(n), Num::Const(s)) => Int::Const((n as f32 * s as f32).floor() as i64),
            (n, Num::Const(s)) if s.fract() == 0.0 => cx.int_mul(n, s as i64)?,
            (n, s) => {
                let n = cx.int_value(n);
                let n = cx.cast(n, DType::F32)?;
                let s = cx.num_value(s);
                let s = cx.cast(s, DType::F32)?;
                let product = cx.mul(n, s)?;
                let product = cx.unary(UnaryOp::Floor, product)?;
                Int::Value(cx.cast(product, DType::I64)?)
            }
        };
        plan.push(Axis {
            axis,
            from,
            to,
            scale: Some(scale),
            crop: None,
        });
    }
    Ok(plan)
}

fn by_sizes(cx: &mut NodeCx, x: Value, axes: &[usize], sizes: Value) -> Result<Vec<Axis>> {
    check_length(cx, sizes, axes.len())?;
    let sizes = match cx.shape(sizes)?[0].as_const() {
        Some(_) => sizes,
        None => cx.reshape(sizes, &[axes.len() as i64])?,
    };
    let sizes = cx.int_elements(sizes)?;
    let mut plan = vec![];
    for (&axis, &to) in axes.iter().zip(&sizes) {
        let from = cx.size(x, axis)?;
        plan.push(Axis {
            axis,
            from,
            to,
            scale: None,
            crop: None,
        });
    }
    let policies = [
        ("stretch", None),
        ("", None),
        ("not_larger", Some(BinaryOp::Min)),
        ("not_smaller", Some(BinaryOp::Max)),
    ];
    let Some(keep) = cx.choice("keep_aspect_ratio_policy", "stretch", &policies)? else {
        return Ok(plan);
    };
    let mut common: Option<Num> = None;
    for axis in &plan {
        let (to, from) = (cx.num_of(axis.to)?, cx.num_of(axis.from)?);
        let scale = cx.num_op(BinaryOp::Div, to, from)?;
        common = Some(match common {
            None => scale,
            Some(c) => cx.num_op(keep, c, scale)?,
        });
    }
    for axis in &mut plan {
        let scale = common.expect("there is an axis");
        let from = cx.num_of(axis.from)?;
        let exact = cx.num_op(BinaryOp::Mul, scale, from)?;
        let rounded = cx.num_op(BinaryOp::Add, exact, 0.5)?;
        axis.to = cx.num_floor(rounded)?;
        axis.scale = Some(scale);
    }
    Ok(plan)
}

fn check_length(cx: &NodeCx, list: Value, n: usize) -> Result<()> {
    let shape = cx.shape(list)?;
    match shape.as_slice() {
        [length] if !length.differs(&Dim::from(n)) => Ok(()),
        _ => invalid(format!(
            "scales or sizes are {} for {n} axes",
            cx.b.ty(list)
        )),
    }
}
