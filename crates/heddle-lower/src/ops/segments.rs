//! Reductions of ranges that offsets state: one fold for each row, over as many elements as it has.

use heddle_ir::DType;
use heddle_ir::op::{CompareOp, ReduceOp};

use super::super::{Lowerer, Result};
use crate::value::{Val, linear};
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Body, Store};

impl Lowerer<'_> {
    /// Rows and inner elements are parallel axes; the reduced axis has the size of the row's range.
    pub(super) fn segment_reduce(&mut self, kind: ReduceOp, x: &Val, offsets: &Val) -> Result<Val> {
        if let (DType::F16 | DType::Bf16, ReduceOp::Sum | ReduceOp::Prod) = (x.dtype(), kind) {
            // Rounded once, at the end.
            let wide = self.converted(x, DType::F32);
            let sum = self.segment_reduce(kind, &wide, offsets)?;
            return Ok(self.converted(&sum, x.dtype()));
        }
        let offsets = &self.stored(offsets)?;
        let (ends, total) = (offsets.shape()[0], x.shape()[0]);
        let pool = &mut self.program.pool;
        let one = pool.int(1);
        let rows = pool.difference(ends, one);
        self.check_rows(ends, rows, total);
        let mut shape = x.shape().to_vec();
        shape[0] = rows;
        let (outer, index) = self.space(&shape, 0);
        let dtype = x.dtype();
        let len = self.range_size(offsets, index[0], rows, total);
        let (inner, within) = self.space(&[len], index.len());
        let pool = &mut self.program.pool;
        let start = offsets.read(pool, &[index[0]]);
        let mut place = index.clone();
        place[0] = pool.sum(start, within[0]);
        let value = x.read(pool, &place);
        let offset = linear(pool, &shape, &index);
        let buffer = self.scratch(dtype, &shape)?;
        let store = Store { buffer, offset };
        let body = Body::Fold {
            kind,
            dtype,
            axes: inner,
            value,
            store,
            columns: false,
        };
        self.run(outer, body);
        Ok(Val::Stored {
            buffer,
            dtype,
            shape,
        })
    }

    /// There is an offset, and without rows there are no elements.
    fn check_rows(&mut self, ends: ExprId, rows: ExprId, total: ExprId) {
        let pool = &mut self.program.pool;
        let zero = pool.int(0);
        let some = pool.compare(CompareOp::Gt, DType::I64, ends, zero);
        self.check(some, ends, zero);
        let pool = &mut self.program.pool;
        let has_rows = pool.compare(CompareOp::Gt, DType::I64, rows, zero);
        let is_empty = pool.compare(CompareOp::Eq, DType::I64, total, zero);
        let fits = pool.or(has_rows, is_empty);
        self.check(fits, rows, total);
    }

    /// The size of a row's range. Where offsets do not part the axis, it is an index out of range,
    /// which stops the run, and nothing is read.
    fn range_size(&mut self, offsets: &Val, row: ExprId, rows: ExprId, total: ExprId) -> ExprId {
        let pool = &mut self.program.pool;
        let (zero, one) = (pool.int(0), pool.int(1));
        let next = pool.sum(row, one);
        let (start, end) = (offsets.read(pool, &[row]), offsets.read(pool, &[next]));
        let is_first = pool.compare(CompareOp::Eq, DType::I64, row, zero);
        let is_last = pool.compare(CompareOp::Eq, DType::I64, next, rows);
        // The first offset lies between 0 and 0, the last one between the others and the size.
        let most = pool.select(DType::I64, is_first, zero, end);
        let least = pool.select(DType::I64, is_last, total, zero);
        let checks = [
            (CompareOp::Ge, start, zero),
            (CompareOp::Le, start, most),
            (CompareOp::Le, start, end),
            (CompareOp::Le, end, total),
            (CompareOp::Ge, end, least),
        ];
        let holds = checks.map(|(op, x, y)| pool.compare(op, DType::I64, x, y));
        let all = holds.into_iter().reduce(|x, y| pool.and(x, y));
        let len = pool.difference(end, start);
        let above = pool.sum(total, one);
        let len = match all {
            Some(all) => pool.select(DType::I64, all, len, above),
            None => len,
        };
        pool.index(len, above)
    }
}
