//! Object detection: NonMaxSuppression.

use super::Table;

/// The operators of this file.
pub(super) const OPS: Table = &[];
