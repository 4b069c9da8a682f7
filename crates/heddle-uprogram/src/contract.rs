//! Contractions: sums of products over a depth axis, for which emitters have kernels.
//!
//! A contraction names its axes, and each part is an expression. Passes that ask for reads and
//! writes, and targets without kernels, need nothing else. Lowering produces such *logical*
//! contractions; `select_kernels` adds the tile and the layout of each operand, from which a kernel
//! reads whole vectors.

mod panels;
mod strided;
mod windows;

use heddle_ir::DType;

pub use panels::{Filters, NARROW, Panels, Scheme, TAPS, panel_width, places_of_row};
pub use strided::{rows, stride, strided};
pub use windows::{Extent, WindowAxis, Windows};

use crate::expr::{ExprId, Pool, Store};
use crate::ids::{Buffer, Local};

/// Largest number of rows for which contiguous vectors are read in place rather than packed.
pub const FEW_ROWS: i64 = 4;

/// Panels whose sums a kernel of the CPU collects at a time: `HEDDLE_PANELS` of heddle-emit's
/// `contract.h`.
pub const BLOCK_PANELS: i64 = 4;

/// Limit on the rows that go by these panels at a time: `HEDDLE_BLOCK_ROWS` there.
pub const BLOCK_ROWS: i64 = 96;

/// Rows of a map in a piece of a share: a multiple of the rows of a tile, which go down a column.
const BLOCK_LINES: i64 = 24;

/// Rows of a map that a tile of windows has at most: eight with the longest vectors.
const TILE_LINES: f64 = 8.0;

/// A tile of fewer rows takes as long as one of these: its panel is read from the L2.
const LEAST_LINES: f64 = 3.0;

/// `out[offset] = finish(sum over depth of a · b)` at each point of the operator's axes.
#[derive(Clone, Debug)]
pub struct Contract {
    /// The parallel axis that only `a` depends on; `None` when there is one row.
    pub rows: Option<Local>,
    /// The parallel axis that only `b` depends on. A kernel computes neighbouring columns together.
    pub columns: Local,
    /// The axis that is summed over, and its size.
    pub depth: (Local, ExprId),
    /// The operand that is read one element at a time.
    pub a: Operand,
    /// The operand that is read in vectors.
    pub b: Operand,
    /// The type of products and sums.
    pub dtype: DType,
    /// The type that operands of `f32` may be rounded to before they are multiplied; sums are exact to `f32` still.
    pub rounding: Option<Rounding>,
    /// The variable for the complete sum in `finish`.
    pub sum: Local,
    /// The stored value: the sum, or an epilogue of it.
    pub finish: ExprId,
    /// The destination.
    pub store: Store,
    /// Columns that the kernel computes together: shares of columns are multiples of it. 1: plain
    /// loops, no kernel.
    pub tile: i64,
    /// Per-unit memory for panels of `b`, if the kernel packs them.
    pub own: Option<Buffer>,
    /// The windows of a convolution, in whose order the places of the depth axis are: of `b`, whose
    /// columns are places of the result, until a kernel that reads them where they lie is selected;
    /// then of `a`.
    pub windows: Option<Box<Windows>>,
}

/// A type that tensor cores multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// `f32` with 10 bits of its mantissa.
    Tf32,
    /// The upper half of an `f32`.
    Bf16,
    /// Half precision.
    F16,
}

impl Rounding {
    /// All of them.
    pub const ALL: &'static [Rounding] = &[Rounding::Tf32, Rounding::Bf16, Rounding::F16];

    /// The name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Rounding::Tf32 => "tf32",
            Rounding::Bf16 => "bf16",
            Rounding::F16 => "f16",
        }
    }

    /// Places of the depth axis that a tensor core multiplies at a time.
    pub const fn depth(self) -> u32 {
        match self {
            Rounding::Tf32 => 8,
            Rounding::Bf16 | Rounding::F16 => 16,
        }
    }
}

/// An operand of a contraction.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// The element at a point, in the contraction's type.
    pub value: ExprId,
    /// Its layout.
    pub access: Access,
}

/// The layout of an operand.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    /// Element `base + i * outer + k * depth` of a buffer of the contraction's type, for row or
    /// column `i`. None of the three depends on rows, columns or depth. A second operand is packed
    /// from there if the contraction has `own` memory.
    Strided {
        /// The buffer.
        buffer: Buffer,
        /// The first element.
        base: ExprId,
        /// Stride of rows or columns.
        outer: ExprId,
        /// Stride of the depth axis.
        depth: ExprId,
    },
    /// Element `at + k` of a buffer of the contraction's type, where `at` is any expression of rows and
    /// other parallel axes: indices in memory choose the rows. For first operands only.
    Rows {
        /// The buffer.
        buffer: Buffer,
        /// The first element of a row.
        at: ExprId,
    },
    /// Panels ([`Panels`]) that start at this element of a buffer of the contraction's type, or of packed constants in a type of
    /// [`NARROW`], which a kernel widens.
    Panels {
        /// The buffer.
        buffer: Buffer,
        /// The first element.
        base: ExprId,
        /// Places of a panel: the size of the depth axis, in whole rows.
        depth: ExprId,
    },
    /// The [windows](Contract::windows) of a map whose channels lie next to each other, which begins
    /// at this element of a buffer of the contraction's type. For first operands only.
    Windows {
        /// The buffer.
        buffer: Buffer,
        /// The first channel of the first place; it does not depend on rows, columns or depth.
        base: ExprId,
    },
    /// No layout, only the expression. A kernel evaluates it into panels of its own.
    Computed,
}

impl Contract {
    /// True if the number of rows is static and at most `most`.
    pub fn has_at_most_rows(&self, pool: &Pool, axes: &[(Local, ExprId)], most: i64) -> bool {
        let Some(rows) = self.rows else {
            return true;
        };
        let size = axes.iter().find(|a| a.0 == rows).map(|a| pool.as_int(a.1));
        size.flatten().is_some_and(|size| size <= most)
    }

    /// True if vectors of the second operand can be read in place: its columns are contiguous, or
    /// both operands are contiguous along the depth.
    pub fn reads_vectors(&self, pool: &Pool) -> bool {
        let is_one = |e: ExprId| pool.as_int(e) == Some(1);
        match (self.b.access, self.a.access) {
            (Access::Strided { outer, depth, .. }, a) => {
                let along = match a {
                    Access::Strided { depth, .. } => is_one(depth),
                    Access::Rows { .. } => true,
                    _ => false,
                };
                let reads_a = along || matches!(a, Access::Strided { .. });
                reads_a && is_one(outer) || is_one(depth) && along
            }
            _ => false,
        }
    }

    /// True if a kernel exists for this tile and these layouts.
    pub fn has_kernel(&self, pool: &Pool) -> bool {
        let reads_b = match self.b.access {
            Access::Panels { .. } => self.own.is_none(),
            Access::Rows { .. } | Access::Windows { .. } => false,
            _ => self.own.is_some() || self.reads_vectors(pool),
        };
        let reads_a = match self.a.access {
            Access::Strided { .. } | Access::Rows { .. } => true,
            Access::Windows { .. } => {
                let packed = matches!(self.b.access, Access::Panels { .. });
                packed && self.windows.is_some() && self.rows.is_some()
            }
            Access::Panels { .. } | Access::Computed => false,
        };
        self.tile == panel_width(self.dtype) && reads_a && reads_b
    }

    /// Shares of this axis are multiples of this: columns of a tile, a row of a map.
    pub fn step(&self, axis: Local) -> i64 {
        match self.lines() {
            _ if axis == self.columns => self.tile,
            Some(line) if Some(axis) == self.rows => line,
            _ => 1,
        }
    }

    /// Places of a row of the map, if the first operand is windows of one and the number is static.
    fn lines(&self) -> Option<i64> {
        let is_map = matches!(self.a.access, Access::Windows { .. });
        let windows = self.windows.as_ref().filter(|_| is_map)?;
        windows.lined().and_then(|axes| axes[2].places.as_int())
    }

    /// Pieces of a share of this axis are multiples of this, so that they read no operand more
    /// often: sums of several panels at once, and blocks of rows, which go by all panels. `None` if
    /// each piece would pack its own panels.
    pub fn piece_step(&self, axis: Local) -> Option<i64> {
        match (self.tile > 1, axis) {
            (false, _) => Some(1),
            (true, axis) if axis == self.columns => Some(BLOCK_PANELS * self.tile),
            (true, axis) if Some(axis) == self.rows => match self.lines() {
                Some(line) => Some(BLOCK_LINES * line),
                None => self.own.is_none().then_some(BLOCK_ROWS),
            },
            _ => Some(1),
        }
    }

    /// Places of a split axis that a unit with a share of `most` computes: whole tiles of columns,
    /// including tiles shared with a neighbour; of windows, as many as it would in the time of tiles with few rows of the map.
    pub fn computed(&self, axis: Local, grain: i64, most: f64) -> f64 {
        if axis != self.columns {
            let line = self.lines().filter(|_| Some(axis) == self.rows);
            return line.map_or(most, |line| most * slower(most / line as f64));
        }
        let width = self.tile;
        let whole = grain % width == 0 || most % width as f64 == 0.0;
        let shared = if whole { 0.0 } else { 1.0 };
        let tiles = (most / width as f64).ceil();
        // Half of the units share a tile at one end only.
        (tiles + 0.5 * shared) * width as f64
    }
}

/// The factor by which windows of so many rows of a map take longer than in full tiles.
fn slower(lines: f64) -> f64 {
    let lines = lines.ceil().max(1.0);
    let tile = lines / (lines / TILE_LINES).ceil();
    (LEAST_LINES / tile).max(1.0)
}
