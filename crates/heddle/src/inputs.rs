//! Brings values given by name into the order of a program's parameters.

use heddle_ir::{Datum, OneLine, Signature, Type};
use indexmap::IndexMap;

use crate::signature::Port;
use crate::value::Value;

/// Values by the names of a program's inputs.
pub type Inputs = IndexMap<String, Value>;

/// Names of inputs that do not fit a program's parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InputError {
    /// Inputs without a value.
    #[error("{}", missing_text(.0))]
    Missing(Vec<Port>),
    /// Names that no input has.
    #[error("the model has no input named {}", quoted(.given))]
    Unknown {
        /// The names that were given.
        given: Vec<String>,
        /// The names of the inputs.
        inputs: Vec<String>,
    },
    /// More values than inputs.
    #[error("{given} values are given, but the model's inputs are {}", quoted(.inputs))]
    TooMany {
        /// The number of values.
        given: usize,
        /// The names of the inputs.
        inputs: Vec<String>,
    },
    /// A table or graph that is none.
    #[error("{}", structure_text(.instance, .fault))]
    Structure {
        /// The instance, if there are many.
        instance: Option<usize>,
        /// The input, the node and the fault.
        fault: String,
    },
}

/// The values in the order of the parameters. Optionals need not be wrapped, and may be left out
/// when empty.
pub(crate) fn in_order(sig: &Signature, mut inputs: Inputs) -> Result<Vec<Datum>, InputError> {
    let known = |name: &String| sig.params.iter().any(|(p, _)| p == name);
    let given: Vec<_> = inputs.keys().filter(|n| !known(n)).cloned().collect();
    if !given.is_empty() {
        let inputs = sig.params.iter().map(|p| p.0.clone()).collect();
        return Err(InputError::Unknown { given, inputs });
    }
    let (mut args, mut missing) = (vec![], vec![]);
    for (name, ty) in &sig.params {
        match (inputs.swap_remove(name).map(Datum::from), ty) {
            (Some(value @ Datum::Opt(_)), _) => args.push(value),
            (Some(value), Type::Opt(_)) => args.push(Datum::Opt(Some(Box::new(value)))),
            (Some(value), _) => args.push(value),
            (None, Type::Opt(_)) => args.push(Datum::Opt(None)),
            (None, _) => missing.push(Port {
                name: name.clone(),
                ty: crate::Type::of(ty),
            }),
        }
    }
    if missing.is_empty() {
        Ok(args)
    } else {
        Err(InputError::Missing(missing))
    }
}

fn structure_text(instance: &Option<usize>, fault: &str) -> String {
    match instance {
        Some(instance) => format!("instance {instance}: input {fault}"),
        None => format!("input {fault}"),
    }
}

fn missing_text(missing: &[Port]) -> String {
    let list: Vec<_> = missing
        .iter()
        .map(|Port { name, ty }| format!("`{}` ({ty})", OneLine(name)))
        .collect();
    let verb = if list.len() == 1 {
        "input is"
    } else {
        "inputs are"
    };
    format!("{verb} missing: {}", list.join(", "))
}

fn quoted(names: &[String]) -> String {
    names
        .iter()
        .map(|n| format!("`{}`", OneLine(n)))
        .collect::<Vec<_>>()
        .join(", ")
}
