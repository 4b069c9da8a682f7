//! Reading images at computed places.

use heddle_ir::op::{BinaryOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::cx::{NodeCx, Result};
use super::sizes::Int;
use crate::refusal::Refusal;

/// Pixels that one sample may be computed from.
const MAX_TERMS: usize = 256;

/// Images `x[n, c, s…]` as a list of pixels, each with its `c` channels, and one more that is zero.
pub(super) struct Image {
    /// `[n * s… + 1, c]`.
    pixels: Value,
    /// The number of images.
    pub count: Int,
    /// Spatial sizes.
    pub sizes: Vec<Int>,
    /// The index of the zero.
    zero: Value,
}

/// The elements around a place along one axis.
pub(super) struct Tap {
    /// Their index.
    pub index: Value,
    /// Mask of the indices inside the image; all are if missing.
    pub inside: Option<Value>,
    /// The element's weight.
    pub weight: Value,
}

impl Image {
    /// Prepares the images of `x`.
    pub fn new(cx: &mut NodeCx, x: Value) -> Result<Self> {
        let all = cx.sizes(x)?;
        let rank = all.len();
        let perm: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
        let pixels = cx.transpose(x, &perm)?;
        let image = cx.int_product(&all[2..])?;
        let total = cx.int_mul(all[0], image)?;
        let pixels = cx.reshape_ints(pixels, &[total, all[1]])?;
        let dtype = cx.dtype(x)?;
        cx.scalar_like(x, 0.0)?;
        let row = cx.ints_value(&[Int::Const(1), all[1]])?;
        let row = cx.full(dtype, row, 0.0)?;
        Ok(Self {
            pixels: cx.concat(&[pixels, row], 0)?,
            count: all[0],
            sizes: all[2..].to_vec(),
            zero: cx.int_value(total),
        })
    }

    /// The numbers of images, `i64[n, 1…]` with `axes` axes after the first.
    pub fn numbers(&self, cx: &mut NodeCx, axes: usize) -> Result<Value> {
        let numbers = cx.iota(self.count)?;
        cx.unsqueeze(numbers, &(1..=axes).collect::<Vec<_>>())
    }

    /// The pixels at places that are given by an image's number and an index along each axis,
    /// broadcast together; zero where one of the conditions is false. The channels are the last
    /// axis of the result.
    pub fn at(
        &self,
        cx: &mut NodeCx,
        image: Value,
        indices: &[Value],
        inside: &[Value],
    ) -> Result<Value> {
        let mut linear = image;
        for (&index, &size) in indices.iter().zip(&self.sizes) {
            let size = cx.int_value(size);
            let scaled = cx.mul(linear, size)?;
            linear = cx.add(scaled, index)?;
        }
        for &condition in inside {
            linear = cx.select(condition, linear, self.zero)?;
        }
        cx.gather(self.pixels, linear, 0)
    }

    /// The weighted sum over all combinations of taps, one list of taps per axis.
    pub fn weighted(&self, cx: &mut NodeCx, image: Value, taps: &[Vec<Tap>]) -> Result<Value> {
        let dtype = cx.dtype(self.pixels)?;
        let combinations = taps.iter().try_fold(1usize, |n, t| n.checked_mul(t.len()));
        let Some(combinations) = combinations.filter(|n| *n <= MAX_TERMS) else {
            return Err(Refusal::Interpolation { axes: taps.len() }.into());
        };
        let mut total: Option<Value> = None;
        for number in 0..combinations {
            let mut rest = number;
            let mut indices = vec![];
            let mut inside = vec![];
            let mut weight: Option<Value> = None;
            for axis in taps {
                let tap = &axis[rest % axis.len()];
                rest /= axis.len();
                indices.push(tap.index);
                inside.extend(tap.inside);
                weight = Some(cx.fold(BinaryOp::Mul, weight, tap.weight)?);
            }
            let weight = weight.expect("images have an axis");
            let weight = cx.cast(weight, dtype)?;
            let last = cx.rank(weight)?;
            let weight = cx.unsqueeze(weight, &[last])?;
            let pixel = self.at(cx, image, &indices, &inside)?;
            let term = cx.mul(pixel, weight)?;
            total = Some(cx.fold(BinaryOp::Add, total, term)?);
        }
        Ok(total.expect("there are taps"))
    }

    /// The two elements around each place (floats) and their weights; elements outside are zero.
    pub fn linear_taps(&self, cx: &mut NodeCx, place: Value, axis: usize) -> Result<Vec<Tap>> {
        let base = cx.unary(UnaryOp::Floor, place)?;
        let upper = cx.sub(place, base)?;
        let one = cx.scalar_like(place, 1.0)?;
        let lower = cx.sub(one, upper)?;
        let base = cx.cast(base, DType::I64)?;
        let mut taps = vec![];
        for (offset, weight) in [(0, lower), (1, upper)] {
            let offset = cx.b.i64(offset);
            let index = cx.add(base, offset)?;
            let (index, inside) = self.bounded(cx, index, axis)?;
            taps.push(Tap {
                index,
                inside: Some(inside),
                weight,
            });
        }
        Ok(taps)
    }

    /// An index clamped into the image, and the mask of those that were inside.
    pub fn bounded(&self, cx: &mut NodeCx, index: Value, axis: usize) -> Result<(Value, Value)> {
        let inside = cx.is_index(index, self.sizes[axis])?;
        Ok((self.clamped(cx, index, axis)?, inside))
    }

    /// An index clamped into the image.
    pub fn clamped(&self, cx: &mut NodeCx, index: Value, axis: usize) -> Result<Value> {
        cx.clamp_index(index, self.sizes[axis])
    }
}
