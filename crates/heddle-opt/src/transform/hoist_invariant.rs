//! Loop-invariant code motion.

use std::collections::HashMap;

use heddle_ir::op::Cost;
use heddle_ir::patch::{Patch, Stats};
use heddle_ir::tensor::element_count;
use heddle_ir::{
    FuncId, Function, Inst, InstData, LoopForm, Module, Op, Region, Value, cannot_fail,
};

use crate::Edit;

/// Hoists loop-invariant instructions out of as many loops as they are invariant in.
///
/// An instruction that could fail is hoisted only from a place that every iteration passes, and
/// only out of loops that run at least once. Others are hoisted speculatively. A result that is
/// larger than its operands stays inside, because reading it would cost more than recomputing it.
/// The cost classes constant, contraction, reduction and order (see [`Cost`]) are hoisted
/// regardless of size.
///
/// It does *not* move control flow or calls, nor anything out of a branch.
pub fn hoist_invariant(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        let func = &mut module.functions[id];
        let body = func.body;
        let mut hoist = Hoist {
            patch: Patch::new(func),
            level: HashMap::new(),
            loops: vec![],
        };
        hoist.region(body);
        stats.merge(hoist.patch.apply());
    }
    stats
}

struct Hoist<'f> {
    patch: Patch<'f>,
    /// Number of surrounding loops that a value must stay in. Values without an entry must stay in
    /// none.
    level: HashMap<Value, usize>,
    /// Control flow around the current instruction, outermost first.
    loops: Vec<Around>,
}

/// Control flow around an instruction: a loop, or a branch, out of which nothing is hoisted.
struct Around {
    inst: Inst,
    is_loop: bool,
    /// A loop that runs at least once.
    begins: bool,
}

impl Hoist<'_> {
    fn region(&mut self, region: Region) {
        let depth = self.loops.len();
        let data = &self.patch.func().regions[region];
        self.level.extend(data.params.iter().map(|&v| (v, depth)));
        for inst in data.insts.clone() {
            let data = self.patch.func().insts[inst].clone();
            for &inner in &data.regions {
                self.loops.push(Around {
                    inst,
                    is_loop: matches!(data.op, Op::Loop { .. }),
                    begins: begins(self.patch.func(), &data),
                });
                self.region(inner);
                self.loops.pop();
            }
            let level = self.place(inst, &data);
            if level < depth {
                self.patch.move_before(inst, self.loops[level].inst);
                self.patch.because(Edit::LoopInvariant);
            }
            self.level.extend(data.results.iter().map(|&v| (v, level)));
        }
    }

    /// Number of surrounding loops that an instruction must stay in.
    fn place(&self, inst: Inst, data: &InstData) -> usize {
        let depth = self.loops.len();
        let moves = data.regions.is_empty()
            && !matches!(data.op, Op::Call(_))
            && pays(self.patch.func(), data);
        if !moves {
            return depth;
        }
        let of = |v: &Value| self.level.get(v).copied().unwrap_or(0);
        let least = data.args.iter().map(of).max().unwrap_or(0);
        let safe = cannot_fail(self.patch.func(), inst);
        let mut level = depth;
        while level > least {
            let around = &self.loops[level - 1];
            if !around.is_loop || !(safe || around.begins) {
                break;
            }
            level -= 1;
        }
        level
    }
}

/// Tells if reading the result costs no more than recomputing it.
fn pays(func: &Function, data: &InstData) -> bool {
    let size = |v: &Value| element_count(&func.ty(*v).as_tensor()?.static_shape()?);
    use Cost::{Constant, Contraction, Order, Reduction};
    if matches!(
        data.op.props().cost,
        Constant | Contraction | Order | Reduction
    ) {
        return true;
    }
    let operands = data.args.iter().filter_map(size).max();
    match (data.results.iter().filter_map(size).max(), operands) {
        (Some(result), Some(operand)) => result <= operand,
        // Dynamic sizes are assumed to be small.
        _ => true,
    }
}

/// Tells if a loop is known to run at least once.
fn begins(func: &Function, data: &InstData) -> bool {
    let Some(form) = LoopForm::of(&data.op) else {
        return false;
    };
    let operands = form.operands(&data.args);
    let count = |v: Value| func.constant(v)?.to_i64s()?.first().copied();
    let holds = |v: Value| func.constant(v)?.truth();
    operands
        .trip
        .is_none_or(|&t| count(t).is_some_and(|n| n > 0))
        && operands.cond.is_none_or(|&c| holds(c) == Some(true))
}
