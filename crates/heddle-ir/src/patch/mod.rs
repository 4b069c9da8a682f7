//! Edits of a function: the only way in which passes change one in place.
//!
//! A pass reads the function through a [`Patch`], which collects edits, each with a reason.
//! [`Patch::apply`] then walks the function once and performs them all. Until then the function's regions, operands
//! and types are unchanged, but for new values, instructions and regions in the arenas that nothing refers to.
//!
//! An edit that replaces a value must keep the types sound: uses rely on what the old value's type states, so the new
//! value's type has to state at least as much. Where both are computed under the same circumstances (in one region),
//! the new value's type is narrowed to what the old one's says; elsewhere such a replacement is refused.

mod apply;
mod copy;
mod inline;
mod stats;

use std::collections::{HashMap, HashSet};

use crate::infer::{self, Arg};
use crate::{
    Entity, Function, Inst, InstData, LoopView, Op, Region, Signature, Type, Value, ValueDef,
};

pub use apply::PatchError;
pub use stats::Stats;

/// Edits of one function.
pub struct Patch<'f> {
    func: &'f mut Function,
    stats: Stats,
    /// The region of each instruction, indexed by instruction; `None` for those in no region.
    home: Vec<Option<Region>>,
    /// Instructions that go before others, in order.
    before: HashMap<Inst, Vec<Inst>>,
    /// Instructions at the ends of regions, in order.
    last: HashMap<Region, Vec<Inst>>,
    /// Instructions that are listed in `before`, and so no longer where they were.
    placed: HashSet<Inst>,
    removed: HashSet<Inst>,
    replaced: HashMap<Value, Value>,
    /// Values that replace others.
    targets: HashSet<Value>,
    /// The number of values at first.
    values: usize,
    /// Replacements that hold inside a region only.
    within: HashMap<Region, Vec<(Value, Value)>>,
    types: HashMap<Value, Type>,
    changed: HashMap<Inst, Changed>,
    borders: HashMap<Region, Border>,
    signature: Option<Signature>,
}

/// The new form of an instruction.
struct Changed {
    op: Op,
    args: Vec<Value>,
    results: Vec<Value>,
}

/// The new parameters and yields of a region.
struct Border {
    params: Vec<Value>,
    yields: Vec<Value>,
}

impl<'f> Patch<'f> {
    /// A patch without edits.
    pub fn new(func: &'f mut Function) -> Self {
        let mut home = vec![None; func.insts.len()];
        fn visit(func: &Function, region: Region, home: &mut [Option<Region>]) {
            for &inst in &func.regions[region].insts {
                home[inst.index()] = Some(region);
                for &inner in &func.insts[inst].regions {
                    visit(func, inner, home);
                }
            }
        }
        visit(func, func.body, &mut home);
        Self {
            values: func.values.len(),
            targets: HashSet::new(),
            func,
            stats: Stats::default(),
            home,
            before: HashMap::new(),
            last: HashMap::new(),
            placed: HashSet::new(),
            removed: HashSet::new(),
            replaced: HashMap::new(),
            within: HashMap::new(),
            types: HashMap::new(),
            changed: HashMap::new(),
            borders: HashMap::new(),
            signature: None,
        }
    }

    /// The function as it was, with new instructions in its arenas.
    pub fn func(&self) -> &Function {
        self.func
    }

    /// Counts an edit under its reason.
    pub fn because(&mut self, reason: impl Into<&'static str>) {
        self.stats.record(reason);
    }

    /// The number of edits so far.
    pub fn edits(&self) -> usize {
        self.stats.total()
    }

    /// The replacement of a value so far, else the value itself.
    pub fn resolve(&self, mut value: Value) -> Value {
        while let Some(&new) = self.replaced.get(&value) {
            value = new;
        }
        value
    }

    /// An instruction's operands after the replacements so far.
    pub fn args(&self, inst: Inst) -> Vec<Value> {
        let args = match self.changed.get(&inst) {
            Some(changed) => &changed.args,
            None => &self.func.insts[inst].args,
        };
        args.iter().map(|v| self.resolve(*v)).collect()
    }

    /// The instruction that a value is the result of, as it was.
    pub fn def(&self, value: Value) -> Option<&InstData> {
        self.func.def_inst(value).map(|inst| &self.func.insts[inst])
    }

    /// The type a value has after the edits so far.
    pub fn ty(&self, value: Value) -> &Type {
        self.types
            .get(&value)
            .unwrap_or_else(|| self.func.ty(value))
    }

    /// The region an instruction is in after the edits so far.
    pub fn home(&self, inst: Inst) -> Option<Region> {
        self.home.get(inst.index()).copied().flatten()
    }

    /// Is an instruction removed?
    pub fn is_removed(&self, inst: Inst) -> bool {
        self.removed.contains(&inst)
    }

    /// Puts a new instruction before `anchor`; its results have these types.
    pub fn insert(
        &mut self,
        anchor: Inst,
        op: Op,
        args: &[Value],
        regions: Vec<Region>,
        types: Vec<Type>,
    ) -> Vec<Value> {
        let loc = self.func.insts[anchor].loc.clone();
        let inst = self.func.add_inst(op, args.to_vec(), regions, types, loc);
        self.home.resize(self.func.insts.len(), None);
        self.place(inst, anchor);
        self.func.insts[inst].results.clone()
    }

    /// Puts a new instruction at the end of a region, with the place in the source that `near` has; its results have these types.
    pub fn append(
        &mut self,
        region: Region,
        near: Inst,
        op: Op,
        args: &[Value],
        types: Vec<Type>,
    ) -> Vec<Value> {
        let loc = self.func.insts[near].loc.clone();
        let inst = self.func.add_inst(op, args.to_vec(), vec![], types, loc);
        self.home.resize(self.func.insts.len(), None);
        self.home[inst.index()] = Some(region);
        self.last.entry(region).or_default().push(inst);
        self.func.insts[inst].results.clone()
    }

    /// Puts a new op before `anchor`, and gives its one result, whose type is inferred. `None` if inference refuses the operands.
    pub fn op(&mut self, anchor: Inst, op: Op, args: &[Value]) -> Option<Value> {
        let known = |v: &Value| match self.func.constant(*v) {
            Some(_) => infer::known_results(&self.def(*v)?.op, &[]),
            None => None,
        };
        let known: Vec<_> = args.iter().map(known).collect();
        let infos = args.iter().zip(&known).map(|(&v, known)| Arg {
            ty: self.ty(v),
            known: known.as_deref(),
        });
        let types = infer::result_types(&op, &infos.collect::<Vec<_>>(), &[]).ok()?;
        Some(self.insert(anchor, op, args, vec![], types)[0])
    }

    /// `Some` if `new` may stand for `old` everywhere; it holds the type that `new` must be given for that, if another one.
    /// `together`: both are computed in the same runs.
    fn fits(&self, old: Value, new: Value, together: bool) -> Option<Option<Type>> {
        let (a, b) = (self.ty(old), self.ty(new));
        if self.resolve(new) == old {
            return None;
        }
        if a.accepts(b) {
            return Some(None);
        }
        let narrowed = a.meet(b).filter(|m| together && a.accepts(m))?;
        // Uses of the new value rely on its type, which may only become narrower.
        let fresh = new.index() >= self.values && !self.targets.contains(&new);
        (fresh || b.accepts(&narrowed)).then_some(Some(narrowed))
    }

    /// Is `new` a tensor op's result in the region of `old`'s instruction? Then what is known of
    /// one is true of the other.
    fn together(&self, old: Value, new: Value) -> bool {
        let place = |v: Value| match self.func.values[v].def {
            ValueDef::Result(inst, _) => self.home(inst),
            ValueDef::Param(..) => None,
        };
        let plain = self.def(new).is_some_and(|d| d.regions.is_empty());
        plain && place(new).is_some() && place(old) == place(new)
    }

    /// Would [`replace`](Self::replace) succeed?
    pub fn can_replace(&self, old: Value, new: Value) -> bool {
        let new = self.resolve(new);
        self.fits(old, new, self.together(old, new)).is_some()
    }

    /// Uses `new` wherever `old` was used. Refused, without effect, if `new`'s type says too little.
    pub fn replace(&mut self, old: Value, new: Value) -> bool {
        let new = self.resolve(new);
        let Some(narrowed) = self.fits(old, new, self.together(old, new)) else {
            return false;
        };
        if let Some(narrowed) = narrowed {
            self.types.insert(new, narrowed);
        }
        self.targets.insert(new);
        self.replaced.insert(old, new);
        true
    }

    /// Uses `new` instead of `old` inside a region, whose owner must come after `new`; their types are the same.
    pub fn replace_within(&mut self, region: Region, old: Value, new: Value) {
        self.within.entry(region).or_default().push((old, new));
    }

    /// Removes an instruction. Its results must be unused, or replaced.
    pub fn remove(&mut self, inst: Inst) {
        self.removed.insert(inst);
    }

    /// Moves an instruction before another one, possibly of another region.
    pub fn move_before(&mut self, inst: Inst, anchor: Inst) {
        self.place(inst, anchor);
    }

    /// Moves all instructions of a region before `anchor`. The region's parameters, if it has any, must be replaced.
    pub fn splice(&mut self, region: Region, anchor: Inst) {
        for inst in self.func.regions[region].insts.clone() {
            self.place(inst, anchor);
        }
    }

    /// Makes an instruction another one in its place: `results` is an ordered choice of its results.
    pub fn change(&mut self, inst: Inst, op: Op, args: Vec<Value>, results: Vec<Value>) {
        self.changed.insert(inst, Changed { op, args, results });
    }

    /// Sets a region's parameters and yields: `params` is an ordered choice of its parameters.
    pub fn set_border(&mut self, region: Region, params: Vec<Value>, yields: Vec<Value>) {
        self.borders.insert(region, Border { params, yields });
    }

    /// Gives a loop other parts in its place: its body is the same region, and takes an ordered choice of its parameters.
    pub fn set_loop(&mut self, inst: Inst, parts: &LoopView) {
        self.set_border(parts.body, parts.body_params(), parts.yields());
        self.change(inst, parts.op(), parts.args(), parts.results());
    }

    /// The yields of a region after the edits so far.
    pub fn yields(&self, region: Region) -> Vec<Value> {
        let yields = match self.borders.get(&region) {
            Some(border) => &border.yields,
            None => &self.func.regions[region].yields,
        };
        yields.iter().map(|v| self.resolve(*v)).collect()
    }

    /// States a value's type anew; the new type must be true of it.
    pub fn set_type(&mut self, value: Value, ty: Type) {
        self.types.insert(value, ty);
    }

    /// Gives the function another signature, which must agree with its body after the edits.
    pub fn set_signature(&mut self, signature: Signature) {
        self.signature = Some(signature);
    }

    fn place(&mut self, inst: Inst, anchor: Inst) {
        self.home[inst.index()] = self.home(anchor);
        self.before.entry(anchor).or_default().push(inst);
        self.placed.insert(inst);
    }
}
