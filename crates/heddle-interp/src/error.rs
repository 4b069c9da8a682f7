//! Errors that stop a run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use heddle_ir::{DType, Entity, Inst, Loc};

/// An error that stopped a run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    /// The inputs do not fit the entry function.
    #[error(transparent)]
    Input(#[from] InputError),
    /// An instruction could not be evaluated, or a limit was reached there.
    #[error("{at}: {fault}")]
    At {
        /// The instruction.
        at: Box<Place>,
        /// The cause.
        fault: Fault,
    },
}

/// Inputs that do not fit the entry function's parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InputError {
    /// Too many or too few.
    #[error("`{function}` takes {expected} inputs ({names}), but {found} are given")]
    Count {
        /// The entry function.
        function: String,
        /// Number of its parameters.
        expected: usize,
        /// Their names.
        names: String,
        /// Number of inputs given.
        found: usize,
    },
    /// Not of the parameter's kind, element type or rank.
    #[error("input `{name}` must be {expected}, but {found} is given")]
    Type {
        /// The input.
        name: String,
        /// The parameter's type.
        expected: String,
        /// The type given.
        found: String,
        /// The parameter's element type, if that alone differs.
        wanted: Option<DType>,
    },
    /// An axis does not have the size that the parameter states.
    #[error("input `{name}`: axis {axis} must have size {expected}, but has {found}")]
    Size {
        /// The input.
        name: String,
        /// The axis.
        axis: usize,
        /// The dim, with its value where it is named.
        expected: String,
        /// The size given.
        found: usize,
    },
    /// A named size is outside its bounds.
    #[error("input `{name}`: axis {axis} has size {found}, but `{symbol}` must be {bounds}")]
    Bounds {
        /// The input.
        name: String,
        /// The axis.
        axis: usize,
        /// The named size.
        symbol: String,
        /// Its bounds.
        bounds: String,
        /// The size given.
        found: usize,
    },
    /// Inputs take more than the memory limit.
    #[error("input `{name}`: {fault}")]
    Fault {
        /// The input.
        name: String,
        /// The cause.
        fault: Fault,
    },
}

/// An instruction, for messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The function that it is in.
    pub function: String,
    /// The op's name in the text form.
    pub op: &'static str,
    /// The instruction; `None` for a function's parameters and results.
    pub inst: Option<Inst>,
    /// Its source location.
    pub loc: Option<Arc<Loc>>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` in @{}", self.op, self.function)?;
        match (&self.loc, self.inst) {
            (Some(loc), _) => write!(f, " ({loc})"),
            (None, Some(inst)) => write!(f, " (instruction {})", inst.index()),
            (None, None) => Ok(()),
        }
    }
}

/// The cause that an instruction could not be evaluated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// An index is outside its axis.
    #[error("index {index} is out of range for axis {axis} of size {size}")]
    Index {
        /// The axis that is indexed.
        axis: usize,
        /// The index as given.
        index: i64,
        /// The axis' size.
        size: usize,
    },
    /// A position is outside a sequence.
    #[error("position {position} is out of range for a sequence of {len} elements")]
    Position {
        /// The position as given.
        position: i64,
        /// The number of elements.
        len: usize,
    },
    /// Shapes that the types leave open do not fit.
    #[error("{0}")]
    Shape(String),
    /// A compiled function stopped.
    #[error("@{function}: {message}")]
    Native {
        /// The function.
        function: String,
        /// Its message.
        message: String,
    },
    /// An operand's value is not allowed.
    #[error("{0}")]
    Value(String),
    /// Something that is not defined for these types.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// An array whose size does not fit the address space.
    #[error("a result of shape {shape:?} is too large for this machine")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// The memory limit.
    #[error("needs {needed} bytes of memory while {live} are in use, over the limit of {limit}")]
    Memory {
        /// Bytes asked for.
        needed: u64,
        /// Bytes in use.
        live: u64,
        /// The limit.
        limit: u64,
    },
    /// The system has no memory left.
    #[error("the system could not provide {needed} bytes of memory")]
    OutOfMemory {
        /// Bytes asked for.
        needed: u64,
    },
    /// The loop limit.
    #[error("the loop did not end within {limit} iterations")]
    Iterations {
        /// The limit.
        limit: u64,
    },
    /// The limit of nested calls.
    #[error("the call of @{function} would nest {depth} deep, over the limit of {limit}")]
    Depth {
        /// The function to be called.
        function: String,
        /// The depth that it would be at.
        depth: usize,
        /// The limit.
        limit: usize,
    },
    /// The time limit.
    #[error("the time limit of {limit:?} is over")]
    Timeout {
        /// The limit.
        limit: Duration,
    },
    /// Somebody stopped the run.
    #[error("the run was cancelled")]
    Cancelled,
    /// More work than constant folding does.
    #[error("takes more work than is done ahead of a run")]
    Work,
    /// A value is not of its stated type.
    #[error("value {index} is stated to be {expected}, but is {found}")]
    Type {
        /// Index of the operand or result.
        index: usize,
        /// The stated type.
        expected: String,
        /// The value's type.
        found: String,
    },
}

impl RunError {
    /// True for the time limit.
    pub fn is_timeout(&self) -> bool {
        matches!(self, RunError::At { fault, .. } if matches!(fault, Fault::Timeout { .. }))
    }
}

impl Fault {
    /// The fault of an op that does not take this element type.
    pub(crate) fn dtype(op: &str, dtype: DType) -> Fault {
        Fault::Unsupported(format!("{op} of {dtype}"))
    }
}
