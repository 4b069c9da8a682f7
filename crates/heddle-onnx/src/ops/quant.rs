//! Quantisation: QuantizeLinear, DequantizeLinear and the integer matrix products.

use super::Table;

/// The operators of this file.
pub(super) const OPS: Table = &[];
