//! Panels: the layout in which kernels read matrices.
//!
//! A matrix `[depth, columns]` is partitioned into panels of [`panel_width`] columns. Panels are
//! row-major, so that a kernel reads memory sequentially. Columns beyond the last are zero.

use bytes::Bytes;
use heddle_ir::{DType, Tensor};

/// Bytes of a panel's row: a cache line, which is a whole number of vectors on every processor.
const ROW_BYTES: usize = 64;

/// Columns of a panel of this type.
pub fn panel_width(dtype: DType) -> i64 {
    (ROW_BYTES * 8 / dtype.bits()) as i64
}

/// A constant to be packed when a program is compiled: matrices of a tensor, in sequence.
#[derive(Clone, Debug)]
pub struct Panels {
    /// The source, of the panels' type.
    pub tensor: Tensor,
    /// The offset of the first element.
    pub base: i64,
    /// Strides and sizes of the batch axes, outermost first.
    pub batch: Vec<(i64, i64)>,
    /// Stride and size of the depth axis.
    pub depth: (i64, i64),
    /// Stride and size of the columns.
    pub columns: (i64, i64),
}

impl Panels {
    /// Elements of one matrix.
    pub fn matrix_len(&self) -> i64 {
        let width = panel_width(self.tensor.dtype());
        (self.columns.1 as u64).div_ceil(width as u64) as i64 * width * self.depth.1
    }

    /// Elements of all matrices.
    pub fn len(&self) -> i64 {
        self.batch.iter().map(|b| b.1).product::<i64>() * self.matrix_len()
    }

    /// Elements of all matrices; `None` if the source is too small.
    pub fn checked_len(&self) -> Option<i64> {
        let axes = || self.batch.iter().chain([&self.depth, &self.columns]);
        if axes().any(|axis| axis.1 < 0) || self.base < 0 {
            return None;
        }
        let width = panel_width(self.tensor.dtype());
        let columns = self.columns.1.checked_add(width - 1)? / width * width;
        let sizes = self
            .batch
            .iter()
            .map(|b| b.1)
            .chain([self.depth.1, columns]);
        let len = sizes.into_iter().try_fold(1i64, i64::checked_mul)?;
        let (mut least, mut most) = (self.base, self.base);
        for (stride, size) in axes().filter(|axis| axis.1 > 0) {
            let far = stride.checked_mul(size - 1)?;
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

    /// The packed bytes.
    pub fn pack(&self) -> Bytes {
        let size = self.tensor.dtype().bits() / 8;
        let mut out = vec![0; self.len() as usize * size];
        let matrix = self.matrix_len() as usize * size;
        if matrix > 0 {
            for (i, out) in out.chunks_exact_mut(matrix).enumerate() {
                self.pack_matrix(self.base + self.place(i as i64), out);
            }
        }
        out.into()
    }

    /// The offset of a matrix.
    fn place(&self, matrix: i64) -> i64 {
        let (mut rest, mut at) = (matrix, 0);
        for &(stride, size) in self.batch.iter().rev() {
            at += rest % size * stride;
            rest /= size;
        }
        at
    }

    fn pack_matrix(&self, base: i64, out: &mut [u8]) {
        let (dtype, from) = (self.tensor.dtype(), self.tensor.bytes());
        let (size, width) = (dtype.bits() / 8, panel_width(dtype));
        let rows = out.chunks_exact_mut(ROW_BYTES);
        for (i, row) in rows.enumerate() {
            let (panel, k) = (i as i64 / self.depth.1, i as i64 % self.depth.1);
            let first = panel * width;
            let count = (self.columns.1 - first).min(width) as usize;
            let start = base + k * self.depth.0 + first * self.columns.0;
            if self.columns.0 == 1 {
                let bytes = count * size;
                row[..bytes].copy_from_slice(&from[start as usize * size..][..bytes]);
            } else {
                for (c, to) in row.chunks_exact_mut(size).take(count).enumerate() {
                    let at = (start + c as i64 * self.columns.0) as usize * size;
                    to.copy_from_slice(&from[at..][..size]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_become_neighbours() {
        let values: Vec<f32> = (0..2 * 3 * 33).map(|v| v as f32).collect();
        let panels = Panels {
            tensor: Tensor::from_slice(vec![2, 33, 3], &values),
            base: 0,
            batch: vec![(99, 2)],
            depth: (1, 3),
            columns: (3, 33),
        };
        let packed = panels.pack();
        let at = |i: usize| f32::from_le_bytes(packed[4 * i..][..4].try_into().unwrap());
        assert_eq!(packed.len(), 4 * 2 * 3 * 3 * 16);
        // Matrix 1, depth 2, column 5 and column 32, which begins the third panel.
        assert_eq!(at(144 + 2 * 16 + 5), (99 + 5 * 3 + 2) as f32);
        assert_eq!(at(144 + 2 * 48 + 2 * 16), (99 + 32 * 3 + 2) as f32);
        assert_eq!(at(144 + 2 * 48 + 2 * 16 + 1), 0.0);
    }
}
