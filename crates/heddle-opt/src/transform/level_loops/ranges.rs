//! Loops whose iterations read ranges of rows, such as the states of all children of a vertex.
//!
//! The iterations of a level are a set of instances, whose ranges differ in size. Loops over the
//! rows of a range go on for those iterations that have a row left.

use std::collections::HashSet;

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{Function, Inst, LoopView, Value};

use super::analyze::contractions;
use crate::batch::{Refusal, Result as Built};
use crate::instances::row_loops::LeveledLoop;
use crate::transform::cost::CostModel;
use crate::transform::level_recursion::{LevelOptions, gain};
use crate::transform::rebuild::{Rebuild, Result};
use crate::uses::Seen;

/// Nanoseconds per iteration that levels must save: finding the order takes a tenth.
const LEAST_GAIN: f64 = 500.0;

/// Builds both forms of a loop, and the choice between them, in its place.
pub fn instead(
    rebuild: &mut Rebuild,
    inst: Inst,
    options: &LevelOptions,
    costs: &CostModel,
) -> Result<bool> {
    let Some(view) = LoopView::of(rebuild.source, inst) else {
        return Ok(false);
    };
    let outer = outer(rebuild.source, &view);
    let (bytes, flops) = contractions(rebuild.source, view.body, &outer, costs);
    let gain = gain(bytes, flops, options, costs);
    let width = match options.always {
        true => options.width,
        false if gain >= LEAST_GAIN => options.width.max(costs.level / gain),
        false => return Ok(false),
    };
    let (before, values) = (rebuild.b.checkpoint(), rebuild.values.clone());
    match build(rebuild, inst, width) {
        Ok(()) => Ok(true),
        Err(_) => {
            rebuild.b.rollback(&before);
            rebuild.values = values;
            Ok(false)
        }
    }
}

fn build(rebuild: &mut Rebuild, inst: Inst, width: f64) -> Built<()> {
    let (module, source) = (rebuild.module, rebuild.source);
    let found = LeveledLoop::inspect(&mut rebuild.b, module, source, inst, &rebuild.values)?;
    let found = found.ok_or(Refusal::NoWrites)?;
    // Levels must have so many iterations in the mean.
    let b = &mut rebuild.b;
    let (parts, width) = (b.i64(16), b.i64((16.0 * width).round().max(1.0) as i64));
    let count = b.binary(BinaryOp::Mul, found.iterations(), parts)?;
    let least = b.binary(BinaryOp::Mul, found.levels(), width)?;
    let is_wide = b.compare(CompareOp::Ge, count, least)?;
    b.begin_region(&[]);
    let leveled = found.evaluate(b, &rebuild.values)?;
    let then = b.end_region(&leveled);
    b.begin_region(&[]);
    let plain = super::plain(rebuild, inst)?;
    let b = &mut rebuild.b;
    let otherwise = b.end_region(&plain);
    b.set_loc(source.insts[inst].loc.clone());
    let results = b.if_(is_wide, then, otherwise)?;
    for (&old, &new) in source.insts[inst].results.iter().zip(&results) {
        rebuild.stands_for(old, new);
    }
    Ok(())
}

/// The values from outside that a loop's body uses.
fn outer(func: &Function, view: &LoopView) -> HashSet<Value> {
    let mut seen = Seen::default();
    let body = &func.regions[view.body];
    seen.defined.extend(&body.params);
    body.insts.iter().for_each(|&inst| seen.visit(func, inst));
    seen.free().collect()
}
