//! Reading by index.

use super::movement::no_axis;
use super::resolve;
use super::rows::{Rows, strides};
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Elem, with_any};

/// Slices of an axis, in the order and shape of `indices`.
pub fn gather(cx: &Context, x: &Array, indices: &Array, axis: usize) -> Result<Array, Fault> {
    fn typed<T: Elem>(
        cx: &Context,
        data: &[T],
        indices: &[usize],
        [outer, size, inner]: [usize; 3],
    ) -> Result<Vec<T>, Fault> {
        let mut out = cx.vec(count(&[outer, indices.len(), inner])?)?;
        for o in 0..outer {
            for &i in indices {
                cx.tick(inner)?;
                out.extend_from_slice(&data[(o * size + i) * inner..][..inner]);
            }
        }
        Ok(out)
    }
    let size = *x.shape.get(axis).ok_or_else(|| no_axis(axis, &x.shape))?;
    let places = indices.ints()?.into_iter().map(|i| resolve(i, axis, size));
    let places = places.collect::<Result<Vec<_>, _>>()?;
    let shape = [&x.shape[..axis], &indices.shape, &x.shape[axis + 1..]].concat();
    if count(&shape)? == 0 {
        return super::movement::empty(cx, x.dtype, shape);
    }
    let dims = [count(&x.shape[..axis])?, size, count(&x.shape[axis + 1..])?];
    with_any!(x.data, data => {
        let out = typed(cx, data, &places, dims)?;
        cx.array(x.dtype, shape, out)
    })
}

/// Where the elements lie that `indices` along `axis` names, in row-major order of `indices`.
pub fn element_places(
    cx: &Context,
    x: &[usize],
    indices: &Array,
    axis: usize,
) -> Result<Vec<usize>, Fault> {
    let fits = x.len() == indices.shape.len()
        && axis < x.len()
        && (0..x.len()).all(|i| i == axis || indices.shape[i] <= x[i]);
    if !fits {
        return Err(Fault::Shape(format!(
            "indices of shape {:?} do not fit into shape {x:?} along axis {axis}",
            indices.shape
        )));
    }
    let values = indices.ints()?;
    let mut places = cx.vec(values.len())?;
    let mut steps = strides(x);
    let along = steps[axis];
    // The walk leaves out the indexed axis, whose place the index says.
    steps[axis] = 0;
    let own = strides(&indices.shape);
    let rows = Rows::new(&indices.shape, [&steps, &own]);
    rows.each([0, 0], |[base, at]| {
        cx.tick(rows.len)?;
        for k in 0..rows.len as isize {
            let index = values[(at + k * rows.step[1]) as usize];
            let i = resolve(index, axis, x[axis])?;
            places.push((base + k * rows.step[0]) as usize + i * along as usize);
        }
        Ok(())
    })?;
    Ok(places)
}

/// Single elements, in the shape of `indices`.
pub fn elements(cx: &Context, x: &Array, indices: &Array, axis: usize) -> Result<Array, Fault> {
    let places = element_places(cx, &x.shape, indices, axis)?;
    with_any!(x.data, data => {
        let out = pick(cx, data, &places)?;
        cx.array(x.dtype, indices.shape.clone(), out)
    })
}

fn pick<T: Elem>(cx: &Context, data: &[T], places: &[usize]) -> Result<Vec<T>, Fault> {
    let mut out = cx.vec(places.len())?;
    out.extend(places.iter().map(|&p| data[p].clone()));
    Ok(out)
}

/// Where the slices begin that index tuples name, and the shape of one.
pub fn tuple_places<'a>(
    cx: &Context,
    x: &'a [usize],
    indices: &Array,
    batch: usize,
) -> Result<(Vec<usize>, &'a [usize]), Fault> {
    let fault = || {
        Fault::Shape(format!(
            "index tuples of shape {:?} do not fit shape {x:?} with {batch} batch axes",
            indices.shape
        ))
    };
    let (&depth, outer) = indices.shape.split_last().ok_or_else(fault)?;
    let end = depth
        .checked_add(batch)
        .filter(|e| *e <= x.len())
        .ok_or_else(fault)?;
    if outer.len() < batch || outer[..batch] != x[..batch] {
        return Err(fault());
    }
    let steps = strides(x);
    let tuples = count(outer)?;
    let in_batch = count(&outer[batch..])?;
    let batch_step = count(&x[batch..])?;
    let values = indices.ints()?;
    let mut places = cx.vec(tuples)?;
    for t in 0..tuples {
        cx.tick(depth)?;
        let mut place = if batch > 0 {
            t / in_batch * batch_step
        } else {
            0
        };
        for d in 0..depth {
            let i = resolve(values[t * depth + d], batch + d, x[batch + d])?;
            // Of an empty array nothing is read, so that the sum may wrap.
            let step = i.wrapping_mul(steps[batch + d] as usize);
            place = place.wrapping_add(step);
        }
        places.push(place);
    }
    Ok((places, &x[end..]))
}

/// Slices that index tuples name.
pub fn nd(cx: &Context, x: &Array, indices: &Array, batch: usize) -> Result<Array, Fault> {
    let (places, slice) = tuple_places(cx, &x.shape, indices, batch)?;
    let tuples = &indices.shape[..indices.shape.len() - 1];
    let shape = [tuples, slice].concat();
    let (n, inner) = (count(&shape)?, count(slice)?);
    with_any!(x.data, data => {
        let mut out = cx.vec(n)?;
        for &p in &places {
            cx.tick(inner)?;
            if inner > 0 {
                out.extend_from_slice(&data[p..p + inner]);
            }
        }
        cx.array(x.dtype, shape, out)
    })
}
