//! Values that stay with the instance: all its activations read them there.

use std::collections::HashSet;

use heddle_ir::{FuncBuilder, Value};

use super::cut::uses;
use super::graph::Block;
use super::live::{Live, is_constant, of_instance};
use super::recursion::Recursion;
use crate::batch::Result;
use crate::instances::lane::Lane;
use crate::instances::set::Set;

/// For each function the instances, with what its activations read of them, and the other values
/// that activations keep.
pub(super) fn of_instances<'a>(
    b: &mut FuncBuilder,
    top: &Set<'a>,
    recursion: &'a Recursion<'a>,
    args: &[Lane],
    blocks: &[Block],
) -> Result<(Vec<Set<'a>>, Live)> {
    let is_kept = |function: usize, v: Value| {
        let place = recursion.params(function).iter().position(|p| *p == v);
        place.is_some_and(|p| recursion.kept[function][p].is_some())
            || is_constant(recursion, function, v)
    };
    let live = Live::of(recursion, blocks, &is_kept);
    let mut sets = vec![];
    for (function, source) in recursion.functions.iter().enumerate() {
        let mut set = Set::new(source, top.context, top.count, top.dim.clone());
        set.may_be_empty = top.may_be_empty;
        for (&param, kept) in recursion
            .params(function)
            .iter()
            .zip(&recursion.kept[function])
        {
            if let Some(kept) = kept {
                set.values.insert(param, args[*kept]);
            }
        }
        let known = of_instance(recursion, function);
        let own = live.before.iter().zip(blocks);
        let own = own.filter(|(_, block)| block.function == function);
        let mut wanted: HashSet<Value> = own.flat_map(|(all, _)| all).copied().collect();
        wanted.retain(|v| known.contains(v));
        let mut order = vec![];
        source.for_each_inst(&mut |inst, _| order.push(inst));
        let mut needed = vec![];
        for inst in order.into_iter().rev() {
            let mut results = source.insts[inst].results.iter();
            if results.any(|v| wanted.contains(v)) {
                wanted.extend(uses(source, inst));
                needed.push(inst);
            }
        }
        for inst in needed.into_iter().rev() {
            set.inst(b, inst)?;
        }
        sets.push(set);
    }
    let is_there = |function: usize, v: Value| {
        is_constant(recursion, function, v) || sets[function].values.contains_key(&v)
    };
    let live = Live::of(recursion, blocks, &is_there);
    Ok((sets, live))
}
