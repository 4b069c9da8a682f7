//! Writing by index.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp, ScatterReduce};

use super::super::{Cause, Lowerer, Result, WIDE};
use crate::value::{Val, linear};
use heddle_uprogram::program::{Body, Local, Store};
use heddle_uprogram::{Expr, ExprId};

impl Lowerer<'_> {
    pub(super) fn scatter_elements(
        &mut self,
        axis: usize,
        reduce: ScatterReduce,
        args: &[Val],
    ) -> Result<Val> {
        if let Some(val) = self.scatter_few(axis, reduce, args) {
            return Ok(val);
        }
        let wide = sum_type(args[0].dtype(), reduce);
        let target = self.target(&args[0], wide)?;
        let Val::Stored { buffer, shape, .. } = &target else {
            return self.fail(Cause::Form("an operand in memory is needed"));
        };
        let (indices, updates) = (&args[1], self.converted(&args[2], wide));
        // Only updates along the axis can hit the same element; they run in order.
        let sizes = indices.shape().to_vec();
        let (outer, inner, index) = match reduce {
            ScatterReduce::Once => {
                let (outer, index) = self.space(&sizes, 0);
                (outer, vec![], index)
            }
            _ => {
                let rest = (0..sizes.len()).filter(|&k| k != axis);
                let others: Vec<_> = rest.map(|k| sizes[k]).collect();
                let (outer, mut index) = self.space(&others, 0);
                let (inner, along) = self.space(&[sizes[axis]], others.len());
                index.insert(axis, along[0]);
                (outer, inner, index)
            }
        };
        let pool = &mut self.program.pool;
        let i = indices.read(pool, &index);
        let i = pool.cast(indices.dtype(), DType::I64, i);
        let mut place = index.clone();
        place[axis] = pool.index(i, shape[axis]);
        let offset = linear(pool, shape, &place);
        let value = updates.read(pool, &index);
        let store = Store {
            buffer: *buffer,
            offset,
        };
        self.run(outer, updates_of(inner, reduce, wide, value, store));
        Ok(self.converted(&target, args[0].dtype()))
    }

    /// For per-unit values of static size: each element is a choice between all possible updates of
    /// it.
    fn scatter_few(&mut self, axis: usize, reduce: ScatterReduce, args: &[Val]) -> Option<Val> {
        if !args.iter().all(Val::is_of_scalars) {
            return None;
        }
        let (x, indices, updates) = (&args[0], &args[1], &args[2]);
        let counts = [self.at_most(x, WIDE)?, self.at_most(indices, WIDE)?];
        if counts[0] * counts[1] > WIDE * 8 {
            return None;
        }
        let Val::Scalars {
            dtype,
            shape,
            mut elems,
        } = self.let_elements(x, counts[0])
        else {
            return None;
        };
        for n in 0..counts[1] {
            let index = self.index_of(n, indices.shape());
            let i = indices.read(&mut self.program.pool, &index);
            let i = self.program.pool.cast(indices.dtype(), DType::I64, i);
            let mut place = index.clone();
            place[axis] = self.program.pool.index(i, shape[axis]);
            let new = updates.read(&mut self.program.pool, &index);
            for (k, old) in elems.iter_mut().enumerate() {
                let own = self.index_of(k as i64, &shape);
                let pool = &mut self.program.pool;
                let mut hit = pool.add(Expr::Num(DType::Bool, 1));
                for (&p, &o) in place.iter().zip(&own) {
                    let same = pool.compare(CompareOp::Eq, DType::I64, p, o);
                    hit = pool.and(hit, same);
                }
                let value = match combination(reduce) {
                    Some(op) => pool.binary(op, dtype, *old, new),
                    None => new,
                };
                let value = pool.select(dtype, hit, value, *old);
                *old = self.settle_expr(dtype, value);
            }
        }
        Some(Val::Scalars {
            dtype,
            shape,
            elems,
        })
    }

    pub(super) fn scatter_nd(&mut self, reduce: ScatterReduce, args: &[Val]) -> Result<Val> {
        let wide = sum_type(args[0].dtype(), reduce);
        let target = self.target(&args[0], wide)?;
        let Val::Stored { buffer, shape, .. } = &target else {
            return self.fail(Cause::Form("an operand in memory is needed"));
        };
        let (indices, updates) = (&args[1], self.converted(&args[2], wide));
        let tuples = indices.shape().len() - 1;
        let Some(depth) = self.program.pool.as_int(indices.shape()[tuples]) else {
            return self.fail(Cause::TupleLength);
        };
        // Updates of one element run in order: tuples are iterated over sequentially, and the
        // slices that they select are split. With one update of each, rows are parallel, too.
        let slice = updates.shape()[tuples..].to_vec();
        let (outer, inner, which, within) = match reduce {
            ScatterReduce::Once => {
                let (outer, mut which) = self.space(updates.shape(), 0);
                let within = which.split_off(tuples);
                (outer, vec![], which, within)
            }
            _ => {
                let (outer, within) = self.space(&slice, 0);
                let (inner, which) = self.space(&updates.shape()[..tuples], slice.len());
                (outer, inner, which, within)
            }
        };
        let pool = &mut self.program.pool;
        let mut place = vec![];
        for (k, &size) in shape.iter().enumerate().take(depth as usize) {
            let at = pool.int(k as i64);
            let i = indices.read(pool, &[which.as_slice(), &[at]].concat());
            let i = pool.cast(indices.dtype(), DType::I64, i);
            place.push(pool.index(i, size));
        }
        place.extend(&within);
        let offset = linear(pool, shape, &place);
        let value = updates.read(pool, &[which, within].concat());
        let store = Store {
            buffer: *buffer,
            offset,
        };
        self.run(outer, updates_of(inner, reduce, wide, value, store));
        Ok(self.converted(&target, args[0].dtype()))
    }

    pub(super) fn update_slice(&mut self, args: &[Val]) -> Result<Val> {
        let update = &args[1];
        let starts = self.element_list(&args[2])?;
        let target = self.writable(&args[0])?;
        let Val::Stored { buffer, shape, .. } = &target else {
            return self.fail(Cause::Form("an operand in memory is needed"));
        };
        for (k, &start) in starts.iter().enumerate() {
            let pool = &mut self.program.pool;
            let zero = pool.int(0);
            let end = pool.sum(start, update.shape()[k]);
            let low = pool.compare(CompareOp::Ge, DType::I64, start, zero);
            let high = pool.compare(CompareOp::Le, DType::I64, end, shape[k]);
            let inside = pool.and(low, high);
            self.check(inside, end, shape[k]);
        }
        let (axes, index) = self.space(update.shape(), 0);
        let pool = &mut self.program.pool;
        // In bounds already; a checked index states it.
        let place = starts.iter().zip(&index).zip(shape);
        let place = place.map(|((&s, &i), &size)| match pool.as_int(s) {
            Some(0) => i,
            _ => {
                let at = pool.sum(s, i);
                pool.index(at, size)
            }
        });
        let place: Vec<_> = place.collect();
        let offset = linear(pool, shape, &place);
        let value = update.read(pool, &index);
        let store = Store {
            buffer: *buffer,
            offset,
        };
        self.run(axes, Body::Map { store, value });
        Ok(target)
    }

    /// Writable memory of this type that holds the operand.
    fn target(&mut self, x: &Val, dtype: DType) -> Result<Val> {
        if dtype == x.dtype() {
            return self.writable(x);
        }
        let x = self.converted(x, dtype);
        self.copied(&x)
    }
}

/// Writes that go over these axes in order; a map if there are none and nothing is combined.
fn updates_of(
    axes: Vec<(Local, ExprId)>,
    reduce: ScatterReduce,
    dtype: DType,
    value: ExprId,
    store: Store,
) -> Body {
    match combination(reduce) {
        None if axes.is_empty() => Body::Map { store, value },
        combine => Body::Update {
            axes,
            combine,
            dtype,
            value,
            store,
        },
    }
}

/// The combination of an update with the old element.
fn combination(reduce: ScatterReduce) -> Option<BinaryOp> {
    match reduce {
        ScatterReduce::Set | ScatterReduce::Once => None,
        ScatterReduce::Add => Some(BinaryOp::Add),
        ScatterReduce::Mul => Some(BinaryOp::Mul),
        ScatterReduce::Max => Some(BinaryOp::Max),
        ScatterReduce::Min => Some(BinaryOp::Min),
    }
}

/// Sums and products of 16-bit floats are rounded once, after all updates.
fn sum_type(dtype: DType, reduce: ScatterReduce) -> DType {
    match (dtype, reduce) {
        (DType::F16 | DType::Bf16, ScatterReduce::Add | ScatterReduce::Mul) => DType::F32,
        _ => dtype,
    }
}
