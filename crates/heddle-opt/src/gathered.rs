//! Gathered matrices side by side.

use heddle_ir::{Function, Op, Value};

/// The parts of a concatenation along its last axis, if each is an array of gathered matrices.
pub(crate) fn gathered_parts(func: &Function, x: Value) -> Option<Vec<Value>> {
    let made = &func.insts[func.def_inst(x)?];
    let rank = func.ty(x).as_tensor()?.rank()?;
    let is_gathered = |part: &Value| {
        let part = func.def_inst(*part).map(|inst| &func.insts[inst].op);
        matches!(part, Some(Op::Gather { axis }) if axis + 2 < rank)
    };
    match made.op {
        Op::Concat { axis } if axis + 1 == rank && made.args.iter().all(is_gathered) => {
            Some(made.args.to_vec())
        }
        _ => None,
    }
}
