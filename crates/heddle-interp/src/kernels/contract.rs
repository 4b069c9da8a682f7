//! Matrix products.
//!
//! Every element of a result is the sum of its products in ascending order of the contracted index:
//! one multiplication and one addition each, rounded separately.

use super::number::Num;
use super::walk::{broadcast_shape, broadcast_strides, walk_strided};
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, with_num};

/// `a[.., m, k] b[.., k, n]`, leading axes broadcast (ONNX MatMul 13).
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
        return cx.empty(a.dtype, shape);
    }
    // For each matrix of the result, the operand's matrix.
    let matrices = |outer: &[usize]| -> Result<Vec<usize>, Fault> {
        let mut places = cx.vec(count(&batch)?)?;
        let steps = broadcast_strides(outer, &batch);
        walk_strided(cx, &batch, 0, &steps, |p| places.push(p))?;
        Ok(places)
    };
    let (from_a, from_b) = (matrices(outer_a)?, matrices(outer_b)?);
    with_num!(a.data, x => {
        let mut out = cx.filled(total, zero(x))?;
        let y = same_type(x, b.data()?);
        let each = from_a.iter().zip(&from_b).zip(out.chunks_exact_mut(m * n));
        for ((&i, &j), out) in each {
            let b = &y[j * k * n..][..k * n];
            for (r, row) in out.chunks_exact_mut(n).enumerate() {
                cx.tick(k.saturating_mul(n))?;
                add_products(row, &x[(i * m + r) * k..][..k], b);
            }
        }
        cx.array(a.dtype, shape, out)
    }, else Err(Fault::dtype("dot", a.dtype)))
}

/// `sum[i] += factors[p] * lines[p * sum.len() + i]`, with ascending `p`: four at a time, so that a sum is loaded once for all.
fn add_products<T: Num>(sum: &mut [T], factors: &[T], lines: &[T]) {
    let n = sum.len();
    let (fours, rest) = factors.as_chunks::<4>();
    let (first, last) = lines.split_at(fours.len() * 4 * n);
    for ([f0, f1, f2, f3], lines) in fours.iter().zip(first.chunks_exact(4 * n)) {
        let [l0, l1, l2, l3] = std::array::from_fn(|p| &lines[p * n..][..n]);
        for ((((s, &v0), &v1), &v2), &v3) in sum.iter_mut().zip(l0).zip(l1).zip(l2).zip(l3) {
            let (two, p2, p3) = (s.add(f0.mul(v0)).add(f1.mul(v1)), f2.mul(v2), f3.mul(v3));
            *s = two.add(p2).add(p3);
        }
    }
    for (&factor, line) in rest.iter().zip(last.chunks_exact(n)) {
        add_scaled(sum, factor, line);
    }
}

/// `sum[i] += factor * line[i]`.
pub fn add_scaled<T: Num>(sum: &mut [T], factor: T, line: &[T]) {
    for (s, &v) in sum.iter_mut().zip(line) {
        *s = s.add(factor.mul(v));
    }
}

/// Zero of the type of `x`.
pub fn zero<T: Num>(_: &[T]) -> T {
    T::ZERO
}

/// `other`, whose type is that of `x`.
pub fn same_type<'a, T>(_: &[T], other: &'a [T]) -> &'a [T] {
    other
}
