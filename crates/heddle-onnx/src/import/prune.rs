//! Removal of functions that are never called.

use std::collections::HashMap;

use heddle_ir::entity::Arena;
use heddle_ir::{FuncId, Function, Module, Op, Signature};

/// Removes functions that are never called: specialisations that were given up.
pub fn prune(module: &mut Module) {
    let Some(entry) = module.entry_id() else {
        return;
    };
    let mut order = vec![entry];
    let mut place = HashMap::from([(entry, 0)]);
    let mut at = 0;
    while let Some(&id) = order.get(at) {
        at += 1;
        module.functions[id].for_each_inst(&mut |_, inst| {
            if let Op::Call(callee) = inst.op
                && !place.contains_key(&callee)
            {
                place.insert(callee, order.len());
                order.push(callee);
            }
        });
    }
    let mut functions: Arena<FuncId, Function> = Arena::new();
    let ids: Vec<FuncId> = order
        .iter()
        .map(|id| {
            let empty = Function::new(Signature::default());
            functions.push(std::mem::replace(&mut module.functions[*id], empty))
        })
        .collect();
    for id in &ids {
        let function = &mut functions[*id];
        for inst in function.insts.keys() {
            if let Op::Call(callee) = &mut function.insts[inst].op
                && let Some(place) = place.get(callee)
            {
                *callee = ids[*place];
            }
        }
    }
    module.functions = functions;
    module.set_entry(ids[0]);
}
