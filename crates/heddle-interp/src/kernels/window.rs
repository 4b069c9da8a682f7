//! Windows that slide over spatial axes: convolution and pooling.

use std::ops::Range;

use heddle_ir::op::ReduceOp;

use super::contract::product;
use super::number::Num;
use super::reduce::{Fold, by_kind};
use super::rows::strides;
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Elem, with_num};

/// Where windows lie over spatial axes.
struct Geometry {
    /// How many windows there are along each axis.
    out: Vec<usize>,
    /// Their size along each axis.
    window: Vec<usize>,
    /// For each axis, window and element of the window: what the element's index adds to its place, or
    /// [`OUTSIDE`] where there is padding or a gap.
    places: Vec<Vec<isize>>,
}

const OUTSIDE: isize = -1;

/// Spacing along one axis.
struct Spacing {
    stride: usize,
    dilation: usize,
    input_dilation: usize,
}

impl Geometry {
    fn new(
        cx: &Context,
        input: &[usize],
        window: &[usize],
        pads: &[i64],
        spacing: impl Fn(usize) -> Spacing,
    ) -> Result<Self, Fault> {
        let rank = input.len();
        if window.len() != rank || pads.len() != 2 * rank {
            return Err(Fault::Shape(format!(
                "a window {window:?} with {} pads does not fit spatial axes {input:?}",
                pads.len()
            )));
        }
        let steps = strides(input);
        let (mut out, mut places) = (vec![], vec![]);
        for axis in 0..rank {
            let s = spacing(axis);
            let [stride, dilation, gap] =
                [s.stride, s.dilation, s.input_dilation].map(|v| v as i128);
            let size = input[axis] as i128;
            let spread = if size == 0 { 0 } else { (size - 1) * gap + 1 };
            let (before, after) = (i128::from(pads[axis]), i128::from(pads[rank + axis]));
            let room = spread + before + after - (window[axis] as i128 - 1) * dilation - 1;
            let n = if room < 0 { 0 } else { room / stride + 1 };
            let n = usize::try_from(n).map_err(|_| Fault::TooLarge {
                shape: input.to_vec(),
            })?;
            let mut along = cx.vec(count(&[n, window[axis]])?)?;
            cx.tick(n.saturating_mul(window[axis]))?;
            for i in 0..n as i128 {
                for k in 0..window[axis] as i128 {
                    let at = i * stride + k * dilation - before;
                    let inside = at >= 0 && at < spread && at % gap == 0;
                    along.push(match inside {
                        true => (at / gap) as isize * steps[axis],
                        false => OUTSIDE,
                    });
                }
            }
            out.push(n);
            places.push(along);
        }
        Ok(Self {
            out,
            window: window.to_vec(),
            places,
        })
    }

    /// The places of one element of the window in these windows, both counted in row-major order.
    fn places(&self, element: usize, windows: Range<usize>, places: &mut [isize]) {
        places.fill(0);
        let (mut windows_below, mut elements_below) = (1, 1);
        for axis in (0..self.out.len()).rev() {
            let (n, k) = (self.out[axis], self.window[axis]);
            let e = element / elements_below % k;
            for (place, w) in places.iter_mut().zip(windows.clone()) {
                let along = self.places[axis][w / windows_below % n * k + e];
                *place = match (*place, along) {
                    (OUTSIDE, _) | (_, OUTSIDE) => OUTSIDE,
                    (sum, along) => sum + along,
                };
            }
            windows_below *= n;
            elements_below *= k;
        }
    }
}

/// Cross-correlation of `x[n, c, s…]` with `w[o, c/groups, k…]` over zero-padded input: a matrix product per
/// group whose second matrix is read from the input as it is needed.
pub fn conv(
    cx: &Context,
    x: &Array,
    w: &Array,
    pads: &[i64],
    [stride, dilation, input_dilation]: [&[usize]; 3],
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
    if !fits || input.len() != stride.len() {
        return Err(misfit());
    }
    let geometry = Geometry::new(cx, input, window, pads, |axis| Spacing {
        stride: stride[axis],
        dilation: dilation[axis],
        input_dilation: input_dilation[axis],
    })?;
    let shape = [&[*batch, *outputs], &geometry.out[..]].concat();
    let total = count(&shape)?;
    let [windows, elements, plane] = [count(&geometry.out)?, count(window)?, count(input)?];
    let (rows, terms) = (outputs / groups, count(&[*depth, elements])?);
    if total == 0 {
        return super::movement::empty(cx, x.dtype, shape);
    }
    with_num!(x.data, data => {
        let weights = alike(data, w.data()?);
        let mut out = alike_vec(data, cx.filled(total, Num::ZERO)?);
        if terms == 0 {
            return cx.array(x.dtype, shape, out);
        }
        for (i, out) in out.chunks_exact_mut(rows * windows).enumerate() {
            // Blocks of the result go through the groups of each batch element.
            let input = &data[i * depth * plane..][..depth * plane];
            let weights = &weights[i % groups * rows * terms..][..rows * terms];
            let pack = |terms: Range<usize>, first: usize, width: usize, panel: &mut [_]| {
                fill(&geometry, input, plane, terms, first..first + width, panel);
            };
            product(cx, weights, [rows, windows, terms], pack, out)?;
        }
        cx.array(x.dtype, shape, out)
    }, else Err(Fault::dtype("conv", x.dtype)))
}

fn alike<'a, T>(_: &[T], other: &'a [T]) -> &'a [T] {
    other
}

fn alike_vec<T>(_: &[T], other: Vec<T>) -> Vec<T> {
    other
}

/// Writes the input under `terms` (channel and element of the window) of `windows` to the lines of `panel`.
fn fill<T: Num>(
    geometry: &Geometry,
    input: &[T],
    plane: usize,
    terms: Range<usize>,
    windows: Range<usize>,
    panel: &mut [T],
) {
    let elements: usize = geometry.window.iter().product();
    let stride = panel.len() / terms.len();
    let width = windows.len();
    let mut buffer = [0isize; 16];
    let places = &mut buffer[..width];
    // The same element of the window lies at the same places in each channel.
    for first in terms.clone().take(elements) {
        geometry.places(first % elements, windows.clone(), places);
        let dense = places[0] != OUTSIDE && places.windows(2).all(|p| p[1] == p[0] + 1);
        for term in (first..terms.end).step_by(elements) {
            let channel = &input[term / elements * plane..][..plane];
            let line = &mut panel[(term - terms.start) * stride..][..width];
            if dense {
                line.copy_from_slice(&channel[places[0] as usize..][..width]);
                continue;
            }
            for (value, &place) in line.iter_mut().zip(&*places) {
                *value = if place == OUTSIDE {
                    T::ZERO
                } else {
                    channel[place as usize]
                };
            }
        }
    }
}

/// Reduces windows over the last axes; padding does not take part.
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
    let geometry = Geometry::new(cx, input, window, pads, |axis| Spacing {
        stride: stride[axis],
        dilation: dilation[axis],
        input_dilation: 1,
    })?;
    let shape = [outer, &geometry.out].concat();
    if count(&shape)? == 0 {
        return super::movement::empty(cx, x.dtype, shape);
    }
    let pool = Pool {
        windows: count(&geometry.out)?,
        elements: count(window)?,
        planes: count(outer)?,
        plane: count(input)?,
        geometry,
    };
    by_kind(cx, x, kind, shape, pool)
}

struct Pool {
    geometry: Geometry,
    windows: usize,
    elements: usize,
    planes: usize,
    plane: usize,
}

impl Fold for Pool {
    fn run<T: Elem + Copy>(
        &self,
        cx: &Context,
        data: &[T],
        neutral: T,
        f: impl Fn(T, T) -> T + Copy,
    ) -> Result<Vec<T>, Fault> {
        let mut out = cx.filled(count(&[self.planes, self.windows])?, neutral)?;
        let mut places = cx.filled(self.windows, 0)?;
        for element in 0..self.elements {
            self.geometry.places(element, 0..self.windows, &mut places);
            for (i, out) in out.chunks_exact_mut(self.windows).enumerate() {
                cx.tick(self.windows)?;
                let plane = &data[i * self.plane..][..self.plane];
                for (value, &place) in out.iter_mut().zip(&places) {
                    if place != OUTSIDE {
                        *value = f(*value, plane[place as usize]);
                    }
                }
            }
        }
        Ok(out)
    }
}
