//! Faults of inputs for many instances.

use crate::Error;

/// A fault of inputs for many instances, or of a model that cannot take any.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// No input has this name.
    #[error("the model has no input named `{0}`")]
    Unknown(String),
    /// Nothing differs by instance.
    #[error("no input differs by instance")]
    NoInstances,
    /// Seeds with offsets or shapes.
    #[error(
        "`batch.seeds` is i64[instances], a seed for each instance: it has no offsets and no shapes"
    )]
    Seeds,
    /// The model's inputs or outputs have no form for many instances.
    #[error("the model cannot run for many instances: {0}")]
    Refused(String),
    /// Inputs of different numbers of instances.
    #[error("input `{name}` has {found} instances, but `{first}` has {wanted}")]
    Count {
        /// The input.
        name: String,
        /// Its number of instances.
        found: usize,
        /// Another input.
        first: String,
        /// That one's number of instances.
        wanted: usize,
    },
    /// Offsets or shapes that do not part their array.
    #[error("`{offsets}` {fault}")]
    Offsets {
        /// The array at fault.
        offsets: String,
        /// The fault.
        fault: String,
    },
    /// Arrays that the model gives one size differ in an instance.
    #[error(
        "instance {instance} has the size {found} in `{name}`, but {wanted} in `{first}`: the model gives both the size `{size}`"
    )]
    Size {
        /// The instance.
        instance: usize,
        /// The input.
        name: String,
        /// Its size.
        found: i64,
        /// Another input.
        first: String,
        /// That one's size.
        wanted: i64,
        /// The name of the size.
        size: String,
    },
    /// An instance stopped the run.
    #[error("instance {instance}: {error}{}{}", from(.inputs), at(.rows))]
    Instance {
        /// The instance.
        instance: usize,
        /// Inputs that the index, trip count or condition at fault comes from.
        inputs: Vec<String>,
        /// Rows of them, if their elements tell.
        rows: Option<FaultyRows>,
        /// The error.
        error: Box<Error>,
    },
}

/// Rows at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultyRows {
    /// The row holds an index out of range.
    Index {
        /// The input.
        input: String,
        /// The row.
        row: usize,
    },
    /// Each of these rows names the next one, the last the first: a recursion over them never ends.
    Cycle(Vec<usize>),
}

impl std::fmt::Display for FaultyRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Index { input, row } => write!(f, " (row {row} of `{input}`)"),
            Self::Cycle(rows) => {
                let shown = rows.iter().take(MOST_SHOWN).map(ToString::to_string);
                let shown: Vec<_> = shown.collect();
                let rest = if rows.len() > MOST_SHOWN { ", …" } else { "" };
                write!(f, " (a cycle of rows: {}{rest})", shown.join(", "))
            }
        }
    }
}

/// Maximum number of a cycle's rows that a message names.
const MOST_SHOWN: usize = 8;

/// The inputs at fault, behind an error.
fn from(inputs: &[String]) -> String {
    let names: Vec<_> = inputs.iter().map(|name| format!("`{name}`")).collect();
    match &names[..] {
        [] => String::new(),
        [name] => format!(", by input {name}"),
        names => format!(", by inputs {}", names.join(", ")),
    }
}

fn at(rows: &Option<FaultyRows>) -> String {
    rows.as_ref().map_or(String::new(), ToString::to_string)
}
