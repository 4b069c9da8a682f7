//! Values that stop a run unless a predicate holds.

use heddle_ir::{FuncBuilder, TypeError, Value};

/// Appends `values` behind a check: a run in which `predicate`, `bool[]`, does not hold stops with the message where it needs them.
pub fn unless(
    b: &mut FuncBuilder,
    predicate: Value,
    message: &str,
    values: &[Value],
) -> Result<Vec<Value>, TypeError> {
    if let Some(true) = b.func().constant(predicate).and_then(|t| t.truth()) {
        return Ok(values.to_vec());
    }
    b.begin_region(&[]);
    let holds = b.end_region(values);
    b.begin_region(&[]);
    let mut failures = vec![];
    for value in values {
        let ty = b.ty(*value).clone();
        failures.push(b.failure(message, &ty)?);
    }
    let fails = b.end_region(&failures);
    b.if_(predicate, holds, fails)
}
