//! Pooling over windows and whole images, and MaxUnpool.

use super::Table;

/// The operators of this file.
pub(super) const OPS: Table = &[];
