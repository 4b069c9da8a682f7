//! Function inlining.

use std::collections::HashMap;

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{
    Dim, Entity, FuncId, Function, Inst, LoopView, MAX_NESTING, Module, Op, Region, Signature,
    Type, Value,
};

use crate::Edit;
use crate::callgraph;

/// Growth limit: a module may gain `MAX_GAIN` + `MAX_GAIN_FACTOR` · its size in instructions.
const MAX_GAIN: usize = 1 << 18;
const MAX_GAIN_FACTOR: usize = 16;

/// Replaces calls by copies of their callees' bodies, callees first.
///
/// It does *not* inline
/// - recursive functions, direct or mutual;
/// - beyond a limit on the module's growth;
/// - where regions would nest deeper than the IR allows.
///
/// The callees stay; `remove_dead` removes those without callers.
pub fn inline_calls(module: &mut Module) -> Stats {
    let mut stats = Stats::default();
    let mut plain = vec![false; module.functions.len()];
    let size: usize = module.functions.iter().map(|(_, f)| count_insts(f)).sum();
    let mut gain = size
        .saturating_mul(MAX_GAIN_FACTOR)
        .saturating_add(MAX_GAIN);
    for component in callgraph::components(module) {
        for &id in &component {
            stats.merge(inline_into(module, id, &plain, &mut gain));
        }
        if !callgraph::is_recursive(module, &component) {
            plain[component[0].index()] = true;
        }
    }
    stats
}

/// Inlines the calls in one function. Its callees have been processed before it.
fn inline_into(module: &mut Module, id: FuncId, plain: &[bool], gain: &mut usize) -> Stats {
    let mut sites = vec![];
    find_calls(
        &module.functions[id],
        module.functions[id].body,
        1,
        &mut sites,
    );
    if sites.is_empty() {
        return Stats::default();
    }
    // The function is taken out, so that its callees can be read while it changes.
    let mut func = std::mem::replace(
        &mut module.functions[id],
        Function::new(Signature::default()),
    );
    let mut patch = Patch::new(&mut func);
    for (inst, callee, level) in sites {
        let body = &module.functions[callee];
        if !plain[callee.index()] || level + depth(body, body.body) > MAX_NESTING {
            continue;
        }
        let size = count_insts(body);
        if size > *gain {
            continue;
        }
        if inline(&mut patch, inst, body) {
            *gain -= size;
            patch.because(Edit::CallInlined);
        }
    }
    let stats = patch.apply();
    module.functions[id] = func;
    stats
}

fn inline(patch: &mut Patch, call: Inst, callee: &Function) -> bool {
    let args = patch.args(call);
    let names = bind_names(patch, &callee.sig, &args);
    let types = |ty: &Type| ty.map_dims(&mut |d| d.substitute(&|n| names.get(n).cloned()));
    if loses_empty_shapes(callee, &types) {
        return false;
    }
    let params = &callee.regions[callee.body].params;
    let stated = |v: &Value| types(callee.ty(*v));
    if !params
        .iter()
        .zip(&args)
        .all(|(p, a)| stated(p).accepts(patch.ty(*a)))
    {
        return false;
    }
    let results = patch.func().insts[call].results.clone();
    let yields = &callee.regions[callee.body].yields;
    let fits = |(&old, new): (&Value, &Value)| {
        let a = patch.ty(old);
        match params.iter().position(|p| p == new) {
            Some(i) => a.accepts(patch.ty(args[i])),
            None => {
                let b = stated(new);
                let plain = callee
                    .def_inst(*new)
                    .is_some_and(|d| callee.insts[d].regions.is_empty());
                let more = |m: &Type| a.accepts(m) && b.accepts(m);
                a.accepts(&b) || plain && a.meet(&b).is_some_and(|m| more(&m))
            }
        }
    };
    if !results.iter().zip(yields).all(fits) {
        return false;
    }
    let yields = patch.copy_body(callee, &args, call, &types);
    let mut done = true;
    for (&old, &new) in results.iter().zip(&yields) {
        done &= patch.replace(old, new);
    }
    patch.remove(call);
    done
}

/// The callee's named sizes in terms of the caller's. A name stays unbound unless all its axes are
/// known to be equal, so that copied types claim no more than the types of the operands.
fn bind_names(patch: &Patch, sig: &Signature, args: &[Value]) -> HashMap<String, Dim> {
    let mut names: HashMap<String, Option<Dim>> = HashMap::new();
    for ((_, param), &arg) in sig.params.iter().zip(args) {
        bind(param, patch.ty(arg), &mut names);
    }
    names
        .into_iter()
        .filter_map(|(n, d)| Some((n, d?)))
        .collect()
}

pub fn bind(param: &Type, arg: &Type, names: &mut HashMap<String, Option<Dim>>) {
    match (param, arg) {
        (Type::Tensor(p), Type::Tensor(a)) => {
            let Some(dims) = &p.shape else { return };
            for (i, p) in dims.iter().enumerate() {
                let Some(name) = p.as_expr().and_then(|e| e.as_sym()) else {
                    continue;
                };
                let dim = a.shape.as_ref().and_then(|s| s.get(i));
                let dim = dim.filter(|d| d.as_expr().is_some()).cloned();
                let slot = names.entry(name.to_string()).or_insert_with(|| dim.clone());
                if *slot != dim {
                    *slot = None;
                }
            }
        }
        (Type::Seq(p), Type::Seq(a)) | (Type::Opt(p), Type::Opt(a)) => bind(p, a, names),
        _ => {}
    }
}

/// All calls below a region, each with its nesting depth.
fn find_calls(f: &Function, region: Region, level: usize, sites: &mut Vec<(Inst, FuncId, usize)>) {
    for &inst in &f.regions[region].insts {
        if let Op::Call(callee) = f.insts[inst].op {
            sites.push((inst, callee, level));
        }
        for &inner in &f.insts[inst].regions {
            find_calls(f, inner, level + 1, sites);
        }
    }
}

fn count_insts(f: &Function) -> usize {
    let mut count = 0;
    f.for_each_inst(&mut |_, _| count += 1);
    count
}

/// Nesting depth of the regions below a region, itself included.
fn depth(f: &Function, region: Region) -> usize {
    let insts = &f.regions[region].insts;
    let inner = insts.iter().flat_map(|i| &f.insts[*i].regions);
    1 + inner.map(|r| depth(f, *r)).max().unwrap_or(0)
}

/// Tells if a scan output would lose the static or symbolic sizes of its elements. They give the
/// output its shape when the trip count is 0.
fn loses_empty_shapes(callee: &Function, types: &dyn Fn(&Type) -> Type) -> bool {
    let mut found = false;
    callee.for_each_inst(&mut |inst, _| {
        let scans = LoopView::of(callee, inst).map(|parts| parts.scans);
        for value in scans.into_iter().flatten() {
            let (old, new) = (callee.ty(value), types(callee.ty(value)));
            let dims = |t: &Type| {
                t.as_tensor()
                    .and_then(|t| t.shape.clone())
                    .unwrap_or_default()
            };
            let pairs = dims(old).into_iter().zip(dims(&new)).skip(1);
            found |= pairs
                .into_iter()
                .any(|(a, b)| a.as_expr().is_some() && b.as_expr().is_none());
        }
    });
    found
}
