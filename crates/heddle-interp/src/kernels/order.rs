//! Ops that look for elements or put them in order.

use std::cmp::Ordering;
use std::sync::Arc;

use heddle_ir::DType;
use heddle_ir::op::Extreme;

use super::movement::{no_axis, strided};
use super::number::Num;
use super::rows::strides;
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Buf, Elem, with_any, with_num};

/// The indices of elements that are not zero, one column each, in row-major order.
pub fn nonzero(cx: &Context, x: &Array) -> Result<Array, Fault> {
    let unsupported = Fault::dtype("nonzero", x.dtype);
    let mut places: Vec<usize> = vec![];
    fn find<T>(data: &[T], is_set: impl Fn(&T) -> bool, places: &mut Vec<usize>) {
        places.extend(
            data.iter()
                .enumerate()
                .filter(|(_, v)| is_set(v))
                .map(|(i, _)| i),
        );
    }
    fn numbers<T: Num>(data: &[T], places: &mut Vec<usize>) {
        find(data, |v| *v != T::ZERO, places);
    }
    cx.vec::<usize>(x.len())?;
    cx.tick(x.len())?;
    match &x.data {
        Buf::Bool(s) => find(&s.data, |v| *v, &mut places),
        Buf::Str(s) => find(&s.data, |v| !v.is_empty(), &mut places),
        _ => with_num!(x.data, data => numbers(data, &mut places), else return Err(unsupported)),
    }
    let (rank, n) = (x.shape.len(), places.len());
    let mut out = cx.vec(rank * n)?;
    for (axis, step) in strides(&x.shape).into_iter().enumerate() {
        let index = |p: &usize| (p / step as usize % x.shape[axis]) as i64;
        out.extend(places.iter().map(index));
    }
    cx.array(DType::I64, vec![rank, n], out)
}

/// The lines along an axis: how many, their length, and the distance of their elements.
fn lines(x: &Array, axis: usize) -> Result<(usize, usize, usize), Fault> {
    let n = *x.shape.get(axis).ok_or_else(|| no_axis(axis, &x.shape))?;
    Ok((count(&x.shape[..axis])?, n, count(&x.shape[axis + 1..])?))
}

/// The index of the extreme element along an axis.
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
        (outer, n, inner): (usize, usize, usize),
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
        return super::movement::empty(cx, DType::I64, shape);
    }
    if dims.1 == 0 {
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

/// The order in which the wanted extreme comes first, and NaN before it.
fn extreme<T: Num>(kind: Extreme, a: T, b: T) -> Ordering {
    match (kind, a.is_nan() || b.is_nan()) {
        (Extreme::Max, _) | (_, true) => b.order(a),
        (Extreme::Min, false) => a.order(b),
    }
}

/// The first `k` elements along an axis in order, and their indices.
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
        (outer, n, inner): (usize, usize, usize),
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
    let size = dims.1;
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

/// A type whose elements have an order in which NaN comes last.
trait Ranked: Elem {
    fn rank(&self, other: &Self) -> Ordering;
}

macro_rules! ranked {
    ($($t:ty),*) => { $(impl Ranked for $t {
        fn rank(&self, other: &Self) -> Ordering { Num::order(*self, *other) }
    })* };
}
ranked!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);

impl Ranked for bool {
    fn rank(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

impl Ranked for Arc<str> {
    fn rank(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

/// The different elements or slices, where each came first, which one each is, and how often each occurs.
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
            (n, super::movement::transpose(cx, x, &perm)?)
        }
    };
    let width = count(&moved.shape[1..])?;
    let groups = match &moved.data {
        Buf::Bool(s) => group(cx, &s.data, items, width, sorted)?,
        Buf::Str(s) => group(cx, &s.data, items, width, sorted)?,
        _ => with_num!(moved.data, data => group(cx, data, items, width, sorted)?,
            else return Err(Fault::dtype("unique", x.dtype))),
    };
    let n = groups.first.len();
    let mut shape = moved.shape.clone();
    shape[0] = n;
    let picked = with_any!(moved.data, data => {
        let mut out = cx.vec(n * width)?;
        for &i in &groups.first {
            out.extend_from_slice(&data[i as usize * width..][..width]);
        }
        cx.array(x.dtype, shape, out)?
    });
    let values = match axis {
        None => picked,
        Some(axis) => {
            // The first axis goes back to its place.
            let mut steps = strides(&picked.shape);
            let first = steps.remove(0);
            steps.insert(axis, first);
            let mut shape = picked.shape.clone();
            let size = shape.remove(0);
            shape.insert(axis, size);
            strided(cx, &picked, 0, shape, &steps)?
        }
    };
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

fn group<T: Ranked>(
    cx: &Context,
    data: &[T],
    items: usize,
    width: usize,
    sorted: bool,
) -> Result<Groups, Fault> {
    cx.tick(data.len().saturating_mul(8))?;
    let item = |i: usize| &data[i * width..][..width];
    let compare = |a: usize, b: usize| {
        let pairs = item(a).iter().zip(item(b));
        pairs
            .map(|(x, y)| x.rank(y))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
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
