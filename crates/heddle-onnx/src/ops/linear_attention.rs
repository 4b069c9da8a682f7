//! Recurrent attention: LinearAttention, CausalConvWithState.

use super::Table;

/// The operators of this file.
pub(super) const OPS: Table = &[];
