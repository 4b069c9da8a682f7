//! Makes the program that a tracer would: the decisions of one run are recorded, and replayed without control flow.
//!
//! This is the bound that control flow is measured against (Cocktailer §5.2 compares with a traced program, too). The operators
//! are the scheduled program's own, each as often as the run executed it; what is gone is loops, branches and whatever
//! only they need. Values stay computed: a traced program is right for other inputs that decide alike.
//!
//! The operators of a procedure are copied for each depth at which it is called, with buffers of their own in the places of its
//! parameters and its frame.

mod needed;
mod record;
mod replay;

pub use record::record_decisions;
pub use replay::replay;

/// More decisions than a trace is made of: its text would be too much for any compiler.
const MOST_DECISIONS: i64 = 1 << 20;

/// Calls that a trace may nest.
const MOST_NESTED: usize = 1024;

/// Why a program could not be traced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The run is too long.
    #[error("the run makes {0} decisions, and a trace holds {MOST_DECISIONS} at most")]
    TooLong(i64),
    /// The record is another program's.
    #[error("the record of decisions does not fit the program")]
    Mismatch,
    /// The run recurs too deep.
    #[error(
        "the run nests more than {MOST_NESTED} calls, and a trace has memory of its own for each"
    )]
    TooDeep,
}
