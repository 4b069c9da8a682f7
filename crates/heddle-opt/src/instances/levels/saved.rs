//! The early values that late ones need.

use heddle_ir::{LoopView, Op, Region, Value};

use super::parts::{Export, Parts, free, has_sizes};
use crate::batch::{Refusal, Result};

impl Parts<'_> {
    /// The early values that the late part of a region uses, and those that it yields with late ones.
    pub(super) fn find_saved(&mut self, region: Region) {
        let source = self.source;
        for &inst in &source.regions[region].insts {
            let data = &source.insts[inst];
            if self.is_call(inst) || !self.has_late(inst) {
                continue;
            }
            let mut needs: Vec<Value> = vec![];
            if !self.is_split(inst) {
                needs.extend(free(source, inst));
            } else if let Some(view) = LoopView::of(source, inst) {
                needs.extend(view.trip.filter(|_| view.cond.is_none()));
                for k in 0..view.params.len() {
                    if self.is_late(view.params[k]) {
                        needs.extend([view.inits[k], view.next[k]]);
                    }
                }
                let scans = view.stacked.iter().zip(&view.scans);
                needs.extend(scans.filter(|(_, s)| self.is_late(**s)).map(|(v, _)| v));
            } else {
                needs.push(data.args[0]);
                for &arm in &data.regions {
                    let yields = source.regions[arm].yields.iter().zip(&data.results);
                    needs.extend(yields.filter(|(_, r)| self.is_late(**r)).map(|(v, _)| v));
                }
            }
            needs.into_iter().for_each(|v| self.save(v));
            if self.is_split(inst) {
                data.regions.iter().for_each(|&r| self.find_saved(r));
            }
        }
        if region == source.body {
            let yields = source.regions[region].yields.iter();
            yields.for_each(|&v| self.save(v));
        }
    }

    /// Saves an early value, unless the late part has it anyway.
    fn save(&mut self, value: Value) {
        let has = self.is_late(value)
            || self.source.constant(value).is_some()
            || self.is_kept(value)
            || self.is_iteration(value);
        if !has {
            self.saved.insert(value);
        }
    }

    fn is_kept(&self, value: Value) -> bool {
        let place = self.params().iter().position(|&p| p == value);
        place.is_some_and(|k| self.kept[k])
    }

    /// The number of the iteration of a loop with calls.
    fn is_iteration(&self, value: Value) -> bool {
        let mut found = false;
        self.source.for_each_inst(&mut |inst, data| {
            found |= matches!(data.op, Op::Loop { .. })
                && self.source.regions[data.regions[0]].params[0] == value
                && self.is_split(inst);
        });
        found
    }

    pub(super) fn find_homes(&mut self, region: Region) -> Result<()> {
        let source = self.source;
        for &inst in &source.regions[region].insts {
            if !self.is_split(inst) {
                continue;
            }
            if let Some(view) = LoopView::of(source, inst) {
                let params = view.params.iter().filter(|v| self.is_saved(**v));
                let mut all: Vec<Export> = params.map(|v| Export::Value(*v)).collect();
                all.extend(self.exports(view.body));
                for export in all {
                    if !self.types(export).iter().all(has_sizes) {
                        return Err(Refusal::UnknownSize);
                    }
                    self.home.insert(export, Some(inst));
                }
            } else {
                for &arm in &source.insts[inst].regions {
                    self.find_homes(arm)?;
                }
            }
        }
        Ok(())
    }
}
