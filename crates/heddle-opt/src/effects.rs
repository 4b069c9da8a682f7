//! Side effects of instructions.
//!
//! There is one: a loop that has neither a trip count nor a condition that could become false never
//! terminates.
//!
//! Every other loop and every recursion is assumed to terminate, so passes may remove one that does
//! not. They may also remove an error, if nothing uses the results of the failing instruction.

use heddle_ir::{Entity, Function, InstData, LoopForm, Module, Op, Tensor, Value};

use crate::callgraph;

/// Effects of a call of each function, indexed by function.
pub struct Effects {
    /// Must not be left out.
    needed: Vec<bool>,
}

impl Effects {
    /// Computes the effects of all functions of a module.
    pub fn of(module: &Module) -> Self {
        let count = module.functions.len();
        let mut effects = Effects {
            needed: vec![false; count],
        };
        for component in callgraph::components(module) {
            let mut needed = false;
            for &id in &component {
                let func = &module.functions[id];
                func.for_each_inst(&mut |_, inst| {
                    needed |= effects.is_needed(func, inst);
                });
            }
            for id in component {
                effects.needed[id.index()] = needed;
            }
        }
        effects
    }

    /// Tells if the instruction must stay even without uses. Its regions do not count.
    pub fn is_needed(&self, func: &Function, inst: &InstData) -> bool {
        match &inst.op {
            Op::Call(callee) => self.needed[callee.index()],
            Op::Loop { trip: false, .. } => never_ends(func, inst),
            _ => false,
        }
    }
}

/// Does a loop have neither a trip count nor a condition that can become false?
fn never_ends(func: &Function, inst: &InstData) -> bool {
    let Some(form) = LoopForm::of(&inst.op).filter(|form| !form.trip) else {
        return false;
    };
    let yields = &func.regions[inst.regions[0]].yields;
    let next = form.yields(yields, 0).and_then(|y| y.cond);
    let mut conds = form.operands(&inst.args).cond.into_iter().chain(next);
    conds.all(|&cond| is_true(func, cond))
}

fn is_true(func: &Function, value: Value) -> bool {
    func.constant(value).and_then(Tensor::truth) == Some(true)
}
