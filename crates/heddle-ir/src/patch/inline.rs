//! Puts a region in the place of its owner.

use crate::{Inst, Region, Type, Value};

use super::Patch;

impl Patch<'_> {
    /// Puts a region in the place of the instruction that owns it, with `args` for its parameters; the instruction's
    /// results become what the region yields after the first `skip`.
    pub fn inline_region(
        &mut self,
        inst: Inst,
        region: Region,
        args: &[Value],
        skip: usize,
        results: &[Value],
    ) -> bool {
        let func = &*self.func;
        let (params, yields) = (
            func.regions[region].params.clone(),
            self.yields(region)[skip..].to_vec(),
        );
        // A yielded parameter stands for its argument.
        let actual = |v: &Value| match params.iter().position(|p| p == v) {
            Some(i) => self.resolve(args[i]),
            None => *v,
        };
        let yields: Vec<Value> = yields.iter().map(actual).collect();
        let inner = |v: Value| {
            let plain = |d: Inst| self.home(d) == Some(region) && func.insts[d].regions.is_empty();
            func.def_inst(v).is_some_and(plain)
        };
        let fits = |(&old, &new): (&Value, &Value)| {
            let (a, b) = (self.ty(old), self.ty(new));
            let more = |m: &Type| a.accepts(m) && b.accepts(m);
            a.accepts(b) || inner(new) && a.meet(b).is_some_and(|m| more(&m))
        };
        if !params.iter().zip(args).all(fits) || !results.iter().zip(&yields).all(fits) {
            return false;
        }
        self.splice(region, inst);
        let mut done = true;
        for (&old, &new) in params.iter().zip(args) {
            done &= self.replace(old, new);
        }
        for (&old, &new) in results.iter().zip(&yields) {
            done &= self.replace(old, new);
        }
        self.remove(inst);
        done
    }
}
