//! Errors of reading a traced graph.

use std::fmt;

use heddle_ir::{EmitError, OneLine, TypeError};

use crate::graph::Place;

/// Failure to read a traced graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The text is not JSON of the form that [`crate::graph`] states.
    #[error("the traced graph can't be read: {}", OneLine(message))]
    Json {
        /// The fault, with line and column.
        message: String,
    },
    /// The text's version is another.
    #[error(
        "the traced graph has version {found}; this library reads version {}",
        crate::graph::VERSION
    )]
    Version {
        /// The version stated.
        found: u32,
    },
    /// A limit of this reader is exceeded.
    #[error("the traced graph has {}, more than {limit}", OneLine(what))]
    TooLarge {
        /// The quantity, with its noun.
        what: String,
        /// The most that is read.
        limit: usize,
    },
    /// A `.pt2` file is wrong outside of its graph's nodes.
    #[error(transparent)]
    Pt2(#[from] crate::pt2_error::Pt2Error),
    /// Operators, or uses of them, without a lowering: all of them.
    #[error("{}", unsupported(.0))]
    Unsupported(Vec<UnsupportedOp>),
    /// A node can't be lowered.
    #[error("{at}: {error}")]
    Node {
        /// The node.
        at: Box<NodePlace>,
        /// The fault.
        error: OpError,
    },
    /// A graph is wrong outside of its nodes.
    #[error("function `{}`: {}", OneLine(function), OneLine(message))]
    Graph {
        /// The function.
        function: String,
        /// The fault.
        message: String,
    },
}

impl TraceError {
    /// The line of source of the node, or of the first of several.
    pub fn place(&self) -> Option<&Place> {
        match self {
            TraceError::Node { at, .. } => at.place.as_ref(),
            TraceError::Unsupported(ops) => ops.iter().find_map(|op| op.at.place.as_ref()),
            _ => None,
        }
    }

    /// The node, or the first of several.
    pub fn node(&self) -> Option<&NodePlace> {
        match self {
            TraceError::Node { at, .. } => Some(at),
            TraceError::Unsupported(ops) => ops.first().map(|op| &op.at),
            _ => None,
        }
    }
}

/// A node of a traced graph, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlace {
    /// The function that it stands in.
    pub function: String,
    /// The name of its first result.
    pub name: String,
    /// Its target.
    pub target: String,
    /// Its line of source.
    pub place: Option<Place>,
}

impl fmt::Display for NodePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", OneLine(&self.target), OneLine(&self.name))?;
        match &self.place {
            Some(place) => write!(f, " ({place})"),
            None => write!(f, " (function `{}`)", OneLine(&self.function)),
        }
    }
}

/// An operator, or a use of one, that has no lowering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedOp {
    /// The first node of its kind.
    pub at: NodePlace,
    /// The reason, if the operator as such is supported.
    pub reason: Option<String>,
    /// The number of nodes.
    pub count: usize,
}

fn unsupported(ops: &[UnsupportedOp]) -> String {
    let mut text = String::from("operators that are not supported:");
    for op in ops {
        text += &format!("\n  {}", op.at);
        if let Some(reason) = &op.reason {
            text += &format!(": {}", OneLine(reason));
        }
        if op.count > 1 {
            text += &format!(" and {} more", op.count - 1);
        }
    }
    text
}

/// The fault of one node.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OpError {
    /// The node is wrong.
    #[error("{}", OneLine(.0))]
    Invalid(String),
    /// The node may be right, but is not supported.
    #[error("{}", OneLine(.0))]
    Unsupported(String),
    /// Types do not fit.
    #[error(transparent)]
    Type(#[from] TypeError),
}

impl EmitError for OpError {
    fn invalid(message: String) -> Self {
        OpError::Invalid(message)
    }

    fn unknown_rank() -> Self {
        OpError::Unsupported("the number of axes is not known".into())
    }
}

/// The result of lowering a node.
pub type Result<T, E = OpError> = std::result::Result<T, E>;

/// A fault of the node.
pub fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(OpError::Invalid(message.into()))
}

/// A use of an operator that has no lowering.
pub fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(OpError::Unsupported(message.into()))
}

/// A fault that ends a graph, before or behind the place of its node is known.
pub enum Stop {
    /// The fault is this node's.
    Here(OpError),
    /// The fault is one of a node within.
    Inner(TraceError),
}

impl From<OpError> for Stop {
    fn from(error: OpError) -> Self {
        Stop::Here(error)
    }
}

impl From<TypeError> for Stop {
    fn from(error: TypeError) -> Self {
        Stop::Here(error.into())
    }
}

impl From<TraceError> for Stop {
    fn from(error: TraceError) -> Self {
        Stop::Inner(error)
    }
}
