//! Reductions and running sums.

use heddle_ir::op::ReduceOp;

use super::movement::{no_axis, transpose};
use super::number::Num;
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Buf, Elem, with_num};

/// Independent accumulators of a row: as many as the widest vectors have lanes.
const LANES: usize = 16;

/// Reduces over axes.
pub fn reduce(
    cx: &Context,
    x: &Array,
    kind: ReduceOp,
    axes: &[usize],
    keep: bool,
) -> Result<Array, Fault> {
    let rank = x.shape.len();
    if let Some(&axis) = axes.iter().find(|&&a| a >= rank) {
        return Err(no_axis(axis, &x.shape));
    }
    if axes.is_empty() {
        return Ok(x.clone());
    }
    let mut shape = vec![];
    for (i, &d) in x.shape.iter().enumerate() {
        match axes.contains(&i) {
            true if keep => shape.push(1),
            true => {}
            false => shape.push(d),
        }
    }
    // Axes that are not next to each other are brought to the end first.
    let (first, last) = (axes[0], axes[axes.len() - 1]);
    let moved;
    let (x, first, last) = if last - first + 1 == axes.len() {
        (x, first, last)
    } else {
        let kept = (0..rank).filter(|i| !axes.contains(i));
        let perm: Vec<_> = kept.chain(axes.iter().copied()).collect();
        moved = transpose(cx, x, &perm)?;
        (&moved, rank - axes.len(), rank - 1)
    };
    let [outer, n, inner] = [
        &x.shape[..first],
        &x.shape[first..=last],
        &x.shape[last + 1..],
    ];
    if count(&shape)? == 0 {
        return super::movement::empty(cx, x.dtype, shape);
    }
    let dims = [count(outer)?, count(n)?, count(inner)?];
    by_kind(cx, x, kind, shape, Reduce(dims))
}

/// What to do with a neutral element and a way to combine, whatever the type.
pub trait Fold {
    /// Folds the elements.
    fn run<T: Elem + Copy>(
        &self,
        cx: &Context,
        data: &[T],
        neutral: T,
        f: impl Fn(T, T) -> T + Copy,
    ) -> Result<Vec<T>, Fault>;
}

/// Folds with what a kind of reduction combines by on the array's type.
pub fn by_kind(
    cx: &Context,
    x: &Array,
    kind: ReduceOp,
    shape: Vec<usize>,
    fold: impl Fold,
) -> Result<Array, Fault> {
    fn numbers<T: Num>(
        cx: &Context,
        data: &[T],
        kind: ReduceOp,
        fold: impl Fold,
    ) -> Result<Vec<T>, Fault> {
        match kind {
            ReduceOp::Sum => fold.run(cx, data, T::ZERO, T::add),
            ReduceOp::Prod => fold.run(cx, data, T::ONE, T::mul),
            ReduceOp::Max => fold.run(cx, data, T::LOWEST, T::larger),
            ReduceOp::Min => fold.run(cx, data, T::HIGHEST, T::smaller),
        }
    }
    let unsupported = Fault::dtype(kind.name(), x.dtype);
    match (&x.data, kind) {
        (Buf::Bool(s), ReduceOp::Max) => {
            let out = fold.run(cx, &s.data, false, |a, b| a | b)?;
            cx.array(x.dtype, shape, out)
        }
        (Buf::Bool(s), ReduceOp::Min) => {
            let out = fold.run(cx, &s.data, true, |a, b| a & b)?;
            cx.array(x.dtype, shape, out)
        }
        _ => with_num!(x.data, data => {
            let out = numbers(cx, data, kind, fold)?;
            cx.array(x.dtype, shape, out)
        }, else Err(unsupported)),
    }
}

/// `[outer, n, inner]` reduced over `n`.
struct Reduce([usize; 3]);

impl Fold for Reduce {
    fn run<T: Elem + Copy>(
        &self,
        cx: &Context,
        data: &[T],
        neutral: T,
        f: impl Fn(T, T) -> T + Copy,
    ) -> Result<Vec<T>, Fault> {
        let [outer, n, inner] = self.0;
        let mut out = cx.filled(outer * inner, neutral)?;
        for o in 0..outer {
            let block = &data[o * n * inner..][..n * inner];
            if inner == 1 {
                cx.tick(n)?;
                out[o] = row(block, neutral, f);
                continue;
            }
            let sums = &mut out[o * inner..][..inner];
            for line in block.chunks_exact(inner) {
                cx.tick(inner)?;
                sums.iter_mut().zip(line).for_each(|(s, &v)| *s = f(*s, v));
            }
        }
        Ok(out)
    }
}

/// Combines a row: element `i` goes to accumulator `i % LANES`, these are combined in pairs, then the rest
/// in order.
fn row<T: Copy>(data: &[T], neutral: T, f: impl Fn(T, T) -> T) -> T {
    let chunks = data.chunks_exact(LANES);
    let rest = chunks.remainder();
    let mut total = neutral;
    if data.len() >= LANES {
        let mut lanes = [neutral; LANES];
        for chunk in chunks {
            for (lane, &v) in lanes.iter_mut().zip(chunk) {
                *lane = f(*lane, v);
            }
        }
        let mut width = LANES;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                lanes[i] = f(lanes[i], lanes[i + width]);
            }
        }
        total = lanes[0];
    }
    rest.iter().fold(total, |t, &v| f(t, v))
}

/// Running sums (or products, …) along an axis.
pub fn cumulative(
    cx: &Context,
    x: &Array,
    kind: ReduceOp,
    axis: usize,
    exclusive: bool,
    reverse: bool,
) -> Result<Array, Fault> {
    let n = *x.shape.get(axis).ok_or_else(|| no_axis(axis, &x.shape))?;
    if x.shape.contains(&0) {
        return Ok(x.clone());
    }
    let fold = Running {
        dims: [count(&x.shape[..axis])?, n, count(&x.shape[axis + 1..])?],
        exclusive,
        reverse,
    };
    by_kind(cx, x, kind, x.shape.clone(), fold)
}

struct Running {
    dims: [usize; 3],
    exclusive: bool,
    reverse: bool,
}

impl Fold for Running {
    fn run<T: Elem + Copy>(
        &self,
        cx: &Context,
        data: &[T],
        neutral: T,
        f: impl Fn(T, T) -> T + Copy,
    ) -> Result<Vec<T>, Fault> {
        let [outer, n, inner] = self.dims;
        let mut out = cx.filled(data.len(), neutral)?;
        for o in 0..outer {
            let mut sums = cx.filled(inner, neutral)?;
            for k in 0..n {
                cx.tick(inner)?;
                let k = if self.reverse { n - 1 - k } else { k };
                let line = (o * n + k) * inner..(o * n + k + 1) * inner;
                let places = sums.iter_mut().zip(&mut out[line.clone()]);
                for ((sum, place), &v) in places.zip(&data[line]) {
                    let next = f(*sum, v);
                    *place = if self.exclusive { *sum } else { next };
                    *sum = next;
                }
            }
        }
        Ok(out)
    }
}
