//! Binding of named sizes to numbers.

use std::collections::BTreeMap;

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{Dim, FuncId, Module, Op, Signature, Type, Value};

use crate::Edit;

/// Makes symbolic sizes of the default entry static, so that later passes can use them. The
/// program then accepts inputs of these sizes only.
///
/// Names that are not in `sizes` stay. The pass does *not* touch other functions, whose size names
/// are local to them, nor does it propagate the sizes: [`infer_shapes`](crate::infer_shapes) does.
pub fn bind_sizes(module: &mut Module, sizes: &BTreeMap<String, i64>) -> Stats {
    let Some(entry) = module.entry_id() else {
        return Stats::default();
    };
    let number = |name: &str| sizes.get(name).map(|&n| Dim::constant(n));
    substitute_sizes(module, entry, &number, Edit::BoundSize)
}

/// Replaces names of sizes of a function by what `lookup` gives for them.
pub fn substitute_sizes(
    module: &mut Module,
    entry: FuncId,
    lookup: &dyn Fn(&str) -> Option<Dim>,
    edit: Edit,
) -> Stats {
    let func = &mut module.functions[entry];
    let bound = |name: &str| Some(lookup(name).unwrap_or_else(|| Dim::sym(name)));
    let bind = |ty: &Type| ty.map_dims(&mut |d| d.substitute(&bound));

    let old = func.sig.clone();
    let ports = |ports: &[(String, Type)]| -> Vec<_> {
        let ports = ports.iter();
        ports.map(|(name, ty)| (name.clone(), bind(ty))).collect()
    };
    let signature = Signature {
        name: old.name.clone(),
        params: ports(&old.params),
        results: ports(&old.results),
        bounds: old
            .bounds
            .iter()
            .filter(|(name, _)| lookup(name).is_none())
            .map(|(name, bound)| (name.clone(), *bound))
            .collect(),
        origin: old.origin.clone(),
    };
    let values: Vec<Value> = func.values.keys().collect();
    let mut patch = Patch::new(func);
    for value in values {
        let ty = bind(patch.ty(value));
        if ty != *patch.ty(value) {
            patch.set_type(value, ty);
            patch.because(edit);
        }
    }
    let mut stated = vec![];
    patch.func().for_each_inst(&mut |inst, data| {
        let op = match &data.op {
            Op::SeqNew { elem } => Op::SeqNew { elem: bind(elem) },
            Op::OptNone { elem } => Op::OptNone { elem: bind(elem) },
            _ => return,
        };
        stated.push((inst, op, data.args.clone(), data.results.clone()));
    });
    for (inst, op, args, results) in stated {
        patch.change(inst, op, args, results);
    }
    if signature != *old {
        patch.set_signature(signature);
        patch.because(edit);
    }
    patch.apply()
}
