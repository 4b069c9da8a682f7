//! Types of what a branch yields that always fails.

use std::collections::HashMap;

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{FuncId, Function, Inst, Module, Op, Region, Type, Value};

use crate::Edit;
use crate::stop_misfits::stopped;

/// Gives a value that one arm of a branch yields, and that depends on a failure in it, the type of
/// what the other arm yields: it is never seen, and its own type would say less of the branch's
/// result, maybe not even its rank.
///
/// It does *not* follow failures into or out of nested regions.
pub fn type_failures(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        let func = &mut module.functions[id];
        let changes = changes(func);
        let mut patch = Patch::new(func);
        for Change {
            arm,
            place,
            cause,
            ty,
        } in changes
        {
            let Op::Fail { message } = patch.func().insts[cause].op.clone() else {
                continue;
            };
            let mut yields = patch.yields(arm);
            yields[place] = stopped(&mut patch, cause, &message, ty);
            patch.set_border(arm, patch.func().regions[arm].params.clone(), yields);
            patch.because(Edit::FailureTyped);
        }
        stats.merge(patch.apply());
    }
    stats
}

/// A value that an arm yields is to be a failure of a type.
struct Change {
    arm: Region,
    place: usize,
    /// The instruction that fails.
    cause: Inst,
    ty: Type,
}

fn changes(func: &Function) -> Vec<Change> {
    let mut changes = vec![];
    func.for_each_inst(&mut |_, data| {
        let [then, otherwise] = data.regions[..] else {
            return;
        };
        if data.op != Op::If {
            return;
        }
        let failing = [then, otherwise].map(|arm| failures(func, arm));
        if failing.iter().all(HashMap::is_empty) {
            return;
        }
        for place in 0..data.results.len() {
            let values = [then, otherwise].map(|arm| func.regions[arm].yields[place]);
            let (arm, cause, other) = match [0, 1].map(|k| failing[k].get(&values[k])) {
                [Some(&cause), None] => (then, cause, values[1]),
                [None, Some(&cause)] => (otherwise, cause, values[0]),
                _ => continue,
            };
            let ty = func.ty(other).clone();
            if values.iter().any(|v| *func.ty(*v) != ty) {
                changes.push(Change {
                    arm,
                    place,
                    cause,
                    ty,
                });
            }
        }
    });
    changes
}

/// Values of a region that depend on a failure in it, with that.
fn failures(func: &Function, region: Region) -> HashMap<Value, Inst> {
    let mut found = HashMap::new();
    for &inst in &func.regions[region].insts {
        let data = &func.insts[inst];
        let cause = match data.op {
            Op::Fail { .. } => Some(inst),
            _ => data.args.iter().find_map(|arg| found.get(arg).copied()),
        };
        found.extend(
            cause
                .into_iter()
                .flat_map(|cause| data.results.iter().map(move |&v| (v, cause))),
        );
    }
    found
}
