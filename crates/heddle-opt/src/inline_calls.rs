//! Function inlining.

use std::collections::HashMap;

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{
    Dim, Entity, FuncId, Function, Inst, LoopView, MAX_COPIED_INSTS, MAX_NESTING, Module, Op,
    Region, Signature, Type, Value,
};

use crate::Edit;
use crate::callgraph;

/// A function of at most so many instructions is inlined wherever it is called.
const SMALL: usize = 32;

/// Limits for larger functions.
#[derive(Clone, Copy)]
struct Limits {
    /// The most copies of one.
    copies: usize,
    /// The most instructions in all copies of one.
    insts: usize,
    /// This one does not hold where the program has at most so many instructions with all calls
    /// replaced.
    whole: usize,
}

/// The limits for each program.
const LIMITS: Limits = Limits {
    copies: 128,
    insts: MAX_COPIED_INSTS,
    whole: 32 * MAX_COPIED_INSTS,
};

/// The same in front of [`batch_instances`](crate::batch_instances), which makes some ten
/// instructions of one.
const LIMITS_IN_BATCH: Limits = Limits {
    copies: 32,
    insts: MAX_COPIED_INSTS,
    whole: 4 * MAX_COPIED_INSTS,
};

/// Replaces calls by copies of their callees' bodies, callees first.
///
/// It does *not* inline
/// - recursive functions, direct or mutual;
/// - functions of more than 32 instructions of which there would be more than 128 copies, or more than
///   [`MAX_COPIED_INSTS`] instructions in all copies, such as the lower ones in a chain of functions
///   that each call the next one twice. A program that is small with all calls replaced has only the
///   first limit: calls that give arrays of dynamic sizes have no compiled form;
/// - where regions would nest deeper than the IR allows.
///
/// The callees stay; `remove_dead` removes those without callers.
pub fn inline_calls(module: &mut Module) -> Stats {
    inline_up_to(module, &LIMITS)
}

/// [`inline_calls`] in front of [`batch_instances`](crate::batch_instances), which needs few copies:
/// it makes one function of each callee and form of its operands.
pub fn inline_calls_in_batch(module: &mut Module) -> Stats {
    inline_up_to(module, &LIMITS_IN_BATCH)
}

fn inline_up_to(module: &mut Module, limits: &Limits) -> Stats {
    let mut stats = Stats::default();
    let components = callgraph::components(module);
    let inlined = inlined(module, &components, limits);
    for &id in components.iter().flatten() {
        stats.merge(inline_into(module, id, &inlined));
    }
    stats
}

/// The functions that are inlined: small ones, those called once, and those whose copies are within
/// the limits. Another run decides alike, since the calls of those that stay are as many then.
fn inlined(module: &Module, components: &[Vec<FuncId>], limits: &Limits) -> Vec<bool> {
    let callees = |id: FuncId| calls_of(module, id);
    let plain = |component: &Vec<FuncId>| match callgraph::is_recursive(module, component) {
        true => None,
        false => Some(component[0]),
    };
    let is_small = whole_size(module, components) <= limits.whole;
    let mut inlined = vec![false; module.functions.len()];
    // Sizes with small callees in place of their calls.
    let mut sizes = vec![usize::MAX; module.functions.len()];
    for id in components.iter().filter_map(plain) {
        let own = count_insts(&module.functions[id]);
        let small = callees(id).into_iter().filter(|c| inlined[c.index()]);
        let size = small.fold(own, |sum, c| sum.saturating_add(sizes[c.index()]));
        sizes[id.index()] = size;
        inlined[id.index()] = size <= SMALL;
    }
    // Calls of each function, those in copies of its callers among them.
    let mut calls = vec![0usize; module.functions.len()];
    for component in components.iter().rev() {
        if let Some(id) = plain(component) {
            let (calls, size) = (calls[id.index()], sizes[id.index()]);
            let fits = is_small || calls.saturating_mul(size) <= limits.insts;
            inlined[id.index()] |= calls <= 1 || calls <= limits.copies && fits;
        }
        for &id in component {
            let bodies = match inlined[id.index()] {
                true => calls[id.index()].max(1),
                false => 1,
            };
            for callee in callees(id) {
                let calls = &mut calls[callee.index()];
                *calls = calls.saturating_add(bodies);
            }
        }
    }
    inlined
}

/// The instructions of the program with all calls replaced.
fn whole_size(module: &Module, components: &[Vec<FuncId>]) -> usize {
    let mut called = vec![false; module.functions.len()];
    // Sizes with callees in place of their calls; a recursion stays one function.
    let mut sizes = vec![0usize; module.functions.len()];
    let mut whole = 0usize;
    for component in components {
        let is_recursive = callgraph::is_recursive(module, component);
        for &id in component {
            let own = count_insts(&module.functions[id]);
            let callees = calls_of(module, id).into_iter();
            let size = callees.fold(own, |sum, c| {
                called[c.index()] = true;
                sum.saturating_add(sizes[c.index()])
            });
            match is_recursive {
                true => whole = whole.saturating_add(size),
                false => sizes[id.index()] = size,
            }
        }
    }
    let roots = sizes.iter().zip(called).filter(|(_, called)| !called);
    roots.fold(whole, |sum, (size, _)| sum.saturating_add(*size))
}

/// The callees of all calls in a function.
fn calls_of(module: &Module, id: FuncId) -> Vec<FuncId> {
    let mut callees = vec![];
    module.functions[id].for_each_inst(&mut |_, data| callees.extend(callee(&data.op)));
    callees
}

fn callee(op: &Op) -> Option<FuncId> {
    match op {
        Op::Call(callee) => Some(*callee),
        _ => None,
    }
}

/// Inlines the calls in one function. Its callees have been processed before it.
fn inline_into(module: &mut Module, id: FuncId, inlined: &[bool]) -> Stats {
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
        if !inlined[callee.index()] || level + depth(body, body.body) > MAX_NESTING {
            continue;
        }
        if inline(&mut patch, inst, body) {
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
        if let Some(callee) = callee(&f.insts[inst].op) {
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
