//! Random numbers depend on the evaluation of a node, not only on the node.

use std::cell::Cell;

use heddle_ir::{FuncBuilder, TypeError, Value};

/// The evaluation under way of the function that is being built.
#[derive(Default)]
pub struct Position {
    /// The number of the call, if the function is told.
    pub call: Option<Value>,
    /// Iterations of the loops around, outermost first.
    pub iterations: Vec<Value>,
}

impl Position {
    /// The start of a function in the call of this number.
    pub fn of_call(number: Value) -> Self {
        Position {
            call: Some(number),
            iterations: vec![],
        }
    }

    /// Appends the key that a key becomes for this evaluation.
    pub fn key(&self, b: &mut FuncBuilder, mut key: Value) -> Result<Value, TypeError> {
        for number in self.call.iter().chain(&self.iterations) {
            key = b.fold_in(key, *number)?;
        }
        Ok(key)
    }
}

/// The next number of a draw or a call.
pub fn next(draws: &Cell<u64>) -> u64 {
    draws.replace(draws.get() + 1)
}
