//! Shape and bound inference.

use heddle_ir::{Module, Op, Region, Signature, Type, Value};

use crate::bounds::Bounds;
use crate::facts::{Facts, narrow};
use crate::{Patch, Stats, callgraph};

/// Makes the stated types as precise as can be derived: from operands, from what small integer arrays hold, over
/// iterations of loops, from functions' bodies to their calls, and from the stated bounds of named sizes.
///
/// It does *not* change instructions, nor types of parameters of functions, nor does it replace one stated expression by
/// another, but for maxima and minima that the bounds decide.
pub fn infer_shapes(module: &mut Module) -> Stats {
    let mut stats = Stats::default();
    for component in callgraph::components(module) {
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
                    patch.because("narrower type");
                }
            }
            state_elements(&mut patch, &mut simplify);
            narrow_results(&mut patch, &signature, &mut simplify);
            stats.merge(patch.apply());
        }
    }
    stats
}

/// All values of a function that are alive but its parameters.
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
        patch.because("narrower type");
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
        patch.because("narrower result of a function");
    }
}
