//! The part of an activation in front of its calls: it makes their arguments, and what the part
//! behind them needs.

use std::collections::HashMap;

use heddle_ir::op::BinaryOp;
use heddle_ir::{
    DType, FuncBuilder, Function, Inst, LoopView, Module, Region, Tensor, Type, Value,
};

use super::copy::{Copy, with_rows, zeros};
use super::parts::{Export, Parts};
use crate::batch::{Refusal, Result};

/// Yields the values of all exports in order. What is in a loop is a scan output of it; an arm that
/// is not taken gives zeros, and flags that say that there is no call.
pub(super) fn before(module: &Module, parts: &Parts) -> Result<Function> {
    let mut sig = (*parts.source.sig).clone();
    sig.name += ".before";
    let b = FuncBuilder::new(sig);
    let params = b.params().to_vec();
    let mut before = Before {
        parts,
        copy: Copy {
            module,
            source: parts.source,
            b,
            values: HashMap::new(),
        },
        made: HashMap::new(),
        inside: None,
    };
    before.copy.stand_for(parts.params(), &params);
    before.save(parts.params());
    before.region(parts.source.body)?;
    let all = before.given(&parts.all_exports())?;
    let names = (0..).map(|k: usize| k.to_string());
    let results: Vec<(String, Value)> = names.zip(all).collect();
    Ok(before.copy.b.finish(&results))
}

struct Before<'a> {
    parts: &'a Parts<'a>,
    copy: Copy<'a>,
    /// The values of exports, in the region that is being made.
    made: HashMap<Export, Vec<Value>>,
    /// The loop that this is in.
    inside: Option<Inst>,
}

impl Before<'_> {
    fn region(&mut self, region: Region) -> Result<()> {
        let source = self.parts.source;
        for &inst in &source.regions[region].insts {
            let data = &source.insts[inst];
            if self.parts.is_call(inst) {
                let flag = self
                    .copy
                    .b
                    .constant(Tensor::splat(DType::Bool, vec![], 1.0));
                let args = self.copy.all(&self.parts.changed(inst))?;
                let all = [vec![flag], args].concat();
                self.made.insert(Export::Site(inst), all);
            } else if self.parts.is_split(inst) {
                match LoopView::of(source, inst) {
                    Some(view) => self.repeat(inst, &view)?,
                    None => self.branch(inst)?,
                }
            } else if !self.parts.has_late(inst) {
                self.copy.inst(inst)?;
            }
            self.save(&data.results);
        }
        Ok(())
    }

    /// Notes the values among these that are exported.
    fn save(&mut self, values: &[Value]) {
        for &v in values.iter().filter(|v| self.parts.is_saved(**v)) {
            self.made
                .insert(Export::Value(v), vec![self.copy.values[&v]]);
        }
    }

    fn given(&self, exports: &[Export]) -> Result<Vec<Value>> {
        let all = exports.iter().map(|export| {
            let made = self.made.get(export).cloned();
            made.ok_or(Refusal::NotEvaluated)
        });
        Ok(all.collect::<Result<Vec<_>>>()?.concat())
    }

    /// The types of an export here: those of a loop's within it are stacked.
    fn types(&self, export: Export) -> Vec<Type> {
        let types = self.parts.types(export);
        match self.parts.home(export) == self.inside {
            true => types,
            false => types.iter().map(with_rows).collect(),
        }
    }

    /// Notes values that stand for exports.
    fn receive(&mut self, exports: &[Export], values: &mut impl Iterator<Item = Value>) {
        for &export in exports {
            let count = self.parts.types(export).len();
            self.made.insert(export, values.take(count).collect());
        }
    }

    fn branch(&mut self, inst: Inst) -> Result<()> {
        let source = self.parts.source;
        let data = &source.insts[inst];
        let cond = self.copy.value(data.args[0])?;
        let early: Vec<usize> = (0..data.results.len())
            .filter(|&k| !self.parts.is_late(data.results[k]))
            .collect();
        let exports: Vec<Vec<Export>> = data
            .regions
            .iter()
            .map(|&r| self.parts.exports(r))
            .collect();
        let mut regions = vec![];
        for (k, &arm) in data.regions.iter().enumerate() {
            self.copy.b.begin_region(&[]);
            self.region(arm)?;
            let own: Vec<Value> = early
                .iter()
                .map(|&k| source.regions[arm].yields[k])
                .collect();
            let mut yields = self.copy.all(&own)?;
            for (of, exports) in exports.iter().enumerate() {
                if of == k {
                    yields.extend(self.given(exports)?);
                    continue;
                }
                let types = exports.iter().flat_map(|e| self.types(*e));
                for ty in types.collect::<Vec<_>>() {
                    yields.push(zeros(&mut self.copy.b, &ty)?);
                }
            }
            regions.push(self.copy.b.end_region(&yields));
        }
        let results = self.copy.b.if_(cond, regions[0], regions[1])?;
        let own: Vec<Value> = early.iter().map(|&k| data.results[k]).collect();
        self.copy.stand_for(&own, &results);
        let mut rest = results[own.len()..].iter().copied();
        self.receive(&exports.concat(), &mut rest);
        Ok(())
    }

    fn repeat(&mut self, inst: Inst, view: &LoopView) -> Result<()> {
        let parts = self.parts;
        let early: Vec<usize> = (0..view.params.len())
            .filter(|&k| !parts.is_late(view.params[k]))
            .collect();
        let scans: Vec<usize> = (0..view.scans.len())
            .filter(|&k| !parts.is_late(view.scans[k]))
            .collect();
        let pick =
            |all: &[Value], of: &[usize]| -> Vec<Value> { of.iter().map(|&k| all[k]).collect() };
        let counts = view.cond.is_some();
        let mut inits = self.copy.all(&pick(&view.inits, &early))?;
        let own = [vec![view.iteration], pick(&view.params, &early)].concat();
        let mut types: Vec<Type> = own.iter().map(|&v| parts.source.ty(v).clone()).collect();
        if counts {
            inits.push(self.copy.b.i64(0));
            types.push(Type::scalar(DType::I64));
        }
        let (_, params) = self.copy.b.begin_region(&types);
        self.copy.stand_for(&own, &params);
        let outside = self.inside.replace(inst);
        self.save(&view.params);
        self.region(view.body)?;
        let saved = view.params.iter().filter(|v| parts.is_saved(**v));
        let mut exports: Vec<Export> = saved.map(|v| Export::Value(*v)).collect();
        exports.extend(parts.exports(view.body));
        let mut yields = vec![];
        if let Some(next) = view.next_cond {
            yields.push(self.copy.value(next)?);
        }
        yields.extend(self.copy.all(&pick(&view.next, &early))?);
        if counts {
            let one = self.copy.b.i64(1);
            let count = params[params.len() - 1];
            yields.push(self.copy.b.binary(BinaryOp::Add, count, one)?);
        }
        yields.extend(self.copy.all(&pick(&view.stacked, &scans))?);
        yields.extend(self.given(&exports)?);
        self.inside = outside;
        let body = self.copy.b.end_region(&yields);
        let trip = view.trip.map(|v| self.copy.value(v)).transpose()?;
        let cond = view.cond.map(|v| self.copy.value(v)).transpose()?;
        let results = self.copy.b.loop_(trip, cond, &inits, body)?;
        self.copy.stand_for(&pick(&view.last, &early), &results);
        let mut rest = results[early.len()..].iter().copied();
        if counts {
            self.receive(&[Export::Count(inst)], &mut rest);
        }
        let stacked: Vec<Value> = rest.by_ref().take(scans.len()).collect();
        self.copy.stand_for(&pick(&view.scans, &scans), &stacked);
        self.receive(&exports, &mut rest);
        Ok(())
    }
}
