//! Panels of filters in the form in which they are multiplied with transformed maps (Winograd 1980; Lavin and Gray, "Fast Algorithms for
//! Convolutional Neural Networks", 2016).
//!
//! `m` neighbouring results of a filter of `r` taps are a bilinear function of `n = m + r - 1` elements: with matrices `B`, `G` and `A`
//! they are `Aᵀ ((G w) · (Bᵀ x))`, with `n` multiplications and not `m r`. Along both axes of a map a tile of `m²` results takes `n²`.
//!
//! The matrices follow from `n - 1` points, Toom and Cook: filter and elements are values of polynomials at these points and at infinity.
//! Points near one, in pairs of opposite sign, keep rounding errors small (Barabasz and others, "Error Analysis and Improving the Accuracy
//! of Winograd Convolution for Deep Neural Networks", 2020).

use std::ops::Range;

use heddle_ir::DType;

use super::{Panels, Pending, panel_width, place};

/// Taps of a filter along an axis.
pub const TAPS: usize = 3;

/// Filters of [`TAPS`] by [`TAPS`] taps that are transformed when they are packed. Of each the panels have `n²` numbers, each in a matrix of
/// its own: all matrices of the first number come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Filters {
    /// Results of a tile along an axis: two or four.
    pub results: usize,
    /// Elements of the source from one tap to the next.
    pub step: i64,
}

impl Filters {
    /// Numbers of a transformed filter.
    pub fn count(self) -> i64 {
        let n = (self.results + TAPS - 1) as i64;
        n * n
    }
}

/// The matrices for a number of results along an axis.
#[derive(Clone, Debug)]
pub struct Scheme {
    /// Results.
    pub m: usize,
    /// Multiplications.
    pub n: usize,
    /// `Aᵀ`, `m` by `n`.
    pub results: Vec<Vec<f64>>,
    /// `G`, `n` by [`TAPS`].
    pub filter: Vec<Vec<f64>>,
    /// `Bᵀ`, `n` by `n`.
    pub elements: Vec<Vec<f64>>,
}

impl Scheme {
    /// The matrices for two results, or for four.
    pub fn new(m: usize) -> Self {
        let points: &[f64] = match m {
            2 => &[0.0, 1.0, -1.0],
            _ => &[0.0, 0.75, -0.75, 1.5, -1.5],
        };
        let n = points.len() + 1;
        // Powers of each point, and of infinity: one for the highest, else zero.
        let powers = |count: usize| {
            let of = move |j: usize, i: usize| match points.get(j) {
                Some(point) => point.powi(i as i32),
                None => f64::from(i + 1 == count),
            };
            (0..n).map(move |j| (0..count).map(|i| of(j, i)).collect::<Vec<f64>>())
        };
        let others = |j: usize| {
            let all = points.iter().enumerate();
            all.filter(move |(k, _)| *k != j).map(|(_, point)| *point)
        };
        let scale = |j: usize| match points.get(j) {
            Some(point) => others(j).map(|other| point - other).product(),
            None => 1.0,
        };
        let filter = powers(TAPS).enumerate();
        let filter = filter.map(|(j, row)| row.into_iter().map(|v| v / scale(j)).collect());
        // The polynomial that is zero at all other points.
        let elements = (0..n).map(|j| {
            let mut row = others(j).fold(vec![1.0], |of, point| {
                let mut by = vec![0.0; of.len() + 1];
                for (i, v) in of.into_iter().enumerate() {
                    by[i + 1] += v;
                    by[i] -= v * point;
                }
                by
            });
            row.resize(n, 0.0);
            row
        });
        let columns: Vec<_> = powers(n + 1 - TAPS).collect();
        let results = (0..n + 1 - TAPS).map(|i| columns.iter().map(|column| column[i]).collect());
        Self {
            m: n + 1 - TAPS,
            n,
            results: results.collect(),
            filter: filter.collect(),
            elements: elements.collect(),
        }
    }
}

/// Columns of a panel of `f32`.
const WIDTH: usize = 16;

/// A number of each column of a panel.
type Row = [f64; WIDTH];

impl Panels {
    /// Packs transformed filters into memory that is zero. `read` gets the bytes of the source that were read, some at a time.
    pub(super) fn pack_filters(
        &self,
        filters: Filters,
        out: &mut [u8],
        read: &mut dyn FnMut(Range<usize>),
    ) {
        debug_assert_eq!(panel_width(DType::F32), WIDTH as i64);
        let (from, out) = (
            self.tensor.bytes().as_chunks::<4>().0,
            out.as_chunks_mut::<4>().0,
        );
        let scheme = Scheme::new(filters.results);
        let (depth, matrix) = (self.depth_len(), self.matrix_len() as usize);
        let batch = self.batch.iter().map(|b| b.1).product::<i64>();
        let mut pending = Pending::default();
        for b in 0..batch {
            let base = self.base + place(&self.batch, b);
            for first in (0..self.columns.1).step_by(WIDTH) {
                let count = (self.columns.1 - first).min(WIDTH as i64);
                let mut ends = (usize::MAX, 0);
                for k in 0..depth {
                    let start = base + place(&self.depth, k) + first * self.columns.0;
                    let mut taps = [[0.0; WIDTH]; TAPS * TAPS];
                    for (tap, row) in taps.iter_mut().enumerate() {
                        for (column, tap_of) in row.iter_mut().enumerate().take(count as usize) {
                            let at =
                                start + tap as i64 * filters.step + column as i64 * self.columns.0;
                            let at = at as usize;
                            ends = (ends.0.min(at), ends.1.max(at));
                            *tap_of = f64::from(f32::from_le_bytes(from[at]));
                        }
                    }
                    let row = (first * depth) as usize + k as usize * WIDTH;
                    let mut element = b as usize;
                    scheme.transform(&taps, &mut |numbers| {
                        let row = &mut out[element * matrix + row..][..WIDTH];
                        for (to, number) in row.iter_mut().zip(numbers) {
                            *to = (*number as f32).to_le_bytes();
                        }
                        element += batch as usize;
                    });
                }
                if ends.0 <= ends.1 {
                    pending.add(4 * ends.0..4 * (ends.1 + 1), read);
                }
            }
        }
        pending.end(read);
    }
}

impl Scheme {
    /// `G w Gᵀ` of a filter of each column, number by number.
    fn transform(&self, taps: &[Row; TAPS * TAPS], give: &mut dyn FnMut(&Row)) {
        for rows in &self.filter {
            let mut half = [[0.0; WIDTH]; TAPS];
            for (x, half) in half.iter_mut().enumerate() {
                for (y, factor) in rows.iter().enumerate() {
                    add(half, *factor, &taps[y * TAPS + x]);
                }
            }
            for columns in &self.filter {
                let mut number = [0.0; WIDTH];
                for (factor, half) in columns.iter().zip(&half) {
                    add(&mut number, *factor, half);
                }
                give(&number);
            }
        }
    }
}

/// Adds a multiple.
fn add(to: &mut Row, factor: f64, of: &Row) {
    to.iter_mut()
        .zip(of)
        .for_each(|(to, of)| *to += factor * of);
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddle_ir::Tensor;

    /// A tile's results are those of plain sums, for filters and elements that are small whole numbers.
    #[test]
    fn results_are_sums_of_taps() {
        for m in [2, 4] {
            let scheme = Scheme::new(m);
            assert_eq!(scheme.n, m + 2);
            let w = [3.0, -1.0, 2.0];
            let x: Vec<f64> = (0..scheme.n).map(|i| (i * i % 7) as f64 - 3.0).collect();
            let dot =
                |row: &[f64], of: &[f64]| -> f64 { row.iter().zip(of).map(|(a, b)| a * b).sum() };
            let products: Vec<f64> = (0..scheme.n)
                .map(|j| dot(&scheme.filter[j], &w) * dot(&scheme.elements[j], &x))
                .collect();
            for (i, row) in scheme.results.iter().enumerate() {
                let plain = dot(&w, &x[i..i + 3]);
                assert!(
                    (dot(row, &products) - plain).abs() < 1e-12,
                    "result {i} of {m}"
                );
            }
        }
    }

    #[test]
    fn each_number_has_a_matrix() {
        let (groups, channels, columns) = (2, 3, 17);
        let values: Vec<f32> = (0..groups * columns * channels * 9)
            .map(|v| (v % 23) as f32)
            .collect();
        let panels = Panels {
            stored: DType::F32,
            tensor: Tensor::from_slice(vec![groups * columns, channels, 3, 3], &values),
            base: 0,
            batch: vec![((columns * channels * 9) as i64, groups as i64)],
            depth: vec![(9, channels as i64)],
            columns: ((channels * 9) as i64, columns as i64),
            filters: Some(Filters {
                results: 2,
                step: 1,
            }),
        };
        assert_eq!(panels.checked_len(), Some(16 * 2 * 3 * 32));
        let mut packed = vec![0; panels.size()];
        let mut told = vec![false; 4 * values.len()];
        panels.pack(&mut packed, &mut |read| told[read].fill(true));
        assert!(told.iter().all(|&told| told));
        let at = |i: usize| f32::from_le_bytes(packed[4 * i..][..4].try_into().unwrap());
        // The first number is the first tap, the last one the last: of group 1, channel 2, column 16, the first of the second panel.
        let filter = ((columns + 16) * channels + 2) * 9;
        let (matrix, row) = (3 * 32, 3 * 16 + 2 * 16);
        assert_eq!(at(matrix + row), values[filter]);
        assert_eq!(at((2 * 15 + 1) * matrix + row), values[filter + 8]);
        assert_eq!(at(matrix + row + 1), 0.0);
    }
}
