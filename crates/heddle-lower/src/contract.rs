//! Lowers products of matrices, and what all contractions have in common.

use heddle_ir::op::{BinaryOp, ReduceOp};
use heddle_ir::{DType, Type};

use super::{Lowerer, Result};
use crate::value::{Val, View, linear};
use heddle_uprogram::contract::{
    Access, Contract, FEW_ROWS, Operand, Panels, panel_width, stride, strided,
};
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, Local, LocalData, LocalKind, Share, Split, Store,
};

/// What panels of a constant hold: the buffer, the first element, and stride and size of the axes that tell matrices apart,
/// of the depth axis, and of the columns.
pub(super) type PanelKey = (Buffer, i64, Vec<(i64, i64)>, (i64, i64), (i64, i64));

/// What a contraction is made of.
pub(super) struct Parts {
    /// The axis that only the first operand depends on.
    pub rows: Option<Local>,
    /// The axis that only the second operand depends on.
    pub columns: Local,
    /// The axis that is summed over.
    pub depth: (Local, ExprId),
    /// The first operand.
    pub a: Operand,
    /// An element of the second one.
    pub b: ExprId,
    /// The type of both.
    pub dtype: DType,
    /// Where a sum goes.
    pub store: Store,
}

impl Lowerer<'_> {
    /// Lowers a product of matrices.
    pub(super) fn dot(&mut self, args: &[Val], ty: &Type) -> Result<Val> {
        // Each element is read many times, so it is computed before.
        let (a, b) = (self.ready(&args[0])?, self.ready(&args[1])?);
        let shape = self.shape_of(ty)?;
        let dtype = a.dtype();
        let (a, b, product) = self.with_rows(a, b, &shape);
        let val = match self.matrix_product(&a, &b, &product)? {
            Some(buffer) => buffer,
            None => self.plain_product(&a, &b, &product)?,
        };
        Ok(match val {
            Val::Stored { buffer, .. } => Val::Stored {
                buffer,
                dtype,
                shape,
            },
            other => other,
        })
    }

    /// The operands and the result's shape with leading axes that the second operand lacks made rows: many rows of one
    /// product are faster than many products of few rows. Where each has many rows, axes stay as those have them who read it.
    fn with_rows(&mut self, a: Val, b: Val, shape: &[ExprId]) -> (Val, Val, Vec<ExprId>) {
        let (dtype, rank) = (a.dtype(), shape.len());
        let pool = &mut self.program.pool;
        let same = a.shape()[..a.shape().len() - 1] == shape[..rank - 1];
        let outer = &b.shape()[..b.shape().len() - 2];
        let many = pool.as_int(shape[rank - 2]) >= Some(MANY_ROWS);
        if rank == 2 || many || !same || outer.iter().any(|&s| pool.as_int(s) != Some(1)) {
            return (a, b, shape.to_vec());
        }
        let rows = pool.product_of(&shape[..rank - 1]);
        let depth = a.shape()[rank - 1];
        let matrix = b.shape()[b.shape().len() - 2..].to_vec();
        let a = Val::lazy(dtype, vec![rows, depth], View::Reshape(a));
        let b = Val::lazy(dtype, matrix, View::Reshape(b));
        (a, b, vec![rows, shape[rank - 1]])
    }

    /// A product that kernels compute; `None` where they have no use.
    fn matrix_product(&mut self, a: &Val, b: &Val, shape: &[ExprId]) -> Result<Option<Val>> {
        let (dtype, rank) = (a.dtype(), shape.len());
        let depth_size = a.shape()[a.shape().len() - 1];
        let pool = &self.program.pool;
        let known = |e: ExprId| pool.as_int(e);
        let (rows, columns) = (known(shape[rank - 2]), known(shape[rank - 1]));
        // What has fewer columns than a vector has lanes is computed the other way round.
        let turned = columns == Some(1) || columns.zip(rows).is_some_and(|(n, m)| n < m.min(8));
        let single = columns == Some(1) && rows == Some(1);
        if !has_kernels(dtype)
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
        let (a, b, row, column) = match turned {
            false => (left, right, row, column),
            true => (right, left, column, row),
        };
        let local = |lowerer: &Self, e: ExprId| match lowerer.program.pool[e] {
            Expr::Local(local) => Some(local),
            _ => None,
        };
        let (rows, columns) = (local(self, row), local(self, column));
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
        };
        self.contract(axes, parts)?;
        Ok(Some(Val::Stored {
            buffer,
            dtype,
            shape: shape.to_vec(),
        }))
    }

    /// Adds a contraction over these axes, `rows` and `columns` among them.
    pub(super) fn contract(&mut self, axes: Vec<(Local, ExprId)>, parts: Parts) -> Result<()> {
        let sum = self.program.locals.push(LocalData {
            dtype: parts.dtype,
            kind: LocalKind::Sum,
            name: "sum".into(),
        });
        let mut c = Contract {
            rows: parts.rows,
            columns: parts.columns,
            depth: parts.depth,
            a: parts.a,
            b: Operand {
                value: parts.b,
                access: Access::Computed,
            },
            dtype: parts.dtype,
            sum,
            finish: self.program.pool.local(sum),
            store: parts.store,
            own: None,
        };
        self.choose_access(&mut c, &axes)?;
        let (columns, panels) = (c.columns, matches!(c.b.access, Access::Panels { .. }));
        self.run(axes, Body::Contract(c));
        // Each unit has its own part of the weights in its cache.
        if panels {
            self.deal_out(columns);
        }
        Ok(())
    }

    /// An operand that lies in memory in even strides; a copy of it if it does not.
    pub(super) fn strided_operand(
        &mut self,
        x: &Val,
        index: &[ExprId],
        shape: &[ExprId],
        outer: Option<Local>,
        depth: Local,
    ) -> Result<Operand> {
        let value = read_matrix(self, x, index, shape);
        if let Some(access) = strided(&mut self.program.pool, value, outer, depth) {
            return Ok(Operand { value, access });
        }
        let x = self.stored(x)?;
        let value = read_matrix(self, &x, index, shape);
        match strided(&mut self.program.pool, value, outer, depth) {
            Some(access) => Ok(Operand { value, access }),
            None => self.fail("an operand of a contraction has no strides"),
        }
    }

    /// How the kernel reads the second operand: constants are packed now; others are packed by the kernel, unless there
    /// are too few rows to make up for that and the operand's vectors are contiguous. Where only the run knows the rows, the
    /// kernel decides by their number.
    fn choose_access(&mut self, c: &mut Contract, axes: &[(Local, ExprId)]) -> Result<()> {
        let pool = &mut self.program.pool;
        let access = strided(pool, c.b.value, Some(c.columns), c.depth.0);
        if let Some(access) = access {
            if let Some(packed) = self.packed(c, axes, access) {
                c.b = packed;
                return Ok(());
            }
            c.b.access = access;
            let pool = &self.program.pool;
            if c.reads_vectors(pool) && c.has_at_most_rows(pool, axes, FEW_ROWS) {
                return Ok(());
            }
        }
        c.own = Some(self.own_panels(c)?);
        Ok(())
    }

    /// The operand in panels, if it is a constant.
    fn packed(
        &mut self,
        c: &Contract,
        axes: &[(Local, ExprId)],
        access: Access,
    ) -> Option<Operand> {
        let Access::Strided {
            buffer,
            base,
            outer,
            depth,
        } = access
        else {
            return None;
        };
        let BufferKind::Constant(tensor) = &self.program.buffers[buffer].kind else {
            return None;
        };
        let tensor = tensor.clone();
        let pool = &mut self.program.pool;
        let size = |pool: &Pool, local: Local| {
            let axis = axes.iter().find(|a| a.0 == local)?;
            pool.as_int(axis.1)
        };
        // Axes of the base tell matrices apart.
        let (mut base, mut batch, mut places) = (base, vec![], vec![]);
        for &(local, _) in axes {
            let (by, rest) = stride(pool, base, local)?;
            if by != pool.int(0) {
                batch.push((pool.as_int(by)?, size(pool, local)?));
                places.push(local);
                base = rest;
            }
        }
        let panels = Panels {
            tensor,
            base: pool.as_int(base)?,
            batch,
            depth: (pool.as_int(depth)?, pool.as_int(c.depth.1)?),
            columns: (pool.as_int(outer)?, size(pool, c.columns)?),
        };
        let mut matrix = pool.int(0);
        for (&local, &(_, size)) in places.iter().zip(&panels.batch) {
            let (local, size) = (pool.local(local), pool.int(size));
            let scaled = pool.product(matrix, size);
            matrix = pool.sum(scaled, local);
        }
        let len = pool.int(panels.matrix_len());
        let base = pool.product(matrix, len);
        let key = (
            buffer,
            panels.base,
            panels.batch.clone(),
            panels.depth,
            panels.columns,
        );
        let packed = match self.packed.get(&key) {
            Some(&packed) => packed,
            None => {
                let data = BufferData {
                    dtype: c.dtype,
                    len: self.program.pool.int(panels.len()),
                    kind: BufferKind::Packed(panels),
                    procedure: None,
                    name: self.program.buffers[buffer].name.clone(),
                };
                let packed = self.program.buffers.push(data);
                self.packed.insert(key, packed);
                packed
            }
        };
        let value = in_panels(&mut self.program.pool, c, packed, base);
        Some(Operand {
            value,
            access: Access::Panels {
                buffer: packed,
                base,
                depth: c.depth.1,
            },
        })
    }

    /// Memory of each unit's own for the panels that a kernel goes through at a time (`heddle_block`).
    fn own_panels(&mut self, c: &Contract) -> Result<Buffer> {
        let pool = &mut self.program.pool;
        let (least, width) = (pool.int(BLOCK_DEPTH), pool.int(panel_width(c.dtype)));
        let depth = pool.binary(BinaryOp::Max, DType::I64, c.depth.1, least);
        let len = pool.product(depth, width);
        match self.own.get(&c.dtype) {
            Some(&own) => {
                // Operators come one after the other: the largest part is enough for all.
                let data = &mut self.program.buffers[own];
                data.len = pool.binary(BinaryOp::Max, DType::I64, data.len, len);
                Ok(own)
            }
            None => {
                let own = self.buffer(c.dtype, &[len], BufferKind::Own, "panels")?;
                self.own.insert(c.dtype, own);
                Ok(own)
            }
        }
    }

    /// Whether a size is the same during a whole launch.
    pub(super) fn is_fixed(&self, size: ExprId) -> bool {
        let is_size = |l: &Local| self.program.locals[*l].kind == LocalKind::Size;
        self.program.locals_of(size).iter().all(is_size) && !self.program.loads(size)
    }

    /// Deals the columns of the last operator, a contraction, out to units if it computes one matrix.
    pub(super) fn deal_out(&mut self, columns: Local) {
        let Some(id) = self.program.operators.keys().next_back() else {
            return;
        };
        let op = &mut self.program.operators[id];
        let Body::Contract(c) = &op.body else {
            return;
        };
        let single = |a: &(Local, ExprId)| Some(a.0) == c.rows || a.0 == columns;
        if let Some(axis) = op.axes.iter().position(|a| a.0 == columns)
            && op.axes.iter().all(single)
        {
            let period = op.axes[axis].1;
            op.share = Share::Dealt(Split::whole(axis, period));
        }
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

/// Rows from which on more rows are not faster.
const MANY_ROWS: i64 = 32;

/// Panels of this depth together are 256 KiB: `heddle_block` in the emitter's kernels.
const BLOCK_DEPTH: i64 = 4096;

/// Whether emitters have kernels for elements of this type.
pub(super) fn has_kernels(dtype: DType) -> bool {
    use DType::*;
    matches!(dtype, F32 | F64 | I32 | I64 | U32 | U64)
}

/// The element of an operand at an index whose leading axes are those of the result's shape, which it broadcasts to.
fn read_matrix(lowerer: &mut Lowerer, x: &Val, index: &[ExprId], shape: &[ExprId]) -> ExprId {
    let matrix = &x.shape()[x.shape().len() - 2..];
    let shape = [&shape[..shape.len() - 2], matrix].concat();
    let x = Val::lazy(x.dtype(), shape, View::Broadcast(x.clone()));
    x.read(&mut lowerer.program.pool, index)
}

/// The element of the second operand in panels.
fn in_panels(pool: &mut Pool, c: &Contract, buffer: Buffer, base: ExprId) -> ExprId {
    let (column, k) = (pool.local(c.columns), pool.local(c.depth.0));
    let width = pool.int(panel_width(c.dtype));
    let panel = pool.binary(BinaryOp::Div, DType::I64, column, width);
    let inside = pool.binary(BinaryOp::Mod, DType::I64, column, width);
    let row = pool.product(panel, c.depth.1);
    let row = pool.sum(row, k);
    let at = pool.product(row, width);
    let at = pool.sum(at, inside);
    let at = pool.sum(base, at);
    pool.add(Expr::Load(buffer, at))
}
