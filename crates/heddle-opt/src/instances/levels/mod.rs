//! Recursion that follows from tensors, by levels.
//!
//! An activation of a recursive function is parted ([`parts`]): [`before`] its calls all that needs
//! none of their results, which makes the calls' arguments; [`after`] them the rest. Level 0 are the
//! instances. The part in front is evaluated for a whole level at once, and the calls that it makes
//! are the next level, until one is empty; what the other part needs is kept. Then that is evaluated
//! for one level after the other, the last first, so that all results of calls are there.
//!
//! So calls of one activation that need nothing of each other are evaluated together, and those of
//! all instances.

mod after;
mod backward;
mod before;
mod calls;
mod copy;
mod drive;
mod kept;
mod late;
mod parts;
mod saved;

use heddle_ir::{FuncBuilder, FuncId, Function};

use super::lane::Lane;
use super::set::Set;
use crate::batch::{Refusal, Result};
pub(super) use copy::with_rows;
use drive::Driver;
use parts::Parts;
pub(super) use parts::has_sizes;

impl Set<'_> {
    /// A call of the recursive function `source`, whose parameters these instances have, level by
    /// level.
    pub(super) fn call_levels(
        &self,
        b: &mut FuncBuilder,
        callee: FuncId,
        source: &Function,
    ) -> Result<Vec<Lane>> {
        let module = self.context.module;
        let components = self.context.components();
        if components.of(callee).len() > 1 || !components.is_recursive(callee) {
            return Err(Refusal::Call);
        }
        let parts = Parts::of(source, callee)?;
        let early = before::before(module, &parts)?;
        let late = after::after(module, &parts)?;
        let driver = Driver {
            parts: &parts,
            before: &early,
            after: &late,
            top: self,
        };
        driver.run(b)
    }
}
