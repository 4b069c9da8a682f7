//! The parts of a recursive function's body: early is all that needs no result of its calls of
//! itself, late is all that needs one.

use std::collections::{HashMap, HashSet};

use heddle_ir::{DType, Dim, FuncId, Function, Inst, LoopView, Op, Region, Type, Value};

use crate::batch::Result;
use crate::uses::Seen;

/// Something that the late part gets from outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Export {
    /// An early value.
    Value(Value),
    /// The number of iterations of a loop.
    Count(Inst),
    /// A call: a flag and its arguments from the early part, its results for the late one.
    Site(Inst),
}

/// A function's body with its values told apart.
pub(super) struct Parts<'a> {
    pub source: &'a Function,
    pub id: FuncId,
    /// The parameters that all calls pass on as they are.
    pub kept: Vec<bool>,
    pub(super) late: HashSet<Value>,
    pub(super) saved: HashSet<Value>,
    /// The loop with calls that something to be exported is in.
    pub(super) home: HashMap<Export, Option<Inst>>,
}

impl<'a> Parts<'a> {
    /// Fails if something that a call depends on needs the result of another.
    pub fn of(source: &'a Function, id: FuncId) -> Result<Self> {
        let mut parts = Parts {
            source,
            id,
            kept: vec![true; source.sig.params.len()],
            late: HashSet::new(),
            saved: HashSet::new(),
            home: HashMap::new(),
        };
        parts.find_late(source.body);
        parts.check(source.body, false)?;
        parts.find_saved(source.body);
        parts.find_homes(source.body)?;
        Ok(parts)
    }

    pub fn params(&self) -> &'a [Value] {
        &self.source.regions[self.source.body].params
    }

    pub fn is_late(&self, value: Value) -> bool {
        self.late.contains(&value)
    }

    pub fn is_saved(&self, value: Value) -> bool {
        self.saved.contains(&value)
    }

    pub fn is_call(&self, inst: Inst) -> bool {
        self.source.insts[inst].op == Op::Call(self.id)
    }

    /// A branch or loop that has calls in it, or a branch of which some results are late.
    pub fn is_split(&self, inst: Inst) -> bool {
        let data = &self.source.insts[inst];
        let mut found = data.op == Op::If && self.is_partly_late(inst);
        for &region in &data.regions {
            self.source
                .for_each_inst_in(region, &mut |_, data| found |= data.op == Op::Call(self.id));
        }
        found
    }

    /// Some results of a branch are late, and some are not, as far as is known.
    fn is_partly_late(&self, branch: Inst) -> bool {
        let data = &self.source.insts[branch];
        let arms = data.regions.iter().map(|&r| &self.source.regions[r].yields);
        let is_late = |k: usize| arms.clone().any(|yields| self.is_late(yields[k]));
        let is_early = (0..data.results.len()).any(|k| !is_late(k));
        let uses = free(self.source, branch);
        !self.is_late(data.args[0]) && is_early && uses.iter().any(|v| self.is_late(*v))
    }

    /// Some result is late.
    pub fn has_late(&self, inst: Inst) -> bool {
        let mut results = self.source.insts[inst].results.iter();
        results.any(|v| self.is_late(*v))
    }

    /// The arguments of a call that differ from the parameters.
    pub fn changed(&self, inst: Inst) -> Vec<Value> {
        let args = self.source.insts[inst].args.iter().zip(&self.kept);
        args.filter(|(_, kept)| !**kept).map(|(&v, _)| v).collect()
    }

    /// All exports of the function: its saved parameters, and those of its body.
    pub fn all_exports(&self) -> Vec<Export> {
        let params = self.params().iter();
        let params = params.filter(|v| self.is_saved(**v)).copied();
        let mut all: Vec<Export> = params.map(Export::Value).collect();
        all.extend(self.exports(self.source.body));
        all
    }

    /// The exports of a region's instructions, in order.
    pub fn exports(&self, region: Region) -> Vec<Export> {
        let mut all = vec![];
        for &inst in &self.source.regions[region].insts {
            let data = &self.source.insts[inst];
            if self.is_call(inst) {
                all.push(Export::Site(inst));
            } else if self.is_split(inst) {
                if let Some(view) = LoopView::of(self.source, inst) {
                    let params = view.params.iter().filter(|v| self.is_saved(**v));
                    all.extend(params.map(|v| Export::Value(*v)));
                    if view.cond.is_some() {
                        all.push(Export::Count(inst));
                    }
                }
                all.extend(data.regions.iter().flat_map(|&r| self.exports(r)));
            }
            let results = data.results.iter().filter(|v| self.is_saved(**v));
            all.extend(results.map(|v| Export::Value(*v)));
        }
        all
    }

    /// The loop with calls that an export is in.
    pub fn home(&self, export: Export) -> Option<Inst> {
        self.home.get(&export).copied().flatten()
    }

    /// The types of what the early part exports for it, within its loop.
    pub fn types(&self, export: Export) -> Vec<Type> {
        match export {
            Export::Value(v) => vec![self.source.ty(v).clone()],
            Export::Count(_) => vec![Type::scalar(DType::I64)],
            Export::Site(inst) => {
                let args = self.changed(inst).into_iter();
                let flag = Type::scalar(DType::Bool);
                let args = args.map(|v| self.source.ty(v).clone());
                std::iter::once(flag).chain(args).collect()
            }
        }
    }

    /// The types of what the late part gets for it, within its loop.
    pub fn types_after(&self, export: Export) -> Vec<Type> {
        match export {
            Export::Site(inst) => {
                let results = self.source.insts[inst].results.iter();
                results.map(|&v| self.source.ty(v).clone()).collect()
            }
            other => self.types(other),
        }
    }
}

/// The values from elsewhere that an instruction and its regions use.
pub(super) fn free(source: &Function, inst: Inst) -> Vec<Value> {
    let mut seen = Seen::default();
    seen.visit(source, inst);
    seen.free().collect()
}

/// A tensor whose sizes are all stated.
pub(in crate::instances) fn has_sizes(ty: &Type) -> bool {
    let shape = ty.as_tensor().and_then(|t| t.shape.as_ref());
    shape.is_some_and(|s| s.iter().all(|d: &Dim| d.as_expr().is_some()))
}
