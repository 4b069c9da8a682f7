//! `heddle opt`.

use crate::args::OptArgs;
use crate::fail::Failure;

/// Applies passes to a program in text form.
pub fn opt(_args: OptArgs) -> Result<(), Failure> {
    Ok(())
}
