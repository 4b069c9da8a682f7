//! Strided copies: transpose, broadcast, slice.

use heddle_ir::DType;
use heddle_ir::infer::shape::{slice_bounds, slice_count};

use super::rows::{Rows, broadcast_shape, broadcast_strides, strides};
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Code, Elem, with_any};

/// The elements at `first` and `steps` from there, in row-major order of `shape`.
pub fn strided(
    cx: &Context,
    x: &Array,
    first: isize,
    shape: Vec<usize>,
    steps: &[isize],
) -> Result<Array, Fault> {
    fn copy<T: Elem>(
        cx: &Context,
        data: &[T],
        first: isize,
        shape: &[usize],
        steps: &[isize],
    ) -> Result<Vec<T>, Fault> {
        let mut out = cx.vec(count(shape)?)?;
        let rows = Rows::new(shape, [steps]);
        let (len, [step]) = (rows.len, rows.step);
        rows.each([first], |[at]| {
            cx.tick(len)?;
            let start = at as usize;
            match step {
                1 => out.extend_from_slice(&data[start..start + len]),
                0 => out.extend(std::iter::repeat_n(&data[start], len).cloned()),
                _ => out.extend((0..len as isize).map(|i| data[(at + i * step) as usize].clone())),
            }
            Ok(())
        })?;
        Ok(out)
    }
    with_any!(x.data, data => {
        let out = copy(cx, data, first, &shape, steps)?;
        cx.array(x.dtype, shape, out)
    })
}

/// Result axis `i` is axis `perm[i]`.
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
    let shape: Vec<_> = perm.iter().map(|&p| x.shape[p]).collect();
    // Where only axes of size 1 change places nothing moves.
    let moved: Vec<_> = perm.iter().filter(|&&p| x.shape[p] != 1).collect();
    if moved.is_sorted() {
        let mut same = x.clone();
        same.shape = shape;
        return Ok(same);
    }
    strided(cx, x, 0, shape, &steps)
}

/// `x` broadcast together with a shape.
pub fn broadcast(cx: &Context, x: &Array, with: &[i64]) -> Result<Array, Fault> {
    let with = sizes(with)?;
    let shape = broadcast_shape(&[&x.shape, &with])?;
    broadcast_to(cx, x, shape)
}

/// `x` broadcast to a shape that it is known to broadcast to.
pub fn broadcast_to(cx: &Context, x: &Array, shape: Vec<usize>) -> Result<Array, Fault> {
    if shape == x.shape {
        return Ok(x.clone());
    }
    let steps = broadcast_strides(&x.shape, &shape);
    strided(cx, x, 0, shape, &steps)
}

/// Python's slices of some axes.
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
        if shape[axis] > 0 {
            first = first.wrapping_add((start as isize).wrapping_mul(strides[axis]));
        }
        // A step beyond the axis is never taken and an empty array never read, so that products may wrap.
        strides[axis] = strides[axis].wrapping_mul(steps[k] as isize);
    }
    if shape == x.shape
        && steps
            .iter()
            .zip(axes)
            .all(|(&s, &a)| s > 0 || shape[a] <= 1)
    {
        return Ok(x.clone());
    }
    strided(cx, x, first, shape, &strides)
}

/// A shape operand.
pub fn sizes(values: &[i64]) -> Result<Vec<usize>, Fault> {
    let size = |&v| usize::try_from(v).map_err(|_| Fault::Value(format!("size {v} is negative")));
    values.iter().map(size).collect()
}

/// The error for an axis that a value of unknown rank turns out not to have.
pub fn no_axis(axis: usize, shape: &[usize]) -> Fault {
    Fault::Shape(format!("there is no axis {axis} in shape {shape:?}"))
}

/// An array without elements.
pub fn empty(cx: &Context, dtype: DType, shape: Vec<usize>) -> Result<Array, Fault> {
    use DType::*;
    match dtype {
        F32 | F16 | Bf16 | F64 if cx.f64 || dtype == F64 => cx.array::<f64>(dtype, shape, vec![]),
        F32 | F16 | Bf16 | F64 => cx.array::<f32>(dtype, shape, vec![]),
        I8 => cx.array::<i8>(dtype, shape, vec![]),
        I16 => cx.array::<i16>(dtype, shape, vec![]),
        I32 => cx.array::<i32>(dtype, shape, vec![]),
        I64 => cx.array::<i64>(dtype, shape, vec![]),
        U8 => cx.array::<u8>(dtype, shape, vec![]),
        U16 => cx.array::<u16>(dtype, shape, vec![]),
        U32 => cx.array::<u32>(dtype, shape, vec![]),
        U64 => cx.array::<u64>(dtype, shape, vec![]),
        Bool => cx.array::<bool>(dtype, shape, vec![]),
        C64 => cx.array::<[f32; 2]>(dtype, shape, vec![]),
        C128 => cx.array::<[f64; 2]>(dtype, shape, vec![]),
        Str => cx.array::<std::sync::Arc<str>>(dtype, shape, vec![]),
        I4 | U4 | I2 | U2 | F4E2M1 | F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0 => {
            cx.array::<Code>(dtype, shape, vec![])
        }
    }
}
