//! Types of the tensors in sequences and optionals.

use std::collections::HashMap;

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{FuncId, Inst, Module, Op, TensorType, Type, Value};

use crate::Edit;
use crate::contents::{Contents, innermost, with_innermost};

/// Refines the types of sequences and optionals by the types of what is put into them: a list that
/// begins empty is often declared without a rank.
///
/// It does *not* change types of function parameters, and takes them as stated.
pub fn infer_contents(module: &mut Module) -> Stats {
    let mut stats = Stats::default();
    let contents = Contents::of(module);
    let common = common(module, &contents);
    let ids: Vec<FuncId> = module.functions.keys().collect();
    for id in ids {
        let mut types: Vec<(Value, Type)> = vec![];
        for (_, value, class) in contents.members().filter(|m| m.0 == id) {
            let func = &module.functions[id];
            let (ty, is_param) = (
                func.ty(value),
                func.regions[func.body].params.contains(&value),
            );
            let met = common.get(&class).and_then(|tensor| narrowed(ty, tensor));
            types.extend(
                met.filter(|met| met != ty && !is_param)
                    .map(|met| (value, met)),
            );
        }
        let ops = ops(module, id, &contents);
        let mut patch = Patch::new(&mut module.functions[id]);
        for (inst, op) in ops {
            let data = &patch.func().insts[inst];
            let (args, results) = (data.args.clone(), data.results.clone());
            patch.change(inst, op, args, results);
            patch.because(Edit::NarrowerContents);
        }
        for (value, ty) in types {
            patch.set_type(value, ty);
            patch.because(Edit::NarrowerContents);
        }
        stats.merge(patch.apply());
    }
    stats
}

/// For each class the type that all members have once they are refined.
fn common(module: &Module, contents: &Contents) -> HashMap<usize, TensorType> {
    let mut common: HashMap<usize, Option<Type>> = HashMap::new();
    for (id, value, class) in contents.members() {
        let ty = Type::Tensor(innermost(module.functions[id].ty(value)).clone());
        let met = contents.tensor(class).and_then(|t| narrowed(&ty, &t));
        let joined = match common.remove(&class) {
            Some(before) => before.zip(met).and_then(|(a, b)| a.join(&b)),
            None => met,
        };
        common.insert(class, joined);
    }
    let found = |(class, ty): (usize, Option<Type>)| Some((class, innermost(&ty?).clone()));
    common.into_iter().filter_map(found).collect()
}

/// The instructions that state what their result holds, and state it more precisely now.
fn ops(module: &Module, id: FuncId, contents: &Contents) -> Vec<(Inst, Op)> {
    let mut ops = vec![];
    module.functions[id].for_each_inst(&mut |inst, data| {
        let (Op::SeqNew { elem } | Op::OptNone { elem }) = &data.op else {
            return;
        };
        let class = contents.class(id, data.results[0]);
        let tensor = class.and_then(|class| contents.tensor(class));
        let Some(new) = tensor.and_then(|tensor| narrowed(elem, &tensor)) else {
            return;
        };
        if new != *elem {
            ops.push((
                inst,
                match data.op {
                    Op::SeqNew { .. } => Op::SeqNew { elem: new },
                    _ => Op::OptNone { elem: new },
                },
            ));
        }
    });
    ops
}

/// A type whose innermost tensors are also of this type; `None` if the two contradict each other.
fn narrowed(ty: &Type, tensor: &TensorType) -> Option<Type> {
    let inner = Type::Tensor(innermost(ty).clone());
    match inner.meet(&Type::Tensor(tensor.clone()))? {
        Type::Tensor(met) => Some(with_innermost(ty, met)),
        _ => None,
    }
}
