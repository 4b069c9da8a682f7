//! Loop unrolling.

use heddle_ir::{FuncId, Function, Inst, Module, Op, Value};

use super::loops::Loop;
use super::rebuild::{Rebuild, Result};
use crate::Stats;

/// The most iterations of a loop that is unrolled.
const MAX_TRIPS: i64 = 4;
/// The most instructions that unrolled iterations have together.
const MAX_INSTS: usize = 64;

/// Puts the iterations of a loop one after the other where there are few and they are small: then what they look up by the iteration
/// is at known places, and independent parts of them need not wait for each other.
///
/// It does *not* unroll loops with a condition, nor loops around others, whose iterations are work enough.
pub fn unroll_loops(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        let mut unrolled = 0;
        let rebuild = Rebuild::new(module, &module.functions[id]);
        let built = rebuild.function(&mut |rebuild, inst| {
            let done = unroll(rebuild, inst)?;
            unrolled += done as usize;
            Ok(done)
        });
        match built {
            Ok(function) if unrolled > 0 => {
                module.functions[id] = function;
                (0..unrolled).for_each(|_| stats.record("loop unrolled"));
            }
            Ok(_) => {}
            Err(error) => stats.rejected.push(error.to_string()),
        }
    }
    stats
}

/// Builds the iterations of a loop in its place, if it is one to unroll.
fn unroll(rebuild: &mut Rebuild, inst: Inst) -> Result<bool> {
    let func = rebuild.source;
    let Some(parts) = Loop::of(func, inst) else {
        return Ok(false);
    };
    let Some(trips) = trips(func, &parts) else {
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
fn trips(func: &Function, parts: &Loop) -> Option<i64> {
    if parts.cond.is_some() {
        return None;
    }
    let trips = *func.constant(parts.trip?)?.to_i64s()?.first()?;
    let (mut count, mut inner) = (0, false);
    func.for_each_inst_in(parts.body, &mut |_, data| {
        count += 1;
        inner |= matches!(data.op, Op::Loop { .. } | Op::Call(_));
    });
    // What is carried keeps its type only while it is the type of all iterations.
    let same = parts.params.iter().zip(parts.inits.iter().zip(&parts.next));
    let same = same
        .clone()
        .all(|(p, (a, b))| func.ty(*p) == func.ty(*a) && func.ty(*p) == func.ty(*b));
    let small = count * trips.max(0) as usize <= MAX_INSTS;
    ((1..=MAX_TRIPS).contains(&trips) && small && !inner && same).then_some(trips)
}
