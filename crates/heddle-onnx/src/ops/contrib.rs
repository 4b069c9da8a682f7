//! Operators of the domain com.microsoft that exporters of transformers emit.

use super::Table;

/// The operators of this file.
pub(super) const OPS: Table = &[];
