//! Reductions in place of loops that fold terms.

mod folds;
mod reduction;
mod rows;

use std::collections::HashSet;

use heddle_ir::patch::Stats;
use heddle_ir::{Dim, FuncId, Function, Inst, Module, Op, Region};

use self::folds::Body;
use self::reduction::{Reduction, Stop};
use self::rows::rows;
use super::rebuild::{Rebuild, Result, rebuild_functions};
use crate::Edit;

/// Maximum depth of loops within loops.
const MAX_DEPTH: usize = 8;

/// Replaces a carried value `a = a ⊕ term` by `a ⊕ reduce(terms)`, where ⊕ is a sum, product, maximum
/// or minimum, and the terms, which need no carried value, are evaluated for all iterations at once.
/// Other carried values and scan outputs stay in a loop; without any, there is none. Where programs
/// for many instances have a range of terms for each, the reduction is one over segments.
///
/// Integers, maxima and minima are exact. Sums of `f32` and `f64` are added in another order: they are
/// rounded otherwise, may overflow on the way where the loop's do not, and a sum of no terms adds 0.0. Where
/// terms would need more than about `bytes` bytes, and much more than the arrays that they read, a
/// loop takes a bounded number of iterations at a time.
///
/// It does *not* change loops with a condition, products of floats (partial ones may overflow), sums
/// of shorter floats (which are rounded in each step), nor sums of which other iterations or scan
/// outputs read the value on the way. Errors stay the same: terms may fail only where a single
/// instruction of the loop may, those within its regions counted.
pub fn reduce_folds(module: &mut Module, bytes: f64) -> Stats {
    let mut all = Stats::default();
    // Inner loops first: those around them then have fewer in them.
    for depth in 0..MAX_DEPTH {
        let depths = module.functions.iter();
        let depths = depths.map(|(id, func)| (id, loops(func, func.body)));
        let depths: Vec<(FuncId, usize)> = depths.filter(|(_, depth)| *depth > 0).collect();
        let ids: Vec<FuncId> = depths.iter().map(|(id, _)| *id).collect();
        all.merge(rebuild_functions(module, &ids, |rebuild, stats| {
            rebuild.function(&mut |rebuild, inst| {
                let data = &rebuild.source.insts[inst];
                let is_loop = matches!(data.op, Op::Loop { .. });
                let is_next = is_loop && loops(rebuild.source, data.regions[0]) <= depth;
                let folds = match is_next {
                    true => instead(rebuild, inst, bytes)?,
                    false => 0,
                };
                (0..folds).for_each(|_| stats.record(Edit::FoldReduced));
                Ok(folds > 0)
            })
        }));
        if depths.iter().all(|(_, deepest)| *deepest <= depth + 1) {
            break;
        }
    }
    all
}

/// The depth of loops within a region.
fn loops(func: &Function, region: Region) -> usize {
    let insts = func.regions[region].insts.iter();
    let depths = insts.map(|&inst| {
        let data = &func.insts[inst];
        let within = data.regions.iter().map(|&region| loops(func, region)).max();
        within.unwrap_or(0) + matches!(data.op, Op::Loop { .. }) as usize
    });
    depths.max().unwrap_or(0)
}

/// Builds reductions, and a loop for what is left, in the place of a loop; gives the number of
/// reductions.
fn instead(rebuild: &mut Rebuild, inst: Inst, bytes: f64) -> Result<usize> {
    let Some(body) = Body::of(rebuild.source, inst) else {
        return Ok(0);
    };
    let trip = body.view.trip.and_then(|trip| rebuild.values.get(&trip));
    let Some(&trip) = trip else { return Ok(0) };
    let known = rebuild
        .b
        .known(trip)
        .and_then(|known| known.first().cloned());
    let trips = known.as_ref().and_then(Dim::as_const);
    if trips.is_some_and(|n| n < 2) {
        return Ok(0);
    }
    let rows = rows(rebuild, &body);
    let (before, values) = (rebuild.b.checkpoint(), rebuild.values.clone());
    let mut refused = HashSet::new();
    loop {
        let folds = body.folds(&refused, &|inst| rows.contains_key(&inst));
        if folds.is_empty() {
            return Ok(0);
        }
        let reduction = Reduction {
            body: &body,
            rows: &rows,
            trip,
            trips: known.clone().unwrap_or(Dim::UNKNOWN),
            begins: trips.is_some(),
        };
        match reduction.build(rebuild, inst, &folds, bytes) {
            Ok(()) => return Ok(folds.len()),
            Err(stop) => {
                rebuild.b.rollback(&before);
                rebuild.values.clone_from(&values);
                match stop {
                    Stop::Refused(inst) if refused.insert(inst) => {}
                    _ => return Ok(0),
                }
            }
        }
    }
}
