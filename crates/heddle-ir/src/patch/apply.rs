//! Performs a patch in one walk.

use crate::{Entity, Inst, Region, Value, ValueDef};

use super::Patch;
use super::Stats;

/// A patch does not fit its function: a pass is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// An instruction would use a value that is not defined before it.
    #[error("{inst:?} uses {value:?} out of scope")]
    OutOfScope {
        /// The instruction.
        inst: Inst,
        /// The operand.
        value: Value,
    },
    /// A region would yield a value that is not defined in it or around it.
    #[error("{region:?} yields {value:?} out of scope")]
    YieldOutOfScope {
        /// The region.
        region: Region,
        /// The yielded value.
        value: Value,
    },
    /// A type contradicts the one that was stated before.
    #[error("the new type of {value:?} contradicts")]
    Contradiction {
        /// The value.
        value: Value,
    },
}

impl Patch<'_> {
    /// Performs all edits and says what they were for. A patch that does not fit leaves the function as it
    /// was and is reported in [`Stats::rejected`].
    pub fn apply(self) -> Stats {
        match self.check() {
            Ok(plan) => self.perform(plan),
            Err(error) => Stats {
                rejected: vec![error.to_string()],
                ..Stats::default()
            },
        }
    }

    fn check(&self) -> Result<Plan, PatchError> {
        for (&value, ty) in &self.types {
            if !self.func.ty(value).compatible(ty) {
                return Err(PatchError::Contradiction { value });
            }
        }
        let mut walk = Walk {
            patch: self,
            defined: vec![false; self.func.values.len()],
            log: vec![],
            within: vec![],
            plan: Plan::default(),
        };
        walk.region(self.func.body)?;
        Ok(walk.plan)
    }

    fn perform(mut self, plan: Plan) -> Stats {
        let f = &mut *self.func;
        for (inst, changed) in self.changed {
            for (i, &value) in changed.results.iter().enumerate() {
                f.values[value].def = ValueDef::Result(inst, i as u32);
            }
            f.insts[inst].op = changed.op;
            f.insts[inst].results = changed.results;
        }
        for (region, border) in self.borders {
            for (i, &value) in border.params.iter().enumerate() {
                f.values[value].def = ValueDef::Param(region, i as u32);
            }
            f.regions[region].params = border.params;
        }
        for (inst, args) in plan.args {
            f.insts[inst].args = args;
        }
        for (region, insts, yields) in plan.regions {
            f.regions[region].insts = insts;
            f.regions[region].yields = yields;
        }
        for (value, ty) in self.types {
            f.values[value].ty = ty;
        }
        for (old, mut new) in self.replaced.clone() {
            while let Some(&next) = self.replaced.get(&new) {
                new = next;
            }
            // The old value's name is better than none.
            if f.values[new].name.is_none() && f.def_inst(new).is_some() {
                f.values[new].name = f.values[old].name.clone();
            }
        }
        if let Some(signature) = self.signature.take() {
            f.sig = signature.into();
        }
        self.stats
    }
}

/// The new operands and regions.
#[derive(Default)]
struct Plan {
    regions: Vec<(Region, Vec<Inst>, Vec<Value>)>,
    args: Vec<(Inst, Vec<Value>)>,
}

struct Walk<'p, 'f> {
    patch: &'p Patch<'f>,
    defined: Vec<bool>,
    /// Defined values in order, to forget those of a region at its end.
    log: Vec<Value>,
    within: Vec<(Value, Value)>,
    plan: Plan,
}

impl Walk<'_, '_> {
    fn region(&mut self, region: Region) -> Result<(), PatchError> {
        let patch = self.patch;
        let data = &patch.func.regions[region];
        let border = patch.borders.get(&region);
        let mark = (self.log.len(), self.within.len());
        if let Some(pairs) = patch.within.get(&region) {
            self.within.extend_from_slice(pairs);
        }
        self.define(border.map_or(&data.params, |b| &b.params));
        let mut list = vec![];
        for &inst in &data.insts {
            if !patch.placed.contains(&inst) {
                self.inst(inst, &mut list)?;
            }
        }
        for &inst in patch.last.get(&region).into_iter().flatten() {
            self.inst(inst, &mut list)?;
        }
        let yields = border.map_or(&data.yields, |b| &b.yields);
        let yields: Vec<_> = yields.iter().map(|v| self.resolve(*v)).collect();
        if let Some(&value) = yields.iter().find(|v| !self.defined[v.index()]) {
            return Err(PatchError::YieldOutOfScope { region, value });
        }
        for value in self.log.drain(mark.0..) {
            self.defined[value.index()] = false;
        }
        self.within.truncate(mark.1);
        self.plan.regions.push((region, list, yields));
        Ok(())
    }

    fn inst(&mut self, inst: Inst, list: &mut Vec<Inst>) -> Result<(), PatchError> {
        let patch = self.patch;
        for &earlier in patch.before.get(&inst).into_iter().flatten() {
            self.inst(earlier, list)?;
        }
        if patch.removed.contains(&inst) {
            return Ok(());
        }
        let data = &patch.func.insts[inst];
        let changed = patch.changed.get(&inst);
        let args = changed.map_or(&data.args, |c| &c.args);
        let resolved: Vec<_> = args.iter().map(|v| self.resolve(*v)).collect();
        if let Some(&value) = resolved.iter().find(|v| !self.defined[v.index()]) {
            return Err(PatchError::OutOfScope { inst, value });
        }
        if resolved != data.args {
            self.plan.args.push((inst, resolved));
        }
        for &region in &data.regions {
            self.region(region)?;
        }
        self.define(changed.map_or(&data.results, |c| &c.results));
        list.push(inst);
        Ok(())
    }

    fn define(&mut self, values: &[Value]) {
        for &value in values {
            self.defined[value.index()] = true;
            self.log.push(value);
        }
    }

    fn resolve(&self, value: Value) -> Value {
        let value = self.patch.resolve(value);
        match self.within.iter().rev().find(|(old, _)| *old == value) {
            Some(&(_, new)) => self.patch.resolve(new),
            None => value,
        }
    }
}
