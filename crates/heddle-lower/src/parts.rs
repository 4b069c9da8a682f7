//! Reductions of one point over many elements, split over all units: parts of an axis are reduced
//! separately, and every unit combines the partial results.
//!
//! The number of parts does not depend on the number of units, so neither does the result.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp, Extreme, ReduceOp, UnaryOp};

use super::{Lowerer, Result};
use crate::value::{Val, View};
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{Body, Buffer, Local, Store};

/// Limit on parts, since every unit combines all of them.
const PARTS: i64 = 16;

/// A part is a multiple of this many elements, so that it consists of whole vectors.
const PART: i64 = 64;

/// Smaller reductions take one unit no longer than combining parts.
const MANY: i64 = 1024;

/// A reduction in parts.
struct Parts {
    /// Their number.
    count: i64,
    /// The axes of the partial results.
    outer: Vec<(Local, ExprId)>,
    /// The reduced axes with their sizes in a part, and the index into the operand.
    axes: Vec<(Local, ExprId)>,
    index: Vec<ExprId>,
    /// Destination of the partial results.
    store: Store,
}

impl Lowerer<'_> {
    /// Reduces in parts if that is faster.
    pub(super) fn reduce_in_parts(
        &mut self,
        kind: ReduceOp,
        axes: &[usize],
        keep: bool,
        x: &Val,
    ) -> Result<Option<Val>> {
        let Some(axis) = self.cut(x, axes) else {
            return Ok(None);
        };
        let dtype = x.dtype();
        let parts = self.parts(x, axis, dtype)?;
        let value = x.read(&mut self.program.pool, &parts.index);
        let body = Body::Fold {
            kind,
            dtype,
            axes: parts.axes.clone(),
            value,
            store: parts.store,
            columns: false,
        };
        self.run(parts.outer.clone(), body);
        let op = match kind {
            ReduceOp::Sum => BinaryOp::Add,
            ReduceOp::Prod => BinaryOp::Mul,
            ReduceOp::Max => BinaryOp::Max,
            ReduceOp::Min => BinaryOp::Min,
        };
        let partial = (0..parts.count).map(|k| self.partial(parts.store.buffer, k));
        let mut partial: Vec<_> = partial.collect();
        // A balanced tree, which keeps dependence chains short.
        while partial.len() > 1 {
            let pool = &mut self.program.pool;
            let pairs = partial.chunks(2).map(|pair| match *pair {
                [a, b] => pool.binary(op, dtype, a, b),
                _ => pair[0],
            });
            partial = pairs.collect();
        }
        let result = self.let_expr(dtype, partial[0]);
        Ok(Some(self.single(dtype, x, axes, keep, result)))
    }

    /// Arg-reduces in parts if that is faster.
    pub(super) fn arg_reduce_in_parts(
        &mut self,
        kind: Extreme,
        axis: usize,
        keep: bool,
        last: bool,
        x: &Val,
    ) -> Result<Option<Val>> {
        if self.cut(x, &[axis]).is_none() {
            return Ok(None);
        }
        let dtype = x.dtype();
        let parts = self.parts(x, axis, DType::I64)?;
        let Some(&inner) = parts.axes.first() else {
            return Ok(None);
        };
        let value = x.read(&mut self.program.pool, &parts.index);
        let body = Body::ArgFold {
            kind,
            last,
            axis: inner,
            value,
            dtype,
            store: parts.store,
        };
        self.run(parts.outer.clone(), body);
        let mut best: Option<(ExprId, ExprId)> = None;
        for k in 0..parts.count {
            let within = self.partial(parts.store.buffer, k);
            let pool = &mut self.program.pool;
            let first = pool.int(k * part_size(x, axis, pool));
            let at = pool.sum(first, within);
            let mut index = vec![pool.int(0); x.shape().len()];
            index[axis] = at;
            let value = x.read(pool, &index);
            best = Some(match best {
                None => (value, at),
                Some((old, place)) => {
                    let take = better(pool, kind, last, dtype, value, old);
                    (
                        pool.select(dtype, take, value, old),
                        pool.select(DType::I64, take, at, place),
                    )
                }
            });
        }
        let Some((_, place)) = best else {
            return Ok(None);
        };
        let result = self.let_expr(DType::I64, place);
        Ok(Some(self.single(DType::I64, x, &[axis], keep, result)))
    }

    /// The axis to split: the largest reduced one, if there is one point and enough work.
    fn cut(&self, x: &Val, axes: &[usize]) -> Option<usize> {
        let size = |k: usize| self.program.pool.as_int(x.shape()[k]);
        let mut others = (0..x.shape().len()).filter(|k| !axes.contains(k));
        let mut product = axes.iter().map(|&k| size(k));
        let all = product.try_fold(1i64, |n, s| n.checked_mul(s?))?;
        let work = all.saturating_mul(1 + x.work() as i64);
        let largest = *axes.iter().max_by_key(|&&k| size(k))?;
        (others.all(|k| size(k) == Some(1)) && work >= MANY && size(largest) > Some(PART))
            .then_some(largest)
    }

    /// The iteration space of a reduction of all axes, with this one split.
    fn parts(&mut self, x: &Val, axis: usize, dtype: DType) -> Result<Parts> {
        let whole = x.shape()[axis];
        let size = part_size(x, axis, &self.program.pool);
        let count = self
            .program
            .pool
            .as_int(whole)
            .map_or(1, |n| n.div_euclid(size) + (n % size != 0) as i64);
        let length = self.program.pool.int(count);
        let (outer, part) = self.space(&[length], 0);
        let pool = &mut self.program.pool;
        let (step, zero) = (pool.int(size), pool.int(0));
        let part = part.first().copied().unwrap_or(zero);
        let first = pool.product(part, step);
        let left = pool.binary(BinaryOp::Sub, DType::I64, whole, first);
        let own = pool.binary(BinaryOp::Min, DType::I64, step, left);
        let mut sizes = x.shape().to_vec();
        sizes[axis] = own;
        let (axes, mut index) = self.space(&sizes, 1);
        index[axis] = self.program.pool.sum(first, index[axis]);
        let buffer = self.scratch(dtype, &[length])?;
        let store = Store {
            buffer,
            offset: part,
        };
        Ok(Parts {
            count,
            outer,
            axes,
            index,
            store,
        })
    }

    fn partial(&mut self, buffer: Buffer, k: i64) -> ExprId {
        let offset = self.program.pool.int(k);
        self.program.pool.add(Expr::Load(buffer, offset))
    }

    /// A one-element result in the reduction's shape.
    fn single(&mut self, dtype: DType, x: &Val, axes: &[usize], keep: bool, elem: ExprId) -> Val {
        let one = self.program.pool.int(1);
        let kept = match keep {
            true => x.shape().len(),
            false => x.shape().len() - axes.len(),
        };
        let scalar = |shape| Val::Scalars {
            dtype,
            shape,
            elems: vec![elem],
        };
        let shape = vec![one; kept];
        match kept {
            0 | 1 => scalar(shape),
            _ => Val::lazy(dtype, shape, View::Reshape(scalar(vec![]))),
        }
    }
}

fn part_size(x: &Val, axis: usize, pool: &Pool) -> i64 {
    let size = pool.as_int(x.shape()[axis]).unwrap_or(0);
    let vectors = size.saturating_add(PARTS * PART - 1) / (PARTS * PART);
    vectors.max(1) * PART
}

/// True if `x`, a later value, replaces `old`. NaN is the extreme.
fn better(
    pool: &mut Pool,
    kind: Extreme,
    last: bool,
    dtype: DType,
    x: ExprId,
    old: ExprId,
) -> ExprId {
    let op = match (kind, last) {
        (Extreme::Max, false) => CompareOp::Gt,
        (Extreme::Max, true) => CompareOp::Ge,
        (Extreme::Min, false) => CompareOp::Lt,
        (Extreme::Min, true) => CompareOp::Le,
    };
    let beyond = pool.compare(op, dtype, x, old);
    if !dtype.is_float() {
        return beyond;
    }
    let mut nan = pool.add(Expr::Unary(UnaryOp::IsNan, dtype, x));
    if !last {
        let old = pool.add(Expr::Unary(UnaryOp::IsNan, dtype, old));
        let number = pool.add(Expr::Unary(UnaryOp::Not, DType::Bool, old));
        nan = pool.binary(BinaryOp::And, DType::Bool, nan, number);
    }
    pool.binary(BinaryOp::Or, DType::Bool, beyond, nan)
}
