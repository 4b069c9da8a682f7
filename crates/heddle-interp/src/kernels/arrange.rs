//! Ops that put elements together: reshape, concat, pad, range.

use heddle_ir::op::PadMode;

use super::movement::{no_axis, sizes};
use super::number::{Float, Int, Num};
use super::rows::{Rows, strides};
use super::scatter::copy_row;
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Buf, Elem, with_any};

/// The shape that a reshape to `to` gives, where one size may be -1.
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
        arrays: &[&Array],
        axis: usize,
        shape: &[usize],
    ) -> Result<Vec<T>, Fault> {
        let inner = count(&shape[axis + 1..])?;
        let mut parts = vec![];
        for array in arrays {
            parts.push((array.data::<T>()?, array.shape[axis] * inner));
        }
        let mut out = cx.vec(count(shape)?)?;
        for outer in 0..count(&shape[..axis])? {
            for &(data, len) in &parts {
                cx.tick(len)?;
                out.extend_from_slice(&data[outer * len..][..len]);
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
        shape[axis] =
            shape[axis]
                .checked_add(array.shape[axis])
                .ok_or_else(|| Fault::TooLarge {
                    shape: shape.clone(),
                })?;
    }
    // An axis of size 0 elsewhere makes all products zero, whatever the sizes are.
    if shape.contains(&0) {
        return super::movement::empty(cx, first.dtype, shape);
    }
    with_any!(first.data, data => {
        let out = typed(cx, arrays, axis, &shape).map(|out| same_type(data, out))?;
        cx.array(first.dtype, shape, out)
    })
}

fn same_type<T>(_: &[T], out: Vec<T>) -> Vec<T> {
    out
}

/// Adds elements around an array, or takes them away.
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
        shape.push(usize::try_from(padded).map_err(|_| {
            Fault::Shape(format!(
                "pads of {before} and {after} make axis {i} of size {size} negative or too large"
            ))
        })?);
    }
    let n = count(&shape)?;
    if mode == PadMode::Constant {
        return with_any!(x.data, data => constant(cx, (x, data), &pads[..rank], value, shape, n));
    }
    // Where each index of a result axis comes from.
    let mut maps = vec![];
    for (i, &size) in x.shape.iter().enumerate() {
        if size == 0 && shape[i] > 0 {
            return Err(Fault::Shape(format!(
                "axis {i} is empty: there is nothing to pad it with"
            )));
        }
        let mut map = if n == 0 { vec![] } else { cx.vec(shape[i])? };
        let source = |k: usize| source(k as i128 - i128::from(pads[i]), size as i128, mode);
        map.extend((0..if n == 0 { 0 } else { shape[i] }).map(source));
        maps.push(map);
    }
    if n == 0 {
        return super::movement::empty(cx, x.dtype, shape);
    }
    with_any!(x.data, data => {
        let out = mapped(cx, data, &x.shape, &maps)?;
        cx.array(x.dtype, shape, out)
    })
}

/// The elements at all combinations of the indices that `maps` gives for each axis.
fn mapped<T: Elem>(
    cx: &Context,
    data: &[T],
    shape: &[usize],
    maps: &[Vec<usize>],
) -> Result<Vec<T>, Fault> {
    let Some((last, outer)) = maps.split_last() else {
        return Ok(data.to_vec());
    };
    let sizes: Vec<usize> = maps.iter().map(Vec::len).collect();
    let mut out = cx.vec(count(&sizes)?)?;
    let steps = strides(shape);
    let mut index = vec![0; outer.len()];
    for _ in 0..count(&sizes[..outer.len()])? {
        let base: usize = (0..outer.len())
            .map(|d| outer[d][index[d]] * steps[d] as usize)
            .sum();
        cx.tick(last.len())?;
        out.extend(last.iter().map(|&k| data[base + k].clone()));
        for d in (0..outer.len()).rev() {
            index[d] += 1;
            if index[d] < sizes[d] {
                break;
            }
            index[d] = 0;
        }
    }
    Ok(out)
}

/// The index that a padded place repeats.
fn source(k: i128, size: i128, mode: PadMode) -> usize {
    let k = match mode {
        PadMode::Constant | PadMode::Edge => k.clamp(0, size - 1),
        PadMode::Wrap => k.rem_euclid(size),
        PadMode::Reflect => {
            // The pattern repeats after going there and back; one element has no neighbour to mirror.
            let period = (2 * (size - 1)).max(1);
            let k = k.rem_euclid(period);
            k.min(period - k).min(size - 1)
        }
    };
    k as usize
}

fn constant<T: Elem>(
    cx: &Context,
    (x, data): (&Array, &[T]),
    before: &[i64],
    value: &Array,
    shape: Vec<usize>,
    n: usize,
) -> Result<Array, Fault> {
    let [fill] = value.data::<T>()? else {
        return Err(Fault::Shape("the padding must be one element".into()));
    };
    cx.tick(n)?;
    let mut out = cx.filled(n, fill.clone())?;
    // The part of `x` that remains, and where it begins in `x` and in the result.
    let (from_steps, to_steps) = (strides(&x.shape), strides(&shape));
    let (mut kept, mut at) = (vec![], [0isize; 2]);
    for (i, &b) in before.iter().enumerate() {
        let first = b.saturating_neg().clamp(0, x.shape[i] as i64);
        let start = b.max(0);
        let room = (shape[i] as i64).saturating_sub(start).max(0);
        kept.push((x.shape[i] as i64 - first).min(room) as usize);
        // Where there is nothing to copy, the products may wrap.
        let places = [(start, &to_steps), (first, &from_steps)];
        for (at, (from, steps)) in at.iter_mut().zip(places) {
            *at = at.wrapping_add((from as isize).wrapping_mul(steps[i]));
        }
    }
    let rows = Rows::new(&kept, [&to_steps, &from_steps]);
    rows.each(at, |at| {
        copy_row(&mut out, data, at, rows.step, rows.len);
        Ok(())
    })?;
    cx.array(x.dtype, shape, out)
}

/// `start + i * step`, below (or for a negative step above) the limit.
pub fn range(cx: &Context, start: &Array, limit: &Array, step: &Array) -> Result<Array, Fault> {
    fn floats<T: Float>(cx: &Context, parts: [&Array; 3]) -> Result<Array, Fault> {
        let [start, limit, step] = scalars::<T>(parts)?;
        let n = ((limit.widen() - start.widen()) / step.widen()).ceil();
        if step.widen() == 0.0 || !n.is_finite() {
            return Err(Fault::Value(format!(
                "a range from {} to {} by {} has no length",
                start.widen(),
                limit.widen(),
                step.widen()
            )));
        }
        let item = |i: usize| start.add(T::narrow(i as f64).mul(step));
        fill(cx, parts[0], n.max(0.0) as usize, item)
    }
    fn ints<T: Int>(cx: &Context, parts: [&Array; 3]) -> Result<Array, Fault> {
        let [start, limit, step] = scalars::<T>(parts)?;
        let (first, by) = (start.widen(), step.widen());
        let span = limit.widen() - first;
        let n = match by {
            0 => return Err(Fault::Value("the step of a range is 0".into())),
            _ if (span > 0) != (by > 0) || span == 0 => 0,
            _ => (span.abs() - 1) / by.abs() + 1,
        };
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        let mut next = start;
        fill(cx, parts[0], n, move |_| {
            let value = next;
            next = next.add(step);
            value
        })
    }
    fn scalars<T: Elem>(parts: [&Array; 3]) -> Result<[T; 3], Fault> {
        let one = |a: &Array| match a.data::<T>()? {
            [v] => Ok(v.clone()),
            _ => Err(Fault::Shape("a range takes single numbers".into())),
        };
        Ok([one(parts[0])?, one(parts[1])?, one(parts[2])?])
    }
    fn fill<T: Num>(
        cx: &Context,
        like: &Array,
        n: usize,
        item: impl FnMut(usize) -> T,
    ) -> Result<Array, Fault> {
        let n = count(&[n])?;
        let mut out = cx.vec(n)?;
        cx.tick(n)?;
        out.extend((0..n).map(item));
        cx.array(like.dtype, vec![n], out)
    }
    let parts = [start, limit, step];
    match &start.data {
        Buf::F32(_) => floats::<f32>(cx, parts),
        Buf::F64(_) => floats::<f64>(cx, parts),
        Buf::I8(_) => ints::<i8>(cx, parts),
        Buf::I16(_) => ints::<i16>(cx, parts),
        Buf::I32(_) => ints::<i32>(cx, parts),
        Buf::I64(_) => ints::<i64>(cx, parts),
        Buf::U8(_) => ints::<u8>(cx, parts),
        Buf::U16(_) => ints::<u16>(cx, parts),
        Buf::U32(_) => ints::<u32>(cx, parts),
        Buf::U64(_) => ints::<u64>(cx, parts),
        _ => Err(Fault::dtype("range", start.dtype)),
    }
}
