//! Reductions, arg-reductions and scans.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp, Extreme, ReduceOp};

use super::super::{Lowerer, Result, WIDE};
use crate::value::{Val, linear};
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Body, Local, Store};

/// Axes with their variables, the resulting index, and sizes.
type Space = (Vec<(Local, ExprId)>, Vec<ExprId>, Vec<ExprId>);

impl Lowerer<'_> {
    pub(super) fn reduce(
        &mut self,
        kind: ReduceOp,
        axes: &[usize],
        keep: bool,
        x: &Val,
    ) -> Result<Val> {
        if let Some(val) = self.reduce_few(kind, axes, keep, x) {
            return Ok(val);
        }
        if let (DType::F16 | DType::Bf16, ReduceOp::Sum | ReduceOp::Prod) = (x.dtype(), kind) {
            // Rounded once, at the end.
            let wide = self.converted(x, DType::F32);
            let sum = self.reduce(kind, axes, keep, &wide)?;
            return Ok(self.converted(&sum, x.dtype()));
        }
        if let Some(val) = self.reduce_in_parts(kind, axes, keep, x)? {
            return Ok(val);
        }
        let (outer, index, kept) = self.outer(x, axes);
        let sizes: Vec<_> = axes.iter().map(|&a| x.shape()[a]).collect();
        let (inner, k) = self.space(&sizes, index.len());
        let value = read_at(self, x, axes, &index, &k);
        let (store, val) = self.result(x.dtype(), &kept, &index, keep, axes)?;
        let body = Body::Fold {
            kind,
            dtype: x.dtype(),
            axes: inner,
            value,
            store,
            columns: false,
        };
        self.run(outer, body);
        Ok(val)
    }

    /// Each unit reduces a few per-unit elements redundantly.
    fn reduce_few(&mut self, kind: ReduceOp, axes: &[usize], keep: bool, x: &Val) -> Option<Val> {
        let count = self.at_most(x, WIDE).filter(|_| x.is_of_scalars())?;
        let (dtype, shape) = (x.dtype(), x.shape().to_vec());
        let rest: Vec<_> = (0..shape.len()).filter(|a| !axes.contains(a)).collect();
        let kept: Vec<_> = rest.iter().map(|&a| shape[a]).collect();
        let results = self.program.pool.product_of(&kept);
        let results = usize::try_from(self.program.pool.as_int(results)?).ok()?;
        let op = match kind {
            ReduceOp::Sum => BinaryOp::Add,
            ReduceOp::Prod => BinaryOp::Mul,
            ReduceOp::Max => BinaryOp::Max,
            ReduceOp::Min => BinaryOp::Min,
        };
        let mut elems: Vec<Option<ExprId>> = vec![None; results];
        for k in 0..count {
            let index = self.index_of(k, &shape);
            let own: Vec<_> = rest.iter().map(|&a| index[a]).collect();
            let pool = &mut self.program.pool;
            let value = x.read(pool, &index);
            let at = linear(pool, &kept, &own);
            let slot = elems.get_mut(usize::try_from(pool.as_int(at)?).ok()?)?;
            *slot = Some(match *slot {
                Some(sum) => pool.binary(op, dtype, sum, value),
                None => value,
            });
        }
        // Without elements there is no initial value.
        let elems = elems.into_iter().collect::<Option<Vec<_>>>()?;
        let elems = elems.into_iter().map(|e| self.settle_expr(dtype, e));
        let elems = elems.collect();
        Some(Val::Scalars {
            dtype,
            shape: self.reduced(&kept, keep, axes),
            elems,
        })
    }

    pub(super) fn arg_reduce(
        &mut self,
        kind: Extreme,
        axis: usize,
        keep: bool,
        last: bool,
        x: &Val,
    ) -> Result<Val> {
        let (outer, index, kept) = self.outer(x, &[axis]);
        // An arg-reduction needs an element, unless its result is empty.
        let pool = &mut self.program.pool;
        let (zero, size) = (pool.int(0), x.shape()[axis]);
        let results = pool.product_of(&kept);
        let some = pool.compare(CompareOp::Gt, DType::I64, size, zero);
        let none = pool.compare(CompareOp::Eq, DType::I64, results, zero);
        let fits = pool.or(some, none);
        self.check(fits, size, results);
        if let Some(val) = self.arg_reduce_in_parts(kind, axis, keep, last, x)? {
            return Ok(val);
        }
        let (inner, k) = self.space(&[size], index.len());
        let value = read_at(self, x, &[axis], &index, &k);
        let (store, val) = self.result(DType::I64, &kept, &index, keep, &[axis])?;
        let dtype = x.dtype();
        let body = match inner.first() {
            Some(&axis) => Body::ArgFold {
                kind,
                last,
                axis,
                value,
                dtype,
                store,
            },
            // The only element is the extreme.
            None => Body::Map { store, value: zero },
        };
        self.run(outer, body);
        Ok(val)
    }

    /// A scan: running sum, product or extreme.
    pub(super) fn cumulative(
        &mut self,
        kind: ReduceOp,
        axis: usize,
        exclusive: bool,
        reverse: bool,
        x: &Val,
    ) -> Result<Val> {
        let (outer, index, _) = self.outer(x, &[axis]);
        let (shape, size) = (x.shape().to_vec(), x.shape()[axis]);
        let (inner, along) = self.space(&[size], index.len());
        let pool = &mut self.program.pool;
        let mut at = along[0];
        if reverse {
            let one = pool.int(1);
            let last = pool.difference(size, one);
            at = pool.difference(last, at);
        }
        let mut place = index;
        place.insert(axis, at);
        let value = x.read(pool, &place);
        let offset = linear(pool, &shape, &place);
        let dtype = x.dtype();
        let buffer = self.scratch(dtype, &shape)?;
        let store = Store { buffer, offset };
        let body = match (inner.first(), exclusive) {
            (Some(&axis), _) => Body::Scan {
                kind,
                dtype,
                axis,
                exclusive,
                value,
                store,
            },
            // A scan over one element yields it, or the neutral element.
            (None, false) => Body::Map { store, value },
            (None, true) => Body::Fold {
                kind,
                dtype,
                axes: vec![(self.axes[0], self.program.pool.int(0))],
                value,
                store,
                columns: false,
            },
        };
        self.run(outer, body);
        Ok(Val::Stored {
            buffer,
            dtype,
            shape,
        })
    }

    /// The parallel axes of a reduction of `x` over `axes`: variables, their index, and sizes.
    fn outer(&mut self, x: &Val, axes: &[usize]) -> Space {
        let rest = (0..x.shape().len()).filter(|k| !axes.contains(k));
        let sizes: Vec<_> = rest.map(|k| x.shape()[k]).collect();
        let (space, index) = self.space(&sizes, 0);
        (space, index, sizes)
    }

    /// Memory for a reduction's result, and the destination of a point of the parallel axes.
    fn result(
        &mut self,
        dtype: DType,
        sizes: &[ExprId],
        index: &[ExprId],
        keep: bool,
        axes: &[usize],
    ) -> Result<(Store, Val)> {
        let shape = self.reduced(sizes, keep, axes);
        let buffer = self.scratch(dtype, sizes)?;
        let offset = linear(&mut self.program.pool, sizes, index);
        Ok((
            Store { buffer, offset },
            Val::Stored {
                buffer,
                dtype,
                shape,
            },
        ))
    }

    /// A reduction's shape: the other axes, and axes of size 1 if kept.
    fn reduced(&mut self, sizes: &[ExprId], keep: bool, axes: &[usize]) -> Vec<ExprId> {
        let mut shape = sizes.to_vec();
        for &axis in axes.iter().filter(|_| keep) {
            shape.insert(axis, self.program.pool.int(1));
        }
        shape
    }
}

/// The element of `x` at `k` on `axes` and `index` on the others.
fn read_at(
    lowerer: &mut Lowerer,
    x: &Val,
    axes: &[usize],
    index: &[ExprId],
    k: &[ExprId],
) -> ExprId {
    let (mut rest, mut inner) = (index.iter(), k.iter());
    let at = (0..x.shape().len()).map(|a| {
        let next = if axes.contains(&a) {
            inner.next()
        } else {
            rest.next()
        };
        *next.expect("as many as axes")
    });
    let at: Vec<_> = at.collect();
    x.read(&mut lowerer.program.pool, &at)
}
