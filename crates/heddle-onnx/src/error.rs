//! What can go wrong between a file and a module.

use std::fmt;
use std::path::PathBuf;

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
    #[error("{}: not a valid ONNX file: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A stored tensor's type, dims and data do not fit together, or its external data cannot be used.
    #[error("tensor `{name}`: {message}")]
    Tensor {
        /// The tensor's name.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A graph, a function or the model as a whole breaks the specification.
    #[error("{place}: {message}")]
    Graph {
        /// The graph or function.
        place: String,
        /// What is wrong.
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
    #[error("{op} node `{name}`: {message}")]
    Node {
        /// The operator, as `Conv` or `domain::Op`.
        op: String,
        /// The node's name, or its first output.
        name: String,
        /// What is wrong.
        message: String,
        /// What to do about it; may be empty.
        hint_text: String,
    },
    /// The model needs what Heddle does not do; all of it, not just the first.
    #[error("{}", list(.0))]
    Unsupported(Vec<UnsupportedOp>),
    /// Functions or loops unfold into too much.
    #[error("the model unfolds into more than {limit} {what}")]
    TooLarge {
        /// The limit.
        limit: usize,
        /// What is counted.
        what: &'static str,
    },
}

impl ImportError {
    /// What to do about it, if that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            ImportError::Node { hint_text, .. } if !hint_text.is_empty() => Some(hint_text.clone()),
            ImportError::Opset { version, min, .. } if version < min => {
                Some("convert the model with onnx.version_converter".into())
            }
            ImportError::Unsupported(_) => {
                Some("`heddle inspect` shows the whole model, with what is not supported".into())
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
    /// How many nodes there are.
    pub count: usize,
    /// What is missing.
    pub reason: String,
}

/// Of more nodes only the count is kept.
pub(crate) const MAX_NAMED_NODES: usize = 8;

impl fmt::Display for UnsupportedOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.count == 1 { "" } else { "s" };
        write!(
            f,
            "{} (version {}), {} node{plural}: {}; nodes: {}",
            op_name(&self.domain, &self.op),
            self.version,
            self.count,
            self.reason,
            self.nodes.join(", "),
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
        domain => format!("operator set {domain}"),
    }
}

fn list(ops: &[UnsupportedOp]) -> String {
    let mut text = String::from("the model uses what Heddle does not support:");
    for op in ops {
        text += &format!("\n  {op}");
    }
    text
}
