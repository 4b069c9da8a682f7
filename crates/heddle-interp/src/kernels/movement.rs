//! Ops that copy elements to other places: transpose, broadcast, slice.

use heddle_ir::infer::shape::{slice_bounds, slice_count};

use super::walk::{broadcast_shape, broadcast_strides, strides, walk};
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Elem, with_any};

/// The elements of `x` at the places of a [`walk`] over `shape`; outside of `x`, `fill`.
pub fn pick(
    cx: &Context,
    x: &Array,
    shape: Vec<usize>,
    first: isize,
    along: &impl Fn(usize, usize) -> Option<isize>,
    fill: Option<&Array>,
) -> Result<Array, Fault> {
    fn fill_of<T: Elem>(_: &[T], fill: Option<&Array>) -> Result<T, Fault> {
        match fill.map(Array::data::<T>).transpose()? {
            None => Ok(T::default()),
            Some([v]) => Ok(v.clone()),
            Some(_) => Err(Fault::Shape("the padding must be one element".into())),
        }
    }
    let n = count(&shape)?;
    with_any!(x.data, data => {
        let fill = fill_of(data, fill)?;
        let mut out = cx.vec(n)?;
        walk(cx, &shape, first, along, |place| {
            out.push(Clone::clone(place.map_or(&fill, |p| &data[p])));
        })?;
        cx.array(x.dtype, shape, out)
    })
}

/// The elements at `first` and `steps` from there, in row-major order of `shape`.
pub fn strided(
    cx: &Context,
    x: &Array,
    first: isize,
    shape: Vec<usize>,
    steps: &[isize],
) -> Result<Array, Fault> {
    let along = |axis: usize, i: usize| Some(i as isize * steps[axis]);
    pick(cx, x, shape, first, &along, None)
}

/// Permutes axes: result axis `i` is axis `perm[i]` (ONNX Transpose 13).
pub fn transpose(cx: &Context, x: &Array, perm: &[usize]) -> Result<Array, Fault> {
    if perm.len() != x.shape.len() {
        return Err(Fault::Shape(format!(
            "a permutation of {} axes does not fit shape {:?}",
            perm.len(),
            x.shape
        )));
    }
    let from = strides(&x.shape);
    let steps: Vec<_> = perm.iter().map(|&p| from[p]).collect();
    let shape = perm.iter().map(|&p| x.shape[p]).collect();
    strided(cx, x, 0, shape, &steps)
}

/// `x` broadcast together with a shape (ONNX Expand 13).
pub fn broadcast(cx: &Context, x: &Array, with: &[i64]) -> Result<Array, Fault> {
    let shape = broadcast_shape(&[&x.shape, &sizes(with)?])?;
    broadcast_to(cx, x, &shape)
}

/// `x` broadcast to a shape that it is known to broadcast to.
pub fn broadcast_to(cx: &Context, x: &Array, shape: &[usize]) -> Result<Array, Fault> {
    if shape == x.shape {
        return Ok(x.clone());
    }
    let steps = broadcast_strides(&x.shape, shape);
    strided(cx, x, 0, shape.to_vec(), &steps)
}

/// Python's slices of some axes (ONNX Slice 13).
pub fn slice(
    cx: &Context,
    x: &Array,
    axes: &[usize],
    starts: &[i64],
    ends: &[i64],
    steps: &[i64],
) -> Result<Array, Fault> {
    let n = axes.len();
    if [starts, ends, steps].iter().any(|l| l.len() != n) {
        return Err(Fault::Shape(format!(
            "{} starts, {} ends and {} steps for {n} axes",
            starts.len(),
            ends.len(),
            steps.len()
        )));
    }
    let (mut shape, mut strides, mut first) = (x.shape.clone(), strides(&x.shape), 0isize);
    for (k, &axis) in axes.iter().enumerate() {
        let size = *shape.get(axis).ok_or_else(|| no_axis(axis, &x.shape))?;
        if steps[k] == 0 {
            return Err(Fault::Value(format!("the step of axis {axis} is 0")));
        }
        let (start, _) = slice_bounds(size as i64, starts[k], ends[k], steps[k]);
        shape[axis] = slice_count(size as i64, starts[k], ends[k], steps[k]) as usize;
        // Elements of an empty result are never read, nor is a step beyond the axis taken: both may
        // wrap.
        first = first.wrapping_add((start as isize).wrapping_mul(strides[axis]));
        strides[axis] = strides[axis].wrapping_mul(steps[k] as isize);
    }
    strided(cx, x, first, shape, &strides)
}

/// A shape operand.
pub fn sizes(values: &[i64]) -> Result<Vec<usize>, Fault> {
    let size = |&v| usize::try_from(v).map_err(|_| Fault::Value(format!("size {v} is negative")));
    values.iter().map(size).collect()
}

/// The error for an axis that a value of dynamic rank does not have.
pub fn no_axis(axis: usize, shape: &[usize]) -> Fault {
    Fault::Shape(format!("there is no axis {axis} in shape {shape:?}"))
}

/// `x` as `[outer, n, inner]` around an axis: lines along the axis have `n` elements, `inner` apart.
pub fn lines(x: &Array, axis: usize) -> Result<[usize; 3], Fault> {
    let n = *x.shape.get(axis).ok_or_else(|| no_axis(axis, &x.shape))?;
    Ok([count(&x.shape[..axis])?, n, count(&x.shape[axis + 1..])?])
}
