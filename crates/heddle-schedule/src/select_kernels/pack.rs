//! Packed constants.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Tensor};

use super::Selection;
use heddle_uprogram::contract::{Access, Contract, Filters, Operand, Panels, panel_width, stride};
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{Buffer, BufferData, BufferKind, Local};

/// Content of packed panels: buffer, first element, and stride and size of the batch axes, the
/// depth axis and the columns; the transformation of filters.
pub(super) type PanelKey = (
    Buffer,
    i64,
    Vec<(i64, i64)>,
    Vec<(i64, i64)>,
    (i64, i64),
    Option<Filters>,
);

impl Selection<'_> {
    /// The second operand in panels, if it is a constant.
    pub(super) fn packed(
        &mut self,
        c: &Contract,
        axes: &[(Local, ExprId)],
        access: Access,
    ) -> Option<Operand> {
        let (buffer, tensor, [base, outer, depth]) = self.constant_matrix(access)?;
        let pool = &mut self.program.pool;
        let size = |pool: &Pool, local: Local| {
            let axis = axes.iter().find(|a| a.0 == local)?;
            pool.as_int(axis.1)
        };
        // Axes of the base are batch axes.
        let (mut base, mut batch, mut places) = (base, vec![], vec![]);
        for &(local, _) in axes {
            let (by, rest) = stride(pool, base, local)?;
            if by != pool.int(0) {
                batch.push((pool.as_int(by)?, size(pool, local)?));
                places.push(local);
                base = rest;
            }
        }
        let (step, whole) = (pool.as_int(depth)?, pool.as_int(c.depth.1)?);
        // Weights have their channels outermost, a depth of runs has them innermost.
        let depth = match (c.a.access, &c.windows) {
            (Access::Windows { .. }, Some(windows)) => {
                let taps = windows.taps();
                vec![(step, taps), (step * taps, windows.channels)]
            }
            _ => vec![(step, whole)],
        };
        let panels = Panels {
            stored: tensor.dtype(),
            tensor,
            base: pool.as_int(base)?,
            batch,
            depth,
            columns: (pool.as_int(outer)?, size(pool, c.columns)?),
            filters: None,
        };
        let mut matrix = pool.int(0);
        for (&local, &(_, size)) in places.iter().zip(&panels.batch) {
            let (local, size) = (pool.local(local), pool.int(size));
            let scaled = pool.product(matrix, size);
            matrix = pool.sum(scaled, local);
        }
        let len = pool.int(panels.matrix_len());
        let base = pool.product(matrix, len);
        let packed = self.panels(buffer, panels);
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

    /// The constant that is read by strides: its first element, and the strides of columns and of the depth.
    pub(super) fn constant_matrix(&self, access: Access) -> Option<(Buffer, Tensor, [ExprId; 3])> {
        let Access::Strided {
            buffer,
            base,
            outer,
            depth,
        } = access
        else {
            return None;
        };
        match &self.program.buffers[buffer].kind {
            BufferKind::Constant(tensor) => Some((buffer, tensor.clone(), [base, outer, depth])),
            _ => None,
        }
    }

    /// The buffer of a constant's panels.
    pub(super) fn panels(&mut self, of: Buffer, panels: Panels) -> Buffer {
        let key = (
            of,
            panels.base,
            panels.batch.clone(),
            panels.depth.clone(),
            panels.columns,
            panels.filters,
        );
        if let Some(&packed) = self.packed.get(&key) {
            return packed;
        }
        let packed = self.program.buffers.push(BufferData {
            dtype: panels.tensor.dtype(),
            len: self.program.pool.int(panels.len()),
            kind: BufferKind::Packed(panels),
            procedure: None,
            name: self.program.buffers[of].name.clone(),
        });
        self.packed.insert(key, packed);
        packed
    }
}

/// The element of the second operand in panels.
pub(super) fn in_panels(pool: &mut Pool, c: &Contract, buffer: Buffer, base: ExprId) -> ExprId {
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
