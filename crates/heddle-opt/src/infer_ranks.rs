//! Ranks of inputs, by their uses.

use std::collections::HashMap;

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{Dim, FuncId, Function, InstData, Module, Op, TensorType, Type, Value};

use crate::Edit;
use crate::callgraph::is_called;
use crate::names::{names_of, unused};

/// Gives an input of unknown rank the number of axes that an instruction asks for which each run
/// evaluates: a permutation, a check of the rank, an elementwise op whose result has this rank.
/// Inputs are checked for it when the program starts; their axes get names.
///
/// It does *not* look into branches and loops, which a run may not take, nor at functions that are
/// called.
pub fn infer_ranks(module: &mut Module) -> Stats {
    let mut stats = Stats::default();
    let ids: Vec<FuncId> = module.functions.keys().collect();
    for id in ids {
        let func = &module.functions[id];
        let body = &func.regions[func.body];
        let open = body.params.iter().filter(|v| is_unranked(func, **v));
        let open: Vec<Value> = open.copied().collect();
        if open.is_empty() || !module.is_entry(id) || is_called(module, id) {
            continue;
        }
        let ranks = ranks(func);
        let found = open.into_iter().filter_map(|v| Some((v, *ranks.get(&v)?)));
        let found: Vec<(Value, usize)> = found.collect();
        stats.merge(rank(&mut module.functions[id], &found));
    }
    stats
}

fn is_unranked(func: &Function, value: Value) -> bool {
    func.ty(value)
        .as_tensor()
        .is_some_and(|t| t.shape.is_none())
}

/// The ranks that instructions of the body ask for, followed backwards from the last one.
fn ranks(func: &Function) -> HashMap<Value, usize> {
    let mut ranks = HashMap::new();
    for &inst in func.regions[func.body].insts.iter().rev() {
        let data = &func.insts[inst];
        if let Some((value, rank)) = asked(func, &ranks, data) {
            ranks.insert(value, rank);
        }
    }
    ranks
}

/// The rank that an instruction asks for of an operand.
fn asked(
    func: &Function,
    ranks: &HashMap<Value, usize>,
    data: &InstData,
) -> Option<(Value, usize)> {
    let rank = |v: Value| {
        let stated = func.ty(v).as_tensor()?.rank();
        stated.or_else(|| ranks.get(&v).copied())
    };
    let args = &data.args;
    match &data.op {
        Op::Transpose { perm } => Some((args[0], perm.len())),
        Op::Unary(_) | Op::Cast { .. } => Some((args[0], rank(data.results[0])?)),
        Op::Binary(_) | Op::Compare(_) => {
            let result = rank(data.results[0])?;
            let [a, b] = [args[0], args[1]].map(rank);
            match (a, b) {
                (None, Some(b)) if b < result => Some((args[0], result)),
                (Some(a), None) if a < result => Some((args[1], result)),
                _ => None,
            }
        }
        // A shape of so many entries.
        Op::Reshape => {
            let of = func.def_inst(args[0]).map(|inst| &func.insts[inst])?;
            let count = func.constant(args[1])?.to_i64s()?;
            match (&of.op, &count[..]) {
                (Op::Shape, &[count]) => Some((of.args[0], usize::try_from(count).ok()?)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Gives parameters their ranks.
fn rank(func: &mut Function, found: &[(Value, usize)]) -> Stats {
    let mut names = names_of(func);
    let mut sig = (*func.sig).clone();
    let params = func.regions[func.body].params.clone();
    let mut patch = Patch::new(func);
    for (&param, (name, ty)) in params.iter().zip(&mut sig.params) {
        let (Some(tensor), Some((_, rank))) = (ty.as_tensor(), found.iter().find(|f| f.0 == param))
        else {
            continue;
        };
        let axes = (0..*rank).map(|axis| Dim::sym(&unused(&mut names, format!("{name}_{axis}"))));
        *ty = Type::Tensor(TensorType::new(tensor.dtype, axes.collect::<Vec<_>>()));
        patch.set_type(param, ty.clone());
        patch.because(Edit::InputRanked);
    }
    if patch.edits() > 0 {
        patch.set_signature(sig);
    }
    patch.apply()
}
