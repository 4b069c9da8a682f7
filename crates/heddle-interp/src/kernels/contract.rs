//! Matrix products.
//!
//! Every element of a result is the sum of its products in ascending order of the contracted index, one multiplication and
//! one addition each, rounded separately: blocking and vector width do not change a bit.

use super::number::Num;
use super::rows::{broadcast_shape, broadcast_strides};
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, with_num};

/// Rows that the inner kernel computes together.
const ROWS: usize = 4;

/// How much of the contracted axis is packed at a time.
const DEPTH: usize = 256;

/// `a[.., m, k] b[.., k, n]`.
pub fn dot(cx: &Context, a: &Array, b: &Array) -> Result<Array, Fault> {
    let misfit = || {
        let (a, b) = (&a.shape, &b.shape);
        Fault::Shape(format!("shapes {a:?} and {b:?} have no matrix product"))
    };
    let ([outer_a @ .., m, k], [outer_b @ .., k2, n]) = (&a.shape[..], &b.shape[..]) else {
        return Err(misfit());
    };
    if k != k2 {
        return Err(misfit());
    }
    let (m, n, k) = (*m, *n, *k);
    let batch = broadcast_shape(&[outer_a, outer_b])?;
    let shape = [&batch[..], &[m, n]].concat();
    let total = count(&shape)?;
    if total == 0 {
        return super::movement::empty(cx, a.dtype, shape);
    }
    // Which matrix of each operand goes with each matrix of the result.
    let places = |outer: &[usize]| -> Result<Vec<usize>, Fault> {
        let steps = broadcast_strides(outer, &batch);
        let mut places = cx.vec(count(&batch)?)?;
        super::rows::Rows::new(&batch, [&steps]).each_element([0], |[at]| {
            places.push(at as usize);
            Ok(())
        })?;
        Ok(places)
    };
    let (from_a, from_b) = (places(outer_a)?, places(outer_b)?);
    with_num!(a.data, x => {
        let y = same(x, b.data()?);
        let mut out = cx.filled(total, same(x, &[Num::ZERO])[0])?;
        let each = from_a.iter().zip(&from_b).zip(out.chunks_exact_mut(m * n));
        for ((&i, &j), out) in each {
            let x = &x[i * m * k..][..m * k];
            let y = &y[j * k * n..][..k * n];
            matmul(cx, x, y, [m, n, k], out)?;
        }
        cx.array(a.dtype, shape, out)
    }, else Err(Fault::dtype("dot", a.dtype)))
}

fn same<'a, T>(_: &[T], other: &'a [T]) -> &'a [T] {
    other
}

fn matmul<T: Num>(
    cx: &Context,
    a: &[T],
    b: &[T],
    [m, n, k]: [usize; 3],
    out: &mut [T],
) -> Result<(), Fault> {
    if m < ROWS && n > 1 {
        // Too few rows to be worth packing.
        for p in 0..k {
            cx.tick(m * n)?;
            let line = &b[p * n..][..n];
            for i in 0..m {
                add_scaled(&mut out[i * n..][..n], a[i * k + p], line);
            }
        }
        return Ok(());
    }
    let pack = |depth: std::ops::Range<usize>, column: usize, width: usize, panel: &mut [T]| {
        let stride = panel.len() / depth.len();
        for (line, p) in panel.chunks_exact_mut(stride).zip(depth) {
            line[..width].copy_from_slice(&b[p * n + column..][..width]);
        }
    };
    product(cx, a, [m, n, k], pack, out)
}

fn add_scaled<T: Num>(sum: &mut [T], factor: T, line: &[T]) {
    for (s, &v) in sum.iter_mut().zip(line) {
        *s = s.add(factor.mul(v));
    }
}

/// Adds the product of `a[m, k]` and a matrix `[k, n]` to `out[m, n]`. The second matrix is read in panels: `pack(rows, column,
/// width, panel)` writes `width` elements of each of these rows, from this column on, to the beginning of each line of `panel`.
pub fn product<T: Num>(
    cx: &Context,
    a: &[T],
    [m, n, k]: [usize; 3],
    pack: impl Fn(std::ops::Range<usize>, usize, usize, &mut [T]),
    out: &mut [T],
) -> Result<(), Fault> {
    match n {
        0 => Ok(()),
        1 => panels::<T, 8, 1>(cx, a, [m, n, k], pack, out),
        2..=4 => panels::<T, ROWS, 4>(cx, a, [m, n, k], pack, out),
        5..=8 => panels::<T, ROWS, 8>(cx, a, [m, n, k], pack, out),
        _ => panels::<T, ROWS, 16>(cx, a, [m, n, k], pack, out),
    }
}

fn panels<T: Num, const MR: usize, const NR: usize>(
    cx: &Context,
    a: &[T],
    [m, n, k]: [usize; 3],
    pack: impl Fn(std::ops::Range<usize>, usize, usize, &mut [T]),
    out: &mut [T],
) -> Result<(), Fault> {
    let mut panel = cx.filled(DEPTH.min(k) * NR, T::ZERO)?;
    for first in (0..k).step_by(DEPTH) {
        let depth = DEPTH.min(k - first);
        let panel = &mut panel[..depth * NR];
        for column in (0..n).step_by(NR) {
            let width = NR.min(n - column);
            cx.tick(m * depth)?;
            pack(first..first + depth, column, width, panel);
            for top in (0..m).step_by(MR) {
                let height = MR.min(m - top);
                let mut sums = [[T::ZERO; NR]; MR];
                for r in 0..height {
                    let line = &out[(top + r) * n + column..][..width];
                    sums[r][..width].copy_from_slice(line);
                }
                // Rows below the last one repeat it; their sums are not kept.
                let lines: [&[T]; MR] =
                    std::array::from_fn(|r| &a[(top + r.min(height - 1)) * k + first..][..depth]);
                tile(&mut sums, lines, panel);
                for r in 0..height {
                    let line = &mut out[(top + r) * n + column..][..width];
                    line.copy_from_slice(&sums[r][..width]);
                }
            }
        }
    }
    Ok(())
}

/// Adds to `sums` the product of a few rows and a panel, in order. Compiled for AVX2 too where the machine has it: wider
/// vectors hold more columns, each of which is still added up one product after the other.
fn tile<T: Num, const MR: usize, const NR: usize>(
    sums: &mut [[T; NR]; MR],
    lines: [&[T]; MR],
    panel: &[T],
) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn wide<T: Num, const MR: usize, const NR: usize>(
            sums: &mut [[T; NR]; MR],
            lines: [&[T]; MR],
            panel: &[T],
        ) {
            tile_body(sums, lines, panel);
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has the feature.
            return unsafe { wide(sums, lines, panel) };
        }
    }
    tile_body(sums, lines, panel);
}

#[inline(always)]
fn tile_body<T: Num, const MR: usize, const NR: usize>(
    sums: &mut [[T; NR]; MR],
    lines: [&[T]; MR],
    panel: &[T],
) {
    let mut acc = *sums;
    for (p, line) in panel.chunks_exact(NR).enumerate() {
        for r in 0..MR {
            let factor = lines[r][p];
            for c in 0..NR {
                acc[r][c] = acc[r][c].add(factor.mul(line[c]));
            }
        }
    }
    *sums = acc;
}
