//! Brings values given by name into the order of a program's parameters.

use std::fmt;

use heddle_ir::{Datum, Signature, Type};
use indexmap::IndexMap;

/// Values by the names of a program's inputs.
pub type Inputs = IndexMap<String, Datum>;

/// Names of inputs that do not fit a program's parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InputError {
    /// Parameters without a value, with their types.
    #[error("{}", missing_text(.0))]
    Missing(Vec<(String, Type)>),
    /// Names that are not those of parameters.
    #[error("the model has no input named {}", quoted(.given))]
    Unknown {
        /// The names that were given.
        given: Vec<String>,
        /// The names of the parameters.
        inputs: Vec<String>,
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
        match (inputs.swap_remove(name), ty) {
            (Some(value @ Datum::Opt(_)), _) => args.push(value),
            (Some(value), Type::Opt(_)) => args.push(Datum::Opt(Some(Box::new(value)))),
            (Some(value), _) => args.push(value),
            (None, Type::Opt(_)) => args.push(Datum::Opt(None)),
            (None, _) => missing.push((name.clone(), ty.clone())),
        }
    }
    if missing.is_empty() {
        Ok(args)
    } else {
        Err(InputError::Missing(missing))
    }
}

/// A value's type, for messages.
pub(crate) struct Shown<'a>(pub &'a Datum);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Datum::Tensor(t) => t.ty().fmt(f),
            Datum::Seq(items) => write!(f, "a sequence of {}", items.len()),
            Datum::Opt(Some(item)) => write!(f, "an optional holding {}", Shown(item)),
            Datum::Opt(None) => f.write_str("an empty optional"),
        }
    }
}

fn missing_text(missing: &[(String, Type)]) -> String {
    let list: Vec<_> = missing
        .iter()
        .map(|(n, t)| format!("`{n}` ({t})"))
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
        .map(|n| format!("`{n}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
