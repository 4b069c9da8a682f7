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
    /// Offsets that do not part their array.
    #[error("`{offsets}` {fault}")]
    Offsets {
        /// The array.
        offsets: String,
        /// The fault.
        fault: String,
    },
    /// Arrays that the model gives one size differ in an instance.
    #[error(
        "instance {instance} has {found} elements of `{name}`, but {wanted} of `{first}`: the model gives both the size `{size}`"
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
    #[error("instance {instance}: {error}{}", from(.inputs))]
    Instance {
        /// The instance.
        instance: usize,
        /// Inputs that the index, trip count or condition at fault comes from.
        inputs: Vec<String>,
        /// The error.
        error: Box<Error>,
    },
}

/// The inputs at fault, behind an error.
fn from(inputs: &[String]) -> String {
    let names: Vec<_> = inputs.iter().map(|name| format!("`{name}`")).collect();
    match &names[..] {
        [] => String::new(),
        [name] => format!(", by input {name}"),
        names => format!(", by inputs {}", names.join(", ")),
    }
}
