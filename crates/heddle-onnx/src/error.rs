//! Errors of an import.

use std::fmt;
use std::path::PathBuf;

use heddle_ir::{EmitError, OneLine, Type, TypeError};

use crate::refusal::Refusal;

/// A model could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be opened or mapped.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The bytes are no ONNX message, or one that no program needs (too deep, too many parts).
    #[error("{}: not a valid ONNX file: {}", path.display(), OneLine(message))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault.
        message: String,
    },
    /// A stored tensor's type, dims and data do not fit together, or its external data cannot be
    /// used.
    #[error("tensor `{}`: {}", OneLine(name), OneLine(message))]
    Tensor {
        /// The tensor's name.
        name: String,
        /// The fault.
        message: String,
    },
    /// A tensor that is given for an initializer does not fit.
    #[error("constant `{}`: {}", OneLine(name), OneLine(message))]
    Replacement {
        /// The initializer's name.
        name: String,
        /// The fault.
        message: String,
    },
    /// A graph, a function or the model as a whole breaks the specification.
    #[error("{}: {}", OneLine(place), OneLine(message))]
    Graph {
        /// The graph or function.
        place: String,
        /// The fault.
        message: String,
    },
    /// The model imports a version of an operator set that Heddle does not know.
    #[error(
        "the model uses version {version} of {}, but Heddle knows versions {min} to {max}",
        domain_name(domain)
    )]
    Opset {
        /// The domain; empty for ONNX's own.
        domain: String,
        /// The version that the model wants.
        version: i64,
        /// The oldest version.
        min: i64,
        /// The newest version.
        max: i64,
    },
    /// A node breaks its operator's specification, or its inputs do not fit it.
    #[error(transparent)]
    Node(#[from] Box<NodeError>),
    /// The model needs unsupported operators: all of them, not just the first.
    #[error("{}", list(.0))]
    Unsupported(Vec<UnsupportedOp>),
    /// Functions or loops unfold into too much.
    #[error("the model unfolds into more than {limit} {part}s")]
    TooLarge {
        /// The limit.
        limit: usize,
        /// The kind of part that is limited.
        part: Part,
    },
}

/// Parts of a model whose number is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Imported nodes, counted each time.
    Node,
    /// Instructions of a function.
    Instruction,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Node => "node",
            Part::Instruction => "instruction",
        })
    }
}

/// The reason why a node could not be expanded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OpError {
    /// The node is valid, but Heddle does not do this (yet).
    #[error("not supported: {0}")]
    Unsupported(#[from] Refusal),
    /// The node breaks the operator's specification.
    #[error("{}", OneLine(.0))]
    Invalid(String),
    /// An emitted op does not take its operands: the node's inputs have wrong types or shapes.
    #[error(transparent)]
    Type(#[from] TypeError),
}

impl EmitError for OpError {
    fn invalid(message: String) -> Self {
        OpError::Invalid(message)
    }

    fn unknown_rank() -> Self {
        Refusal::UnknownRank.into()
    }
}

/// A node that could not be imported.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{} node `{}`: {error}", OneLine(op), OneLine(name))]
pub struct NodeError {
    /// The operator, as `Conv` or `domain::Op`.
    pub op: String,
    /// The version of its domain that is imported.
    pub version: i64,
    /// The node's name, or its first output, after the calls that lead to it.
    pub name: String,
    /// The reason.
    pub error: OpError,
    /// Types of the inputs; `None` for those that are left out or not supported.
    pub input_types: Vec<Option<Type>>,
}

impl NodeError {
    /// The inputs' types, where the error is about types.
    fn hint(&self) -> Option<String> {
        let OpError::Type(_) = self.error else {
            return None;
        };
        let text = |t: &Option<Type>| t.as_ref().map_or("none".to_owned(), Type::to_string);
        let types: Vec<_> = self.input_types.iter().map(text).collect();
        Some(format!("the inputs' types are {}", types.join(", ")))
    }
}

/// An error of a graph or function.
pub(crate) fn graph_error(place: &str, message: String) -> ImportError {
    ImportError::Graph {
        place: place.to_owned(),
        message,
    }
}

impl ImportError {
    /// Advice, if there is any.
    pub fn hint(&self) -> Option<String> {
        match self {
            ImportError::Node(node) => node.hint(),
            ImportError::Opset { version, min, .. } if version < min => {
                Some("convert the model with onnx.version_converter".into())
            }
            _ => None,
        }
    }
}

/// One operator (and reason) that is not supported, with the nodes that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedOp {
    /// The domain; empty for ONNX's own.
    pub domain: String,
    /// The operator.
    pub op: String,
    /// The version of its domain that is imported.
    pub version: i64,
    /// Names of the first few nodes.
    pub nodes: Vec<String>,
    /// The number of nodes.
    pub count: usize,
    /// The reason.
    pub reason: Refusal,
}

/// Nodes named in an [`UnsupportedOp`]; beyond them only the count is kept.
pub(crate) const MAX_NAMED_NODES: usize = 8;

impl fmt::Display for UnsupportedOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.count == 1 { "" } else { "s" };
        write!(
            f,
            "{} (version {}), {} node{plural}: {}; nodes: {}",
            OneLine(&op_name(&self.domain, &self.op)),
            self.version,
            self.count,
            self.reason,
            OneLine(&self.nodes.join(", ")),
        )?;
        if self.count > self.nodes.len() {
            write!(f, ", … and {} more", self.count - self.nodes.len())?;
        }
        Ok(())
    }
}

/// `Conv`, or `domain::Op` outside ONNX's own domain.
pub(crate) fn op_name(domain: &str, op: &str) -> String {
    match domain {
        "" => op.to_owned(),
        domain => format!("{domain}::{op}"),
    }
}

fn domain_name(domain: &str) -> String {
    match domain {
        "" => "ONNX's operator set".to_owned(),
        domain => format!("operator set {}", OneLine(domain)),
    }
}

fn list(ops: &[UnsupportedOp]) -> String {
    let mut text = String::from("the model uses what Heddle does not support:");
    for op in ops {
        text += &format!("\n  {op}");
    }
    text
}
