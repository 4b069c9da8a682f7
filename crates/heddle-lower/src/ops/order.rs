//! Ops that order or search elements, as routines of the prelude on rows.

use heddle_ir::op::{BinaryOp, CompareOp, Extreme};
use heddle_ir::{DType, Op};

use super::super::{Cause, Lowerer, MASK, Result};
use crate::value::{Val, View, linear};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, Buffer, Routine, Store};

impl Lowerer<'_> {
    /// The values and indices of the first elements in order.
    pub(super) fn top_k(&mut self, axis: usize, kind: Extreme, args: &[Val]) -> Result<Vec<Val>> {
        let (x, k) = (&args[0], self.scalar(&args[1])?);
        let n = x.shape()[axis];
        let pool = &mut self.program.pool;
        let zero = pool.int(0);
        let low = pool.compare(CompareOp::Ge, DType::I64, k, zero);
        let high = pool.compare(CompareOp::Le, DType::I64, k, n);
        let fits = pool.and(low, high);
        self.check(fits, k, n);
        let rank = x.shape().len();
        let back: Vec<usize> = (0..rank)
            .map(|a| match a {
                _ if a < axis => a,
                _ if a == axis => rank - 1,
                _ => a - 1,
            })
            .collect();
        let rows = self.rows(x, axis, rank - 1)?;
        let Val::Stored {
            buffer: keys,
            dtype,
            shape,
        } = &rows
        else {
            return self.fail(Cause::Form("rows in memory are needed"));
        };
        let outer = &shape[..rank - 1];
        let ordered = [outer, &[k]].concat();
        let out = self.scratch(DType::I64, &ordered)?;
        let (axes, index) = self.space(outer, 0);
        let pool = &mut self.program.pool;
        let first = [index.as_slice(), &[zero]].concat();
        let from = linear(pool, shape, &first);
        let source = pool.add(Expr::Load(*keys, from));
        let offset = linear(pool, &ordered, &first);
        self.run(
            axes,
            Body::Call {
                routine: Routine::TopK(kind),
                dtype: *dtype,
                source,
                args: vec![n, k],
                store: Store {
                    buffer: out,
                    offset,
                },
            },
        );
        let picked = Val::Stored {
            buffer: out,
            dtype: DType::I64,
            shape: ordered,
        };
        let mut shape = x.shape().to_vec();
        shape[axis] = k;
        let indices = Val::lazy(DType::I64, shape.clone(), View::Transpose(back, picked));
        let values = View::GatherElements(axis, x.clone(), indices.clone());
        Ok(vec![Val::lazy(x.dtype(), shape, values), indices])
    }

    /// The indices of non-zero elements. Their number is dynamic, at most the number of elements.
    pub(super) fn nonzero(&mut self, x: &Val) -> Result<Val> {
        let set = match x.dtype() {
            DType::Bool => x.clone(),
            dtype => {
                let zero = self.program.pool.add(Expr::Num(dtype, 0));
                let zero = Val::Scalars {
                    dtype,
                    shape: vec![],
                    elems: vec![zero],
                };
                let compare = Op::Compare(CompareOp::Ne);
                let view = View::Map(compare, vec![x.clone(), zero]);
                Val::lazy(DType::Bool, x.shape().to_vec(), view)
            }
        };
        if let Some(few) = self.nonzero_few(&set) {
            return Ok(few);
        }
        let shape = x.shape().to_vec();
        let n = self.program.pool.product_of(&shape);
        let found = self.routine(Routine::NonZero, &set, vec![n], n)?;
        let count = self.loaded(found, n);
        let one = self.program.pool.int(1);
        let flat = self.part(found, one, count);
        // The flat index becomes an index along each axis, in one row each.
        let mut rows = vec![];
        let mut below = one;
        for &size in shape.iter().rev() {
            let (below_, size_) = (self.scalar_of(below), self.scalar_of(size));
            let row = self.map(BinaryOp::Div, &flat, &below_);
            let row = self.map(BinaryOp::Mod, &row, &size_);
            rows.insert(
                0,
                Val::lazy(DType::I64, vec![one, count], View::Axes(vec![Some(1)], row)),
            );
            below = self.program.pool.product(below, size);
        }
        let rank = self.program.pool.int(shape.len() as i64);
        if rows.is_empty() {
            let none = self.scalar_of(one);
            return Ok(Val::lazy(
                DType::I64,
                vec![rank, count],
                View::Broadcast(none),
            ));
        }
        Ok(Val::lazy(
            DType::I64,
            vec![rank, count],
            View::Concat(0, rows),
        ))
    }

    /// For a few elements known at launch, every unit searches redundantly, and the number found is
    /// a size of the launch.
    fn nonzero_few(&mut self, set: &Val) -> Option<Val> {
        let few = self
            .at_most(set, MASK as i64)
            .filter(|_| set.is_of_scalars());
        let (Some(n), [_]) = (few, set.shape()) else {
            return None;
        };
        let pool = &mut self.program.pool;
        let places: Vec<_> = (0..n).map(|k| pool.int(k)).collect();
        let set: Vec<_> = places.iter().map(|&k| set.read(pool, &[k])).collect();
        let zero = pool.int(0);
        let (mut found, mut count) = (vec![zero; n as usize], zero);
        for (&k, &is_set) in places.iter().zip(&set) {
            // The next free place.
            for (&place, slot) in places.iter().zip(&mut found) {
                let next = pool.compare(CompareOp::Eq, DType::I64, count, place);
                let takes = pool.and(is_set, next);
                *slot = pool.select(DType::I64, takes, k, *slot);
            }
            let one = pool.cast(DType::Bool, DType::I64, is_set);
            count = pool.sum(count, one);
        }
        if !self.is_of_launch(count) {
            return None;
        }
        let count = self.settle_expr(DType::I64, count);
        let (one, size) = (self.program.pool.int(1), self.program.pool.int(n));
        let found = found.into_iter().map(|e| self.settle_expr(DType::I64, e));
        let flat = Val::Scalars {
            dtype: DType::I64,
            elems: found.collect(),
            shape: vec![size],
        };
        Some(Val::lazy(
            DType::I64,
            vec![one, count],
            View::Axes(vec![Some(1)], flat),
        ))
    }

    /// The distinct elements or slices, their first occurrences, the index of each one's, and their
    /// counts.
    pub(super) fn unique(
        &mut self,
        axis: Option<usize>,
        sorted: bool,
        x: &Val,
    ) -> Result<Vec<Val>> {
        let one = self.program.pool.int(1);
        let total = self.program.pool.product_of(x.shape());
        let (items, rows) = match axis {
            None => (
                total,
                Val::lazy(x.dtype(), vec![total], View::Reshape(x.clone())),
            ),
            Some(axis) => (x.shape()[axis], self.rows(x, axis, 0)?),
        };
        let width = match axis {
            None => one,
            Some(_) => self.program.pool.product_of(&rows.shape()[1..]),
        };
        let order = self.program.pool.int(sorted as i64);
        let places = self.program.pool.int(4);
        let room = self.program.pool.product(items, places);
        let found = self.routine(Routine::Unique, &rows, vec![items, width, order], room)?;
        let count = self.loaded(found, items);
        let mut start = one;
        let mut lists = vec![];
        for len in [count, items, count] {
            lists.push(self.part(found, start, len));
            start = self.program.pool.sum(start, items);
        }
        let first = lists[0].clone();
        let at = axis.unwrap_or(0);
        let from = match axis {
            None => rows,
            Some(_) => x.clone(),
        };
        let mut shape = from.shape().to_vec();
        shape[at] = count;
        let values = Val::lazy(x.dtype(), shape, View::Gather(at, from, first));
        Ok([vec![values], lists].concat())
    }

    /// The operand in memory with this axis moved; 16-bit floats are widened, since routines take
    /// C's types.
    fn rows(&mut self, x: &Val, axis: usize, to: usize) -> Result<Val> {
        let rank = x.shape().len();
        let mut perm: Vec<_> = (0..rank).filter(|&a| a != axis).collect();
        perm.insert(to, axis);
        let shape = perm.iter().map(|&a| x.shape()[a]).collect();
        let moved = match axis == to {
            true => x.clone(),
            false => Val::lazy(x.dtype(), shape, View::Transpose(perm, x.clone())),
        };
        let dtype = match x.dtype() {
            DType::F16 | DType::Bf16 => DType::F32,
            dtype => dtype,
        };
        let moved = self.converted(&moved, dtype);
        self.stored(&moved)
    }

    /// Runs a routine on the whole operand; its result begins with a count.
    fn routine(
        &mut self,
        routine: Routine,
        x: &Val,
        args: Vec<ExprId>,
        room: ExprId,
    ) -> Result<Buffer> {
        let x = match x.dtype() {
            DType::F16 | DType::Bf16 => self.converted(x, DType::F32),
            _ => x.clone(),
        };
        let Val::Stored { buffer, dtype, .. } = self.stored(&x)? else {
            return self.fail(Cause::Form("an operand in memory is needed"));
        };
        let pool = &mut self.program.pool;
        let (zero, one) = (pool.int(0), pool.int(1));
        let len = pool.sum(room, one);
        let source = pool.add(Expr::Load(buffer, zero));
        let out = self.scratch(DType::I64, &[len])?;
        self.run(
            vec![],
            Body::Call {
                routine,
                dtype,
                source,
                args,
                store: Store {
                    buffer: out,
                    offset: zero,
                },
            },
        );
        Ok(out)
    }

    /// The count at the beginning of a routine's result, a size of at most `bound`.
    fn loaded(&mut self, from: Buffer, bound: ExprId) -> ExprId {
        let zero = self.program.pool.int(0);
        let number = self.program.pool.add(Expr::Load(from, zero));
        self.sized(number, Some(bound))
    }

    /// Part of an array of rank 1.
    fn part(&mut self, buffer: Buffer, start: ExprId, len: ExprId) -> Val {
        let one = self.program.pool.int(1);
        let whole = self.program.buffers[buffer].len;
        let all = Val::Stored {
            buffer,
            dtype: DType::I64,
            shape: vec![whole],
        };
        Val::lazy(DType::I64, vec![len], View::Slice(vec![(start, one)], all))
    }

    fn scalar_of(&mut self, expr: ExprId) -> Val {
        Val::Scalars {
            dtype: DType::I64,
            shape: vec![],
            elems: vec![expr],
        }
    }

    fn map(&mut self, op: BinaryOp, a: &Val, b: &Val) -> Val {
        let view = View::Map(Op::Binary(op), vec![a.clone(), b.clone()]);
        Val::lazy(DType::I64, a.shape().to_vec(), view)
    }
}
