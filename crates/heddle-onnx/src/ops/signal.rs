//! Signal processing: DFT, STFT, windows.

use super::Table;

/// The operators of this file.
pub(super) const OPS: Table = &[];
