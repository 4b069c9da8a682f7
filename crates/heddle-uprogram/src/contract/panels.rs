//! Panels: the layout in which kernels read matrices.
//!
//! A matrix `[depth, columns]` is partitioned into panels of [`panel_width`] columns. Panels are
//! row-major, so that a kernel reads memory sequentially. Columns beyond the last are zero.
//!
//! Panels of `f32` may be stored in fewer bytes ([`Panels::stored`]). A row of a panel is a cache line in each type, so it
//! holds two or four places of the depth axis: those of a column lie next to each other, since a kernel widens them by
//! shifts of 32-bit lanes. Places beyond the last are zero.

mod filters;
mod narrow;

use std::ops::Range;

use heddle_ir::{DType, Tensor};

pub use filters::{Filters, Scheme, TAPS};
pub use narrow::NARROW;

/// Bytes of a panel's row: a cache line, which is a whole number of vectors on every processor.
const ROW_BYTES: usize = 64;

/// Rows of a row-major source that are packed together, which are long runs in each panel.
const ROWS: i64 = 16;

/// A packing tells of the bytes that it read after so many.
const TOLD_BYTES: usize = 4 << 20;

/// Columns of a panel of this type.
pub fn panel_width(dtype: DType) -> i64 {
    (ROW_BYTES * 8 / dtype.bits()) as i64
}

/// A constant to be packed when a program is compiled: matrices of a tensor, in sequence.
#[derive(Clone, Debug)]
pub struct Panels {
    /// The source, of the type that products are computed in.
    pub tensor: Tensor,
    /// The type of the panels' elements: the source's, or one of [`NARROW`] for a source of `f32`, to which numbers are rounded. `i8`
    /// counts in units of the column's [scale](Panels::scales).
    pub stored: DType,
    /// The offset of the first element.
    pub base: i64,
    /// Strides and sizes of the batch axes, outermost first.
    pub batch: Vec<(i64, i64)>,
    /// Strides and sizes of the depth axis, whose places are those of several axes of the tensor,
    /// outermost first; at least one.
    pub depth: Vec<(i64, i64)>,
    /// Stride and size of the columns.
    pub columns: (i64, i64),
    /// The transformation of filters whose first taps these are; the matrices of the batch axes repeat for each of their numbers.
    pub filters: Option<Filters>,
}

/// Places of the depth axis in a row of panels that store elements of a type in another: 1, or more where these take fewer bytes.
pub fn places_of_row(dtype: DType, stored: DType) -> i64 {
    (dtype.bits() / stored.bits()) as i64
}

impl Panels {
    /// Elements of one matrix.
    pub fn matrix_len(&self) -> i64 {
        self.padded_columns() * self.padded_depth()
    }

    /// Places of the depth axis in whole rows of a panel.
    pub fn padded_depth(&self) -> i64 {
        let places = places_of_row(self.tensor.dtype(), self.stored);
        (self.depth_len() as u64).next_multiple_of(places as u64) as i64
    }

    /// Columns of all panels.
    fn padded_columns(&self) -> i64 {
        let width = panel_width(self.tensor.dtype());
        (self.columns.1 as u64).next_multiple_of(width as u64) as i64
    }

    /// Places of the depth axis.
    fn depth_len(&self) -> i64 {
        self.depth.iter().map(|d| d.1).product()
    }

    /// Elements of all matrices.
    pub fn len(&self) -> i64 {
        let numbers = self.filters.map_or(1, Filters::count);
        self.batch.iter().map(|b| b.1).product::<i64>() * numbers * self.matrix_len()
    }

    /// Elements of all matrices; `None` if the source is too small.
    pub fn checked_len(&self) -> Option<i64> {
        let axes = || {
            let outer = self.batch.iter().chain(&self.depth);
            outer.chain([&self.columns])
        };
        if axes().any(|axis| axis.1 < 0) || self.base < 0 {
            return None;
        }
        let dtype = self.tensor.dtype();
        if self.stored != dtype && !(dtype == DType::F32 && NARROW.contains(&self.stored)) {
            return None;
        }
        let width = panel_width(dtype);
        let columns = self.columns.1.checked_add(width - 1)? / width * width;
        let sizes = self.depth.iter().map(|axis| axis.1);
        let depth = sizes.clone().try_fold(1i64, i64::checked_mul)?;
        let depth = (depth as u64).next_multiple_of(places_of_row(dtype, self.stored) as u64);
        let numbers = match self.filters {
            Some(Filters {
                results: 2 | 4,
                step,
            }) if dtype == DType::F32 && self.stored == dtype && step >= 0 => {
                self.filters.map_or(1, Filters::count)
            }
            Some(_) => return None,
            None => 1,
        };
        let taps = self
            .filters
            .map(|filters| (filters.step, (TAPS * TAPS) as i64));
        let batch = self.batch.iter().map(|axis| axis.1);
        let sizes = batch.chain([numbers, i64::try_from(depth).ok()?, columns]);
        let len = sizes.into_iter().try_fold(1i64, i64::checked_mul)?;
        let (mut least, mut most) = (self.base, self.base);
        for (stride, size) in axes().copied().chain(taps).filter(|axis| axis.1 > 0) {
            let far = i64::checked_mul(stride, size - 1)?;
            least = least.checked_add(far.min(0))?;
            most = most.checked_add(far.max(0))?;
        }
        let inside = least >= 0 && (len == 0 || most < self.tensor.len() as i64);
        inside.then_some(len)
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of bytes.
    pub fn size(&self) -> usize {
        self.len() as usize * (self.stored.bits() / 8)
    }

    /// Packs into memory of that size, which is zero. `read` gets the bytes of the source that were
    /// read, some at a time.
    pub fn pack(&self, out: &mut [u8], read: &mut dyn FnMut(Range<usize>)) {
        if let Some(filters) = self.filters {
            return self.pack_filters(filters, out, read);
        }
        if self.stored != self.tensor.dtype() {
            return self.pack_narrow(out, read);
        }
        match self.tensor.dtype().bits() / 8 {
            1 => self.pack_as::<1>(out, read),
            2 => self.pack_as::<2>(out, read),
            4 => self.pack_as::<4>(out, read),
            _ => self.pack_as::<8>(out, read),
        }
    }

    /// Packs elements of `N` bytes.
    fn pack_as<const N: usize>(&self, out: &mut [u8], read: &mut dyn FnMut(Range<usize>)) {
        let (from, out) = (
            self.tensor.bytes().as_chunks::<N>().0,
            out.as_chunks_mut::<N>().0,
        );
        let matrix = self.matrix_len() as usize;
        if matrix == 0 {
            return;
        }
        let mut pending = Pending::default();
        for (i, out) in out.chunks_exact_mut(matrix).enumerate() {
            let base = self.base + place(&self.batch, i as i64);
            self.pack_matrix(from, base, out, &mut |first, last| {
                pending.add(first as usize * N..(last + 1) as usize * N, read);
            });
        }
        pending.end(read);
    }

    /// Packs a matrix in the order in which the source stores it, some rows or a panel at a time.
    /// `read` gets the first and last element of each part.
    fn pack_matrix<const N: usize>(
        &self,
        from: &[[u8; N]],
        base: i64,
        out: &mut [[u8; N]],
        read: &mut dyn FnMut(i64, i64),
    ) {
        let (depth, columns) = (self.depth_len(), self.columns);
        let width = (ROW_BYTES / N) as i64;
        let at: Vec<i64> = (0..depth).map(|k| place(&self.depth, k)).collect();
        let is_near = |axis: &(i64, i64)| axis.0.abs() < columns.0.abs();
        let rows = match self.depth.iter().all(is_near) {
            true => depth,
            false => ROWS,
        };
        for first in (0..depth).step_by(rows.max(1) as usize) {
            let last = (first + rows).min(depth) - 1;
            let run = &at[first as usize..=last as usize];
            let least = run.iter().copied().min().unwrap_or(0);
            let most = run.iter().copied().max().unwrap_or(0);
            for (panel, out) in out.chunks_exact_mut((depth * width) as usize).enumerate() {
                let column = panel as i64 * width;
                let count = (columns.1 - column).min(width);
                for k in first..=last {
                    let start = base + at[k as usize] + column * columns.0;
                    let row = &mut out[(k * width) as usize..][..count as usize];
                    if columns.0 == 1 {
                        row.copy_from_slice(&from[start as usize..][..count as usize]);
                    } else {
                        let places = (0..count).map(|c| (start + c * columns.0) as usize);
                        row.iter_mut()
                            .zip(places)
                            .for_each(|(to, at)| *to = from[at]);
                    }
                }
                if rows == depth {
                    let across = (count - 1) * columns.0;
                    let start = base + column * columns.0;
                    read(start + least + across.min(0), start + most + across.max(0));
                }
            }
            if rows != depth {
                let across = (columns.1 - 1) * columns.0;
                read(base + least + across.min(0), base + most + across.max(0));
            }
        }
    }
}

/// The offset of an index into axes of these strides and sizes, outermost first.
fn place(axes: &[(i64, i64)], index: i64) -> i64 {
    let (mut rest, mut at) = (index, 0);
    for &(stride, size) in axes.iter().rev() {
        at += rest % size * stride;
        rest /= size;
    }
    at
}

/// Bytes that were read and not told of yet.
#[derive(Default)]
struct Pending(Range<usize>);

impl Pending {
    fn add(&mut self, range: Range<usize>, read: &mut dyn FnMut(Range<usize>)) {
        let Range { start, end } = &mut self.0;
        (*start, *end) = match start == end {
            true => (range.start, range.end),
            false => (range.start.min(*start), range.end.max(*end)),
        };
        if *end - *start >= TOLD_BYTES {
            self.end(read);
        }
    }

    fn end(&mut self, read: &mut dyn FnMut(Range<usize>)) {
        read(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_become_neighbours() {
        let values: Vec<f32> = (0..2 * 3 * 33).map(|v| v as f32).collect();
        let panels = Panels {
            stored: DType::F32,
            tensor: Tensor::from_slice(vec![2, 33, 3], &values),
            base: 0,
            batch: vec![(99, 2)],
            depth: vec![(1, 3)],
            columns: (3, 33),
            filters: None,
        };
        let mut packed = vec![0; panels.size()];
        let mut told = vec![false; 4 * values.len()];
        panels.pack(&mut packed, &mut |read| told[read].fill(true));
        assert!(told.iter().all(|&told| told));
        let at = |i: usize| f32::from_le_bytes(packed[4 * i..][..4].try_into().unwrap());
        assert_eq!(packed.len(), 4 * 2 * 3 * 3 * 16);
        // Matrix 1, depth 2, column 5 and column 32, which begins the third panel.
        assert_eq!(at(144 + 2 * 16 + 5), (99 + 5 * 3 + 2) as f32);
        assert_eq!(at(144 + 2 * 48 + 2 * 16), (99 + 32 * 3 + 2) as f32);
        assert_eq!(at(144 + 2 * 48 + 2 * 16 + 1), 0.0);
    }

    #[test]
    fn the_depth_is_several_axes() {
        let values: Vec<f32> = (0..17 * 5 * 3).map(|v| v as f32).collect();
        let panels = Panels {
            stored: DType::F32,
            tensor: Tensor::from_slice(vec![17, 5, 3], &values),
            base: 0,
            batch: vec![],
            depth: vec![(1, 3), (3, 5)],
            columns: (15, 17),
            filters: None,
        };
        assert_eq!(panels.checked_len(), Some(2 * 15 * 16));
        let mut packed = vec![0; panels.size()];
        let mut told = vec![false; 4 * values.len()];
        panels.pack(&mut packed, &mut |read| told[read].fill(true));
        assert!(told.iter().all(|&told| told));
        let at = |i: usize| f32::from_le_bytes(packed[4 * i..][..4].try_into().unwrap());
        // Place (2, 4) of the depth, column 7; the last column, which begins the second panel.
        assert_eq!(at((2 * 5 + 4) * 16 + 7), (7 * 15 + 4 * 3 + 2) as f32);
        assert_eq!(at(15 * 16 + (5 + 3) * 16), (16 * 15 + 3 * 3 + 1) as f32);
    }
}
