//! Inputs that an error comes from.

use std::collections::HashSet;

use heddle_interp::{Fault, RunError};
use heddle_ir::{FuncId, Inst, LoopView, Module, Op, Region, Value, ValueDef};

use crate::Error;

/// Inputs that the index out of range, the trip count or condition of the loop, or the calls' numbers come from.
pub(super) fn origin(module: &Module, error: &Error) -> Vec<String> {
    let error = match error {
        Error::Frames(error) => error,
        error => error,
    };
    let Error::Run(RunError::At { at, fault }) = error else {
        return vec![];
    };
    let (Some(id), Some(inst)) = (module.find(&at.function), at.inst) else {
        return vec![];
    };
    let func = &module.functions[id];
    let data = &func.insts[inst];
    let is_integer = |v: &&Value| {
        let tensor = func.ty(**v).as_tensor();
        tensor.is_some_and(|t| t.dtype.is_int() && t.rank() == Some(0))
    };
    let wanted: Vec<Value> = match fault {
        Fault::Index { .. } | Fault::Position { .. } => data.args.iter().skip(1).copied().collect(),
        Fault::Depth { .. } => data.args.iter().filter(is_integer).copied().collect(),
        Fault::Iterations { .. } => match LoopView::of(func, inst) {
            Some(view) => view.trip.into_iter().chain(view.next_cond).collect(),
            None => vec![],
        },
        _ => vec![],
    };
    let mut search = Search {
        module,
        seen: HashSet::new(),
        inputs: HashSet::new(),
    };
    for value in wanted {
        search.visit(id, value);
    }
    let names = module.entry().sig.params.iter().map(|(name, _)| name);
    let mut inputs = search.inputs.into_iter().collect::<Vec<_>>();
    inputs.sort_unstable();
    let names: Vec<_> = names.cloned().collect();
    inputs.into_iter().map(|k| names[k].clone()).collect()
}

/// A search for the parameters of the entry that a value is made of.
struct Search<'a> {
    module: &'a Module,
    seen: HashSet<(FuncId, Value)>,
    inputs: HashSet<usize>,
}

impl Search<'_> {
    fn visit(&mut self, id: FuncId, value: Value) {
        let mut open = vec![(id, value)];
        while let Some((id, value)) = open.pop() {
            if self.seen.insert((id, value)) {
                self.sources(id, value, &mut open);
            }
        }
    }

    /// The values that one comes from.
    fn sources(&mut self, id: FuncId, value: Value, open: &mut Vec<(FuncId, Value)>) {
        let func = &self.module.functions[id];
        let mut add = |v: Value| open.push((id, v));
        match func.values[value].def {
            ValueDef::Param(region, k) if region == func.body => {
                let k = k as usize;
                if self.module.entry_id() == Some(id) {
                    self.inputs.insert(k);
                }
                for (caller, args) in self.calls(id) {
                    open.extend(args.get(k).map(|&arg| (caller, arg)));
                }
            }
            ValueDef::Param(region, _) => {
                if let Some(view) = self.loop_of(id, region)
                    && let Some(k) = view.params.iter().position(|p| *p == value)
                {
                    add(view.inits[k]);
                    add(view.next[k]);
                }
            }
            ValueDef::Result(inst, k) => {
                let data = &func.insts[inst];
                match &data.op {
                    // An element's value is its array's.
                    Op::Gather { .. } | Op::Slice { .. } => add(data.args[0]),
                    Op::Shape => {}
                    Op::Call(callee) => {
                        let callee = *callee;
                        let body = &self.module.functions[callee];
                        let yields = &body.regions[body.body].yields;
                        open.extend(yields.get(k as usize).map(|&v| (callee, v)));
                    }
                    Op::If => {
                        let arms = data.regions.iter();
                        arms.for_each(|&arm| add(func.regions[arm].yields[k as usize]));
                        add(data.args[0]);
                    }
                    Op::Loop { .. } => {
                        if let Some(view) = LoopView::of(func, inst) {
                            let all = view.next.iter().chain(&view.stacked);
                            all.skip(k as usize).take(1).for_each(|&v| add(v));
                            let ends = [view.trip, view.cond, view.next_cond];
                            ends.into_iter().flatten().for_each(&mut add);
                        }
                    }
                    _ => data.args.iter().for_each(|&arg| add(arg)),
                }
            }
        }
    }

    /// Callers of a function, with their arguments.
    fn calls(&self, callee: FuncId) -> Vec<(FuncId, Vec<Value>)> {
        let mut calls = vec![];
        for (id, func) in self.module.functions.iter() {
            func.for_each_inst(&mut |_, data| {
                if data.op == Op::Call(callee) {
                    calls.push((id, data.args.clone()));
                }
            });
        }
        calls
    }

    fn loop_of(&self, id: FuncId, body: Region) -> Option<LoopView> {
        let func = &self.module.functions[id];
        let mut found: Option<Inst> = None;
        func.for_each_inst(&mut |inst, data| {
            if matches!(data.op, Op::Loop { .. }) && data.regions[0] == body {
                found = Some(inst);
            }
        });
        LoopView::of(func, found?)
    }
}
