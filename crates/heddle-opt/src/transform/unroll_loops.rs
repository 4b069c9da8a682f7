//! Loop unrolling.

use heddle_ir::patch::Stats;
use heddle_ir::{FuncId, Function, Inst, LoopView, Module, Op, Type, Value};

use super::rebuild::{Rebuild, Result, rebuild_functions};
use crate::Edit;

/// Limits of unrolling.
pub struct Limits {
    /// Maximum trip count.
    pub trips: i64,
    /// Maximum number of instructions in all iterations together.
    pub insts: usize,
    /// Allows loops and calls in the body.
    pub nested: bool,
}

const SMALL: Limits = Limits {
    trips: 4,
    insts: 64,
    nested: false,
};

/// Fully unrolls loops with a small trip count and a small body. Indices that depend on the
/// iteration become static, and independent parts of different iterations may overlap.
///
/// It does *not* unroll loops with a condition, nor loops around loops or calls, whose iterations
/// do enough work to hide the loop's overhead.
pub fn unroll_loops(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    rebuild_functions(module, &ids, |rebuild, stats| {
        rebuild.function(&mut |rebuild, inst| {
            let done = unroll(rebuild, inst, &SMALL)?;
            if done {
                stats.record(Edit::LoopUnrolled);
            }
            Ok(done)
        })
    })
}

/// Unrolls a loop, if it is within the limits and has no condition. Returns `true` if it did.
pub fn unroll(rebuild: &mut Rebuild, inst: Inst, limits: &Limits) -> Result<bool> {
    let func = rebuild.source;
    let Some(parts) = LoopView::of(func, inst) else {
        return Ok(false);
    };
    let Some(trips) = trips(func, &parts, limits) else {
        return Ok(false);
    };
    let mut carried = rebuild.all(&parts.inits);
    let mut stacks: Vec<Vec<Value>> = vec![vec![]; parts.stacked.len()];
    for k in 0..trips {
        let iteration = rebuild.b.i64(k);
        rebuild.values.insert(parts.iteration, iteration);
        rebuild
            .values
            .extend(parts.params.iter().copied().zip(carried));
        rebuild.insts(parts.body, &mut |_, _| Ok(false))?;
        carried = rebuild.all(&parts.next);
        for (stack, &value) in stacks.iter_mut().zip(&parts.stacked) {
            let row = rebuild.values[&value];
            stack.push(rebuild.b.op1(Op::Unsqueeze { axes: vec![0] }, &[row])?);
        }
    }
    let results = &func.insts[inst].results;
    for (&old, new) in results.iter().zip(carried) {
        rebuild.stands_for(old, new);
    }
    for (&old, rows) in results[parts.params.len()..].iter().zip(stacks) {
        let all = rebuild.b.op1(Op::Concat { axis: 0 }, &rows)?;
        rebuild.stands_for(old, all);
    }
    Ok(true)
}

/// Trip count of a loop, if it may be unrolled.
fn trips(func: &Function, parts: &LoopView, limits: &Limits) -> Option<i64> {
    if parts.cond.is_some() {
        return None;
    }
    let trips = *func.constant(parts.trip?)?.to_i64s()?.first()?;
    if !(1..=limits.trips).contains(&trips) {
        return None;
    }
    let (mut count, mut inner) = (0, false);
    func.for_each_inst_in(parts.body, &mut |_, data| {
        count += 1;
        inner |= matches!(data.op, Op::Loop { .. } | Op::Call(_));
    });
    // A carried value must have the same type in all iterations, except for sequences, whose type
    // may differ between iterations.
    let mut carried = parts.params.iter().zip(parts.inits.iter().zip(&parts.next));
    let same = carried.all(|(p, (a, b))| {
        let ty = func.ty(*p);
        matches!(ty, Type::Seq(_)) || ty == func.ty(*a) && ty == func.ty(*b)
    });
    let small = count * trips as usize <= limits.insts;
    let nests = inner && !limits.nested;
    (small && !nests && same).then_some(trips)
}
