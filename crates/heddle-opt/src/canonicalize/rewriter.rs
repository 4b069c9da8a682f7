//! The function as rules see it, and their means of making new instructions.

use heddle_ir::infer::{self, Arg, RegionTypes};
use heddle_ir::patch::Patch;
use heddle_ir::{Dim, Entity, Function, Inst, Op, Tensor, Type, Value};

use crate::facts::Facts;
use crate::uses::count_uses;

use std::collections::HashMap;

/// A function under rewriting.
pub struct Rewriter<'a, 'f> {
    /// The edits.
    pub patch: Patch<'f>,
    facts: &'a Facts,
    /// Known elements of new values.
    known: HashMap<Value, Vec<Dim>>,
    /// Use counts at the start of the walk.
    uses: Vec<u32>,
    /// The instruction that is being rewritten.
    anchor: Option<Inst>,
    /// Instructions that the rule at work has made.
    made: Vec<Inst>,
}

impl<'a, 'f> Rewriter<'a, 'f> {
    /// A rewriter of the function that `facts` describe.
    pub fn new(func: &'f mut Function, facts: &'a Facts) -> Self {
        let uses = count_uses(func);
        Self {
            patch: Patch::new(func),
            facts,
            known: HashMap::new(),
            uses,
            anchor: None,
            made: vec![],
        }
    }

    /// Sets the instruction that is rewritten next.
    pub fn begin(&mut self, inst: Inst) {
        self.anchor = Some(inst);
        self.made.clear();
    }

    /// Removes the instructions that the current rule has made.
    pub fn abandon(&mut self) {
        for inst in self.made.drain(..) {
            self.patch.remove(inst);
        }
    }

    /// The instructions that the current rule has made.
    pub fn made(&mut self) -> Vec<Inst> {
        std::mem::take(&mut self.made)
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        self.patch.ty(value)
    }

    /// The shape of a value, if the rank is known.
    pub fn shape(&self, value: Value) -> Option<&[Dim]> {
        self.ty(value).as_tensor()?.shape.as_deref()
    }

    /// The shape of a value if every dim is a constant.
    pub fn static_shape(&self, value: Value) -> Option<Vec<usize>> {
        self.ty(value).as_tensor()?.static_shape()
    }

    /// The elements of a small integer array.
    pub fn known(&self, value: Value) -> Option<&[Dim]> {
        match self.known.get(&value) {
            Some(known) => Some(known),
            None if value.index() < self.uses.len() => self.facts.known(value),
            None => None,
        }
    }

    /// The elements of a constant or otherwise known integer array.
    pub fn integers_of(&self, value: Value) -> Option<Vec<i64>> {
        let dtype = self.ty(value).as_tensor()?.dtype;
        let known = || self.known(value)?.iter().map(Dim::as_const).collect();
        match self.constant(value) {
            Some(tensor) => tensor.to_i64s(),
            None if dtype.is_float() => None,
            None => known(),
        }
    }

    /// The one element of a constant or otherwise known integer scalar.
    pub fn integer_of(&self, value: Value) -> Option<i64> {
        match self.integers_of(value)?.as_slice() {
            &[v] => Some(v),
            _ => None,
        }
    }

    /// The constant that a value is.
    pub fn constant(&self, value: Value) -> Option<&Tensor> {
        self.patch.func().constant(value)
    }

    /// The op that a value is the only result of, and its operands.
    pub fn definition(&self, value: Value) -> Option<(&Op, Vec<Value>)> {
        let inst = self.patch.func().def_inst(value)?;
        let data = &self.patch.func().insts[inst];
        let one = data.results.len() == 1 && data.regions.is_empty();
        one.then(|| (&data.op, self.patch.args(inst)))
    }

    /// A value's use count at the start of the walk.
    pub fn uses(&self, value: Value) -> u32 {
        self.uses.get(value.index()).copied().unwrap_or(0)
    }

    /// Makes an instruction with one result.
    pub fn op(&mut self, op: Op, args: &[Value]) -> Option<Value> {
        let infos: Vec<Arg> = args
            .iter()
            .map(|&v| Arg {
                ty: self.ty(v),
                known: self.known(v),
            })
            .collect();
        let none: &[RegionTypes] = &[];
        let types = infer::result_types(&op, &infos, none).ok()?;
        let known = infer::known_results(&op, &infos);
        let results = self.patch.insert(self.anchor?, op, args, vec![], types);
        self.made.extend(self.patch.func().def_inst(results[0]));
        if let Some(known) = known {
            self.known.insert(results[0], known);
        }
        Some(results[0])
    }

    /// Makes a constant.
    pub fn constant_value(&mut self, tensor: Tensor) -> Option<Value> {
        self.op(Op::Const(tensor), &[])
    }

    /// Makes a constant `i64[k]`.
    pub fn integers(&mut self, values: &[i64]) -> Option<Value> {
        self.constant_value(Tensor::vector(values))
    }
}

/// The value of a constant condition.
pub fn truth_of(cx: &Rewriter, value: Value) -> Option<bool> {
    cx.constant(value).and_then(Tensor::truth)
}
