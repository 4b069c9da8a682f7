//! Dead-code elimination.

use std::collections::HashSet;
use std::sync::Arc;

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{
    Arena, Entity, FuncId, Function, Inst, LoopView, Module, Op, Signature, Type, Value, ValueDef,
};

use crate::Edit;
use crate::effects::Effects;
use crate::names::collect_names;

/// Removes everything that no result of an entry depends on: instructions, carried values that only
/// carry themselves, scan outputs, results of branches, parameters and results of functions other
/// than entries, and unreachable functions.
///
/// It keeps loops that provably never end; other loops and recursions are assumed to end, and
/// instructions to succeed (see the module `effects`). It does *not* touch the entries' signatures.
pub fn remove_dead(module: &mut Module) -> Stats {
    if module.entries.is_empty() {
        return Stats::default();
    }
    let live = Liveness::of(module).marks();
    let mut stats = Stats::default();
    let kept: Vec<Kept> = module
        .functions
        .keys()
        .map(|id| live.kept(module, id))
        .collect();
    for id in module.functions.keys() {
        if live.reached[id.index()] {
            stats.merge(sweep(module, id, &live, &kept));
        }
    }
    stats.merge(drop_functions(module, &live.reached));
    stats
}

/// Parameters and results of a function that stay.
struct Kept {
    params: Vec<bool>,
    results: Vec<bool>,
}

/// Enclosing instructions.
struct Owners {
    /// The one that owns a region, indexed by region.
    of_region: Vec<Option<Inst>>,
    /// The one that owns an instruction's region, indexed by instruction.
    around: Vec<Option<Inst>>,
}

impl Owners {
    fn of(func: &Function) -> Self {
        let mut owners = Self {
            of_region: vec![None; func.regions.len()],
            around: vec![None; func.insts.len()],
        };
        func.for_each_inst(&mut |inst, data| {
            for &region in &data.regions {
                owners.of_region[region.index()] = Some(inst);
                for inner in &func.regions[region].insts {
                    owners.around[inner.index()] = Some(inst);
                }
            }
        });
        owners
    }
}

/// Live values, found from the entries' results backwards.
struct Marks {
    /// Functions that are called.
    reached: Vec<bool>,
    values: Vec<Vec<bool>>,
    insts: Vec<Vec<bool>>,
}

/// The liveness analysis.
struct Liveness<'m> {
    module: &'m Module,
    effects: Effects,
    marks: Marks,
    owners: Vec<Owners>,
    /// Live calls of each function.
    calls: Vec<Vec<(FuncId, Inst)>>,
    work: Vec<(FuncId, Value)>,
}

impl<'m> Liveness<'m> {
    fn of(module: &'m Module) -> Self {
        let functions = || module.functions.iter().map(|(_, f)| f);
        let mut live = Self {
            module,
            effects: Effects::of(module),
            marks: Marks {
                reached: vec![false; module.functions.len()],
                values: functions().map(|f| vec![false; f.values.len()]).collect(),
                insts: functions().map(|f| vec![false; f.insts.len()]).collect(),
            },
            owners: functions().map(Owners::of).collect(),
            calls: vec![vec![]; module.functions.len()],
            work: vec![],
        };
        for &entry in module.entries.values() {
            live.reach(entry);
            let f = &module.functions[entry];
            let body = &f.regions[f.body];
            // Its signature stays, so its parameters are live even without uses.
            live.mark_all(entry, body.yields.iter().chain(&body.params).copied());
        }
        loop {
            live.propagate();
            if !live.keep_names() {
                return live;
            }
        }
    }

    /// Marks parameters that are the only ones to bind a used size name. Returns whether there were
    /// any.
    fn keep_names(&mut self) -> bool {
        let mut found = vec![];
        for (id, f) in self.module.functions.iter() {
            if !self.marks.reached[id.index()] {
                continue;
            }
            let mut used: HashSet<Arc<str>> = HashSet::new();
            for (value, data) in f.values.iter() {
                if self.marks.values[id.index()][value.index()] {
                    collect_names(&data.ty, &mut used);
                }
            }
            f.for_each_inst(&mut |inst, data| {
                if let Op::SeqNew { elem } | Op::OptNone { elem } = &data.op
                    && self.marks.insts[id.index()][inst.index()]
                {
                    collect_names(elem, &mut used);
                }
            });
            for (i, (_, ty)) in f.sig.results.iter().enumerate() {
                if self.is_live(id, f.regions[f.body].yields[i]) {
                    collect_names(ty, &mut used);
                }
            }
            let params = &f.regions[f.body].params;
            for (&param, (_, ty)) in params.iter().zip(&f.sig.params) {
                if self.is_live(id, param) {
                    bound_names(ty, &mut |name| {
                        used.remove(name);
                    });
                }
            }
            for (&param, (_, ty)) in params.iter().zip(&f.sig.params) {
                if !self.is_live(id, param) {
                    let mut binds = false;
                    bound_names(ty, &mut |name| binds |= used.remove(name));
                    if binds {
                        found.push((id, param));
                    }
                }
            }
        }
        for &(id, param) in &found {
            self.mark(id, param);
        }
        !found.is_empty()
    }

    fn is_live(&self, id: FuncId, value: Value) -> bool {
        self.marks.is_live(id, value)
    }

    fn reach(&mut self, id: FuncId) {
        if std::mem::replace(&mut self.marks.reached[id.index()], true) {
            return;
        }
        let f = &self.module.functions[id];
        let mut needed = vec![];
        f.for_each_inst(&mut |inst, data| {
            if self.effects.is_needed(f, data) {
                needed.push(inst);
            }
        });
        for inst in needed {
            self.mark_inst(id, inst);
        }
    }

    fn mark(&mut self, id: FuncId, value: Value) {
        if !std::mem::replace(&mut self.marks.values[id.index()][value.index()], true) {
            self.work.push((id, value));
        }
    }

    fn mark_all(&mut self, id: FuncId, values: impl IntoIterator<Item = Value>) {
        for value in values {
            self.mark(id, value);
        }
    }

    /// Marks an instruction with the operands that it needs and the instructions around it.
    fn mark_inst(&mut self, id: FuncId, inst: Inst) {
        if std::mem::replace(&mut self.marks.insts[id.index()][inst.index()], true) {
            return;
        }
        let f = &self.module.functions[id];
        let data = &f.insts[inst];
        match data.op {
            Op::If => self.mark(id, data.args[0]),
            Op::Loop { .. } => {
                let parts = LoopView::of(f, inst);
                let control = parts.map(|p| [p.trip, p.cond, p.next_cond]);
                self.mark_all(id, control.into_iter().flatten().flatten());
            }
            Op::Call(callee) => {
                self.reach(callee);
                self.calls[callee.index()].push((id, inst));
                let g = &self.module.functions[callee];
                for (i, &param) in g.regions[g.body].params.iter().enumerate() {
                    if self.is_live(callee, param) {
                        self.mark(id, data.args[i]);
                    }
                }
            }
            _ => self.mark_all(id, data.args.iter().copied()),
        }
        if let Some(around) = self.owners[id.index()].around[inst.index()] {
            self.mark_inst(id, around);
        }
    }

    fn propagate(&mut self) {
        while let Some((id, value)) = self.work.pop() {
            let f = &self.module.functions[id];
            match f.values[value].def {
                ValueDef::Result(inst, i) => {
                    self.mark_inst(id, inst);
                    self.mark_result(id, inst, i as usize);
                }
                ValueDef::Param(region, 0) if region != f.body => {}
                ValueDef::Param(region, i) if region != f.body => {
                    if let Some(owner) = self.owners[id.index()].of_region[region.index()] {
                        self.mark_inst(id, owner);
                        self.mark_carried(id, owner, i as usize - 1);
                    }
                }
                ValueDef::Param(_, i) => {
                    for (caller, inst) in self.calls[id.index()].clone() {
                        let arg = self.module.functions[caller].insts[inst].args[i as usize];
                        self.mark(caller, arg);
                    }
                }
            }
        }
    }

    fn mark_result(&mut self, id: FuncId, inst: Inst, i: usize) {
        let f = &self.module.functions[id];
        let data = &f.insts[inst];
        match data.op {
            Op::If => {
                for &region in &data.regions {
                    self.mark(id, f.regions[region].yields[i]);
                }
            }
            Op::Loop { .. } => {
                if let Some(parts) = LoopView::of(f, inst) {
                    match i.checked_sub(parts.params.len()) {
                        None => self.mark_carried(id, inst, i),
                        Some(scan) => self.mark(id, parts.stacked[scan]),
                    }
                }
            }
            Op::Call(callee) => {
                let g = &self.module.functions[callee];
                self.mark(callee, g.regions[g.body].yields[i]);
            }
            _ => {}
        }
    }

    /// A carried value is live as a whole: initial value, parameter, next value and result.
    fn mark_carried(&mut self, id: FuncId, inst: Inst, i: usize) {
        if let Some(parts) = LoopView::of(&self.module.functions[id], inst) {
            let (before, after) = (parts.inits[i], parts.next[i]);
            self.mark_all(id, [before, parts.params[i], after, parts.last[i]]);
        }
    }

    fn marks(self) -> Marks {
        self.marks
    }
}

impl Marks {
    fn is_live(&self, id: FuncId, value: Value) -> bool {
        self.values[id.index()][value.index()]
    }

    fn kept(&self, module: &Module, id: FuncId) -> Kept {
        let f = &module.functions[id];
        let entry = module.is_entry(id);
        let body = &f.regions[f.body];
        let of = |values: &[Value]| {
            values
                .iter()
                .map(|v| entry || self.is_live(id, *v))
                .collect()
        };
        // Liveness of a result is that of the call's results, which marked what the body yields; a
        // value that is yielded twice keeps both.
        Kept {
            params: of(&body.params),
            results: of(&body.yields),
        }
    }
}

/// Calls `visit` with the names that are a whole axis of a type: those that a parameter of this
/// type binds.
fn bound_names(ty: &Type, visit: &mut dyn FnMut(&Arc<str>)) {
    ty.map_dims(&mut |dim| {
        if let Some(name) = dim.as_expr().and_then(|e| e.as_sym()) {
            visit(name);
        }
        dim.clone()
    });
}

/// Removes dead code from one function.
fn sweep(module: &mut Module, id: FuncId, live: &Marks, kept: &[Kept]) -> Stats {
    let entry = module.is_entry(id);
    let (values, insts) = (&live.values[id.index()], &live.insts[id.index()]);
    let mut patch = Patch::new(&mut module.functions[id]);
    let mut all = vec![];
    patch.func().for_each_inst(&mut |inst, _| all.push(inst));
    let is_live = |v: &Value| values[v.index()];
    for inst in all {
        if !insts[inst.index()] {
            patch.remove(inst);
            patch.because(Edit::DeadInstruction);
            continue;
        }
        let data = patch.func().insts[inst].clone();
        match data.op {
            Op::If if !data.results.iter().all(is_live) => {
                let keep: Vec<bool> = data.results.iter().map(is_live).collect();
                for &region in &data.regions {
                    let yields = choose(&patch.func().regions[region].yields, &keep);
                    patch.set_border(region, vec![], yields);
                }
                patch.change(inst, Op::If, data.args, choose(&data.results, &keep));
                patch.because(Edit::UnusedIfResult);
            }
            Op::Loop { .. } if !data.results.iter().all(is_live) => {
                let Some(mut parts) = LoopView::of(patch.func(), inst) else {
                    continue;
                };
                let keep = |values: &[Value]| values.iter().map(is_live).collect::<Vec<_>>();
                let (carried, scans) = (keep(&parts.last), keep(&parts.scans));
                parts.retain(&carried, &scans);
                patch.set_loop(inst, &parts);
                if carried.contains(&false) {
                    patch.because(Edit::UnusedCarried);
                }
                if scans.contains(&false) {
                    patch.because(Edit::UnusedScan);
                }
            }
            Op::Call(callee) => {
                let kept = &kept[callee.index()];
                if kept.params.contains(&false) || kept.results.contains(&false) {
                    let args = choose(&data.args, &kept.params);
                    patch.change(inst, data.op, args, choose(&data.results, &kept.results));
                }
            }
            _ => {}
        }
    }
    if !entry {
        drop_border(&mut patch, &kept[id.index()]);
    }
    patch.apply()
}

/// Removes parameters and results of a function.
fn drop_border(patch: &mut Patch, kept: &Kept) {
    if !kept.params.contains(&false) && !kept.results.contains(&false) {
        return;
    }
    let func = patch.func();
    let (body, sig) = (func.body, func.sig.clone());
    let params = choose(&func.regions[body].params, &kept.params);
    let yields = choose(&func.regions[body].yields, &kept.results);
    let mut new = Signature {
        params: choose(&sig.params, &kept.params),
        results: choose(&sig.results, &kept.results),
        ..(*sig).clone()
    };
    let mut bound = HashSet::new();
    for (_, ty) in &new.params {
        bound_names(ty, &mut |name| {
            bound.insert(name.clone());
        });
    }
    new.bounds.retain(|name, _| bound.contains(name));
    patch.set_border(body, params, yields);
    patch.set_signature(new);
    if kept.params.contains(&false) {
        patch.because(Edit::UnusedParameter);
    }
    if kept.results.contains(&false) {
        patch.because(Edit::UnusedResult);
    }
}

fn choose<T: Clone>(items: &[T], keep: &[bool]) -> Vec<T> {
    let chosen = items.iter().zip(keep).filter(|(_, keep)| **keep);
    chosen.map(|(item, _)| item.clone()).collect()
}

/// Removes functions that are not called, and renumbers the others.
fn drop_functions(module: &mut Module, reached: &[bool]) -> Stats {
    let mut stats = Stats::default();
    if !reached.contains(&false) {
        return stats;
    }
    let mut new_ids = vec![None; reached.len()];
    let mut functions = Arena::new();
    let old = std::mem::take(&mut module.functions);
    for (id, function) in old.iter() {
        if reached[id.index()] {
            new_ids[id.index()] = Some(functions.push(function.clone()));
        } else {
            stats.record(Edit::UncalledFunction);
        }
    }
    let new_id = |id: FuncId| new_ids[id.index()].expect("a called function is reached");
    let ids: Vec<FuncId> = functions.keys().collect();
    module.functions = functions;
    for id in ids {
        let mut patch = Patch::new(&mut module.functions[id]);
        let mut calls = vec![];
        patch.func().for_each_inst(&mut |inst, data| {
            if let Op::Call(callee) = data.op {
                calls.push((inst, callee, data.args.clone(), data.results.clone()));
            }
        });
        for (inst, callee, args, results) in calls {
            patch.change(inst, Op::Call(new_id(callee)), args, results);
        }
        stats.merge(patch.apply());
    }
    for entry in module.entries.values_mut() {
        *entry = new_id(*entry);
    }
    stats
}
