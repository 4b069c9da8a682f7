//! The values that need results of calls.

use heddle_ir::{LoopView, Op, Region, Value};

use super::parts::{Parts, free, has_sizes};
use crate::batch::{Refusal, Result};

impl Parts<'_> {
    pub(super) fn find_late(&mut self, region: Region) {
        let source = self.source;
        for &inst in &source.regions[region].insts {
            let data = &source.insts[inst];
            if self.is_call(inst) {
                self.late.extend(&data.results);
                for (k, &param) in self.params().iter().enumerate() {
                    self.kept[k] &= data.args[k] == param;
                }
            } else if !self.is_split(inst) {
                if free(source, inst).iter().any(|v| self.is_late(*v)) {
                    self.late.extend(&data.results);
                }
            } else if let Some(view) = LoopView::of(source, inst) {
                self.find_late_in_loop(&view);
            } else {
                for &arm in &data.regions {
                    self.find_late(arm);
                    let yields = source.regions[arm].yields.iter().zip(&data.results);
                    let late: Vec<Value> = yields
                        .filter(|(v, _)| self.is_late(**v))
                        .map(|(_, &r)| r)
                        .collect();
                    self.late.extend(late);
                }
            }
        }
    }

    fn find_late_in_loop(&mut self, view: &LoopView) {
        loop {
            let before = self.late.len();
            self.find_late(view.body);
            for k in 0..view.params.len() {
                if self.is_late(view.inits[k]) || self.is_late(view.next[k]) {
                    self.late.extend([view.params[k], view.last[k]]);
                }
            }
            for (stacked, &scan) in view.stacked.iter().zip(&view.scans) {
                if self.is_late(*stacked) {
                    self.late.insert(scan);
                }
            }
            if self.late.len() == before {
                return;
            }
        }
    }

    /// Nothing that says which calls there are needs the result of one.
    pub(super) fn check(&self, region: Region, in_loop: bool) -> Result<()> {
        for &inst in &self.source.regions[region].insts {
            let data = &self.source.insts[inst];
            let needs: Vec<Value> = match LoopView::of(self.source, inst) {
                _ if self.is_call(inst) => data.args.clone(),
                _ if !self.is_split(inst) => continue,
                Some(_) if in_loop => return Err(Refusal::Call),
                Some(view) => [view.trip, view.cond, view.next_cond]
                    .into_iter()
                    .flatten()
                    .collect(),
                None => data.args.clone(),
            };
            if self.is_call(inst) {
                self.check_types(&data.args)?;
            }
            if needs.iter().any(|v| self.is_late(*v)) {
                return Err(Refusal::Call);
            }
            for &inner in &data.regions {
                self.check(inner, in_loop || matches!(data.op, Op::Loop { .. }))?;
            }
        }
        Ok(())
    }

    /// Arguments have the parameters' types, so that those of all calls are rows of one array.
    fn check_types(&self, args: &[Value]) -> Result<()> {
        let ty = |v: Value| self.source.ty(v);
        for ((&arg, &param), kept) in args.iter().zip(self.params()).zip(&self.kept) {
            if !kept && (ty(arg) != ty(param) || !has_sizes(ty(arg))) {
                return Err(Refusal::UnknownSize);
            }
        }
        Ok(())
    }
}
