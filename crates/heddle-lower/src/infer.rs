//! Infers dynamic sizes of results from the operands' sizes and elements.

use heddle_ir::infer::shape::slice_most;
use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Op};

use super::{Lowerer, Result};
use crate::value::Val;
use heddle_uprogram::expr::{Expr, ExprId};

impl Lowerer<'_> {
    /// The size of each axis of an op's result; `None` for ops whose lowering computes it.
    pub(super) fn infer_shape(&mut self, op: &Op, args: &[Val]) -> Result<Option<Vec<ExprId>>> {
        let x = args.first().map_or(vec![], |x| x.shape().to_vec());
        let one = self.program.pool.int(1);
        Ok(Some(match op {
            Op::Unary(_) | Op::Cast { .. } | Op::Bitcast { .. } => x,
            Op::Cumulative { .. } | Op::ScatterElements { .. } => x,
            Op::ScatterNd { .. } | Op::UpdateSlice => x,
            Op::Binary(_) | Op::Compare(_) | Op::Select => {
                let mut shape = x;
                for arg in &args[1..] {
                    shape = self.broadcast(&shape, arg.shape());
                }
                shape
            }
            Op::Broadcast => {
                let to = self.element_list(&args[1])?;
                self.broadcast(&x, &to)
            }
            Op::Shape => vec![self.program.pool.int(x.len() as i64)],
            Op::Reshape => {
                let to = self.element_list(&args[1])?;
                let shape = self.reshaped(&x, &to);
                self.what_is_left(&x, shape)
            }
            Op::Transpose { perm } => perm.iter().map(|&p| x[p]).collect(),
            Op::Unsqueeze { axes } => {
                let mut shape = x;
                axes.iter().for_each(|&a| shape.insert(a, one));
                shape
            }
            Op::Squeeze { axes } => without(&x, axes),
            Op::Slice { axes } => {
                let [starts, ends, steps] = [1, 2, 3].map(|i| self.element_list(&args[i]));
                let (starts, ends, steps) = (starts?, ends?, steps?);
                let mut shape = x;
                for (k, &axis) in axes.iter().enumerate() {
                    let size = shape[axis];
                    let limits = self.slice_limits(size, steps[k]);
                    let start = self.slice_clamped(size, starts[k], limits);
                    let end = self.slice_clamped(size, ends[k], limits);
                    let count = self.count(start, end, steps[k]);
                    let places = [starts[k], ends[k], steps[k]];
                    shape[axis] = self.slice_bounded(count, size, places);
                }
                shape
            }
            Op::Concat { axis } => {
                let mut shape = x;
                for arg in &args[1..] {
                    shape[*axis] = self.program.pool.sum(shape[*axis], arg.shape()[*axis]);
                }
                shape
            }
            Op::Pad { .. } => {
                let pads = self.element_list(&args[1])?;
                let (before, after) = pads.split_at(pads.len() / 2);
                let sizes = x.iter().zip(before).zip(after);
                let pool = &mut self.program.pool;
                let padded = sizes.map(|((&size, &a), &b)| {
                    let size = pool.sum(size, a);
                    pool.sum(size, b)
                });
                padded.collect()
            }
            Op::Gather { axis } => [&x[..*axis], args[1].shape(), &x[axis + 1..]].concat(),
            Op::GatherElements { .. } => args[1].shape().to_vec(),
            Op::GatherNd { batch_dims } => {
                let Some((&depth, tuples)) = args[1].shape().split_last() else {
                    return Ok(None);
                };
                let depth = self.program.pool.as_int(depth).unwrap_or(0) as usize;
                let slice = x.get(batch_dims + depth..).unwrap_or(&[]);
                [tuples, slice].concat()
            }
            Op::Range => vec![self.range_count(args)?],
            Op::Reduce { axes, keep, .. } => match keep {
                true => ones(&x, axes, one),
                false => without(&x, axes),
            },
            Op::ArgReduce { axis, keep, .. } => match keep {
                true => ones(&x, &[*axis], one),
                false => without(&x, &[*axis]),
            },
            Op::SegmentReduce { .. } => {
                let mut shape = x;
                shape[0] = self.program.pool.difference(args[1].shape()[0], one);
                shape
            }
            Op::Dot => {
                let y = args[1].shape();
                let (m, n) = (x.len() - 2, y.len() - 2);
                let outer = self.broadcast(&x[..m], &y[..n]);
                [outer.as_slice(), &[x[m], y[n + 1]]].concat()
            }
            Op::Conv {
                strides,
                dilations,
                input_dilations,
                ..
            } => {
                let spread = self.spread(&args[0], input_dilations)?;
                let (x, w) = (spread.shape().to_vec(), args[1].shape());
                let pads = self.element_list(&args[2])?;
                let windows = self.windows(&x[2..], &w[2..], &pads, strides, dilations);
                [&[x[0], w[0]], windows.as_slice()].concat()
            }
            Op::Window {
                window,
                strides,
                dilations,
                ..
            } => {
                let pads = self.element_list(&args[1])?;
                let (outer, inner) = x.split_at(x.len() - window.len());
                let sizes = window.iter().map(|&w| self.program.pool.int(w as i64));
                let sizes: Vec<_> = sizes.collect();
                let windows = self.windows(inner, &sizes, &pads, strides, dilations);
                [outer, &windows].concat()
            }
            _ => return Ok(None),
        }))
    }

    /// NumPy's rule. Mismatches are checked separately.
    fn broadcast(&mut self, a: &[ExprId], b: &[ExprId]) -> Vec<ExprId> {
        let pool = &mut self.program.pool;
        let one = pool.int(1);
        let rank = a.len().max(b.len());
        let at = |x: &[ExprId], k: usize| match (k + x.len()).checked_sub(rank) {
            Some(k) => x[k],
            None => one,
        };
        let pairs = (0..rank).map(|k| match (at(a, k), at(b, k)) {
            (a, b) if a == b || b == one => a,
            (a, b) if a == one => b,
            (a, b) => match (pool.as_int(a), pool.as_int(b)) {
                (Some(_), _) => a,
                (_, Some(_)) => b,
                _ => {
                    let single = pool.compare(CompareOp::Eq, DType::I64, a, one);
                    pool.select(DType::I64, single, b, a)
                }
            },
        });
        pairs.collect()
    }

    /// One size may be -1, inferred from the others.
    fn reshaped(&mut self, from: &[ExprId], to: &[ExprId]) -> Vec<ExprId> {
        let pool = &mut self.program.pool;
        let (zero, one, minus) = (pool.int(0), pool.int(1), pool.int(-1));
        let holes = to.iter().map(|&size| {
            // A size of an array is not -1.
            let size = if self.is_size(size) { zero } else { size };
            let pool = &mut self.program.pool;
            pool.compare(CompareOp::Eq, DType::I64, size, minus)
        });
        let holes: Vec<_> = holes.collect();
        let pool = &mut self.program.pool;
        if holes.iter().all(|&h| matches!(pool[h], Expr::Num(_, 0))) {
            return to.to_vec();
        }
        let total = pool.product_of(from);
        let others = to.iter().zip(&holes);
        let others = others.map(|(&size, &hole)| pool.select(DType::I64, hole, one, size));
        let others: Vec<_> = others.collect();
        let others = pool.product_of(&others);
        let left = pool.binary(BinaryOp::Div, DType::I64, total, others);
        let sizes = to.iter().zip(holes);
        let sizes = sizes.map(|(&size, hole)| pool.select(DType::I64, hole, left, size));
        sizes.collect()
    }

    /// The shape of a reshape with one computed size next to positive constants: that size must be
    /// the number of elements divided by the others, which is checked and has a bound. A variable with
    /// a bound stays, so that what goes there and back has its first size.
    fn what_is_left(&mut self, from: &[ExprId], mut to: Vec<ExprId>) -> Vec<ExprId> {
        let pool = &mut self.program.pool;
        let is_open = |k: &usize| pool.as_int(to[*k]).is_none();
        let open: Vec<usize> = (0..to.len()).filter(is_open).collect();
        let known = |sizes: &[ExprId]| {
            let mut known = sizes.iter().filter_map(|&size| pool.as_int(size));
            known.try_fold(1i64, |product, n| product.checked_mul(n))
        };
        let (&[k], Some(others), Some(constant)) = (&open[..], known(&to), known(from)) else {
            return to;
        };
        if others < 1 || self.is_of_launch(to[k]) {
            return to;
        }
        let is_variable = matches!(self.program.pool[to[k]], Expr::Local(_));
        if is_variable && self.upper_bound(to[k]).is_some() {
            return to;
        }
        let pool = &mut self.program.pool;
        let left = if constant == others {
            let computed = from.iter().copied();
            let computed = computed.filter(|&size| pool.as_int(size).is_none());
            let computed: Vec<_> = computed.collect();
            pool.product_of(&computed)
        } else {
            let (total, others) = (pool.product_of(from), pool.int(others));
            pool.binary(BinaryOp::Div, DType::I64, total, others)
        };
        self.check_equal(to[k], left);
        to[k] = left;
        to
    }

    /// Number of steps from a start to an end.
    fn count(&mut self, start: ExprId, end: ExprId, step: ExprId) -> ExprId {
        let pool = &mut self.program.pool;
        let (zero, one) = (pool.int(0), pool.int(1));
        let way = pool.difference(end, start);
        if step == one {
            return pool.binary(BinaryOp::Max, DType::I64, way, zero);
        }
        let up = pool.compare(CompareOp::Gt, DType::I64, step, zero);
        let back = pool.difference(zero, way);
        let way = pool.select(DType::I64, up, way, back);
        let minus = pool.difference(zero, step);
        let step = pool.select(DType::I64, up, step, minus);
        let before = pool.difference(way, one);
        let steps = pool.binary(BinaryOp::Div, DType::I64, before, step);
        let steps = pool.sum(steps, one);
        let some = pool.compare(CompareOp::Gt, DType::I64, way, zero);
        pool.select(DType::I64, some, steps, zero)
    }

    /// The size of a slice, with an explicit bound if needed: the last row of a growing array is at
    /// most one row, and no slice exceeds the axis.
    fn slice_bounded(&mut self, count: ExprId, size: ExprId, places: [ExprId; 3]) -> ExprId {
        if self.is_of_launch(count) {
            return count;
        }
        let pool = &mut self.program.pool;
        let most = match places.map(|e| pool.as_int(e)) {
            [Some(start), Some(end), Some(step)] => slice_most(start, end, step),
            _ => None,
        };
        let most = most.map(|most| pool.int(most));
        match most.or_else(|| self.upper_bound(count).is_none().then_some(size)) {
            Some(most) => {
                let pool = &mut self.program.pool;
                pool.binary(BinaryOp::Min, DType::I64, count, most)
            }
            None => count,
        }
    }

    fn range_count(&mut self, args: &[Val]) -> Result<ExprId> {
        let dtype = args[0].dtype();
        let parts = [0, 1, 2].map(|i| self.scalar(&args[i]));
        let [start, limit, step] = parts;
        let (start, limit, step) = (start?, limit?, step?);
        let pool = &mut self.program.pool;
        let none = pool.add(Expr::Num(dtype, 0));
        let moves = pool.compare(CompareOp::Ne, dtype, step, none);
        let zero = pool.int(0);
        self.check(moves, zero, zero);
        let pool = &mut self.program.pool;
        if !dtype.is_float() {
            let [start, limit, step] =
                [start, limit, step].map(|e| pool.cast(dtype, DType::I64, e));
            return Ok(self.count(start, limit, step));
        }
        let [start, limit, step] = [start, limit, step].map(|e| pool.cast(dtype, DType::F64, e));
        let way = pool.binary(BinaryOp::Sub, DType::F64, limit, start);
        let steps = pool.binary(BinaryOp::Div, DType::F64, way, step);
        let steps = pool.add(Expr::Unary(UnaryOp::Ceil, DType::F64, steps));
        let steps = pool.cast(DType::F64, DType::I64, steps);
        Ok(pool.binary(BinaryOp::Max, DType::I64, steps, zero))
    }

    /// The number of windows along each spatial axis.
    fn windows(
        &mut self,
        sizes: &[ExprId],
        window: &[ExprId],
        pads: &[ExprId],
        strides: &[usize],
        dilations: &[usize],
    ) -> Vec<ExprId> {
        let n = sizes.len();
        let pool = &mut self.program.pool;
        let (zero, one) = (pool.int(0), pool.int(1));
        let counts = (0..n).map(|i| {
            let (stride, dilation) = (pool.int(strides[i] as i64), pool.int(dilations[i] as i64));
            let last = pool.difference(window[i], one);
            let span = pool.product(last, dilation);
            let room = pool.sum(sizes[i], pads[i]);
            let room = pool.sum(room, pads[n + i]);
            let room = pool.difference(room, span);
            let room = pool.difference(room, one);
            let steps = pool.binary(BinaryOp::Div, DType::I64, room, stride);
            let steps = pool.sum(steps, one);
            let some = pool.compare(CompareOp::Ge, DType::I64, room, zero);
            pool.select(DType::I64, some, steps, zero)
        });
        counts.collect()
    }
}

fn without(shape: &[ExprId], axes: &[usize]) -> Vec<ExprId> {
    let kept = shape.iter().enumerate().filter(|(k, _)| !axes.contains(k));
    kept.map(|(_, &size)| size).collect()
}

fn ones(shape: &[ExprId], axes: &[usize], one: ExprId) -> Vec<ExprId> {
    let sizes = shape.iter().enumerate();
    let sizes = sizes.map(|(k, &size)| if axes.contains(&k) { one } else { size });
    sizes.collect()
}
