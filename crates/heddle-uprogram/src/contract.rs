//! Contractions: sums of products over a depth axis, which emitters have kernels for.
//!
//! A contraction names its axes. Every part is an expression: passes that ask what is read and written, and targets without
//! kernels, need nothing else. Lowering leaves it at that, a *logical* contraction; `select_kernels` then notes the layout in which
//! a kernel reads each operand, so that it can read whole vectors, and its tile.

mod panels;
mod strided;

use heddle_ir::DType;

pub use panels::{Panels, panel_width};
pub use strided::{stride, strided};

use crate::expr::{ExprId, Pool};
use crate::program::{Buffer, Local, Store};

/// Rows for which packing an operand into panels costs more than it gains, if its vectors are contiguous.
pub const FEW_ROWS: i64 = 4;

/// `out[offset] = finish(sum over depth of a · b)` at each point of the operator's axes.
#[derive(Clone, Debug)]
pub struct Contract {
    /// The parallel axis that only `a` depends on; `None` when there is one row.
    pub rows: Option<Local>,
    /// The parallel axis that only `b` depends on. A kernel computes neighbouring columns together.
    pub columns: Local,
    /// The axis that is summed over, and its size.
    pub depth: (Local, ExprId),
    /// The operand whose elements each meet a vector of columns.
    pub a: Operand,
    /// The operand that is read in vectors.
    pub b: Operand,
    /// The type of products and sums.
    pub dtype: DType,
    /// Stands for the complete sum in `finish`.
    pub sum: Local,
    /// What is stored: the sum, or what an element-wise op that follows makes of it.
    pub finish: ExprId,
    /// Where it goes.
    pub store: Store,
    /// Columns that the kernel computes together: a share of columns is a multiple of them. 1: plain loops, no kernel.
    pub tile: i64,
    /// Memory of each unit's own for a part of `b` in panels, if the kernel packs it.
    pub own: Option<Buffer>,
}

/// An operand of a contraction.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// The element at a point, in the contraction's type.
    pub value: ExprId,
    /// How a kernel reads it.
    pub access: Access,
}

/// How a kernel reads an operand.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    /// Element `base + i * outer + k * depth` of a buffer of the contraction's type, for row or column `i`. None of the
    /// three depends on rows, columns or depth. A second operand is packed from there if the contraction has memory for that.
    Strided {
        /// Where it lies.
        buffer: Buffer,
        /// The first element.
        base: ExprId,
        /// From one row or column to the next.
        outer: ExprId,
        /// From one place of the depth axis to the next.
        depth: ExprId,
    },
    /// Panels ([`Panels`]) that start at this element of a buffer of the contraction's type.
    Panels {
        /// Where they lie.
        buffer: Buffer,
        /// The first element.
        base: ExprId,
        /// How many places of the depth axis a panel holds.
        depth: ExprId,
    },
    /// No layout: the expression is all there is. A kernel evaluates it into panels of its own.
    Computed,
}

impl Contract {
    /// Whether there are, for certain, at most this many rows.
    pub fn has_at_most_rows(&self, pool: &Pool, axes: &[(Local, ExprId)], most: i64) -> bool {
        let Some(rows) = self.rows else {
            return true;
        };
        let size = axes.iter().find(|a| a.0 == rows).map(|a| pool.as_int(a.1));
        size.flatten().is_some_and(|size| size <= most)
    }

    /// Whether vectors of the second operand can be read where it lies: its columns lie next to each other, or its places of the
    /// depth axis do, and those of the first operand.
    pub fn reads_vectors(&self, pool: &Pool) -> bool {
        let is_one = |e: ExprId| pool.as_int(e) == Some(1);
        match (self.b.access, self.a.access) {
            (Access::Strided { outer, depth, .. }, Access::Strided { depth: a, .. }) => {
                is_one(outer) || is_one(depth) && is_one(a)
            }
            _ => false,
        }
    }

    /// Does a kernel exist that has this tile and reads operands in these layouts?
    pub fn has_kernel(&self, pool: &Pool) -> bool {
        let reads_b = match self.b.access {
            Access::Panels { .. } => self.own.is_none(),
            _ => self.own.is_some() || self.reads_vectors(pool),
        };
        let reads_a = matches!(self.a.access, Access::Strided { .. });
        self.tile == panel_width(self.dtype) && reads_a && reads_b
    }

    /// Places of an axis of which shares are multiples.
    pub fn step(&self, axis: Local) -> i64 {
        if axis == self.columns { self.tile } else { 1 }
    }

    /// Places of a split axis that a unit computes whose share is `most` of them: columns in whole tiles, and those
    /// of a tile that units share more than once.
    pub fn computed(&self, axis: Local, grain: i64, most: f64) -> f64 {
        if axis != self.columns {
            return most;
        }
        let width = self.tile;
        let whole = grain % width == 0 || most % width as f64 == 0.0;
        let shared = if whole { 0.0 } else { 1.0 };
        let tiles = (most / width as f64).ceil();
        // Half of the units have a tile that they share at one end only.
        (tiles + 0.5 * shared) * width as f64
    }
}
