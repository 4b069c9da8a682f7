//! Shapes, strides and row-major walks: the loops of all kernels that move elements.

use crate::context::Context;
use crate::error::Fault;

/// Strides of a contiguous array. Those of an empty array may wrap: they are never followed.
pub fn strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1isize; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].wrapping_mul(shape[i].max(1) as isize);
    }
    strides
}

/// Strides under which an array of shape `from` reads as one of shape `to`, to which it broadcasts.
pub fn broadcast_strides(from: &[usize], to: &[usize]) -> Vec<isize> {
    let mut result = vec![0; to.len()];
    let first = to.len() - from.len();
    for (i, stride) in strides(from).into_iter().enumerate() {
        if from[i] != 1 {
            result[first + i] = stride;
        }
    }
    result
}

/// The shape to which all of these broadcast, by NumPy's rule.
pub fn broadcast_shape(shapes: &[&[usize]]) -> Result<Vec<usize>, Fault> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut result = vec![1; rank];
    for shape in shapes {
        for (r, &d) in result[rank - shape.len()..].iter_mut().zip(*shape) {
            if *r == 1 {
                *r = d;
            } else if d != *r && d != 1 {
                let shown: Vec<_> = shapes.iter().map(|s| format!("{s:?}")).collect();
                let shown = shown.join(" and ");
                return Err(Fault::Shape(format!("shapes {shown} do not broadcast")));
            }
        }
    }
    Ok(result)
}

/// Visits the place of each index tuple of `shape`, in row-major order.
///
/// The place of `(i, j, …)` is `first + along(0, i) + along(1, j) + …`, or `None` if a term is.
pub fn walk(
    cx: &Context,
    shape: &[usize],
    first: isize,
    along: &impl Fn(usize, usize) -> Option<isize>,
    mut visit: impl FnMut(Option<usize>),
) -> Result<(), Fault> {
    if shape.contains(&0) {
        return Ok(());
    }
    walk_from(cx, shape, 0, Some(first), along, &mut visit)
}

/// The walk over `axis` and those after it, from the place that the axes before it add up to.
fn walk_from(
    cx: &Context,
    shape: &[usize],
    axis: usize,
    base: Option<isize>,
    along: &impl Fn(usize, usize) -> Option<isize>,
    visit: &mut impl FnMut(Option<usize>),
) -> Result<(), Fault> {
    let place = |i: usize| Some(base? + along(axis, i)?);
    match shape.len() - axis {
        0 => visit(base.map(|p| p as usize)),
        1 => {
            cx.tick(shape[axis])?;
            (0..shape[axis]).for_each(|i| visit(place(i).map(|p| p as usize)));
        }
        _ => {
            for i in 0..shape[axis] {
                walk_from(cx, shape, axis + 1, place(i), along, visit)?;
            }
        }
    }
    Ok(())
}

/// [`walk`] with strides.
pub fn walk_strided(
    cx: &Context,
    shape: &[usize],
    first: isize,
    strides: &[isize],
    mut visit: impl FnMut(usize),
) -> Result<(), Fault> {
    let along = |axis: usize, i: usize| Some(i as isize * strides[axis]);
    walk(cx, shape, first, &along, |p| {
        p.into_iter().for_each(&mut visit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_are_row_major() {
        let cx = Context::new(false, 1 << 20, None, u64::MAX);
        let steps = broadcast_strides(&[3, 1], &[2, 3, 2]);
        assert_eq!(
            (strides(&[2, 3, 2]), &steps[..]),
            (vec![6, 2, 1], &[0, 1, 0][..])
        );
        let mut seen = vec![];
        walk_strided(&cx, &[2, 3, 2], 0, &steps, |p| seen.push(p)).unwrap();
        assert_eq!(seen, [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
        let odd = |axis: usize, i: usize| (i % 2 == 1 || axis == 1).then_some(i as isize);
        let mut seen = vec![];
        walk(&cx, &[2, 2], 5, &odd, |p| seen.push(p)).unwrap();
        assert_eq!(seen, [None, None, Some(6), Some(7)]);
        walk_strided(&cx, &[usize::MAX, 0], 0, &[0, 0], |_| panic!("it is empty")).unwrap();
    }
}
