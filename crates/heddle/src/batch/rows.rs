//! Rows of index arrays that stop an instance.

use heddle_interp::{Fault, RunError};
use heddle_ir::{DType, Datum, Module};

use crate::Error;
use crate::batch_error::FaultyRows;

impl FaultyRows {
    /// The rows of these inputs that an error comes from, if their elements tell.
    pub(super) fn of(
        module: &Module,
        args: &[Datum],
        inputs: &[String],
        error: &Error,
    ) -> Option<Self> {
        let error = match error {
            Error::Frames(error) => error,
            error => error,
        };
        let Error::Run(RunError::At { fault, .. }) = error else {
            return None;
        };
        let given = module.entry().sig.params.iter().zip(args);
        let arrays: Vec<(&String, Vec<i64>)> = given
            .filter(|((name, _), _)| inputs.contains(name))
            .filter_map(|((name, _), datum)| Some((name, index_array(datum)?)))
            .collect();
        match fault {
            Fault::Index { index, .. } => arrays.iter().find_map(|(name, rows)| {
                let row = rows.iter().position(|k| k == index)?;
                let input = name.to_string();
                Some(Self::Index { input, row })
            }),
            Fault::Depth { .. } => {
                let rows = arrays.first()?.1.len();
                let next = arrays.iter().map(|(_, a)| &a[..]);
                let next: Vec<&[i64]> = next.filter(|a| a.len() == rows).collect();
                cycle(&next, rows).map(Self::Cycle)
            }
            _ => None,
        }
    }
}

/// The elements of a vector of indices.
fn index_array(datum: &Datum) -> Option<Vec<i64>> {
    let Datum::Tensor(tensor) = datum else {
        return None;
    };
    let is_index = matches!(tensor.dtype(), DType::I64) && tensor.shape().len() == 1;
    is_index.then(|| tensor.to_i64s()).flatten()
}

/// Rows that name each other in a circle; `next` are the rows that each row names.
fn cycle(next: &[&[i64]], rows: usize) -> Option<Vec<usize>> {
    let names = |row: usize, k: usize| {
        let to = usize::try_from(*next.get(k)?.get(row)?);
        Some(to.ok().filter(|to| *to < rows))
    };
    // The place of each row on the current path, if it is there; and the rows that are done.
    let (mut place, mut done) = (vec![None; rows], vec![false; rows]);
    for start in 0..rows {
        let mut path = vec![(start, 0)];
        while let Some(&(row, k)) = path.last() {
            place[row] = Some(path.len() - 1);
            match names(row, k) {
                None => {
                    (place[row], done[row]) = (None, true);
                    path.pop();
                }
                Some(to) => {
                    if let Some(last) = path.last_mut() {
                        last.1 += 1;
                    }
                    match to {
                        Some(to) if place[to].is_some() => {
                            let first = place[to].unwrap_or(0);
                            return Some(path[first..].iter().map(|p| p.0).collect());
                        }
                        Some(to) if !done[to] => path.push((to, 0)),
                        _ => {}
                    }
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::cycle;

    #[test]
    fn cycles_are_found() {
        assert_eq!(cycle(&[&[-1, 2, 1], &[-1, 0, 0]], 3), Some(vec![1, 2]));
        assert_eq!(cycle(&[&[0]], 1), Some(vec![0]));
        assert_eq!(cycle(&[&[-1, 0, 1, 2], &[-1, 0, 0, 9]], 4), None);
        assert_eq!(cycle(&[], 0), None);
        let chain: Vec<i64> = (1..100_000).chain([500]).collect();
        let found = cycle(&[&chain], chain.len()).expect("a cycle");
        assert_eq!((found[0], found.len()), (500, 100_000 - 500));
    }
}
