//! Ops that search or sort.

use heddle_ir::DType;
use heddle_ir::op::Extreme;
use std::cmp::Ordering;

use super::gather::slices;
use super::movement::{lines, no_axis, transpose};
use super::number::{Num, Scalar};
use super::walk::strides;
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Buf, with_num, with_scalar};

/// Indices of the elements that are not zero, a column each, in row-major order (ONNX NonZero 13).
pub fn nonzero(cx: &Context, x: &Array) -> Result<Array, Fault> {
    cx.tick(x.len())?;
    let set: Vec<bool> = match &x.data {
        Buf::Str(s) => s.data.iter().map(|v| !v.is_empty()).collect(),
        data => {
            with_scalar!(*data, data => data.iter().map(|v| *v != Default::default()).collect(),
            else return Err(Fault::dtype("nonzero", x.dtype)))
        }
    };
    let places: Vec<usize> = (0..set.len()).filter(|&p| set[p]).collect();
    let (rank, n) = (x.shape.len(), places.len());
    let mut out = cx.vec(rank * n)?;
    for (axis, step) in strides(&x.shape).into_iter().enumerate() {
        let index = |p: &usize| (p / step as usize % x.shape[axis]) as i64;
        out.extend(places.iter().map(index));
    }
    cx.array(DType::I64, vec![rank, n], out)
}

/// Index of the extreme element along an axis (ONNX ArgMax 13, ArgMin 13).
pub fn arg_reduce(
    cx: &Context,
    x: &Array,
    kind: Extreme,
    axis: usize,
    keep: bool,
    last: bool,
) -> Result<Array, Fault> {
    fn typed<T: Num>(
        cx: &Context,
        data: &[T],
        [outer, n, inner]: [usize; 3],
        beats: impl Fn(T, T) -> bool,
    ) -> Result<Vec<i64>, Fault> {
        let mut out = cx.vec(outer * inner)?;
        for o in 0..outer {
            for i in 0..inner {
                cx.tick(n)?;
                let at = |k: usize| data[(o * n + k) * inner + i];
                let best = (1..n).fold(0, |best, k| if beats(at(k), at(best)) { k } else { best });
                out.push(best as i64);
            }
        }
        Ok(out)
    }
    let dims = lines(x, axis)?;
    let mut shape = x.shape.clone();
    match keep {
        true => shape[axis] = 1,
        false => drop(shape.remove(axis)),
    }
    if count(&shape)? == 0 {
        return cx.empty(DType::I64, shape);
    }
    if dims[1] == 0 {
        return Err(Fault::Shape(format!(
            "axis {axis} of shape {:?} is empty",
            x.shape
        )));
    }
    with_num!(x.data, data => {
        let out = typed(cx, data, dims, |new, old| match extreme(kind, new, old) {
            Ordering::Less => true,
            Ordering::Equal => last,
            Ordering::Greater => false,
        })?;
        cx.array(DType::I64, shape, out)
    }, else Err(Fault::dtype("arg_reduce", x.dtype)))
}

/// The order in which NaN comes first, then the wanted extreme.
fn extreme<T: Num>(kind: Extreme, a: T, b: T) -> Ordering {
    match (kind, a.is_nan() || b.is_nan()) {
        (Extreme::Max, _) | (_, true) => b.order(a),
        (Extreme::Min, false) => a.order(b),
    }
}

/// The first `k` elements along an axis in order, and their indices (ONNX TopK 11).
pub fn top_k(
    cx: &Context,
    x: &Array,
    k: i64,
    axis: usize,
    kind: Extreme,
) -> Result<[Array; 2], Fault> {
    fn typed<T: Num>(
        cx: &Context,
        data: &[T],
        [outer, n, inner]: [usize; 3],
        k: usize,
        kind: Extreme,
    ) -> Result<(Vec<T>, Vec<i64>), Fault> {
        let total = outer * k * inner;
        let mut values = cx.filled(total, T::ZERO)?;
        let mut indices = cx.filled(total, 0i64)?;
        // An empty axis may have any number of rows.
        if total == 0 {
            return Ok((values, indices));
        }
        let mut order: Vec<usize> = cx.vec(n)?;
        for o in 0..outer {
            for i in 0..inner {
                cx.tick(n * 8)?;
                let at = |j: usize| data[(o * n + j) * inner + i];
                order.clear();
                order.extend(0..n);
                // A stable sort keeps lower indices first.
                order.sort_by(|&a, &b| match kind {
                    Extreme::Max => at(b).order(at(a)),
                    Extreme::Min => at(a).order(at(b)),
                });
                for (j, &from) in order[..k].iter().enumerate() {
                    values[(o * k + j) * inner + i] = at(from);
                    indices[(o * k + j) * inner + i] = from as i64;
                }
            }
        }
        Ok((values, indices))
    }
    let dims = lines(x, axis)?;
    let size = dims[1];
    let k = usize::try_from(k)
        .ok()
        .filter(|k| *k <= size)
        .ok_or_else(|| {
            Fault::Value(format!("the top {k} of axis {axis}, which has size {size}"))
        })?;
    let mut shape = x.shape.clone();
    shape[axis] = k;
    with_num!(x.data, data => {
        let (values, indices) = typed(cx, data, dims, k, kind)?;
        Ok([
            cx.array(x.dtype, shape.clone(), values)?,
            cx.array(DType::I64, shape, indices)?,
        ])
    }, else Err(Fault::dtype("top_k", x.dtype)))
}

/// The different elements or slices, their first indices, the inverse, and their numbers of
/// occurrences (ONNX Unique 11).
pub fn unique(
    cx: &Context,
    x: &Array,
    axis: Option<usize>,
    sorted: bool,
) -> Result<[Array; 4], Fault> {
    // Slices along the axis are made contiguous.
    let (items, moved) = match axis {
        None => {
            let mut flat = x.clone();
            flat.shape = vec![x.len()];
            (x.len(), flat)
        }
        Some(axis) => {
            let n = *x.shape.get(axis).ok_or_else(|| no_axis(axis, &x.shape))?;
            let mut perm: Vec<_> = (0..x.shape.len()).collect();
            perm.remove(axis);
            perm.insert(0, axis);
            (n, transpose(cx, x, &perm)?)
        }
    };
    let width = count(&moved.shape[1..])?;
    cx.tick(moved.len().saturating_mul(8))?;
    let groups = match &moved.data {
        Buf::Str(s) => group(cx, items, width, sorted, |a, b| s.data[a].cmp(&s.data[b]))?,
        data => with_scalar!(*data, d => group(cx, items, width, sorted, |a, b| d[a].order(d[b]))?,
            else return Err(Fault::dtype("unique", x.dtype))),
    };
    let n = groups.first.len();
    let places: Vec<usize> = groups.first.iter().map(|&i| i as usize * width).collect();
    let mut shape = moved.shape.clone();
    shape[0] = n;
    let mut values = slices(cx, &moved, &places, width, shape)?;
    if let Some(axis) = axis {
        // The first axis goes back to its place.
        let mut perm: Vec<_> = (1..x.shape.len()).collect();
        perm.insert(axis, 0);
        values = transpose(cx, &values, &perm)?;
    }
    Ok([
        values,
        cx.array(DType::I64, vec![n], groups.first)?,
        cx.array(DType::I64, vec![items], groups.inverse)?,
        cx.array(DType::I64, vec![n], groups.counts)?,
    ])
}

struct Groups {
    first: Vec<i64>,
    inverse: Vec<i64>,
    counts: Vec<i64>,
}

/// Groups equal items of `width` elements each, which `order` compares by their places.
fn group(
    cx: &Context,
    items: usize,
    width: usize,
    sorted: bool,
    order: impl Fn(usize, usize) -> Ordering,
) -> Result<Groups, Fault> {
    let compare = |a: usize, b: usize| {
        let mut pairs = (0..width).map(|i| order(a * width + i, b * width + i));
        pairs.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut order: Vec<usize> = cx.vec(items)?;
    order.extend(0..items);
    order.sort_by(|&a, &b| compare(a, b));
    // Runs of equal items; the sort is stable, so that a run begins with the one that came first.
    let mut runs: Vec<&[usize]> = order.chunk_by(|&a, &b| compare(a, b).is_eq()).collect();
    if !sorted {
        runs.sort_by_key(|run| run[0]);
    }
    let mut inverse = cx.filled(items, 0i64)?;
    for (g, run) in runs.iter().enumerate() {
        run.iter().for_each(|&i| inverse[i] = g as i64);
    }
    Ok(Groups {
        first: runs.iter().map(|run| run[0] as i64).collect(),
        inverse,
        counts: runs.iter().map(|run| run.len() as i64).collect(),
    })
}
