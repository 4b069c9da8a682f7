//! Elements moved: views, slices, parts put together, broadcasting.

use super::Arg;
use super::known::{MAX_KNOWN, static_shape};
use super::shape::{slice_bounds, slice_count};
use crate::Dim;

pub(super) fn transpose(x: &[Dim], shape: &[usize], perm: &[usize]) -> Option<Vec<Dim>> {
    let to: Option<Vec<usize>> = perm.iter().map(|&p| shape.get(p).copied()).collect();
    let strides = strides(shape);
    collect(&to?, |index| {
        let offset = index.iter().zip(perm).map(|(i, &p)| i * strides[p]);
        x.get(offset.sum::<usize>()).cloned()
    })
}

pub(super) fn broadcast(x: &[Dim], shape: &[usize], to: &[Dim]) -> Option<Vec<Dim>> {
    let to: Option<Vec<usize>> = to
        .iter()
        .map(|d| d.as_const().and_then(|c| usize::try_from(c).ok()))
        .collect();
    let to = joined_shape(&[shape, &to?])?;
    collect(&to, |index| at(x, shape, index))
}

pub(super) fn gather(x: &[Dim], shape: &[usize], axis: usize, at: &[Dim]) -> Option<Vec<Dim>> {
    let size = *shape.get(axis)?;
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    let place = |i: &Dim| {
        let i = i.as_const()?;
        let i = if i < 0 { i + size as i64 } else { i };
        usize::try_from(i).ok().filter(|i| *i < size)
    };
    let places: Vec<usize> = at.iter().map(place).collect::<Option<_>>()?;
    let mut all = vec![];
    for o in 0..outer {
        for p in &places {
            let first = (o * size + p) * inner;
            all.extend_from_slice(x.get(first..first + inner)?);
        }
        if all.len() > MAX_KNOWN {
            return None;
        }
    }
    Some(all)
}

pub(super) fn slice(
    x: &[Dim],
    shape: &[usize],
    axes: &[usize],
    bounds: [Option<&[Dim]>; 3],
) -> Option<Vec<Dim>> {
    let [starts, ends, steps] = bounds;
    let (starts, ends, steps) = (starts?, ends?, steps?);
    // The first place and the step along each axis.
    let mut ways: Vec<(i64, i64)> = vec![(0, 1); shape.len()];
    let mut to = shape.to_vec();
    for (k, &axis) in axes.iter().enumerate() {
        let part = |list: &[Dim]| list.get(k)?.as_const();
        let step = part(steps).filter(|s| *s != 0)?;
        let (start, end) = (part(starts)?, part(ends)?);
        let size = *shape.get(axis)? as i64;
        ways[axis] = (slice_bounds(size, start, end, step).0, step);
        to[axis] = usize::try_from(slice_count(size, start, end, step)).ok()?;
    }
    let strides = strides(shape);
    collect(&to, |index| {
        let places = index.iter().zip(&ways).zip(&strides);
        let offset = places.map(|((i, (first, step)), s)| (first + *i as i64 * step) * *s as i64);
        x.get(usize::try_from(offset.sum::<i64>()).ok()?).cloned()
    })
}

pub(super) fn concat(args: &[Arg], axis: usize) -> Option<Vec<Dim>> {
    let shapes: Vec<_> = args
        .iter()
        .map(|a| static_shape(a.ty))
        .collect::<Option<_>>()?;
    let outer: usize = shapes.first()?.get(..axis)?.iter().product();
    let mut all = vec![];
    for o in 0..outer {
        for (arg, shape) in args.iter().zip(&shapes) {
            let count = shape
                .get(axis..)?
                .iter()
                .try_fold(1, |n: usize, s| n.checked_mul(*s))?;
            if all.len() + count > MAX_KNOWN {
                return None;
            }
            match arg.known {
                Some(known) => all.extend_from_slice(known.get(o * count..(o + 1) * count)?),
                // A computed part leaves the others as they are.
                None => all.resize(all.len() + count, Dim::UNKNOWN),
            }
        }
    }
    all.iter().any(|d| d.as_expr().is_some()).then_some(all)
}

/// Elementwise, broadcast.
pub(super) fn zip<const N: usize>(
    args: &[Arg],
    f: impl Fn([&Dim; N]) -> Option<Dim>,
) -> Option<Vec<Dim>> {
    let shapes: Vec<_> = args
        .iter()
        .map(|a| static_shape(a.ty))
        .collect::<Option<_>>()?;
    let known: Vec<&[Dim]> = args.iter().map(|a| a.known).collect::<Option<_>>()?;
    let all: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    collect(&joined_shape(&all)?, |index| {
        let parts: Vec<Dim> = (0..N)
            .map(|k| at(known.get(k)?, shapes.get(k)?, index))
            .collect::<Option<_>>()?;
        f(std::array::from_fn(|k| &parts[k]))
    })
}

/// The element at an index of the shape that this one is broadcast to.
fn at(x: &[Dim], shape: &[usize], index: &[usize]) -> Option<Dim> {
    let own = index.get(index.len().checked_sub(shape.len())?..)?;
    let offset = own
        .iter()
        .zip(shape)
        .fold(0, |o, (&i, &n)| o * n + if n == 1 { 0 } else { i });
    x.get(offset).cloned()
}

fn joined_shape(shapes: &[&[usize]]) -> Option<Vec<usize>> {
    let rank = shapes.iter().map(|s| s.len()).max()?;
    (0..rank)
        .map(|axis| {
            let sizes = shapes
                .iter()
                .filter_map(|s| s.get((axis + s.len()).checked_sub(rank)?));
            let mut joined = 1;
            for &size in sizes.filter(|s| **s != 1) {
                if joined != 1 && joined != size {
                    return None;
                }
                joined = size;
            }
            Some(joined)
        })
        .collect()
}

fn strides(shape: &[usize]) -> Vec<usize> {
    (0..shape.len())
        .map(|k| shape[k + 1..].iter().product())
        .collect()
}

/// The elements of a small array, by index.
fn collect(shape: &[usize], element: impl Fn(&[usize]) -> Option<Dim>) -> Option<Vec<Dim>> {
    let count = shape.iter().try_fold(1, |n: usize, s| n.checked_mul(*s))?;
    if count > MAX_KNOWN {
        return None;
    }
    let index = |k: usize| -> Vec<usize> {
        let of = |(&size, stride): (&usize, usize)| k / stride % size;
        shape.iter().zip(strides(shape)).map(of).collect()
    };
    (0..count).map(|k| element(&index(k))).collect()
}
