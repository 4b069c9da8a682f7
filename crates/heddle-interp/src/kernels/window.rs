//! Windows that slide over spatial axes: convolution and pooling.

use heddle_ir::op::ReduceOp;

use super::contract::{add_scaled, same_type, zero};
use super::number::Num;
use super::reduce::combine;
use super::walk::{strides, walk};
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, with_num, with_scalar};

/// Products of a convolution that are added to a sum of their own.
const GROUP: usize = 16;

/// Positions of a window over spatial axes.
struct Windows {
    /// Number of windows along each axis.
    out: Vec<usize>,
    /// Size of the window along each axis.
    size: Vec<usize>,
    /// For each axis, element of the window and window (in this order), the offset of the element
    /// in the input; `None` in the padding and in gaps of a dilated input.
    along: Vec<Vec<Option<isize>>>,
}

impl Windows {
    /// Along an axis, element `k` of window `i` lies at `i * stride + k * dilation - pad` in the
    /// dilated input.
    fn new(
        cx: &Context,
        input: &[usize],
        size: &[usize],
        pads: &[i64],
        [stride, dilation, input_dilation]: [&[usize]; 3],
    ) -> Result<Self, Fault> {
        let rank = input.len();
        let lists = [
            size.len(),
            stride.len(),
            dilation.len(),
            input_dilation.len(),
        ];
        if lists != [rank; 4] || pads.len() != 2 * rank {
            return Err(Fault::Shape(format!(
                "a window {size:?} with {} pads does not fit spatial axes {input:?}",
                pads.len()
            )));
        }
        let steps = strides(input);
        let (mut out, mut along) = (vec![], vec![]);
        for axis in 0..rank {
            let [stride, dilation, gap] =
                [stride, dilation, input_dilation].map(|list| list[axis] as i128);
            let dilated = ((input[axis] as i128 - 1) * gap + 1).max(0);
            let (before, after) = (i128::from(pads[axis]), i128::from(pads[rank + axis]));
            let room = dilated + before + after - (size[axis] as i128 - 1) * dilation - 1;
            let n = if room < 0 { 0 } else { room / stride + 1 };
            let n = usize::try_from(n).map_err(|_| Fault::TooLarge {
                shape: input.to_vec(),
            })?;
            let total = count(&[n, size[axis]])?;
            cx.tick(total)?;
            let mut places = cx.vec(total)?;
            places.extend((0..total as i128).map(|t| {
                let at = t % n as i128 * stride + t / n as i128 * dilation - before;
                let inside = at >= 0 && at < dilated && at % gap == 0;
                inside.then(|| (at / gap) as isize * steps[axis])
            }));
            out.push(n);
            along.push(places);
        }
        let size = size.to_vec();
        Ok(Self { out, size, along })
    }

    /// Visits the places of one element of the window, in row-major order of the windows.
    fn places(
        &self,
        cx: &Context,
        element: usize,
        visit: impl FnMut(Option<usize>),
    ) -> Result<(), Fault> {
        let steps = strides(&self.size);
        let lines = self.along.iter().enumerate().map(|(axis, places)| {
            let k = element / steps[axis] as usize % self.size[axis];
            &places[k * self.out[axis]..]
        });
        let lines: Vec<_> = lines.collect();
        walk(cx, &self.out, 0, &|axis, i| lines[axis][i], visit)
    }
}

/// Cross-correlation of `x[n, c, s…]` with `w[o, c/groups, k…]` over zero-padded input (ONNX Conv
/// 11).
///
/// Products are added in row-major order of a filter's elements, [`GROUP`] at a time, and then the groups' sums:
/// the rounding error of one long sum grows with the number of its terms.
pub fn conv(
    cx: &Context,
    x: &Array,
    w: &Array,
    pads: &[i64],
    spacing: [&[usize]; 3],
    groups: usize,
) -> Result<Array, Fault> {
    let misfit = || {
        Fault::Shape(format!(
            "weights of shape {:?} in {groups} groups do not fit an input of shape {:?}",
            w.shape, x.shape
        ))
    };
    let ([batch, channels, input @ ..], [outputs, depth, window @ ..]) =
        (&x.shape[..], &w.shape[..])
    else {
        return Err(misfit());
    };
    let fits = depth.checked_mul(groups) == Some(*channels) && outputs.is_multiple_of(groups);
    if !fits || input.len() != spacing[0].len() {
        return Err(misfit());
    }
    let windows = Windows::new(cx, input, window, pads, spacing)?;
    let shape = [&[*batch, *outputs], &windows.out[..]].concat();
    let total = count(&shape)?;
    if total == 0 {
        return cx.empty(x.dtype, shape);
    }
    let [positions, elements, plane] = [count(&windows.out)?, count(window)?, count(input)?];
    let (filters, terms) = (outputs / groups, count(&[*depth, elements])?);
    with_num!(x.data, data => {
        let weights = same_type(data, w.data()?);
        let zero = zero(data);
        let mut out = cx.filled(total, zero)?;
        let mut line = cx.vec(positions)?;
        let mut group = cx.filled(filters * positions, zero)?;
        // One block of the result for each group of each batch element.
        for (block, out) in out.chunks_exact_mut(filters * positions).enumerate() {
            for term in 0..terms {
                let channel = &data[(block * depth + term / elements) * plane..][..plane];
                line.clear();
                windows.places(cx, term % elements, |place| {
                    line.push(place.map_or(zero, |p| channel[p]));
                })?;
                for (filter, sums) in group.chunks_exact_mut(positions).enumerate() {
                    cx.tick(positions)?;
                    let filter = block % groups * filters + filter;
                    add_scaled(sums, weights[filter * terms + term], &line);
                }
                if (term + 1) % GROUP == 0 || term + 1 == terms {
                    cx.tick(group.len())?;
                    move_into(out, &mut group);
                }
            }
        }
        cx.array(x.dtype, shape, out)
    }, else Err(Fault::dtype("conv", x.dtype)))
}

/// Adds parts to sums and leaves zeros.
fn move_into<T: Num>(sums: &mut [T], parts: &mut [T]) {
    for (sum, part) in sums.iter_mut().zip(parts) {
        *sum = sum.add(std::mem::replace(part, T::ZERO));
    }
}

/// Reduces windows over the last axes (ONNX MaxPool 12, AveragePool 19); padding does not take
/// part.
///
/// Elements are combined in row-major order of the window.
pub fn window(
    cx: &Context,
    x: &Array,
    pads: &[i64],
    kind: ReduceOp,
    [window, stride, dilation]: [&[usize]; 3],
) -> Result<Array, Fault> {
    let misfit = || Fault::Shape(format!("a window {window:?} over shape {:?}", x.shape));
    let first = x.shape.len().checked_sub(window.len()).ok_or_else(misfit)?;
    let (outer, input) = x.shape.split_at(first);
    let plain = vec![1; window.len()];
    let windows = Windows::new(cx, input, window, pads, [stride, dilation, &plain])?;
    let shape = [outer, &windows.out].concat();
    let total = count(&shape)?;
    if total == 0 {
        return cx.empty(x.dtype, shape);
    }
    let [positions, elements, plane] = [count(&windows.out)?, count(window)?, count(input)?];
    with_scalar!(x.data, data => {
        let (neutral, f) = combine(data, kind, x)?;
        let mut out = cx.filled(total, neutral)?;
        for (i, out) in out.chunks_exact_mut(positions).enumerate() {
            let plane = &data[i * plane..][..plane];
            for element in 0..elements {
                let mut results = out.iter_mut();
                windows.places(cx, element, |place| {
                    if let (Some(p), Some(result)) = (place, results.next()) {
                        *result = f(*result, plane[p]);
                    }
                })?;
            }
        }
        cx.array(x.dtype, shape, out)
    }, else Err(Fault::dtype(kind.name(), x.dtype)))
}
