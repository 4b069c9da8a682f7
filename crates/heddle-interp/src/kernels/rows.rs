//! Walks arrays of one shape and different strides together, an innermost row at a time.

use crate::error::Fault;

/// A walk in row-major order over `K` arrays.
pub struct Rows<const K: usize> {
    outer: Vec<(usize, [isize; K])>,
    /// The length of a row.
    pub len: usize,
    /// The distance of a row's elements in each array.
    pub step: [isize; K],
    empty: bool,
}

/// Strides of a contiguous array. Those of an array without elements may wrap: they are never followed.
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

/// The shape to which all of these broadcast.
pub fn broadcast_shape(shapes: &[&[usize]]) -> Result<Vec<usize>, Fault> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut result = vec![1; rank];
    for shape in shapes {
        for (r, &d) in result[rank - shape.len()..].iter_mut().zip(*shape) {
            match (*r, d) {
                (r, d) if r == d => {}
                (1, d) => *r = d,
                (_, 1) => {}
                _ => {
                    let shown: Vec<_> = shapes.iter().map(|s| format!("{s:?}")).collect();
                    return Err(Fault::Shape(format!(
                        "shapes {} do not broadcast",
                        shown.join(" and ")
                    )));
                }
            }
        }
    }
    Ok(result)
}

impl<const K: usize> Rows<K> {
    /// A walk over `shape`; axes that lie behind each other in all arrays are walked as one.
    pub fn new(shape: &[usize], strides: [&[isize]; K]) -> Self {
        let mut outer: Vec<(usize, [isize; K])> = vec![];
        let empty = shape.contains(&0);
        let shape = if empty { &[] } else { shape };
        for (i, &size) in shape.iter().enumerate() {
            if size == 1 {
                continue;
            }
            let step = strides.map(|s| s[i]);
            match outer.last_mut() {
                Some((n, last)) if (0..K).all(|k| last[k] == step[k] * size as isize) => {
                    (*n, *last) = (*n * size, step);
                }
                _ => outer.push((size, step)),
            }
        }
        let (len, step) = outer.pop().unwrap_or((1, [1; K]));
        Self {
            outer,
            len,
            step,
            empty,
        }
    }

    /// Calls `visit` with each row's first element in each array, from these first elements on.
    pub fn each(
        &self,
        mut at: [isize; K],
        mut visit: impl FnMut([isize; K]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if self.empty {
            return Ok(());
        }
        let mut index = vec![0; self.outer.len()];
        loop {
            visit(at)?;
            let mut axis = self.outer.len();
            loop {
                if axis == 0 {
                    return Ok(());
                }
                axis -= 1;
                let (size, step) = self.outer[axis];
                index[axis] += 1;
                if index[axis] < size {
                    (0..K).for_each(|k| at[k] += step[k]);
                    break;
                }
                index[axis] = 0;
                (0..K).for_each(|k| at[k] -= step[k] * (size as isize - 1));
            }
        }
    }

    /// Calls `visit` with each element's place in each array.
    pub fn each_element(
        &self,
        first: [isize; K],
        mut visit: impl FnMut([isize; K]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.each(first, |at| {
            (0..self.len as isize)
                .try_for_each(|i| visit(std::array::from_fn(|k| at[k] + i * self.step[k])))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_merge_and_walk() {
        let shape = [2, 3, 4];
        let (a, b) = (strides(&shape), broadcast_strides(&[3, 1], &shape));
        assert_eq!(
            (a.as_slice(), b.as_slice()),
            (&[12, 4, 1][..], &[0, 1, 0][..])
        );
        let rows = Rows::new(&shape, [&a, &b]);
        assert_eq!((rows.len, rows.step), (4, [1, 0]));
        let mut seen = vec![];
        rows.each([0, 0], |at| {
            seen.push(at);
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [[0, 0], [4, 1], [8, 2], [12, 0], [16, 1], [20, 2]]);
        assert_eq!(Rows::new(&shape, [&a]).len, 24);
    }
}
