//! Builds the program that a tracer would: the decisions of one run are recorded, and replayed
//! without control flow.
//!
//! This is the bound that control flow is measured against (Cocktailer §5.2 compares with a traced
//! program, too). The trace runs the scheduled program's own operators, as often as the run did;
//! loops, branches and code that only they need are gone. Values are still computed, so a trace is
//! correct for every input with the same decisions.
//!
//! The operators of a procedure are copied for each call depth, with their own buffers for its
//! parameters and its frame.

mod needed;
mod record;
mod replay;

pub use record::record_decisions;
pub use replay::replay;

/// Limit on the decisions of a trace; the text of a longer one would take too long to compile.
const MOST_DECISIONS: i64 = 1 << 20;

/// Limit on nested calls.
const MOST_NESTED: usize = 1024;

/// The reasons for which a program cannot be traced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The run is too long.
    #[error("the run makes {0} decisions, and a trace holds {MOST_DECISIONS} at most")]
    TooLong(i64),
    /// The record belongs to another program.
    #[error("the record of decisions does not fit the program")]
    Mismatch,
    /// The recursion is too deep.
    #[error(
        "the run nests more than {MOST_NESTED} calls, and a trace has memory of its own for each"
    )]
    TooDeep,
}
