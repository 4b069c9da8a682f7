//! Contents of a function's small integer arrays, collected instruction by instruction.

use std::collections::HashMap;

use super::{Arg, known_results};
use crate::{Dim, Function, Inst, Value};

/// Known contents of values, in one function.
pub struct Facts {
    known: HashMap<Value, Vec<Dim>>,
    /// The budget for more, in terms and atoms of dims: a hostile program may have long expressions in every array.
    left: usize,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            left: 1 << 20,
        }
    }
}

impl Facts {
    /// A value as an operand.
    pub fn arg<'a>(&'a self, f: &'a Function, value: Value) -> Arg<'a> {
        Arg::new(f.ty(value), self.known.get(&value).map(Vec::as_slice))
    }

    /// The known contents of a value.
    pub fn known(&self, value: Value) -> Option<&[Dim]> {
        self.known.get(&value).map(Vec::as_slice)
    }

    /// Learns from an instruction whose operands have been seen and whose results have types.
    pub fn learn(&mut self, f: &Function, inst: Inst) {
        let data = &f.insts[inst];
        let args: Vec<_> = data.args.iter().map(|&v| self.arg(f, v)).collect();
        let Some(known) = known_results(&data.op, &args) else {
            return;
        };
        let weight = known.iter().map(Dim::weight).sum();
        if let (Some(&result), Some(left)) = (data.results.first(), self.left.checked_sub(weight)) {
            self.left = left;
            self.known.insert(result, known);
        }
    }
}
