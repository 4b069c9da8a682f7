//! Contractions: sums of products over a depth axis, which emitters have kernels for.
//!
//! A contraction names its axes and says how each operand lies in memory, so that a target's kernel can read whole vectors. Every
//! part is an expression, too: whoever asks what is read and written, or has no kernel, needs nothing else.

mod panels;
mod strided;

use heddle_ir::DType;

pub use panels::{Panels, panel_width};
pub use strided::{stride, strided};

use crate::expr::{ExprId, Pool};
use crate::program::{Buffer, Local, Store};

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
    /// Memory of each unit's own for a part of `b` in panels, if the kernel needs some.
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
    /// three depends on rows, columns or depth.
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
    },
    /// Only its expression says it: a kernel evaluates that into panels of its own.
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
}
