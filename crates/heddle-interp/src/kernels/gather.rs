//! Reading by index.

use super::movement::{lines, no_axis, pick};
use super::resolve;
use super::walk::{strides, walk_strided};
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::Array;

/// Slices of an axis, in the order and shape of `indices` (ONNX Gather 13).
pub fn gather(cx: &Context, x: &Array, indices: &Array, axis: usize) -> Result<Array, Fault> {
    let size = *x.shape.get(axis).ok_or_else(|| no_axis(axis, &x.shape))?;
    let chosen = indices.ints()?.into_iter().map(|i| resolve(i, axis, size));
    let chosen = chosen.collect::<Result<Vec<_>, _>>()?;
    let shape = [&x.shape[..axis], &indices.shape, &x.shape[axis + 1..]].concat();
    if count(&shape)? == 0 {
        return cx.empty(x.dtype, shape);
    }
    let [outer, size, inner] = lines(x, axis)?;
    let along = |axis: usize, i: usize| {
        Some(match axis {
            0 => i * size * inner,
            1 => chosen[i] * inner,
            _ => i,
        } as isize)
    };
    Ok(pick(cx, x, vec![outer, chosen.len(), inner], 0, &along, None)?.reshaped(shape))
}

/// Places of the elements that `indices` along `axis` name, in row-major order of `indices`.
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
    // The walk leaves out the indexed axis, where the index decides.
    let along = std::mem::take(&mut steps[axis]) as usize;
    walk_strided(cx, &indices.shape, 0, &steps, |base| places.push(base))?;
    for (place, &index) in places.iter_mut().zip(&values) {
        *place += resolve(index, axis, x[axis])? * along;
    }
    Ok(places)
}

/// Single elements, in the shape of `indices` (ONNX GatherElements 13).
pub fn elements(cx: &Context, x: &Array, indices: &Array, axis: usize) -> Result<Array, Fault> {
    let places = element_places(cx, &x.shape, indices, axis)?;
    slices(cx, x, &places, 1, indices.shape.clone())
}

/// The `len` elements from each place on.
pub fn slices(
    cx: &Context,
    x: &Array,
    places: &[usize],
    len: usize,
    shape: Vec<usize>,
) -> Result<Array, Fault> {
    let along = |axis: usize, i: usize| Some(if axis == 0 { places[i] } else { i } as isize);
    Ok(pick(cx, x, vec![places.len(), len], 0, &along, None)?.reshaped(shape))
}

/// First places of the slices that index tuples name, and the shape of a slice.
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
            // An empty array is never read: the sum may wrap.
            let step = i.wrapping_mul(steps[batch + d] as usize);
            place = place.wrapping_add(step);
        }
        places.push(place);
    }
    Ok((places, &x[end..]))
}

/// Slices that index tuples name (ONNX GatherND 13).
pub fn nd(cx: &Context, x: &Array, indices: &Array, batch: usize) -> Result<Array, Fault> {
    let (places, slice) = tuple_places(cx, &x.shape, indices, batch)?;
    let tuples = &indices.shape[..indices.shape.len() - 1];
    let shape = [tuples, slice].concat();
    count(&shape)?;
    slices(cx, x, &places, count(slice)?, shape)
}
