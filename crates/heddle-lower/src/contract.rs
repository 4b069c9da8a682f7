//! Lowers matrix products, and the logical form common to all contractions.
//!
//! A logical contraction states which axes are rows, columns and depth, and an expression for an
//! element of each operand. Layouts, packing and tiles depend on the machine;
//! `heddle_schedule::select_kernels` chooses them.

use heddle_ir::op::{BinaryOp, ReduceOp};
use heddle_ir::{DType, Type};

use super::{Lowerer, Result};
use crate::value::{Val, View, linear};
use heddle_uprogram::contract::{Access, Contract, Operand, Windows, strided};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, Local, LocalData, LocalKind, Store};

/// The parts of a contraction.
pub(super) struct Parts {
    /// The axis that only the first operand depends on.
    pub rows: Option<Local>,
    /// The axis that only the second operand depends on.
    pub columns: Local,
    /// The axis that is summed over.
    pub depth: (Local, ExprId),
    /// An element of the first operand, a load with uniform strides along rows and depth.
    pub a: ExprId,
    /// An element of the second operand.
    pub b: ExprId,
    /// The type of both.
    pub dtype: DType,
    /// The destination of a sum.
    pub store: Store,
    /// The windows that the second operand's columns are, if they are those of a map in memory.
    pub windows: Option<Windows>,
}

impl Lowerer<'_> {
    /// Lowers a product of matrices.
    pub(super) fn dot(&mut self, args: &[Val], ty: &Type) -> Result<Val> {
        // Each element is read many times, so it is computed first.
        let (a, b) = (self.ready(&args[0])?, self.ready(&args[1])?);
        let shape = self.shape_of(ty)?;
        match self.contraction(&a, &b, &shape)? {
            Some(val) => Ok(val),
            None => self.plain_product(&a, &b, &shape),
        }
    }

    /// A product as a contraction. `None` if it is a plain reduction: an inner or outer product, a
    /// type without contractions, a depth that changes during a launch.
    fn contraction(&mut self, a: &Val, b: &Val, shape: &[ExprId]) -> Result<Option<Val>> {
        let (dtype, rank) = (a.dtype(), shape.len());
        let depth_size = a.shape()[a.shape().len() - 1];
        let pool = &self.program.pool;
        let known = |e: ExprId| pool.as_int(e);
        let is_one = |e: &ExprId| known(*e) == Some(1);
        // A contraction needs columns: matrix times column becomes row times transposed matrix. For
        // many rows times one column, rows become columns.
        let transposed = is_one(&shape[rank - 1]);
        let same = b.shape()[..b.shape().len() - 2].iter().all(is_one);
        let alone = !same || shape[..rank - 2].iter().all(is_one);
        let single = transposed && alone && is_one(&shape[rank - 2]);
        if !is_contracted(dtype)
            || known(depth_size) == Some(1)
            || single
            || !self.is_fixed(depth_size)
        {
            return Ok(None);
        }
        let never_empty = known(depth_size).is_some_and(|k| k > 0);
        let (a, b) = match never_empty {
            true => (a.clone(), b.clone()),
            false => (self.unchecked(a)?, self.unchecked(b)?),
        };
        let (axes, index) = self.space(shape, 0);
        let (depth, k) = self.space(&[depth_size], rank);
        let depth = depth[0];
        let (row, column) = (index[rank - 2], index[rank - 1]);
        let batch = &index[..rank - 2];
        let left = (a, [batch, &[row, k[0]]].concat());
        let right = (b, [batch, &[k[0], column]].concat());
        let (a, b, row, column) = match transposed {
            false => (left, right, row, column),
            true => (right, left, column, row),
        };
        let local = |lowerer: &Self, e: ExprId| match lowerer.program.pool[e] {
            Expr::Local(local) => Some(local),
            _ => None,
        };
        let (rows, columns) = (local(self, row), local(self, column));
        let mut outer = batch.iter().rev().filter(|_| same && transposed);
        let columns = columns.or_else(|| outer.find_map(|&e| local(self, e)));
        let Some(columns) = columns else {
            return Ok(None);
        };
        let a = self.strided_operand(&a.0, &a.1, shape, rows, depth.0)?;
        let value = read_matrix(self, &b.0, &b.1, shape);
        let buffer = self.scratch(dtype, shape)?;
        let offset = linear(&mut self.program.pool, shape, &index);
        let parts = Parts {
            rows,
            columns,
            depth,
            a,
            b: value,
            dtype,
            store: Store { buffer, offset },
            windows: None,
        };
        self.contract(axes, parts);
        Ok(Some(Val::Stored {
            buffer,
            dtype,
            shape: shape.to_vec(),
        }))
    }

    /// Adds a logical contraction over these axes, `rows` and `columns` among them.
    pub(super) fn contract(&mut self, axes: Vec<(Local, ExprId)>, parts: Parts) {
        let sum = self.program.locals.push(LocalData {
            dtype: parts.dtype,
            kind: LocalKind::Sum,
            name: "sum".into(),
        });
        let [a, b] = [parts.a, parts.b].map(|value| Operand {
            value,
            access: Access::Computed,
        });
        let finish = self.program.pool.local(sum);
        let c = Contract {
            rows: parts.rows,
            columns: parts.columns,
            depth: parts.depth,
            a,
            b,
            dtype: parts.dtype,
            rounding: None,
            sum,
            finish,
            store: parts.store,
            tile: 1,
            own: None,
            windows: parts.windows.map(Box::new),
        };
        self.run(axes, Body::Contract(c));
    }

    /// An element of an operand as a load with uniform strides; from a copy if needed, since each
    /// element is used by all columns.
    fn strided_operand(
        &mut self,
        x: &Val,
        index: &[ExprId],
        shape: &[ExprId],
        outer: Option<Local>,
        depth: Local,
    ) -> Result<ExprId> {
        let value = read_matrix(self, x, index, shape);
        if strided(&mut self.program.pool, value, outer, depth).is_some() {
            return Ok(value);
        }
        let x = self.stored(x)?;
        Ok(read_matrix(self, &x, index, shape))
    }

    /// True if a size is constant during a launch.
    pub(super) fn is_fixed(&self, size: ExprId) -> bool {
        let is_size = |l: &Local| self.program.locals[*l].kind == LocalKind::Size;
        self.program.locals_of(size).iter().all(is_size) && !self.program.loads(size)
    }

    /// A product as plain loops.
    fn plain_product(&mut self, a: &Val, b: &Val, shape: &[ExprId]) -> Result<Val> {
        let (outer, index) = self.space(shape, 0);
        let rank = shape.len();
        let depth = a.shape()[a.shape().len() - 1];
        let (inner, k) = self.space(&[depth], rank);
        let rows = [&index[..rank - 1], &k].concat();
        let columns = [&index[..rank - 2], &k, &index[rank - 1..]].concat();
        let dtype = a.dtype();
        let x = read_matrix(self, a, &rows, shape);
        let y = read_matrix(self, b, &columns, shape);
        let value = self.program.pool.binary(BinaryOp::Mul, dtype, x, y);
        self.fold_into(
            dtype,
            shape,
            ReduceOp::Sum,
            inner,
            value,
            outer,
            &index,
            true,
        )
    }
}

/// True if matrix products of this type are contractions. Sums of narrower integers wrap around at
/// each step, and complex products are not sums of single products: both are plain reductions.
pub(super) fn is_contracted(dtype: DType) -> bool {
    use DType::*;
    matches!(dtype, F32 | F64 | I32 | I64 | U32 | U64)
}

/// The element of an operand that broadcasts to the result's leading axes.
fn read_matrix(lowerer: &mut Lowerer, x: &Val, index: &[ExprId], shape: &[ExprId]) -> ExprId {
    let matrix = &x.shape()[x.shape().len() - 2..];
    let shape = [&shape[..shape.len() - 2], matrix].concat();
    let x = Val::lazy(x.dtype(), shape, View::Broadcast(x.clone()));
    x.read(&mut lowerer.program.pool, index)
}
