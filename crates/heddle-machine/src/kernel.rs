//! Kernel families for contractions, and the operand layouts that they read.

use crate::Scalar;

/// A kernel family with its tile and the layouts of its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The algorithm.
    pub family: Family,
    /// Element types for which it exists; empty: all.
    pub scalars: Vec<Scalar>,
    /// Its tile sizes.
    pub tile: Tile,
    /// Layouts in which it reads the second operand.
    pub layouts: Vec<Layout>,
    /// The most rows for which it is of use; `None`: any number.
    pub most_rows: Option<usize>,
    /// Rows from which on its rate does not grow any more.
    pub full_rows: usize,
}

/// An algorithm for a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// A loop nest that the target's compiler optimises.
    Loops,
    /// Register-tiled outer products: vectors of a panel's columns times elements of several rows.
    OuterProduct,
    /// Few rows times a second operand whose columns lie next to each other, streamed where it lies.
    Rows,
    /// Few rows times a second operand whose depth lies contiguously: dot products.
    DotRows,
    /// The second operand is evaluated into panels by the kernel (the windows of a convolution), then as
    /// [`Family::OuterProduct`].
    PackedComputed,
    /// Windows of a map whose channels are contiguous, read where they lie, times panels of weights:
    /// as [`Family::OuterProduct`], but the depth is runs of memory.
    Windows,
}

/// A layout of an operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Any strides of rows and depth: the operand where it lies.
    Strided,
    /// Columns next to each other, any stride of depth.
    ContiguousColumns,
    /// Depth contiguous, any stride of columns.
    ContiguousDepth,
    /// No layout: each element is an expression.
    Computed,
    /// A map with its channels innermost.
    ChannelsLast,
    /// Panels of columns, stored row by row; a row of a panel takes so many bytes.
    Panels {
        /// Bytes of a panel's row.
        row_bytes: usize,
    },
}

impl Layout {
    /// Columns of a panel of elements of this type; 1 for other layouts.
    pub fn columns(self, scalar: Scalar) -> usize {
        match self {
            Layout::Panels { row_bytes } => (row_bytes * 8 / scalar.bits.max(1)).max(1),
            _ => 1,
        }
    }
}

/// Tile sizes of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of a register tile.
    pub rows: usize,
    /// Bytes of a register tile's row of columns.
    pub column_bytes: usize,
    /// Rows of a cache block, by which a panel goes before the next one.
    pub block_rows: usize,
    /// Rows of panels that the kernel packs for itself at a time, those of all panels together; 0: it packs none.
    pub packed_rows: usize,
}

impl Tile {
    /// One element at a time.
    pub const ELEMENT: Tile = Tile {
        rows: 1,
        column_bytes: 0,
        block_rows: 1,
        packed_rows: 0,
    };
}

/// Plain loops, which every target has.
pub(crate) fn loops() -> Kernel {
    Kernel {
        family: Family::Loops,
        scalars: vec![],
        tile: Tile::ELEMENT,
        layouts: vec![Layout::Strided, Layout::Computed],
        most_rows: None,
        full_rows: 1,
    }
}

/// The kernels of the C writer for vectors of so many bytes (docs/kernels.md).
pub(crate) fn vector_kernels(vector_bytes: usize) -> Vec<Kernel> {
    /// A cache line, a whole number of vectors on every processor.
    const PANEL: Layout = Layout::Panels { row_bytes: 64 };
    /// Rows for which packing an operand costs more than it gains, if its vectors are contiguous.
    const FEW_ROWS: usize = 4;
    /// Rows of panels that a kernel packs before it uses them: 256 KiB.
    const PACKED_ROWS: usize = 4096;
    let scalars = vec![
        Scalar::float(32),
        Scalar::float(64),
        Scalar::int(32),
        Scalar::int(64),
    ];
    let tile = Tile {
        rows: if vector_bytes >= 64 { 8 } else { 6 },
        column_bytes: 2 * vector_bytes,
        block_rows: 96,
        packed_rows: PACKED_ROWS,
    };
    let tiled = |family, layouts: &[Layout]| Kernel {
        family,
        scalars: scalars.clone(),
        tile,
        layouts: layouts.to_vec(),
        most_rows: None,
        full_rows: 32,
    };
    let few = |family, layout| Kernel {
        family,
        scalars: scalars.clone(),
        tile: Tile {
            rows: FEW_ROWS,
            column_bytes: 2 * vector_bytes,
            block_rows: FEW_ROWS,
            packed_rows: 0,
        },
        layouts: vec![layout],
        most_rows: Some(FEW_ROWS),
        full_rows: FEW_ROWS,
    };
    vec![
        loops(),
        tiled(Family::OuterProduct, &[PANEL]),
        few(Family::Rows, Layout::ContiguousColumns),
        few(Family::DotRows, Layout::ContiguousDepth),
        tiled(Family::PackedComputed, &[Layout::Strided, Layout::Computed]),
        tiled(Family::Windows, &[Layout::ChannelsLast]),
    ]
}
