//! Inputs that an error comes from.

use std::collections::HashSet;

use heddle_interp::{Fault, RunError};
use heddle_ir::{FuncId, Inst, LoopView, Module, Op, Region, Value, ValueDef};

use crate::Error;

/// Inputs that the index out of range, the trip count or condition of the loop, the calls' numbers, or the sizes that do not fit
/// come from.
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
    search.visit(id, wanted, Part::Elements);
    if let Fault::Shape(_) = fault {
        search.visit(id, data.args.clone(), Part::Sizes);
    }
    let names = module.entry().sig.params.iter().map(|(name, _)| name);
    let mut inputs = search.inputs.into_iter().collect::<Vec<_>>();
    inputs.sort_unstable();
    let names: Vec<_> = names.cloned().collect();
    inputs.into_iter().map(|k| names[k].clone()).collect()
}

/// A part of an array.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Elements,
    Sizes,
}

/// A search for the parameters of the entry that a value is made of.
struct Search<'a> {
    module: &'a Module,
    seen: HashSet<(FuncId, Value, Part)>,
    inputs: HashSet<usize>,
}

impl Search<'_> {
    fn visit(&mut self, id: FuncId, values: Vec<Value>, part: Part) {
        let mut open: Vec<_> = values.into_iter().map(|value| (id, value, part)).collect();
        while let Some((id, value, part)) = open.pop() {
            // Static sizes come from the model.
            let is_static = || {
                let tensor = self.module.functions[id].ty(value).as_tensor();
                tensor.is_some_and(|t| t.static_shape().is_some())
            };
            if part == Part::Sizes && is_static() {
                continue;
            }
            if self.seen.insert((id, value, part)) {
                self.sources(id, value, part, &mut open);
            }
        }
    }

    /// The values that a part of one comes from.
    fn sources(
        &mut self,
        id: FuncId,
        value: Value,
        part: Part,
        open: &mut Vec<(FuncId, Value, Part)>,
    ) {
        let func = &self.module.functions[id];
        let mut add = |v: Value| open.push((id, v, part));
        match func.values[value].def {
            ValueDef::Param(region, k) if region == func.body => {
                let k = k as usize;
                if self.module.entry_id() == Some(id) {
                    self.inputs.insert(k);
                }
                for (caller, args) in self.calls(id) {
                    open.extend(args.get(k).map(|&arg| (caller, arg, part)));
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
                match (&data.op, part) {
                    // An element's value is its array's.
                    (Op::Gather { .. } | Op::Slice { .. }, Part::Elements) => add(data.args[0]),
                    (&Op::Gather { axis }, Part::Sizes) => {
                        add(data.args[1]);
                        let tensor = func.ty(data.args[0]).as_tensor();
                        let mut dims = tensor
                            .and_then(|t| t.shape.as_deref())
                            .into_iter()
                            .flatten()
                            .enumerate();
                        if dims.any(|(k, dim)| k != axis && dim.as_const().is_none()) {
                            add(data.args[0]);
                        }
                    }
                    (Op::Shape, _) => open.push((id, data.args[0], Part::Sizes)),
                    (Op::Call(callee), _) => {
                        let callee = *callee;
                        let body = &self.module.functions[callee];
                        let yields = &body.regions[body.body].yields;
                        open.extend(yields.get(k as usize).map(|&v| (callee, v, part)));
                    }
                    (Op::If, _) => {
                        let arms = data.regions.iter();
                        arms.for_each(|&arm| add(func.regions[arm].yields[k as usize]));
                        open.push((id, data.args[0], Part::Elements));
                    }
                    (Op::Loop { .. }, _) => {
                        if let Some(view) = LoopView::of(func, inst) {
                            let all = view.next.iter().chain(&view.stacked);
                            all.skip(k as usize).take(1).for_each(|&v| add(v));
                            let ends = [view.trip, view.cond, view.next_cond];
                            let ends = ends.into_iter().flatten();
                            open.extend(ends.map(|v| (id, v, Part::Elements)));
                        }
                    }
                    (_, Part::Elements) => data.args.iter().for_each(|&arg| add(arg)),
                    (op, Part::Sizes) => {
                        data.args.iter().for_each(|&arg| add(arg));
                        let by_value = matches!(op, Op::Range | Op::NonZero | Op::Unique { .. });
                        let sizes = op.props().operands.sizes();
                        let sizes = sizes.chain((0..data.args.len()).filter(|_| by_value));
                        open.extend(sizes.map(|k| (id, data.args[k], Part::Elements)));
                    }
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
