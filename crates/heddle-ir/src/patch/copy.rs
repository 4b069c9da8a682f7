//! Copies a function's body into another function.

use super::Patch;
use crate::copy::{Copier, CopyTypes};
use crate::{Entity, Function, Inst, Value};

impl Patch<'_> {
    /// Copies the body of `callee` before `anchor`, with `args` for its parameters; returns the copies of its yields.
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
        for &inst in &body.insts {
            let new = copier.inst(self.func, inst);
            self.home.resize(self.func.insts.len(), None);
            self.place(new, anchor);
            self.settle(new);
        }
        copier.all(&body.yields)
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
