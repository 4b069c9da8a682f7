//! Copies instructions from one function to another.

use std::collections::HashMap;

use crate::{Function, Inst, Op, Region, Type, Value};

/// Translates a type of the copied function to the function that it is copied into.
pub type CopyTypes<'a> = &'a dyn Fn(&Type) -> Type;

/// A copy of instructions in the making.
pub struct Copier<'a> {
    from: &'a Function,
    types: CopyTypes<'a>,
    /// The copies of values. Those that the copied instructions use from elsewhere must be added first.
    pub values: HashMap<Value, Value>,
}

impl<'a> Copier<'a> {
    /// Copies from a function of which nothing is copied yet.
    pub fn new(from: &'a Function, types: CopyTypes<'a>) -> Self {
        Self {
            from,
            types,
            values: HashMap::new(),
        }
    }

    /// Copies an instruction and its regions; the copy is in no region yet.
    pub fn inst(&mut self, to: &mut Function, inst: Inst) -> Inst {
        let data = &self.from.insts[inst];
        let args = self.all(&data.args);
        let regions = data.regions.iter().map(|&r| self.region(to, r)).collect();
        let types = data.results.iter().map(|&v| (self.types)(self.from.ty(v)));
        let types = types.collect();
        let op = match &data.op {
            Op::SeqNew { elem } => Op::SeqNew {
                elem: (self.types)(elem),
            },
            Op::OptNone { elem } => Op::OptNone {
                elem: (self.types)(elem),
            },
            op => op.clone(),
        };
        let new = to.add_inst(op, args, regions, types, data.loc.clone());
        for (&old, value) in data.results.iter().zip(to.insts[new].results.clone()) {
            let name = &self.from.values[old].name;
            to.values[value].name.clone_from(name);
            self.values.insert(old, value);
        }
        new
    }

    /// Copies a region with its parameters, instructions and yields.
    fn region(&mut self, to: &mut Function, region: Region) -> Region {
        let data = &self.from.regions[region];
        let new = to.regions.push(Default::default());
        for &param in &data.params {
            let ty = (self.types)(self.from.ty(param));
            let name = self.from.values[param].name.clone();
            self.values.insert(param, to.add_param(new, ty, name));
        }
        let insts = data.insts.iter().map(|&inst| self.inst(to, inst)).collect();
        to.regions[new].insts = insts;
        to.regions[new].yields = self.all(&data.yields);
        new
    }

    /// The copies of values.
    pub fn all(&self, values: &[Value]) -> Vec<Value> {
        values.iter().map(|v| self.values[v]).collect()
    }
}
