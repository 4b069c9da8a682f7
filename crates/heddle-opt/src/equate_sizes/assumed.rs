//! Types that follow from an assumption about some values.

use std::collections::HashMap;

use heddle_ir::infer::{self, Arg};
use heddle_ir::{Dim, Function, Inst, Op, Type, Value};

use crate::facts::Facts;

/// The types of a function's values if some values have types that are narrower than is known.
pub(super) struct Assumed<'a> {
    pub func: &'a Function,
    facts: &'a Facts,
    types: HashMap<Value, Type>,
    known: HashMap<Value, Option<Vec<Dim>>>,
    /// Does an instruction fail then?
    pub fails: bool,
}

impl<'a> Assumed<'a> {
    /// Nothing is assumed beyond these facts.
    pub fn of(func: &'a Function, facts: &'a Facts) -> Self {
        Self {
            func,
            facts,
            types: HashMap::new(),
            known: HashMap::new(),
            fails: false,
        }
    }

    /// Assumes that a value has this type.
    pub fn assume(&mut self, value: Value, ty: Type) {
        self.types.insert(value, ty);
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        let narrower = self
            .types
            .get(&value)
            .or_else(|| self.facts.narrower(value));
        narrower.unwrap_or_else(|| self.func.ty(value))
    }

    /// The shape of a value, if it is an array of known rank.
    pub fn shape(&self, value: Value) -> Option<&[Dim]> {
        self.ty(value).as_tensor()?.shape.as_deref()
    }

    /// The elements of a small integer array.
    pub fn known(&self, value: Value) -> Option<&[Dim]> {
        match self.known.get(&value) {
            Some(known) => known.as_deref(),
            None => self.facts.known(value),
        }
    }

    /// Follows what is assumed through an instruction without regions, whose operands have been followed.
    pub fn follow(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        let is_new = |v: &Value| self.types.contains_key(v) || self.known.contains_key(v);
        let is_plain = data.regions.is_empty() && !matches!(data.op, Op::Call(_));
        if !is_plain || !data.args.iter().any(is_new) {
            return;
        }
        let args: Vec<_> = data
            .args
            .iter()
            .map(|&v| Arg::new(self.ty(v), self.known(v)))
            .collect();
        let known = infer::known_results(&data.op, &args);
        match infer::result_types(&data.op, &args, &[]) {
            Ok(types) => self.types.extend(data.results.iter().copied().zip(types)),
            Err(_) => self.fails = true,
        }
        if let Some(&result) = data.results.first() {
            self.known.insert(result, known);
        }
    }
}
