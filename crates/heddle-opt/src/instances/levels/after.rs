//! The part of an activation behind its calls: it makes the results.

use std::collections::HashMap;

use heddle_ir::{FuncBuilder, Function, Inst, LoopView, Module, Region, Value};

use super::copy::{Copy, with_rows};
use super::parts::{Export, Parts, free};
use crate::batch::{Refusal, Result};

/// Takes the function's parameters, of which only those are read that all calls pass on, and the
/// values of all exports in order; for a call these are its results.
pub(super) fn after(module: &Module, parts: &Parts) -> Result<Function> {
    let mut sig = (*parts.source.sig).clone();
    sig.name += ".after";
    for export in parts.all_exports() {
        for mut ty in parts.types_after(export) {
            if parts.home(export).is_some() {
                ty = with_rows(&ty);
            }
            sig.params.push((format!("saved {}", sig.params.len()), ty));
        }
    }
    let b = FuncBuilder::new(sig);
    let params = b.params().to_vec();
    let mut after = After {
        parts,
        copy: Copy {
            module,
            source: parts.source,
            b,
            values: HashMap::new(),
        },
        given: HashMap::new(),
        iteration: None,
    };
    let (own, mut rest) = params.split_at(parts.kept.len());
    for ((&param, &value), kept) in parts.params().iter().zip(own).zip(&parts.kept) {
        if *kept {
            after.copy.stand_for(&[param], &[value]);
        }
    }
    for export in parts.all_exports() {
        let (values, others) = rest.split_at(parts.types_after(export).len());
        after.given.insert(export, values.to_vec());
        rest = others;
    }
    after.region(parts.source.body)?;
    let yields = parts.source.regions[parts.source.body].yields.clone();
    let values = after.all(&yields)?;
    let names = parts
        .source
        .sig
        .results
        .iter()
        .map(|(name, _)| name.clone());
    Ok(after.copy.b.finish(&names.zip(values).collect::<Vec<_>>()))
}

struct After<'a> {
    parts: &'a Parts<'a>,
    copy: Copy<'a>,
    /// The values of exports, each of all iterations if it is in a loop.
    given: HashMap<Export, Vec<Value>>,
    /// The iteration of the loop that this is in.
    iteration: Option<Value>,
}

impl After<'_> {
    /// The values of an export here.
    fn here(&mut self, export: Export) -> Result<Vec<Value>> {
        let given = self.given.get(&export).cloned();
        let given = given.ok_or(Refusal::NotEvaluated)?;
        match (self.parts.home(export), self.iteration) {
            (None, _) => Ok(given),
            (Some(_), Some(iteration)) => {
                let own = given.iter().map(|&v| self.copy.b.gather(v, iteration));
                Ok(own.collect::<std::result::Result<Vec<_>, _>>()?)
            }
            (Some(_), None) => Err(Refusal::NotEvaluated),
        }
    }

    fn value(&mut self, value: Value) -> Result<Value> {
        if let Ok(known) = self.copy.value(value) {
            return Ok(known);
        }
        let own = match self.parts.source.constant(value) {
            Some(constant) => vec![self.copy.b.constant(constant.clone())],
            None => self.here(Export::Value(value))?,
        };
        self.copy.stand_for(&[value], &own);
        Ok(own[0])
    }

    fn all(&mut self, values: &[Value]) -> Result<Vec<Value>> {
        values.iter().map(|&v| self.value(v)).collect()
    }

    fn region(&mut self, region: Region) -> Result<()> {
        let source = self.parts.source;
        for &inst in &source.regions[region].insts {
            if self.parts.is_call(inst) {
                let results = self.here(Export::Site(inst))?;
                self.copy.stand_for(&source.insts[inst].results, &results);
            } else if !self.parts.has_late(inst) {
                continue;
            } else if !self.parts.is_split(inst) {
                self.all(&free(source, inst))?;
                self.copy.inst(inst)?;
            } else {
                match LoopView::of(source, inst) {
                    Some(view) => self.repeat(inst, &view)?,
                    None => self.branch(inst)?,
                }
            }
        }
        Ok(())
    }

    fn branch(&mut self, inst: Inst) -> Result<()> {
        let source = self.parts.source;
        let data = &source.insts[inst];
        let cond = self.value(data.args[0])?;
        let late: Vec<usize> = (0..data.results.len())
            .filter(|&k| self.parts.is_late(data.results[k]))
            .collect();
        let mut regions = vec![];
        for &arm in &data.regions {
            let outside = self.copy.values.clone();
            self.copy.b.begin_region(&[]);
            self.region(arm)?;
            let own: Vec<Value> = late
                .iter()
                .map(|&k| source.regions[arm].yields[k])
                .collect();
            let yields = self.all(&own)?;
            regions.push(self.copy.b.end_region(&yields));
            self.copy.values = outside;
        }
        let results = self.copy.b.if_(cond, regions[0], regions[1])?;
        let own: Vec<Value> = late.iter().map(|&k| data.results[k]).collect();
        self.copy.stand_for(&own, &results);
        Ok(())
    }

    fn repeat(&mut self, inst: Inst, view: &LoopView) -> Result<()> {
        let parts = self.parts;
        let pick = |all: &[Value], of: &[Value]| -> Vec<Value> {
            let own = all.iter().zip(of).filter(|(_, v)| parts.is_late(**v));
            own.map(|(&v, _)| v).collect()
        };
        let trip = match (view.cond, view.trip) {
            (None, Some(trip)) => self.value(trip)?,
            _ => self.here(Export::Count(inst))?[0],
        };
        let inits = self.all(&pick(&view.inits, &view.params))?;
        let own = [vec![view.iteration], pick(&view.params, &view.params)].concat();
        let types: Vec<_> = own.iter().map(|&v| parts.source.ty(v).clone()).collect();
        let outside = self.copy.values.clone();
        let (_, params) = self.copy.b.begin_region(&types);
        self.copy.stand_for(&own, &params);
        self.iteration = Some(params[0]);
        self.region(view.body)?;
        let next = pick(&view.next, &view.params);
        let stacked = pick(&view.stacked, &view.scans);
        let yields = self.all(&[next, stacked].concat())?;
        self.iteration = None;
        let body = self.copy.b.end_region(&yields);
        self.copy.values = outside;
        let results = self.copy.b.loop_(Some(trip), None, &inits, body)?;
        let own = [
            pick(&view.last, &view.params),
            pick(&view.scans, &view.scans),
        ]
        .concat();
        self.copy.stand_for(&own, &results);
        Ok(())
    }
}
