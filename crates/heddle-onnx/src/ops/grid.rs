//! Sampling at computed places: GridSample, AffineGrid.

use super::Table;

/// The operators of this file.
pub(super) const OPS: Table = &[];
