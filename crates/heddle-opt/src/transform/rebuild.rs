//! Rebuilds a function, so that a transformation can build parts of it differently.

use std::collections::HashMap;

use heddle_ir::patch::Stats;
use heddle_ir::{
    Dim, FuncBuilder, FuncId, Function, Inst, LoopForm, Module, Op, Region, Type, TypeError, Value,
};

/// A copy of a function under construction.
pub struct Rebuild<'a> {
    pub module: &'a Module,
    pub source: &'a Function,
    pub b: FuncBuilder,
    /// Values of the source mapped to those of the copy.
    pub values: HashMap<Value, Value>,
}

/// A result of building.
pub type Result<T> = std::result::Result<T, TypeError>;

/// Builds a replacement for an instruction and returns `true`; `false` asks for a copy.
pub type Instead<'i, 'a> = &'i mut dyn FnMut(&mut Rebuild<'a>, Inst) -> Result<bool>;

/// Rebuilds these functions. A copy replaces its source only if `build` counted an edit.
pub fn rebuild_functions(
    module: &mut Module,
    ids: &[FuncId],
    mut build: impl FnMut(Rebuild<'_>, &mut Stats) -> Result<Function>,
) -> Stats {
    let mut all = Stats::default();
    for &id in ids {
        let mut stats = Stats::default();
        match build(Rebuild::new(module, &module.functions[id]), &mut stats) {
            Ok(function) if stats.total() > 0 => {
                module.functions[id] = function;
                all.merge(stats);
            }
            Ok(_) => {}
            Err(error) => all.rejected.push(error.to_string()),
        }
    }
    all
}

impl<'a> Rebuild<'a> {
    /// Begins a copy.
    pub fn new(module: &'a Module, source: &'a Function) -> Self {
        let b = FuncBuilder::new((*source.sig).clone());
        let params = &source.regions[source.body].params;
        let values = params.iter().copied().zip(b.params().iter().copied());
        Self {
            module,
            source,
            values: values.collect(),
            b,
        }
    }

    /// Copies the whole function, except for instructions that `instead` replaces.
    pub fn function(mut self, instead: Instead<'_, 'a>) -> Result<Function> {
        self.insts(self.source.body, instead)?;
        let yields = self.all(&self.source.regions[self.source.body].yields);
        let names = self.source.sig.results.iter().map(|r| r.0.clone());
        Ok(self.b.finish(&names.zip(yields).collect::<Vec<_>>()))
    }

    /// The counterparts in the copy of values of the source.
    pub fn all(&self, values: &[Value]) -> Vec<Value> {
        values.iter().map(|v| self.values[v]).collect()
    }

    /// Copies the instructions of a region into the open region.
    pub fn insts(&mut self, region: Region, instead: Instead<'_, 'a>) -> Result<()> {
        let source = self.source;
        source.regions[region]
            .insts
            .iter()
            .try_for_each(|&inst| self.inst(inst, instead))
    }

    /// Copies one instruction, unless `instead` replaces it.
    pub fn inst(&mut self, inst: Inst, instead: Instead<'_, 'a>) -> Result<()> {
        let source = self.source;
        let data = &source.insts[inst];
        self.b.set_loc(data.loc.clone());
        if instead(self, inst)? {
            return Ok(());
        }
        let args = self.all(&data.args);
        let results = match &data.op {
            Op::If => {
                let then = self.region(data.regions[0], instead)?;
                let otherwise = self.region(data.regions[1], instead)?;
                self.b.set_loc(data.loc.clone());
                self.b.if_(args[0], then, otherwise)?
            }
            &Op::Loop { trip, cond } => {
                let body = self.region(data.regions[0], instead)?;
                self.b.set_loc(data.loc.clone());
                let operands = LoopForm::new(trip, cond).operands(&args);
                let (trip, cond) = (operands.trip.copied(), operands.cond.copied());
                let results = self.b.loop_(trip, cond, operands.inits, body)?;
                // Without iterations, the stated type of a scan output gives it its shape.
                for (&old, &new) in data.results.iter().zip(&results).skip(operands.inits.len()) {
                    if self.b.ty(new).compatible(source.ty(old)) {
                        self.b.refine_type(new, source.ty(old).clone())?;
                    }
                }
                results
            }
            Op::Call(callee) => {
                let sig = &self.module.functions[*callee].sig;
                self.b.call(*callee, sig, &args)?
            }
            op => self.b.op(op.clone(), &args)?,
        };
        for (&old, &new) in data.results.iter().zip(&results) {
            self.stands_for(old, new);
        }
        Ok(())
    }

    /// Maps a value of the source to one of the copy, which takes over its stated type and name.
    pub fn stands_for(&mut self, old: Value, new: Value) {
        self.state(new, self.source.ty(old));
        if let Some(name) = &self.source.values[old].name {
            self.b.set_name(new, name);
        }
        self.values.insert(old, new);
    }

    /// Refines a value's type by a type that is known to hold.
    pub fn state(&mut self, value: Value, ty: &Type) {
        if let Some(met) = ty.meet(self.b.ty(value))
            && met != *self.b.ty(value)
        {
            self.b
                .refine_type(value, met)
                .expect("a meet is compatible with both");
        }
    }

    /// States the size of the first axis.
    pub fn state_rows(&mut self, x: Value, rows: &Dim) {
        if let Type::Tensor(mut t) = self.b.ty(x).clone()
            && let Some(shape) = &mut t.shape
        {
            shape[0] = rows.clone();
            self.state(x, &Type::Tensor(t));
        }
    }

    fn region(&mut self, region: Region, instead: Instead<'_, 'a>) -> Result<Region> {
        let data = &self.source.regions[region];
        let types: Vec<Type> = data
            .params
            .iter()
            .map(|v| self.source.ty(*v).clone())
            .collect();
        let (_, params) = self.b.begin_region(&types);
        for (&old, &new) in data.params.iter().zip(&params) {
            self.stands_for(old, new);
        }
        self.insts(region, instead)?;
        let yields = self.all(&data.yields);
        Ok(self.b.end_region(&yields))
    }
}
