//! Panels of `f32` that are stored in fewer bytes.

use std::ops::Range;

use half::{bf16, f16};
use heddle_ir::{DType, Tensor};

use super::{Panels, panel_width, place, places_of_row};

/// Types that panels of `f32` may be stored in.
pub const NARROW: [DType; 3] = [DType::Bf16, DType::F16, DType::I8];

/// The largest number of a signed byte that stands for a weight; its negative is the least.
const MOST: f32 = 127.0;

/// An element of a matrix: the matrix, the place of the depth axis, the column, and the number.
type Element = (i64, i64, i64, f32);

impl Panels {
    /// The panels with elements of a type of [`NARROW`], if the source is `f32` and not transformed and each of its elements is exactly a number of
    /// that type, or a multiple of its column's scale. Otherwise false, and nothing changes.
    pub fn narrow(&mut self, stored: DType) -> bool {
        if self.tensor.dtype() != DType::F32 || self.stored != DType::F32 || self.filters.is_some()
        {
            return false;
        }
        let narrow = Self {
            stored,
            ..self.clone()
        };
        let scales = narrow.scales_of_columns();
        let width = narrow.padded_columns();
        let mut exact = true;
        narrow.for_each(&mut |(matrix, _, column, value)| {
            let scale = scales[(matrix * width + column) as usize];
            exact &=
                widened(stored, code(stored, value, scale), scale) == value && value.is_finite();
        });
        if exact {
            *self = narrow;
        }
        exact
    }

    /// For bytes, the factor of each column of each matrix, also of columns beyond the last: the largest of them is 127.
    pub fn scales(&self) -> Option<Tensor> {
        let scales = (self.stored == DType::I8).then(|| self.scales_of_columns())?;
        Some(Tensor::vector(&scales))
    }

    fn scales_of_columns(&self) -> Vec<f32> {
        let width = self.padded_columns();
        let matrices: i64 = self.batch.iter().map(|b| b.1).product();
        let mut scales = vec![0f32; (matrices * width) as usize];
        if self.stored == DType::I8 {
            self.for_each(&mut |(matrix, _, column, value)| {
                let most = &mut scales[(matrix * width + column) as usize];
                *most = most.max(value.abs());
            });
            scales.iter_mut().for_each(|most| *most /= MOST);
        }
        scales
    }

    /// Packs into memory that is zero; numbers between two of the type are rounded to the nearest, ties to even.
    pub(super) fn pack_narrow(&self, out: &mut [u8], read: &mut dyn FnMut(Range<usize>)) {
        let panel = panel_width(DType::F32);
        let places = places_of_row(DType::F32, self.stored);
        let bytes = self.stored.bits() / 8;
        let (matrix_len, depth) = (self.matrix_len(), self.padded_depth());
        let scales = self.scales_of_columns();
        let width = self.padded_columns();
        self.for_each(&mut |(matrix, k, column, value)| {
            let scale = scales[(matrix * width + column) as usize];
            let row = column / panel * depth + k - k % places;
            let at = matrix * matrix_len + row * panel + column % panel * places + k % places;
            let code = code(self.stored, value, scale).to_le_bytes();
            out[at as usize * bytes..][..bytes].copy_from_slice(&code[..bytes]);
        });
        read(0..self.tensor.bytes().len());
    }

    /// Visits all elements, those of a place of the depth axis one after the other.
    fn for_each(&self, visit: &mut dyn FnMut(Element)) {
        let from = self.tensor.bytes().as_chunks::<4>().0;
        let at: Vec<i64> = (0..self.depth_len())
            .map(|k| place(&self.depth, k))
            .collect();
        for matrix in 0..self.batch.iter().map(|b| b.1).product() {
            let base = self.base + place(&self.batch, matrix);
            for (k, at) in at.iter().enumerate() {
                for column in 0..self.columns.1 {
                    let value = from[(base + at + column * self.columns.0) as usize];
                    visit((matrix, k as i64, column, f32::from_le_bytes(value)));
                }
            }
        }
    }
}

/// The bits of a number in this type, of which bytes take the lowest 8.
fn code(stored: DType, value: f32, scale: f32) -> u16 {
    match stored {
        DType::Bf16 => bf16::from_f32(value).to_bits(),
        DType::F16 => f16::from_f32(value).to_bits(),
        // The scale is zero only where all numbers are, and NaN becomes zero.
        _ => (value / scale).round_ties_even().clamp(-MOST, MOST) as i8 as u8 as u16,
    }
}

/// The number that these bits stand for.
fn widened(stored: DType, code: u16, scale: f32) -> f32 {
    match stored {
        DType::Bf16 => bf16::from_bits(code).to_f32(),
        DType::F16 => f16::from_bits(code).to_f32(),
        _ => f32::from(code as u8 as i8) * scale,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix of 5 places and 19 columns.
    fn panels(value: impl Fn(usize) -> f32) -> Panels {
        let values: Vec<f32> = (0..5 * 19).map(value).collect();
        Panels {
            tensor: Tensor::from_slice(vec![5, 19], &values),
            stored: DType::F32,
            base: 0,
            batch: vec![],
            depth: vec![(19, 5)],
            columns: (1, 19),
            filters: None,
        }
    }

    #[test]
    fn a_row_holds_several_places() {
        for (stored, places) in [(DType::Bf16, 2), (DType::F16, 2), (DType::I8, 4)] {
            let mut panels = panels(|i| i as f32 - 47.0);
            // Columns of bytes have different scales, so that most do not hold these numbers.
            assert_eq!(panels.narrow(stored), stored != DType::I8);
            panels.stored = stored;
            let depth = 5usize.next_multiple_of(places);
            assert_eq!(panels.checked_len(), Some(2 * 16 * depth as i64));
            let bytes = stored.bits() / 8;
            assert_eq!(panels.size(), 2 * 16 * depth * bytes);
            let mut out = vec![0; panels.size()];
            panels.pack(&mut out, &mut |_| {});
            let scales = panels.scales_of_columns();
            for (k, c) in [(0, 0), (1, 0), (4, 3), (3, 18)] {
                let at = (c / 16 * depth + k / places * places) * 16 + c % 16 * places + k % places;
                let mut code = [0; 2];
                code[..bytes].copy_from_slice(&out[at * bytes..][..bytes]);
                let found = widened(stored, u16::from_le_bytes(code), scales[c]);
                let wanted = (k * 19 + c) as f32 - 47.0;
                let step = if stored == DType::I8 { scales[c] } else { 0.0 };
                assert!(
                    (found - wanted).abs() <= 0.5 * step,
                    "{stored} {k} {c} {found}"
                );
            }
        }
    }

    #[test]
    fn only_numbers_of_the_type_are_narrow() {
        for (value, stored) in [
            (1.0 + 1.0 / 256.0, DType::Bf16),
            (70000.0, DType::F16),
            (f32::NAN, DType::Bf16),
            (f32::INFINITY, DType::F16),
            (f32::INFINITY, DType::I8),
            (0.7, DType::I8),
        ] {
            let mut panels = panels(|i| if i == 20 { value } else { 1.0 });
            assert!(!panels.narrow(stored), "{value} {stored}");
            assert_eq!(panels.stored, DType::F32);
        }
        let mut multiples = panels(|i| (i / 19 * 127 / 4) as f32 * 0.25);
        assert!(multiples.narrow(DType::I8));
        assert_eq!(
            multiples
                .scales()
                .and_then(|s| s.to_vec::<f32>())
                .map(|s| (s.len(), s[0], s[31])),
            Some((32, 0.25, 0.0))
        );
    }
}
