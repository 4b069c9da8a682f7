//! Copies a function's body into another function.

use std::collections::HashMap;
use std::sync::Arc;

use super::Patch;
use crate::copy::{Copier, CopyTypes};
use crate::{Entity, Function, Inst, Loc, Value};

impl Patch<'_> {
    /// Copies the body of `callee` before the call `anchor`, with `args` for its parameters; returns
    /// the copies of its yields. Locations name the call in place of the callee.
    pub fn copy_body(
        &mut self,
        callee: &Function,
        args: &[Value],
        anchor: Inst,
        types: CopyTypes,
    ) -> Vec<Value> {
        let body = &callee.regions[callee.body];
        let mut copier = Copier::new(callee, types);
        let params = body.params.iter().copied();
        copier.values.extend(params.zip(args.iter().copied()));
        let first = self.func.insts.len();
        for &inst in &body.insts {
            let new = copier.inst(self.func, inst);
            self.home.resize(self.func.insts.len(), None);
            self.place(new, anchor);
            self.settle(new);
        }
        self.relocate(first, &callee.sig.name, anchor);
        copier.all(&body.yields)
    }

    /// Gives the instructions from `first` on, copied from `callee`, the locations that they have
    /// behind this call.
    fn relocate(&mut self, first: usize, callee: &str, call: Inst) {
        let Some(call) = self.func.insts[call].loc.clone() else {
            return;
        };
        let mut known: HashMap<Arc<Loc>, Option<Arc<Loc>>> = HashMap::new();
        for inst in (first..self.func.insts.len()).map(Inst::new) {
            let Some(loc) = &mut self.func.insts[inst].loc else {
                continue;
            };
            let inlined = || loc.inlined(callee, &call).map(Arc::new);
            if let Some(inlined) = known.entry(loc.clone()).or_insert_with(inlined) {
                loc.clone_from(inlined);
            }
        }
    }

    /// Records the regions of the instructions inside a copied one. The copies rely on each other's types.
    fn settle(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        self.targets.extend(&data.results);
        for region in data.regions.clone() {
            for inner in self.func.regions[region].insts.clone() {
                self.home[inner.index()] = Some(region);
                self.settle(inner);
            }
        }
    }
}
