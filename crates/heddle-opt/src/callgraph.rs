//! Which functions call which.

use heddle_ir::{Entity, FuncId, Module, Op};

/// The functions that a function calls, without repetition.
pub fn callees(module: &Module, id: FuncId) -> Vec<FuncId> {
    let mut all = vec![];
    module.functions[id].for_each_inst(&mut |_, inst| {
        if let Op::Call(callee) = inst.op
            && !all.contains(&callee)
        {
            all.push(callee);
        }
    });
    all
}

/// The strongly connected components of the call graph, callees before callers (Tarjan's algorithm, on a
/// stack of its own: chains of calls may be long).
pub fn components(module: &Module) -> Vec<Vec<FuncId>> {
    let count = module.functions.len();
    let calls: Vec<_> = module
        .functions
        .keys()
        .map(|f| callees(module, f))
        .collect();
    let mut state = vec![Visit::default(); count];
    let (mut stack, mut components, mut next) = (vec![], vec![], 0);
    for root in module.functions.keys() {
        if state[root.index()].order.is_some() {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some((f, done)) = path.pop() {
            if done == 0 {
                state[f.index()] = Visit {
                    order: Some(next),
                    low: next,
                    open: true,
                };
                next += 1;
                stack.push(f);
            }
            if let Some(&callee) = calls[f.index()].get(done) {
                path.push((f, done + 1));
                match state[callee.index()] {
                    Visit { order: None, .. } => path.push((callee, 0)),
                    Visit {
                        order: Some(order),
                        open: true,
                        ..
                    } => {
                        let low = &mut state[f.index()].low;
                        *low = order.min(*low);
                    }
                    _ => {}
                }
                continue;
            }
            let Visit { order, low, .. } = state[f.index()];
            if let Some(&(caller, _)) = path.last() {
                let of_caller = &mut state[caller.index()].low;
                *of_caller = low.min(*of_caller);
            }
            if order == Some(low) {
                let start = stack.iter().rposition(|&g| g == f).expect("on the stack");
                let component = stack.split_off(start);
                for g in &component {
                    state[g.index()].open = false;
                }
                components.push(component);
            }
        }
    }
    components
}

/// Whether a component's functions call themselves or each other.
pub fn is_recursive(module: &Module, component: &[FuncId]) -> bool {
    component.len() > 1 || callees(module, component[0]).contains(&component[0])
}

#[derive(Clone, Copy, Default)]
struct Visit {
    order: Option<usize>,
    low: usize,
    open: bool,
}
