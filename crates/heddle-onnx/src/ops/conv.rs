//! Convolutions: Conv, ConvTranspose and the integer forms.

use super::Table;

/// The operators of this file.
pub(super) const OPS: Table = &[];
