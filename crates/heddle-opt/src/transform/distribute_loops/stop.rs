//! Reasons to give up a plan.

use heddle_ir::{Inst, TypeError};

use crate::batch::Refusal;

/// The reason why a loop is not distributed as planned.
pub enum Stop {
    /// This instruction cannot be evaluated for all iterations at once.
    Refused(Inst),
    /// The plan cannot be carried out.
    Impossible,
}

impl From<Refusal> for Stop {
    fn from(_: Refusal) -> Self {
        Stop::Impossible
    }
}

impl From<TypeError> for Stop {
    fn from(_: TypeError) -> Self {
        Stop::Impossible
    }
}
