//! Attention and RotaryEmbedding.

use super::Table;

/// The operators of this file.
pub(super) const OPS: Table = &[];
