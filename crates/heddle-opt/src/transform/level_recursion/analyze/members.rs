//! The functions of a recursion, and the roles of their parameters.

use std::collections::HashMap;

use heddle_ir::{Dim, FuncId, Function, Inst, Module, Op, Region, Type, Value};

use super::origins::origins;
use super::{Origin, is_computable};
use crate::inline_calls::bind;

/// A function of a recursion.
pub struct Member<'m> {
    /// The function.
    pub id: FuncId,
    /// Its text.
    pub func: &'m Function,
    /// The first member's parameter that each parameter always equals; none for the node.
    pub fixed: Vec<Option<usize>>,
    /// Index of the node parameter.
    pub node: usize,
    /// Its named sizes in terms of the first member's.
    pub names: HashMap<String, Option<Dim>>,
    /// The branches around each instruction, outermost first.
    pub around: HashMap<Inst, Vec<(Inst, bool)>>,
    /// The origin of each value.
    pub origins: HashMap<Value, Origin>,
}

impl Member<'_> {
    /// A type of this function in terms of the first member's sizes.
    pub fn ty(&self, ty: &Type) -> Type {
        let lookup = |name: &str| self.names.get(name).cloned().flatten();
        ty.map_dims(&mut |d| d.substitute(&lookup))
    }
}

/// Analyses a function as a member of a recursion; `None` if it does not walk over nodes.
pub(super) fn member<'m>(
    module: &'m Module,
    ids: &[FuncId],
    id: FuncId,
    fixed: Vec<Option<usize>>,
) -> Option<Member<'m>> {
    let func = &module.functions[id];
    let first = &module.functions[ids[0]];
    // The node is the only parameter that changes; a function without one does not walk.
    let mut changing = fixed.iter().enumerate().filter(|(_, f)| f.is_none());
    let (node, _) = changing.next()?;
    let ty = func.sig.params[node].1.as_tensor()?;
    if changing.next().is_some()
        || ty.rank() != Some(0)
        || !matches!(ty.dtype, heddle_ir::DType::I64 | heddle_ir::DType::I32)
    {
        return None;
    }
    let mut names = HashMap::new();
    for ((_, ty), fixed) in func.sig.params.iter().zip(&fixed) {
        if let Some(k) = fixed {
            bind(ty, &first.sig.params[*k].1, &mut names);
        }
    }
    let mut around = HashMap::new();
    surround(func, func.body, &mut vec![], &mut around);
    let sized = |(_, ty): &(String, Type)| {
        let lookup = |name: &str| names.get(name).cloned().flatten();
        let ty = ty.map_dims(&mut |d| d.substitute(&lookup));
        let shape = ty.as_tensor().and_then(|t| t.shape.clone());
        let plain = ty
            .as_tensor()
            .is_some_and(|t| t.dtype.is_arith() || t.dtype == heddle_ir::DType::Bool);
        plain && shape.is_some_and(|s| s.iter().all(is_computable))
    };
    func.sig.results.iter().all(sized).then_some(())?;
    let origins = origins(func, &fixed, ids)?;
    Some(Member {
        id,
        func,
        fixed,
        node,
        names,
        around,
        origins,
    })
}

/// For each function and parameter, the first function's parameter that it always equals; `None` if
/// there is none.
pub(super) fn unchanged(module: &Module, ids: &[FuncId]) -> Option<Vec<Vec<Option<usize>>>> {
    // Lattice: nothing known, one parameter, changing.
    #[derive(Clone, Copy, PartialEq)]
    enum Is {
        Open,
        Always(usize),
        Changes,
    }
    let params = |id: FuncId| &module.functions[id].regions[module.functions[id].body].params;
    let mut state: Vec<Vec<Is>> = ids
        .iter()
        .map(|&id| vec![Is::Open; params(id).len()])
        .collect();
    state[0] = (0..params(ids[0]).len()).map(Is::Always).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (k, &id) in ids.iter().enumerate() {
            let (own, now) = (params(id), state[k].clone());
            module.functions[id].for_each_inst(&mut |_, inst| {
                let Op::Call(callee) = inst.op else { return };
                let Some(to) = ids.iter().position(|i| *i == callee) else {
                    return;
                };
                for (slot, arg) in state[to].iter_mut().zip(&inst.args) {
                    let passed = match own.iter().position(|p| p == arg) {
                        Some(i) => now[i],
                        None => Is::Changes,
                    };
                    let next = match (*slot, passed) {
                        (a, Is::Open) => a,
                        (Is::Open, b) => b,
                        (a, b) if a == b => a,
                        _ => Is::Changes,
                    };
                    changed |= next != *slot;
                    *slot = next;
                }
            });
        }
    }
    let known = |is: &Is| match is {
        Is::Always(i) => Some(*i),
        _ => None,
    };
    Some(
        state
            .iter()
            .map(|s| s.iter().map(known).collect())
            .collect(),
    )
}

fn surround(
    func: &Function,
    region: Region,
    path: &mut Vec<(Inst, bool)>,
    around: &mut HashMap<Inst, Vec<(Inst, bool)>>,
) {
    for &inst in &func.regions[region].insts {
        around.insert(inst, path.clone());
        for (k, &inner) in func.insts[inst].regions.iter().enumerate() {
            path.push((inst, k == 0));
            surround(func, inner, path, around);
            path.pop();
        }
    }
}
