//! The call graph.

use heddle_ir::{Entity, FuncId, Module, Op};

use crate::components::strongly_connected;

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

/// The strongly connected components of the call graph, callees before callers.
pub fn components(module: &Module) -> Vec<Vec<FuncId>> {
    let calls: Vec<Vec<usize>> = module
        .functions
        .keys()
        .map(|f| callees(module, f).iter().map(|g| g.index()).collect())
        .collect();
    let components = strongly_connected(&calls);
    let functions = |c: Vec<usize>| c.into_iter().map(FuncId::new).collect();
    components.into_iter().map(functions).collect()
}

/// The strongly connected components of a module's call graph, by function.
pub struct Components {
    all: Vec<Vec<FuncId>>,
    /// The number of each function's component.
    of: Vec<usize>,
    recursive: Vec<bool>,
}

impl Components {
    /// The components of a module.
    pub fn of_module(module: &Module) -> Self {
        let all = components(module);
        let mut of = vec![0; module.functions.len()];
        for (k, component) in all.iter().enumerate() {
            component.iter().for_each(|id| of[id.index()] = k);
        }
        let recursive = all.iter().map(|c| is_recursive(module, c)).collect();
        Components { all, of, recursive }
    }

    /// The functions that call this one and are called by it, itself included.
    pub fn of(&self, id: FuncId) -> &[FuncId] {
        &self.all[self.of[id.index()]]
    }

    /// Does a function call itself, perhaps by others?
    pub fn is_recursive(&self, id: FuncId) -> bool {
        self.recursive[self.of[id.index()]]
    }
}

/// Tells if the functions of a component call themselves or each other.
pub fn is_recursive(module: &Module, component: &[FuncId]) -> bool {
    component.len() > 1 || callees(module, component[0]).contains(&component[0])
}

/// Does a function of the module call this one?
pub fn is_called(module: &Module, id: FuncId) -> bool {
    let mut called = false;
    for (_, func) in module.functions.iter() {
        let calls = |op: &Op| matches!(op, Op::Call(callee) if *callee == id);
        func.for_each_inst(&mut |_, data| called |= calls(&data.op));
    }
    called
}
