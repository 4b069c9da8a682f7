//! Loop unrolling.

use heddle_ir::patch::Stats;
use heddle_ir::{FuncId, Function, Inst, LoopView, Module, Op, Type, Value};

use super::rebuild::{Rebuild, Result, rebuild_functions};

/// What is unrolled.
pub struct Limits {
    /// The most iterations.
    pub trips: i64,
    /// The most instructions that the iterations have together.
    pub insts: usize,
    /// Whether there may be loops and calls within.
    pub nested: bool,
}

const SMALL: Limits = Limits {
    trips: 4,
    insts: 64,
    nested: false,
};

/// Puts the iterations of a loop one after the other where there are few and they are small: then what they look up by the iteration
/// is at known places, and independent parts of them need not wait for each other.
///
/// It does *not* unroll loops with a condition, nor loops around others, whose iterations are work enough.
pub fn unroll_loops(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    rebuild_functions(module, &ids, |rebuild, stats| {
        rebuild.function(&mut |rebuild, inst| {
            let done = unroll(rebuild, inst, &SMALL)?;
            if done {
                stats.record("loop unrolled");
            }
            Ok(done)
        })
    })
}

/// Builds the iterations of a loop in its place, if they are within the limits and there is no condition.
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

/// The number of iterations of a loop to unroll.
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
    // What is carried keeps its type only while it is the type of all iterations; a sequence has a type of its own in each.
    let mut carried = parts.params.iter().zip(parts.inits.iter().zip(&parts.next));
    let same = carried.all(|(p, (a, b))| {
        let ty = func.ty(*p);
        matches!(ty, Type::Seq(_)) || ty == func.ty(*a) && ty == func.ty(*b)
    });
    let small = count * trips as usize <= limits.insts;
    let nests = inner && !limits.nested;
    (small && !nests && same).then_some(trips)
}
