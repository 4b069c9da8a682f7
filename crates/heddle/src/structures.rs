//! Checks of the inputs that are tables of data types and graphs.

use heddle_lang::Structure;

use crate::inputs::{InputError, Inputs};
use crate::value::{Tensor, Value};

/// Checks the inputs of a run.
pub(crate) fn check(structures: &[Structure], inputs: &Inputs) -> Result<(), InputError> {
    let read = |name: &str| array(inputs, name)?.to_i64s();
    let rows = |name: &str| array(inputs, name)?.shape().first().copied();
    structures.iter().try_for_each(|s| {
        s.check(&read, &rows)
            .map_err(|fault| InputError::Structure {
                instance: None,
                fault: fault.to_string(),
            })
    })
}

pub(crate) fn array<'a>(inputs: &'a Inputs, name: &str) -> Option<&'a Tensor> {
    inputs.get(name).and_then(Value::as_tensor)
}
