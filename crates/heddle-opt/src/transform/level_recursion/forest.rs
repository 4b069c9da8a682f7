//! Calls of a recursion in a loop, one for each root, as one walk over all trees.

use std::collections::HashSet;

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{
    DType, Dim, FuncBuilder, FuncId, Function, Inst, LoopView, Module, Op, Signature, Type, Value,
};

use super::analyze::{Member, Recursion};
use crate::Edit;
use crate::batch::Result;

/// The name of the number of roots.
const ROOTS: &str = "roots of a forest";

/// A loop that calls a function for each element of an array and stacks the results.
pub struct CallLoop {
    caller: FuncId,
    inst: Inst,
    /// The arguments, with the array in the place of the node.
    args: Vec<Value>,
}

/// The loops of other functions that call `first` for each root.
pub fn loops(module: &Module, first: FuncId, recursion: &Recursion) -> Vec<CallLoop> {
    find(module, first, recursion.members[0].node)
}

fn find(module: &Module, first: FuncId, node: usize) -> Vec<CallLoop> {
    let mut found = vec![];
    for (caller, func) in module.functions.iter() {
        func.for_each_inst(&mut |inst, _| {
            if let Some(args) = arguments(func, inst, first, node) {
                found.push(CallLoop { caller, inst, args });
            }
        });
    }
    found
}

fn arguments(func: &Function, inst: Inst, first: FuncId, node: usize) -> Option<Vec<Value>> {
    let view = LoopView::of(func, inst)?;
    if view.trip.is_none() || view.cond.is_some() || !view.params.is_empty() {
        return None;
    }
    let &[read, call] = &func.regions[view.body].insts[..] else {
        return None;
    };
    let (read, call) = (&func.insts[read], &func.insts[call]);
    let &[roots, at] = &read.args[..] else {
        return None;
    };
    let is_call = call.op == Op::Call(first)
        && read.op == Op::Gather { axis: 0 }
        && at == view.iteration
        && func
            .ty(roots)
            .as_tensor()
            .is_some_and(|t| t.dtype == DType::I64 && t.rank() == Some(1))
        && call.args.get(node) == Some(&read.results[0])
        && call.results == view.stacked;
    let own: HashSet<Value> = read
        .results
        .iter()
        .copied()
        .chain([view.iteration])
        .collect();
    let mut fixed = call.args.iter().enumerate().filter(|(k, _)| *k != node);
    if !is_call || fixed.any(|(_, v)| own.contains(v)) || !takes_all(func, &view, roots) {
        return None;
    }
    let mut args = call.args.clone();
    args[node] = roots;
    Some(args)
}

/// Is there an iteration for each root? The stacked results have as many elements.
fn takes_all(func: &Function, view: &LoopView, roots: Value) -> bool {
    let first = |v: Value| func.ty(v).as_tensor()?.shape.as_ref()?.first().cloned();
    let size = first(roots).filter(|d| d.as_expr().is_some());
    size.is_some() && view.scans.iter().any(|&scan| first(scan) == size)
}

/// Puts an array of roots in the place of the node.
pub fn with_roots(sig: &mut Signature, node: usize) {
    let count = Dim::sym(ROOTS);
    sig.params[node].1 = Type::tensor(DType::I64, [count.clone()]);
    for (_, ty) in &mut sig.results {
        if let Type::Tensor(t) = ty
            && let Some(shape) = &mut t.shape
        {
            shape.insert(0, count.clone());
        }
    }
}

/// A call for each root.
pub fn calls(
    b: &mut FuncBuilder,
    first: &Member,
    params: &[Value],
    node: usize,
) -> Result<Vec<Value>> {
    let count = b.size(params[node], 0)?;
    let (_, inner) = b.begin_region(&[Type::scalar(DType::I64)]);
    let mut args = params.to_vec();
    args[node] = b.gather(params[node], inner[0])?;
    let results = b.call(first.id, &first.func.sig, &args)?;
    let body = b.end_region(&results);
    Ok(b.loop_(Some(count), None, &[], body)?)
}

/// Replaces the loops by calls of the new function.
pub fn redirect(module: &mut Module, first: FuncId, forest: Function) -> Stats {
    let mut stats = Stats::default();
    let node = forest.sig.params.iter().position(|(_, ty)| {
        let shape = ty.as_tensor().and_then(|t| t.shape.as_ref());
        shape.is_some_and(|s| s == &[Dim::sym(ROOTS)])
    });
    let Some(node) = node else {
        return stats;
    };
    let loops = find(module, first, node);
    let id = module.functions.push(forest);
    for CallLoop { caller, inst, args } in loops {
        let func = &mut module.functions[caller];
        let results = func.insts[inst].results.clone();
        let types: Vec<Type> = results.iter().map(|&v| func.ty(v).clone()).collect();
        let mut patch = Patch::new(func);
        let values = patch.insert(inst, Op::Call(id), &args, vec![], types);
        for (&old, new) in results.iter().zip(values) {
            patch.replace(old, new);
        }
        patch.remove(inst);
        patch.because(Edit::RecursionLeveled);
        stats.merge(patch.apply());
    }
    stats
}
