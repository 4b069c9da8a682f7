//! The form of each op when some of its operands differ by row.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp};
use heddle_ir::{FuncBuilder, Op, Value};

use super::{Batch, Batched, Refusal, Result, rank};
use crate::gathered::gathered_parts;

impl Batch<'_> {
    /// An op on operands of which at least one differs by row.
    pub(super) fn rule(
        &mut self,
        b: &mut FuncBuilder,
        op: &Op,
        args: &[Batched],
    ) -> Result<Vec<Batched>> {
        let rows = |v: Value| Ok(vec![Batched::Rows(v)]);
        let x = args[0].value();
        match op {
            Op::Unary(_)
            | Op::Cast { .. }
            | Op::Bitcast { .. }
            | Op::Transpose { .. }
            | Op::Unsqueeze { .. }
            | Op::Squeeze { .. }
            | Op::Reduce { .. }
            | Op::ArgReduce { .. }
            | Op::Cumulative { .. } => rows(b.op1(shifted(op), &[x])?),
            Op::Binary(_) | Op::Compare(_) | Op::Select => {
                let ranks: Result<Vec<_>> = args.iter().map(|a| self.row_rank(b, *a)).collect();
                let most = ranks?.into_iter().max().unwrap_or(0);
                let args: Result<Vec<_>> = args.iter().map(|a| self.aligned(b, *a, most)).collect();
                rows(b.op1(op.clone(), &args?)?)
            }
            // All rows have one shape.
            Op::Shape => {
                let end = rank(b, x)?;
                Ok(vec![Batched::Same(b.sizes(x, 1..end)?)])
            }
            Op::Reshape => {
                let shape = same(op, args[1])?;
                let shape = self.without_open_size(b, x, shape)?;
                let count = b.vector_of(self.rows)?;
                let shape = b.join(&[count, shape])?;
                rows(b.op1(Op::Reshape, &[x, shape])?)
            }
            Op::Broadcast => self.broadcast(b, op, args).and_then(rows),
            Op::Slice { .. } | Op::TopK { .. } | Op::Window { .. } => {
                let sizes: Result<Vec<_>> = args[1..].iter().map(|&a| same(op, a)).collect();
                let results = b.op(shifted(op), &[vec![x], sizes?].concat())?;
                Ok(results.into_iter().map(Batched::Rows).collect())
            }
            Op::Concat { .. } | Op::GatherElements { .. } | Op::ScatterElements { .. } => {
                let args: Result<Vec<_>> = args.iter().map(|a| self.spread(b, *a)).collect();
                rows(b.op1(shifted(op), &args?)?)
            }
            Op::Pad { .. } => self.pad(b, op, args).and_then(rows),
            Op::Gather { axis } => self.gather(b, *axis, args[0], args[1]).and_then(rows),
            Op::GatherNd { batch_dims } => {
                if let (0, Batched::Same(x), Batched::Rows(i)) = (*batch_dims, args[0], args[1]) {
                    return rows(b.op1(op.clone(), &[x, i])?);
                }
                let (x, i) = (self.spread(b, args[0])?, self.spread(b, args[1])?);
                let batch_dims = batch_dims + 1;
                rows(b.op1(Op::GatherNd { batch_dims }, &[x, i])?)
            }
            Op::ScatterNd { .. } => self.scatter_nd(b, op, args).and_then(rows),
            Op::UpdateSlice => {
                let starts = same(op, args[2])?;
                let (x, update) = (self.spread(b, args[0])?, self.spread(b, args[1])?);
                let none = b.i64s(&[0]);
                let starts = b.join(&[none, starts])?;
                rows(b.op1(Op::UpdateSlice, &[x, update, starts])?)
            }
            Op::SegmentReduce { .. } => {
                let offsets = same(op, args[1])?;
                let perm = [vec![1, 0], (2..rank(b, x)?).collect()].concat();
                let x = self.transposed(b, x, perm.clone())?;
                let y = b.op1(op.clone(), &[x, offsets])?;
                rows(self.transposed(b, y, perm)?)
            }
            Op::Dot => self.dot(b, args[0], args[1]).and_then(rows),
            Op::Conv { .. } => self.conv(b, op, args).and_then(rows),
            other => Err(Refusal::no_rule(other)),
        }
    }

    /// A shape whose -1, which without rows could be any size, is replaced by what is left in a row.
    fn without_open_size(&self, b: &mut FuncBuilder, x: Value, shape: Value) -> Result<Value> {
        let known = b.known(shape);
        if known.is_some_and(|dims| dims.iter().all(|d| d.as_expr().is_some() && !d.is(-1))) {
            return Ok(shape);
        }
        let (open, one) = (b.i64(-1), b.i64(1));
        let is_open = b.compare(CompareOp::Eq, shape, open)?;
        let stated = b.select(is_open, one, shape)?;
        let stated = product(b, stated)?;
        let end = rank(b, x)?;
        let own = b.sizes(x, 1..end)?;
        let own = product(b, own)?;
        let left = b.binary(BinaryOp::Div, own, stated)?;
        Ok(b.select(is_open, left, shape)?)
    }

    fn pad(&mut self, b: &mut FuncBuilder, op: &Op, args: &[Batched]) -> Result<Value> {
        let (pads, value) = (same(op, args[1])?, same(op, args[2])?);
        let n = self.row_rank(b, args[0])? as i64;
        let part = |b: &mut FuncBuilder, from: i64| {
            let places: Vec<i64> = (from..from + n).collect();
            let places = b.i64s(&places);
            b.gather(pads, places)
        };
        let (before, after) = (part(b, 0)?, part(b, n)?);
        let none = b.i64s(&[0]);
        let pads = b.join(&[none, before, none, after])?;
        Ok(b.op1(op.clone(), &[args[0].value(), pads, value])?)
    }

    /// Rows of images are more images.
    fn conv(&mut self, b: &mut FuncBuilder, op: &Op, args: &[Batched]) -> Result<Value> {
        let (w, pads) = (same(op, args[1])?, same(op, args[2])?);
        let x = args[0].value();
        let end = rank(b, x)?;
        let whole = b.sizes(x, 0..2)?;
        let whole = product(b, whole)?;
        let rest = b.sizes(x, 2..end)?;
        let shape = b.join(&[whole, rest])?;
        let flat = b.op1(Op::Reshape, &[x, shape])?;
        let y = b.op1(op.clone(), &[flat, w, pads])?;
        let (front, back) = (b.sizes(x, 0..2)?, b.sizes(y, 1..end - 1)?);
        let shape = b.join(&[front, back])?;
        Ok(b.op1(Op::Reshape, &[y, shape])?)
    }

    fn broadcast(&mut self, b: &mut FuncBuilder, op: &Op, args: &[Batched]) -> Result<Value> {
        let shape = same(op, args[1])?;
        let len = b.ty(shape).as_tensor().and_then(|t| t.static_shape());
        let Some(&[len]) = len.as_deref() else {
            return Err(Refusal::UnknownRank);
        };
        let most = self.row_rank(b, args[0])?.max(len);
        let x = self.aligned(b, args[0], most)?;
        // A size of 1 leaves the rows as they are.
        let ones = b.i64s(&vec![1; 1 + most - len]);
        let shape = b.join(&[ones, shape])?;
        Ok(b.op1(Op::Broadcast, &[x, shape])?)
    }

    fn gather(
        &mut self,
        b: &mut FuncBuilder,
        axis: usize,
        x: Batched,
        i: Batched,
    ) -> Result<Value> {
        match (x, i) {
            (Batched::Same(x), i) => {
                let indices = i.value();
                let width = rank(b, indices)?;
                let y = b.op1(Op::Gather { axis }, &[x, indices])?;
                // The rows stand where the axis was.
                let rest = rank(b, y)? - axis - width;
                let order = [
                    (axis..axis + 1).collect::<Vec<_>>(),
                    (0..axis).collect(),
                    (axis + 1..axis + width + rest).collect(),
                ];
                self.transposed(b, y, order.concat())
            }
            (Batched::Rows(x), Batched::Same(indices)) => {
                Ok(b.op1(Op::Gather { axis: axis + 1 }, &[x, indices])?)
            }
            (Batched::Rows(x), Batched::Rows(indices)) => {
                let (all, width) = (rank(b, x)?, rank(b, indices)? - 1);
                let order = [
                    vec![0, axis + 1],
                    (1..axis + 1).collect(),
                    (axis + 2..all).collect(),
                ];
                let x = self.transposed(b, x, order.concat())?;
                let axes = vec![width + 1];
                let tuples = b.op1(Op::Unsqueeze { axes }, &[indices])?;
                let y = b.op1(Op::GatherNd { batch_dims: 1 }, &[x, tuples])?;
                // Now: row, indices, axes before, axes after.
                let order = [
                    vec![0],
                    (1 + width..1 + width + axis).collect(),
                    (1..1 + width).collect(),
                    (1 + width + axis..width + all - 1).collect(),
                ];
                self.transposed(b, y, order.concat())
            }
        }
    }

    fn transposed(&self, b: &mut FuncBuilder, x: Value, perm: Vec<usize>) -> Result<Value> {
        match perm.is_sorted() {
            true => Ok(x),
            false => Ok(b.op1(Op::Transpose { perm }, &[x])?),
        }
    }

    /// The row goes in front of each index tuple.
    fn scatter_nd(&mut self, b: &mut FuncBuilder, op: &Op, args: &[Batched]) -> Result<Value> {
        let args: Result<Vec<_>> = args.iter().map(|a| self.spread(b, *a)).collect();
        let [x, indices, updates] = args?[..] else {
            return Err(Refusal::NoTensor);
        };
        let all = rank(b, indices)?;
        let dtype = b.ty(indices).as_tensor().map(|t| t.dtype);
        let dtype = dtype.ok_or(Refusal::NoTensor)?;
        let rows = b.iota(self.rows)?;
        let rows = b.cast(dtype, rows)?;
        let rows = b.op1(
            Op::Unsqueeze {
                axes: (1..all).collect(),
            },
            &[rows],
        )?;
        let front = b.sizes(indices, 0..all - 1)?;
        let one = b.i64s(&[1]);
        let shape = b.join(&[front, one])?;
        let rows = b.op1(Op::Broadcast, &[rows, shape])?;
        let tuples = b.op1(Op::Concat { axis: all - 1 }, &[rows, indices])?;
        Ok(b.op1(op.clone(), &[x, tuples, updates])?)
    }

    fn dot(&mut self, b: &mut FuncBuilder, x: Batched, y: Batched) -> Result<Value> {
        let (m, n) = (self.row_rank(b, x)?, self.row_rank(b, y)?);
        match (x, y) {
            // All rows times one matrix are one product.
            (Batched::Rows(x), Batched::Same(w)) if n == 2 => match (m, own_rows(b, x)) {
                (2, Some(1)) => {
                    let x = b.op1(Op::Squeeze { axes: vec![1] }, &[x])?;
                    let y = b.op1(Op::Dot, &[x, w])?;
                    Ok(b.op1(Op::Unsqueeze { axes: vec![1] }, &[y])?)
                }
                (2, Some(rows)) if rows < APART => Ok(b.op1(Op::Dot, &[x, w])?),
                // `split_dots` takes its parts where they lie.
                _ if gathered_parts(b.func(), x).is_some() => Ok(b.op1(Op::Dot, &[x, w])?),
                _ => {
                    let depth = b.sizes(x, m..m + 1)?;
                    let count = b.sizes(x, 0..m)?;
                    let count = product(b, count)?;
                    let shape = b.join(&[count, depth])?;
                    let flat = b.op1(Op::Reshape, &[x, shape])?;
                    let y = b.op1(Op::Dot, &[flat, w])?;
                    let (front, back) = (b.sizes(x, 0..m)?, b.sizes(w, 1..2)?);
                    let shape = b.join(&[front, back])?;
                    Ok(b.op1(Op::Reshape, &[y, shape])?)
                }
            },
            (x, y) => {
                let most = m.max(n);
                let (x, y) = (self.aligned(b, x, most)?, self.aligned(b, y, most)?);
                Ok(b.op1(Op::Dot, &[x, y])?)
            }
        }
    }
}

/// Rows below which matrices stay apart in a product, whose consumers then fuse with it: kernels
/// merge the rows of small matrices themselves.
const APART: i64 = 96;

/// The static number of rows of the matrix of each row.
fn own_rows(b: &FuncBuilder, x: Value) -> Option<i64> {
    let shape = b.ty(x).as_tensor()?.shape.as_ref()?;
    shape.get(1)?.as_const()
}

/// The operand, which must be the same for all rows.
fn same(op: &Op, batched: Batched) -> Result<Value> {
    match batched {
        Batched::Same(v) => Ok(v),
        Batched::Rows(_) => Err(Refusal::SizesByRow(op.name())),
    }
}

/// The product of sizes, `i64[1]`.
fn product(b: &mut FuncBuilder, sizes: Value) -> Result<Value> {
    let op = Op::Reduce {
        kind: ReduceOp::Prod,
        axes: vec![0],
        keep: true,
    };
    Ok(b.op1(op, &[sizes])?)
}

/// The op with its axes behind a leading one.
fn shifted(op: &Op) -> Op {
    let mut op = op.clone();
    match &mut op {
        Op::Transpose { perm } => {
            perm.iter_mut().for_each(|axis| *axis += 1);
            perm.insert(0, 0);
        }
        Op::Unsqueeze { axes }
        | Op::Squeeze { axes }
        | Op::Slice { axes }
        | Op::Reduce { axes, .. } => axes.iter_mut().for_each(|axis| *axis += 1),
        Op::ArgReduce { axis, .. }
        | Op::Cumulative { axis, .. }
        | Op::TopK { axis, .. }
        | Op::Concat { axis }
        | Op::GatherElements { axis }
        | Op::ScatterElements { axis, .. } => *axis += 1,
        _ => {}
    }
    op
}
