//! Ops that build arrays: reshape, concat, pad, range.

use heddle_ir::op::PadMode;

use super::movement::{no_axis, pick, sizes};
use super::number::Num;
use super::number::Number::{self, Float, Int};
use super::walk::strides;
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Elem, with_any, with_num};

/// The shape of a reshape to `to`, in which one size may be -1.
pub fn reshape(x: &Array, to: &[i64]) -> Result<Vec<usize>, Fault> {
    let fault = || {
        Fault::Shape(format!(
            "an array of shape {:?} cannot be reshaped to {to:?}",
            x.shape
        ))
    };
    let holes = to.iter().filter(|&&v| v == -1).count();
    let known: Vec<i64> = to.iter().copied().filter(|&v| v != -1).collect();
    let rest = count(&sizes(&known)?)?;
    let total = x.len();
    let hole = match holes {
        0 if rest == total => 0,
        1 if rest > 0 && total.is_multiple_of(rest) => total / rest,
        _ => return Err(fault()),
    };
    Ok(to
        .iter()
        .map(|&v| if v == -1 { hole } else { v as usize })
        .collect())
}

/// The shape without these axes, which must have size 1.
pub fn squeeze(x: &Array, axes: &[usize]) -> Result<Vec<usize>, Fault> {
    for &axis in axes {
        match x.shape.get(axis) {
            Some(1) => {}
            Some(size) => {
                return Err(Fault::Shape(format!(
                    "axis {axis} of shape {:?} has size {size}, not 1",
                    x.shape
                )));
            }
            None => return Err(no_axis(axis, &x.shape)),
        }
    }
    let kept = x
        .shape
        .iter()
        .enumerate()
        .filter(|(i, _)| !axes.contains(i));
    Ok(kept.map(|(_, &d)| d).collect())
}

/// Arrays joined along an axis.
pub fn concat(cx: &Context, arrays: &[&Array], axis: usize) -> Result<Array, Fault> {
    fn typed<T: Elem>(
        cx: &Context,
        _: &[T],
        arrays: &[&Array],
        outer: usize,
        total: usize,
    ) -> Result<Vec<T>, Fault> {
        let mut out = cx.vec(total)?;
        for i in 0..outer {
            for array in arrays {
                let data = array.data::<T>()?;
                let len = data.len() / outer;
                cx.tick(len)?;
                out.extend_from_slice(&data[i * len..][..len]);
            }
        }
        Ok(out)
    }
    let first = arrays[0];
    let mut shape = first.shape.clone();
    if axis >= shape.len() {
        return Err(no_axis(axis, &shape));
    }
    for array in &arrays[1..] {
        let same = array.shape.len() == shape.len()
            && (0..shape.len()).all(|i| i == axis || array.shape[i] == shape[i]);
        if !same {
            return Err(Fault::Shape(format!(
                "shapes {:?} and {:?} cannot be joined along axis {axis}",
                first.shape, array.shape
            )));
        }
        let sum = shape[axis].checked_add(array.shape[axis]);
        shape[axis] = sum.ok_or_else(|| Fault::TooLarge {
            shape: shape.clone(),
        })?;
    }
    let total = count(&shape)?;
    if total == 0 {
        return cx.empty(first.dtype, shape);
    }
    let outer = count(&shape[..axis])?;
    with_any!(first.data, data => {
        let out = typed(cx, data, arrays, outer, total)?;
        cx.array(first.dtype, shape, out)
    })
}

/// Adds elements around an array, or takes them away (ONNX Pad 19).
pub fn pad(
    cx: &Context,
    x: &Array,
    pads: &[i64],
    value: &Array,
    mode: PadMode,
) -> Result<Array, Fault> {
    let rank = x.shape.len();
    if pads.len() != 2 * rank {
        return Err(Fault::Shape(format!("{} pads for {rank} axes", pads.len())));
    }
    let mut shape = vec![];
    for (i, &size) in x.shape.iter().enumerate() {
        let (before, after) = (i128::from(pads[i]), i128::from(pads[rank + i]));
        let padded = size as i128 + before + after;
        let padded = usize::try_from(padded).map_err(|_| {
            Fault::Shape(format!(
                "pads of {before} and {after} make axis {i} of size {size} negative or too large"
            ))
        })?;
        if size == 0 && padded > 0 && mode != PadMode::Constant {
            return Err(Fault::Shape(format!(
                "axis {i} is empty: there is nothing to pad it with"
            )));
        }
        shape.push(padded);
    }
    if count(&shape)? == 0 {
        return cx.empty(x.dtype, shape);
    }
    // For each axis and index of the result, the offset in `x`.
    let mut places = vec![];
    for (i, step) in strides(&x.shape).into_iter().enumerate() {
        let mut along = cx.vec(shape[i])?;
        along.extend((0..shape[i] as i128).map(|k| {
            let source = source(k - i128::from(pads[i]), x.shape[i] as i128, mode)?;
            Some(source as isize * step)
        }));
        places.push(along);
    }
    pick(cx, x, shape, 0, &|axis, i| places[axis][i], Some(value))
}

/// The index of an axis that index `k` of the padded axis repeats; `None` for the constant.
fn source(k: i128, size: i128, mode: PadMode) -> Option<i128> {
    match mode {
        PadMode::Constant => (0..size).contains(&k).then_some(k),
        PadMode::Edge => Some(k.clamp(0, size - 1)),
        PadMode::Wrap => Some(k.rem_euclid(size)),
        PadMode::Reflect => {
            // The pattern repeats after going there and back; one element has no neighbour to
            // mirror.
            let period = (2 * (size - 1)).max(1);
            let k = k.rem_euclid(period);
            Some(k.min(period - k).min(size - 1))
        }
    }
}

/// `start + i * step`, below the limit, or above it for a negative step (ONNX Range 11).
pub fn range(cx: &Context, start: &Array, limit: &Array, step: &Array) -> Result<Array, Fault> {
    fn typed<T: Num>(cx: &Context, [start, limit, step]: [&[T]; 3]) -> Result<Vec<T>, Fault> {
        let ([start], [limit], [step]) = (start, limit, step) else {
            return Err(Fault::Shape("a range takes single numbers".into()));
        };
        let n = match (start.number(), limit.number(), step.number()) {
            (Int(_), Int(_), Int(0)) => {
                return Err(Fault::Value("the step of a range is 0".into()));
            }
            (Int(start), Int(limit), Int(step)) => {
                let span = (limit - start) * step.signum();
                usize::try_from((span.max(0) + step.abs() - 1) / step.abs()).unwrap_or(usize::MAX)
            }
            (start, limit, step) => {
                let [start, limit, step] = [start, limit, step].map(Number::to_f64);
                let n = ((limit - start) / step).ceil();
                if step == 0.0 || !n.is_finite() {
                    return Err(Fault::Value(format!(
                        "a range from {start} to {limit} by {step} has no length"
                    )));
                }
                n.max(0.0) as usize
            }
        };
        let mut out = cx.vec(count(&[n])?)?;
        cx.tick(n)?;
        let index = |i: usize| match start.number() {
            Int(_) => T::from_number(Int(i as i128)),
            Float(_) => T::from_number(Float(i as f64)),
        };
        out.extend((0..n).map(|i| start.add(index(i).mul(*step))));
        Ok(out)
    }
    with_num!(start.data, data => {
        let out = typed(cx, [data, limit.data()?, step.data()?])?;
        cx.array(start.dtype, vec![out.len()], out)
    }, else Err(Fault::dtype("range", start.dtype)))
}
