//! The run's key as an input of the program.

use std::collections::HashSet;
use std::sync::Arc;

use heddle_ir::{DType, FuncId, Module, Op, Type};

use crate::callgraph::callees;

/// Gives the entry one more parameter, `i64[]` with this name, whose bits take the place of the run's key ([`Op::RunKey`]) in
/// all functions: those that draw random numbers, or call one that does, have it as their last
/// parameter. So instances of a batch can have a seed each. It does not look for an input of the same name.
pub fn seed_as_input(module: &mut Module, name: &str) {
    let Some(entry) = module.entry_id() else {
        return;
    };
    let takers = takers(module, entry);
    for &id in &takers {
        let function = &mut module.functions[id];
        let seed = Type::scalar(DType::I64);
        let sig = Arc::make_mut(&mut function.sig);
        sig.params.push((name.to_string(), seed.clone()));
        let seed = function.add_param(function.body, seed, Some(Arc::from(name)));
        let mut all = vec![];
        function.for_each_inst(&mut |inst, _| all.push(inst));
        for inst in all {
            let inst = &mut function.insts[inst];
            match inst.op {
                Op::RunKey => {
                    inst.op = Op::cast(DType::U64);
                    inst.args = vec![seed];
                }
                Op::Call(callee) if takers.contains(&callee) => inst.args.push(seed),
                _ => {}
            }
        }
    }
}

/// The entry, the functions that read the run's key, and those that call one of these.
fn takers(module: &Module, entry: FuncId) -> HashSet<FuncId> {
    let mut takers = HashSet::from([entry]);
    for (id, function) in module.functions.iter() {
        let mut draws = false;
        function.for_each_inst(&mut |_, inst| draws |= matches!(inst.op, Op::RunKey));
        if draws {
            takers.insert(id);
        }
    }
    loop {
        let calls = |id: &FuncId| callees(module, *id).iter().any(|f| takers.contains(f));
        let more = module.functions.keys().filter(|id| !takers.contains(id));
        let more: Vec<FuncId> = more.filter(calls).collect();
        if more.is_empty() {
            return takers;
        }
        takers.extend(more);
    }
}
