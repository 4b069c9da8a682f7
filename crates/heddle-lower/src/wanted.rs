//! Finds the values that determine sizes.
//!
//! A size that a model computes from the *elements* of an input (the shape of a reshape, the limit
//! of a range) is known at launch if its computation is followed. Such inputs, and constants that
//! meet them, become per-unit elements, from which memory is planned.

use std::collections::HashSet;

use heddle_ir::tensor::element_count;
use heddle_ir::{Dim, Function, Inst, Op, Region, Value};

use super::MASK;

/// The values that sizes depend on, transitively.
pub fn size_sources(f: &Function) -> HashSet<Value> {
    let mut wanted = HashSet::new();
    region(f, f.body, &mut wanted);
    wanted
}

/// Walks backwards, so that users precede their operands.
fn region(f: &Function, region_: Region, wanted: &mut HashSet<Value>) {
    for &inst in f.regions[region_].insts.iter().rev() {
        let data = &f.insts[inst];
        data.regions.iter().for_each(|&r| region(f, r, wanted));
        let asked = data.results.iter().any(|r| wanted.contains(r));
        if asked && (follows(&data.op) || is_mask_of_axes(f, inst)) {
            wanted.extend(&data.args);
        } else if data.results.iter().any(|&r| is_open(f, r)) {
            let sizes = data.op.props().operands.sizes();
            wanted.extend(sizes.filter_map(|i| data.args.get(i)));
        }
    }
}

/// True if a type has a dynamic size.
pub fn is_open(f: &Function, value: Value) -> bool {
    let ty = f.ty(value).as_tensor();
    ty.is_some_and(|t| match &t.shape {
        Some(shape) => shape.iter().any(|d| matches!(d, Dim::Unknown(_))),
        None => true,
    })
}

/// True for a search in few enough elements for every unit, such as a mask of axes.
fn is_mask_of_axes(f: &Function, inst: Inst) -> bool {
    let data = &f.insts[inst];
    let count = |v: Value| {
        f.ty(v)
            .as_tensor()?
            .static_shape()
            .and_then(|s| element_count(&s))
    };
    data.op == Op::NonZero
        && data
            .args
            .first()
            .is_some_and(|&x| count(x).is_some_and(|n| n <= MASK))
}

/// True for ops that every unit can compute on a few elements.
fn follows(op: &Op) -> bool {
    let computes = matches!(
        op,
        Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Cast { .. }
            | Op::Pad { .. }
            | Op::ScatterElements { .. }
            | Op::Range
            | Op::Reduce { .. }
    );
    computes || op.only_moves()
}
