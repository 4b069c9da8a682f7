//! Reductions and running sums. Elements are combined one after the other, in row-major order.

use heddle_ir::op::ReduceOp;

use super::movement::{lines, no_axis};
use super::number::{Combine, Scalar};
use super::walk::{broadcast_strides, walk_strided};
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Buf, with_scalar};

/// A reduction's operation on elements of this type.
pub fn combine<T: Scalar>(_: &[T], kind: ReduceOp, x: &Array) -> Result<Combine<T>, Fault> {
    T::combine(kind).ok_or_else(|| Fault::dtype(kind.name(), x.dtype))
}

/// Reduces over axes; over none, `x` itself. A sum of `f32` is computed in `f64` and rounded once, so that
/// the reference does not add the error of an order of its own.
pub fn reduce(
    cx: &Context,
    x: &Array,
    kind: ReduceOp,
    axes: &[usize],
    keep: bool,
) -> Result<Array, Fault> {
    if let Some(&axis) = axes.iter().find(|&&a| a >= x.shape.len()) {
        return Err(no_axis(axis, &x.shape));
    }
    if axes.is_empty() {
        return Ok(x.clone());
    }
    let mut kept = x.shape.clone();
    axes.iter().for_each(|&a| kept[a] = 1);
    // Elements that go to the same result differ only in axes of stride 0.
    let steps = broadcast_strides(&kept, &x.shape);
    if !keep {
        let mut axis = 0..;
        kept.retain(|_| !axis.next().is_some_and(|a| axes.contains(&a)));
    }
    if let (ReduceOp::Sum, Buf::F32(values)) = (kind, &x.data) {
        let mut sums = cx.filled(count(&kept)?, 0f64)?;
        let mut next = values.data.iter();
        walk_strided(cx, &x.shape, 0, &steps, |p| {
            sums[p] += next.next().map_or(0.0, |&v| f64::from(v));
        })?;
        return cx.array(x.dtype, kept, sums.iter().map(|&sum| sum as f32).collect());
    }
    with_scalar!(x.data, data => {
        let (neutral, f) = combine(data, kind, x)?;
        let mut out = cx.filled(count(&kept)?, neutral)?;
        let mut next = data.iter();
        walk_strided(cx, &x.shape, 0, &steps, |p| {
            if let Some(&v) = next.next() {
                out[p] = f(out[p], v);
            }
        })?;
        cx.array(x.dtype, kept, out)
    }, else Err(Fault::dtype(kind.name(), x.dtype)))
}

/// Reduces ranges of the first axis that offsets state. Sums of `f32` are as in [`reduce`].
pub fn segments(cx: &Context, x: &Array, offsets: &[i64], kind: ReduceOp) -> Result<Array, Fault> {
    let [_, n, inner] = lines(x, 0)?;
    let parts = offsets.first() == Some(&0)
        && offsets.is_sorted()
        && offsets.last().is_some_and(|&end| end == n as i64);
    if !parts {
        let message = "have to begin with 0, never to fall, and to end with the size";
        return Err(Fault::Shape(format!("offsets {message}, {n}")));
    }
    let mut shape = x.shape.clone();
    shape[0] = offsets.len() - 1;
    let places = count(&shape)?;
    cx.tick(n.saturating_mul(inner).max(places))?;
    // The place of an element's sum, and the element.
    let visit = |add: &mut dyn FnMut(usize, usize)| {
        for (row, ends) in offsets.windows(2).enumerate() {
            for k in ends[0] as usize..ends[1] as usize {
                (0..inner).for_each(|i| add(row * inner + i, k * inner + i));
            }
        }
    };
    if let (ReduceOp::Sum, Buf::F32(values)) = (kind, &x.data) {
        let mut sums = cx.filled(places, 0f64)?;
        visit(&mut |to, from| sums[to] += f64::from(values.data[from]));
        return cx.array(x.dtype, shape, sums.iter().map(|&sum| sum as f32).collect());
    }
    with_scalar!(x.data, data => {
        let (neutral, f) = combine(data, kind, x)?;
        let mut out = cx.filled(places, neutral)?;
        visit(&mut |to, from| out[to] = f(out[to], data[from]));
        cx.array(x.dtype, shape, out)
    }, else Err(Fault::dtype(kind.name(), x.dtype)))
}

/// Running sums, products, maxima or minima along an axis.
pub fn cumulative(
    cx: &Context,
    x: &Array,
    kind: ReduceOp,
    axis: usize,
    exclusive: bool,
    reverse: bool,
) -> Result<Array, Fault> {
    if x.shape.contains(&0) && axis < x.shape.len() {
        return Ok(x.clone());
    }
    let [outer, n, inner] = lines(x, axis)?;
    with_scalar!(x.data, data => {
        let (neutral, f) = combine(data, kind, x)?;
        let mut out = cx.filled(data.len(), neutral)?;
        for line in 0..outer * inner {
            cx.tick(n)?;
            let mut sum = neutral;
            for k in 0..n {
                let k = if reverse { n - 1 - k } else { k };
                let p = (line / inner * n + k) * inner + line % inner;
                let next = f(sum, data[p]);
                out[p] = if exclusive { sum } else { next };
                sum = next;
            }
        }
        cx.array(x.dtype, x.shape.clone(), out)
    }, else Err(Fault::dtype(kind.name(), x.dtype)))
}
