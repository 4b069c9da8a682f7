//! Reasons why instructions cannot be evaluated for many rows at once.

use std::fmt;

use heddle_ir::{Op, TypeError};

/// The reason why instructions cannot be evaluated for many rows, or ahead of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An op does not take the operands that it would get.
    Type(TypeError),
    /// The op has no rule for rows.
    NoRule(&'static str),
    /// Operands that give sizes differ by row.
    SizesByRow(&'static str),
    /// A call.
    Call,
    /// A value that a recursion keeps over a call, and whose size may differ by call.
    NoRow(String),
    /// A recursion with too many calls in its functions.
    ManyCalls,
    /// A branch that differs by row and may fail.
    MayFail,
    /// A branch whose arms differ in shape.
    Arms,
    /// A loop whose trip count or condition differs by row.
    LoopEnd,
    /// A size that cannot be had where it is needed.
    UnknownSize,
    /// An array of unknown rank.
    UnknownRank,
    /// A sequence, an optional or a string where a tensor is needed.
    NoTensor,
    /// Nothing differs by row.
    NoRows,
    /// The name that offsets would have is another input's or output's.
    NameTaken(String),
    /// A value that was not evaluated.
    NotEvaluated,
    /// The op cannot be evaluated ahead of the loop or recursion that it is in.
    NotAhead(&'static str),
    /// A parameter of a loop is needed ahead of it.
    LoopParameter,
    /// Index data of more than one element.
    ManyElements,
    /// A loop that writes no row.
    NoWrites,
}

impl Refusal {
    /// The op has no rule for rows.
    pub fn no_rule(op: &Op) -> Self {
        Self::NoRule(op.name())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(error) => return error.fmt(f),
            Self::NoRule(op) => return write!(f, "`{op}` of rows"),
            Self::SizesByRow(op) => return write!(f, "sizes of `{op}` that differ by row"),
            Self::NameTaken(name) => return write!(f, "`{name}` is the name of another array"),
            Self::NotAhead(op) => return write!(f, "`{op}` ahead"),
            Self::NoRow(value) => return write!(f, "{value}, whose size may differ by call"),
            Self::ManyCalls => "a recursion with too many calls",
            Self::Call => "a call",
            Self::MayFail => "a branch that differs by row and may fail",
            Self::Arms => "a branch whose arms differ in shape",
            Self::LoopEnd => "a loop whose end differs by row",
            Self::UnknownSize => "an unknown size",
            Self::UnknownRank => "an array of unknown rank",
            Self::NoTensor => "a sequence, an optional or text that differs by instance",
            Self::NoRows => "nothing differs by row",
            Self::NotEvaluated => "a value that was not evaluated",
            Self::LoopParameter => "a parameter of a loop",
            Self::ManyElements => "index data of many elements",
            Self::NoWrites => "a loop that writes nothing",
        }
        .fmt(f)
    }
}

impl std::error::Error for Refusal {}

impl From<TypeError> for Refusal {
    fn from(error: TypeError) -> Self {
        Self::Type(error)
    }
}
