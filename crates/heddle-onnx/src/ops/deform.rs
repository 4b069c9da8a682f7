//! Convolution with computed sampling points, and its inverse data layout: DeformConv, Col2Im.

use super::Table;

/// The operators of this file.
pub(super) const OPS: Table = &[];
