//! Rebuilds functions in which several values stand for one, also across control flow and calls.

use std::collections::HashMap;

use heddle_ir::patch::Stats;
use heddle_ir::{
    FuncBuilder, FuncId, Function, Inst, LoopView, Module, Op, Region, Signature, Type, Value,
};

use super::rebuild::{Rebuild, Result};
use crate::Edit;

/// A choice of values for which others stand.
pub trait Expansion {
    /// The types of the values that stand for a value; `None` for one that stays.
    fn types(&self, id: FuncId, value: Value) -> Option<Vec<Type>>;

    /// Replaces an instruction other than a branch, loop or call; `false` asks for a copy.
    fn inst(&self, expander: &mut Expander, rebuild: &mut Rebuild, inst: Inst) -> Result<bool>;
}

/// Rebuilds these functions, all or none.
pub fn expand(module: &mut Module, ids: &[FuncId], expansion: &dyn Expansion, edit: Edit) -> Stats {
    let mut stats = Stats::default();
    let all = module.functions.iter();
    let signatures: HashMap<FuncId, Signature> = all
        .map(|(id, func)| (id, signature(expansion, id, func)))
        .collect();
    let mut built = vec![];
    for &id in ids {
        let expander = Expander {
            expansion,
            signatures: &signatures,
            id,
            parts: HashMap::new(),
        };
        match expander.function(module) {
            Ok(function) => built.push((id, function)),
            Err(error) => {
                stats.rejected.push(error.to_string());
                return stats;
            }
        }
    }
    for (id, function) in built {
        module.functions[id] = function;
        stats.record(edit);
    }
    stats
}

/// The signature with several ports in place of each that is expanded.
fn signature(expansion: &dyn Expansion, id: FuncId, func: &Function) -> Signature {
    let body = &func.regions[func.body];
    let ports = |ports: &[(String, Type)], values: &[Value]| {
        let mut all = vec![];
        for ((name, ty), &value) in ports.iter().zip(values) {
            match expansion.types(id, value) {
                None => all.push((name.clone(), ty.clone())),
                Some(types) => {
                    let types = types.into_iter().enumerate();
                    all.extend(types.map(|(k, ty)| (format!("{name}.{k}"), ty)));
                }
            }
        }
        all
    };
    Signature {
        params: ports(&func.sig.params, &body.params),
        results: ports(&func.sig.results, &body.yields),
        ..(*func.sig).clone()
    }
}

/// A function under construction.
pub struct Expander<'a> {
    expansion: &'a dyn Expansion,
    signatures: &'a HashMap<FuncId, Signature>,
    /// The function.
    pub id: FuncId,
    /// The values that stand for one of the source.
    pub parts: HashMap<Value, Vec<Value>>,
}

impl Expander<'_> {
    fn function(mut self, module: &Module) -> Result<Function> {
        let source = &module.functions[self.id];
        let sig = &self.signatures[&self.id];
        let mut rebuild = Rebuild {
            module,
            source,
            b: FuncBuilder::new(sig.clone()),
            values: HashMap::new(),
        };
        let params = rebuild.b.params().to_vec();
        self.bind(&mut rebuild, &source.regions[source.body].params, &params);
        self.insts(&mut rebuild, source.body)?;
        let yields = self.all(&rebuild, &source.regions[source.body].yields);
        let names = sig.results.iter().map(|r| r.0.clone());
        Ok(rebuild.b.finish(&names.zip(yields).collect::<Vec<_>>()))
    }

    fn insts(&mut self, rebuild: &mut Rebuild, region: Region) -> Result<()> {
        rebuild.insts(region, &mut |rebuild, inst| self.inst(rebuild, inst))
    }

    fn inst(&mut self, rebuild: &mut Rebuild, inst: Inst) -> Result<bool> {
        let data = &rebuild.source.insts[inst];
        let expansion = self.expansion;
        let touched = |v: &Value| expansion.types(self.id, *v).is_some();
        match &data.op {
            Op::If if data.results.iter().any(touched) => self.branch(rebuild, inst)?,
            Op::Loop { .. } if data.results.iter().any(touched) => self.repeat(rebuild, inst)?,
            Op::Call(callee) if data.args.iter().chain(&data.results).any(touched) => {
                let args = self.all(rebuild, &data.args);
                let results = rebuild.b.call(*callee, &self.signatures[callee], &args)?;
                self.bind(rebuild, &data.results, &results);
            }
            _ => return expansion.inst(self, rebuild, inst),
        }
        Ok(true)
    }

    fn branch(&mut self, rebuild: &mut Rebuild, inst: Inst) -> Result<()> {
        let func = rebuild.source;
        let data = &func.insts[inst];
        let mut arms = vec![];
        for &arm in &data.regions {
            rebuild.b.begin_region(&[]);
            self.insts(rebuild, arm)?;
            let yields = self.all(rebuild, &func.regions[arm].yields);
            arms.push(rebuild.b.end_region(&yields));
        }
        rebuild.b.set_loc(data.loc.clone());
        let cond = rebuild.values[&data.args[0]];
        let results = rebuild.b.if_(cond, arms[0], arms[1])?;
        self.bind(rebuild, &data.results, &results);
        Ok(())
    }

    fn repeat(&mut self, rebuild: &mut Rebuild, inst: Inst) -> Result<()> {
        let func = rebuild.source;
        let data = &func.insts[inst];
        let Some(l) = LoopView::of(func, inst) else {
            return Ok(());
        };
        let mut types = vec![func.ty(l.iteration).clone()];
        for param in &l.params {
            match self.expansion.types(self.id, *param) {
                Some(parts) => types.extend(parts),
                None => types.push(func.ty(*param).clone()),
            }
        }
        let (_, params) = rebuild.b.begin_region(&types);
        self.bind(rebuild, &l.body_params(), &params);
        self.insts(rebuild, l.body)?;
        let yields = self.all(rebuild, &l.yields());
        let body = rebuild.b.end_region(&yields);
        rebuild.b.set_loc(data.loc.clone());
        let [trip, cond] = [l.trip, l.cond].map(|v| v.map(|v| rebuild.values[&v]));
        let inits = self.all(rebuild, &l.inits);
        let results = rebuild.b.loop_(trip, cond, &inits, body)?;
        let scans = results.len() - l.scans.len();
        for (&old, &new) in l.scans.iter().zip(&results[scans..]) {
            // Without iterations, the stated type of a scan output gives it its shape.
            if rebuild.b.ty(new).compatible(func.ty(old)) {
                rebuild.b.refine_type(new, func.ty(old).clone())?;
            }
        }
        self.bind(rebuild, &data.results, &results);
        Ok(())
    }

    /// Maps values of the source to those of the copy.
    fn bind(&mut self, rebuild: &mut Rebuild, old: &[Value], new: &[Value]) {
        let mut new = new.iter().copied();
        for &old in old {
            match self.expansion.types(self.id, old) {
                Some(types) => {
                    let parts: Vec<Value> = new.by_ref().take(types.len()).collect();
                    for (&part, ty) in parts.iter().zip(&types) {
                        rebuild.state(part, ty);
                    }
                    self.parts.insert(old, parts);
                }
                None => {
                    let value = new.next().expect("a value for each of the source");
                    rebuild.stands_for(old, value);
                }
            }
        }
    }

    /// The counterparts of values of the source.
    fn all(&self, rebuild: &Rebuild, values: &[Value]) -> Vec<Value> {
        let mut all = vec![];
        for value in values {
            match self.parts.get(value) {
                Some(parts) => all.extend(parts),
                None => all.push(rebuild.values[value]),
            }
        }
        all
    }
}
