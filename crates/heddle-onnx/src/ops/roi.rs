//! Pooling over regions of interest: RoiAlign, MaxRoiPool.

use super::Table;

/// The operators of this file.
pub(super) const OPS: Table = &[];
