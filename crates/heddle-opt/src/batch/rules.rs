//! What each op becomes when some of its operands differ by row.

use heddle_ir::op::ReduceOp;
use heddle_ir::{FuncBuilder, Op, Value};

use super::{Batch, Lane, Refusal, Result, rank};

impl Batch<'_> {
    /// An op on operands of which at least one differs by row.
    pub(super) fn rule(
        &mut self,
        b: &mut FuncBuilder,
        op: &Op,
        args: &[Lane],
    ) -> Result<Vec<Lane>> {
        let rows = |v: Value| Ok(vec![Lane::Rows(v)]);
        match op {
            Op::Unary(_) | Op::Cast { .. } | Op::Bitcast { .. } => {
                rows(b.op1(op.clone(), &[args[0].value()])?)
            }
            Op::Binary(_) | Op::Compare(_) | Op::Select => {
                let ranks: Result<Vec<_>> = args.iter().map(|a| self.row_rank(b, *a)).collect();
                let most = ranks?.into_iter().max().unwrap_or(0);
                let args: Result<Vec<_>> = args.iter().map(|a| self.aligned(b, *a, most)).collect();
                rows(b.op1(op.clone(), &args?)?)
            }
            // All rows have one shape.
            Op::Shape => {
                let x = args[0].value();
                let end = rank(b, x)?;
                Ok(vec![Lane::Same(b.sizes(x, 1..end)?)])
            }
            Op::Reshape => {
                let shape = same(op, args[1])?;
                let count = b.vector_of(self.rows)?;
                let shape = b.join(&[count, shape])?;
                rows(b.op1(Op::Reshape, &[args[0].value(), shape])?)
            }
            Op::Transpose { perm } => {
                let perm = std::iter::once(0).chain(perm.iter().map(|p| p + 1));
                let perm = perm.collect();
                rows(b.op1(Op::Transpose { perm }, &[args[0].value()])?)
            }
            Op::Unsqueeze { axes } => {
                let axes = later(axes);
                rows(b.op1(Op::Unsqueeze { axes }, &[args[0].value()])?)
            }
            Op::Squeeze { axes } => {
                let axes = later(axes);
                rows(b.op1(Op::Squeeze { axes }, &[args[0].value()])?)
            }
            Op::Broadcast => self.broadcast(b, op, args).and_then(rows),
            Op::Slice { axes } => {
                let [start, end, step] =
                    [same(op, args[1])?, same(op, args[2])?, same(op, args[3])?];
                let axes = later(axes);
                rows(b.op1(Op::Slice { axes }, &[args[0].value(), start, end, step])?)
            }
            Op::Concat { axis } => {
                let args: Result<Vec<_>> = args.iter().map(|a| self.spread(b, *a)).collect();
                rows(b.op1(Op::Concat { axis: axis + 1 }, &args?)?)
            }
            Op::Pad { mode } => {
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
                rows(b.op1(Op::Pad { mode: *mode }, &[args[0].value(), pads, value])?)
            }
            Op::Gather { axis } => self.gather(b, *axis, args[0], args[1]).and_then(rows),
            Op::GatherElements { axis } => {
                let (x, i) = (self.spread(b, args[0])?, self.spread(b, args[1])?);
                rows(b.op1(Op::GatherElements { axis: axis + 1 }, &[x, i])?)
            }
            Op::GatherNd { batch_dims } => {
                if let (0, Lane::Same(x), Lane::Rows(i)) = (*batch_dims, args[0], args[1]) {
                    return rows(b.op1(op.clone(), &[x, i])?);
                }
                let (x, i) = (self.spread(b, args[0])?, self.spread(b, args[1])?);
                let batch_dims = batch_dims + 1;
                rows(b.op1(Op::GatherNd { batch_dims }, &[x, i])?)
            }
            Op::ScatterElements { axis, reduce } => {
                let args: Result<Vec<_>> = args.iter().map(|a| self.spread(b, *a)).collect();
                let (axis, reduce) = (axis + 1, *reduce);
                rows(b.op1(Op::ScatterElements { axis, reduce }, &args?)?)
            }
            Op::ScatterNd { .. } => self.scatter_nd(b, op, args).and_then(rows),
            Op::UpdateSlice => {
                let starts = same(op, args[2])?;
                let (x, update) = (self.spread(b, args[0])?, self.spread(b, args[1])?);
                let none = b.i64s(&[0]);
                let starts = b.join(&[none, starts])?;
                rows(b.op1(Op::UpdateSlice, &[x, update, starts])?)
            }
            Op::Reduce { kind, axes, keep } => {
                let (kind, axes, keep) = (*kind, later(axes), *keep);
                rows(b.op1(Op::Reduce { kind, axes, keep }, &[args[0].value()])?)
            }
            Op::ArgReduce {
                kind,
                axis,
                keep,
                last,
            } => {
                let (kind, axis, keep, last) = (*kind, axis + 1, *keep, *last);
                let op = Op::ArgReduce {
                    kind,
                    axis,
                    keep,
                    last,
                };
                rows(b.op1(op, &[args[0].value()])?)
            }
            Op::Cumulative {
                kind,
                axis,
                exclusive,
                reverse,
            } => {
                let kind: ReduceOp = *kind;
                let (axis, exclusive, reverse) = (axis + 1, *exclusive, *reverse);
                let op = Op::Cumulative {
                    kind,
                    axis,
                    exclusive,
                    reverse,
                };
                rows(b.op1(op, &[args[0].value()])?)
            }
            Op::TopK { axis, kind } => {
                let k = same(op, args[1])?;
                let (axis, kind) = (axis + 1, *kind);
                let results = b.op(Op::TopK { axis, kind }, &[args[0].value(), k])?;
                Ok(results.into_iter().map(Lane::Rows).collect())
            }
            Op::Dot => self.dot(b, args[0], args[1]).and_then(rows),
            Op::Conv { .. } => {
                let (w, pads) = (same(op, args[1])?, same(op, args[2])?);
                let x = args[0].value();
                let end = rank(b, x)?;
                let whole = b.i64s(&[-1]);
                let rest = b.sizes(x, 2..end)?;
                let shape = b.join(&[whole, rest])?;
                let flat = b.op1(Op::Reshape, &[x, shape])?;
                let y = b.op1(op.clone(), &[flat, w, pads])?;
                let (front, back) = (b.sizes(x, 0..2)?, b.sizes(y, 1..end - 1)?);
                let shape = b.join(&[front, back])?;
                rows(b.op1(Op::Reshape, &[y, shape])?)
            }
            Op::Window { .. } => {
                let pads = same(op, args[1])?;
                rows(b.op1(op.clone(), &[args[0].value(), pads])?)
            }
            other => Err(Refusal(format!("`{}` of rows", other.name()))),
        }
    }

    fn broadcast(&mut self, b: &mut FuncBuilder, op: &Op, args: &[Lane]) -> Result<Value> {
        let shape = same(op, args[1])?;
        let len = b.ty(shape).as_tensor().and_then(|t| t.static_shape());
        let Some(&[len]) = len.as_deref() else {
            return Err(Refusal("a broadcast to an unknown number of axes".into()));
        };
        let most = self.row_rank(b, args[0])?.max(len);
        let x = self.aligned(b, args[0], most)?;
        // A size of 1 leaves the rows as they are.
        let ones = b.i64s(&vec![1; 1 + most - len]);
        let shape = b.join(&[ones, shape])?;
        Ok(b.op1(Op::Broadcast, &[x, shape])?)
    }

    fn gather(&mut self, b: &mut FuncBuilder, axis: usize, x: Lane, i: Lane) -> Result<Value> {
        match (x, i) {
            (Lane::Same(x), i) => {
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
            (Lane::Rows(x), Lane::Same(indices)) => {
                Ok(b.op1(Op::Gather { axis: axis + 1 }, &[x, indices])?)
            }
            (Lane::Rows(x), Lane::Rows(indices)) => {
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
    fn scatter_nd(&mut self, b: &mut FuncBuilder, op: &Op, args: &[Lane]) -> Result<Value> {
        let args: Result<Vec<_>> = args.iter().map(|a| self.spread(b, *a)).collect();
        let [x, indices, updates] = args?[..] else {
            return Err(Refusal("a scatter without operands".into()));
        };
        let all = rank(b, indices)?;
        let dtype = b.ty(indices).as_tensor().map(|t| t.dtype);
        let dtype = dtype.ok_or_else(|| Refusal("indices that are no tensor".into()))?;
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

    fn dot(&mut self, b: &mut FuncBuilder, x: Lane, y: Lane) -> Result<Value> {
        let (m, n) = (self.row_rank(b, x)?, self.row_rank(b, y)?);
        match (x, y) {
            // All rows times one matrix are one product.
            (Lane::Rows(x), Lane::Same(w)) if n == 2 => {
                let one = |b: &FuncBuilder| {
                    let shape = b.ty(x).as_tensor()?.shape.as_ref()?;
                    Some(shape[shape.len() - 2].is(1))
                };
                if m == 2 && one(b) == Some(true) {
                    let x = b.op1(Op::Squeeze { axes: vec![1] }, &[x])?;
                    let y = b.op1(Op::Dot, &[x, w])?;
                    return Ok(b.op1(Op::Unsqueeze { axes: vec![1] }, &[y])?);
                }
                let depth = b.sizes(x, m..m + 1)?;
                let count = b.i64s(&[-1]);
                let shape = b.join(&[count, depth])?;
                let flat = b.op1(Op::Reshape, &[x, shape])?;
                let y = b.op1(Op::Dot, &[flat, w])?;
                let (front, back) = (b.sizes(x, 0..m)?, b.sizes(w, 1..2)?);
                let shape = b.join(&[front, back])?;
                Ok(b.op1(Op::Reshape, &[y, shape])?)
            }
            (x, y) => {
                let most = m.max(n);
                let (x, y) = (self.aligned(b, x, most)?, self.aligned(b, y, most)?);
                Ok(b.op1(Op::Dot, &[x, y])?)
            }
        }
    }
}

/// The operand, which must be the same for all rows.
fn same(op: &Op, lane: Lane) -> Result<Value> {
    match lane {
        Lane::Same(v) => Ok(v),
        Lane::Rows(_) => Err(Refusal(format!(
            "sizes of `{}` that differ by row",
            op.name()
        ))),
    }
}

fn later(axes: &[usize]) -> Vec<usize> {
    axes.iter().map(|a| a + 1).collect()
}
