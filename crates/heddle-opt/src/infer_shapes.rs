//! Shape and bound inference.

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{Bounds, FuncId, Module, Op, Region, Signature, Type, Value};

use crate::Edit;
use crate::callgraph;
use crate::facts::{Facts, narrow};

/// Refines the stated types. It derives sizes from operands, from the contents of small integer
/// arrays, across iterations of loops, from function bodies to calls, and from the stated bounds of
/// symbolic sizes.
///
/// It does *not* change instructions or types of function parameters. It replaces a stated
/// expression only to resolve a maximum or minimum that the bounds decide.
pub fn infer_shapes(module: &mut Module) -> Stats {
    let mut stats = Stats::default();
    for component in callgraph::components(module) {
        if callgraph::is_recursive(module, &component) {
            stats.merge(infer_recursion(module, &component));
        }
        for id in component {
            let facts = Facts::of(module, id);
            let func = &mut module.functions[id];
            let signature = func.sig.clone();
            let bounds = Bounds::of(&signature);
            let mut patch = Patch::new(func);
            let mut simplify = |ty: &Type| ty.map_dims(&mut |d| bounds.simplify(d));
            for value in values(&patch) {
                let ty = facts.narrower(value).unwrap_or_else(|| patch.ty(value));
                let ty = match bounds.may_simplify(ty) {
                    true => simplify(ty),
                    false if facts.narrower(value).is_none() => continue,
                    false => ty.clone(),
                };
                if ty != *patch.ty(value) {
                    patch.set_type(value, ty);
                    patch.because(Edit::NarrowerType);
                }
            }
            state_elements(&mut patch, &mut simplify);
            narrow_results(&mut patch, &signature, &mut simplify);
            stats.merge(patch.apply());
        }
    }
    stats
}

/// Refines the result types of recursive functions by induction over the depth of calls. The base
/// cases, branches that do not recurse, give a guess. It holds if, with the guess as the calls'
/// type, all branches agree with it.
fn infer_recursion(module: &mut Module, component: &[FuncId]) -> Stats {
    let found = |module: &Module, id: FuncId, ignored: &[FuncId]| -> Vec<Type> {
        let facts = Facts::beside(module, id, ignored);
        let f = &module.functions[id];
        let yields = f.regions[f.body].yields.iter();
        yields
            .map(|v| facts.narrower(*v).unwrap_or_else(|| f.ty(*v)).clone())
            .collect()
    };
    let mut stats = Stats::default();
    let before: Vec<_> = component
        .iter()
        .map(|id| module.functions[*id].sig.clone())
        .collect();
    for (&id, sig) in component.iter().zip(&before) {
        let mut guess = (**sig).clone();
        for ((_, stated), found) in guess.results.iter_mut().zip(found(module, id, component)) {
            *stated = narrow(stated, &found);
        }
        if guess != **sig {
            set_signature(module, id, guess, &mut stats);
        }
    }
    let holds = |&id: &FuncId| {
        let f = &module.functions[id];
        let mut pairs = f.sig.results.iter().zip(found(module, id, &[]));
        pairs.all(|((_, stated), found)| stated.accepts(&found))
    };
    if stats.total() > 0 && !component.iter().all(holds) {
        stats = Stats::default();
        for (&id, sig) in component.iter().zip(before) {
            set_signature(module, id, (*sig).clone(), &mut Stats::default());
        }
    }
    stats
}

fn set_signature(module: &mut Module, id: FuncId, signature: Signature, stats: &mut Stats) {
    let mut patch = Patch::new(&mut module.functions[id]);
    patch.set_signature(signature);
    patch.because(Edit::NarrowerRecursion);
    stats.merge(patch.apply());
}

/// All live values of a function except its parameters.
fn values(patch: &Patch) -> Vec<Value> {
    let func = patch.func();
    let mut all = vec![];
    func.for_each_inst(&mut |_, inst| {
        all.extend_from_slice(&inst.results);
        for &region in &inst.regions {
            all.extend_from_slice(&func.regions[region].params);
        }
    });
    all
}

/// Simplifies the types that ops state of the elements of sequences and optionals.
fn state_elements(patch: &mut Patch, simplify: &mut dyn FnMut(&Type) -> Type) {
    let mut changes = vec![];
    patch
        .func()
        .for_each_inst(&mut |inst, data| match &data.op {
            Op::SeqNew { elem } => {
                let new = simplify(elem);
                if new != *elem {
                    changes.push((inst, Op::SeqNew { elem: new }));
                }
            }
            Op::OptNone { elem } => {
                let new = simplify(elem);
                if new != *elem {
                    changes.push((inst, Op::OptNone { elem: new }));
                }
            }
            _ => {}
        });
    for (inst, op) in changes {
        let data = &patch.func().insts[inst];
        let (args, results) = (data.args.clone(), data.results.clone());
        patch.change(inst, op, args, results);
        patch.because(Edit::NarrowerType);
    }
}

/// Gives the signature's results the types that the body yields.
fn narrow_results(
    patch: &mut Patch,
    signature: &Signature,
    simplify: &mut dyn FnMut(&Type) -> Type,
) {
    let body: Region = patch.func().body;
    let mut new = signature.clone();
    for ((_, stated), value) in new.results.iter_mut().zip(patch.yields(body)) {
        *stated = simplify(&narrow(stated, patch.ty(value)));
    }
    if new != *signature {
        patch.set_signature(new);
        patch.because(Edit::NarrowerFunction);
    }
}
