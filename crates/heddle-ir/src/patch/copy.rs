//! Copies a function's body into another function.

use std::collections::HashMap;

use crate::{Function, Inst, Op, Region, Type, Value};

use super::Patch;

/// How a type of the copied function reads in the function that it is copied into.
pub type CopyTypes<'a> = &'a dyn Fn(&Type) -> Type;

impl Patch<'_> {
    /// Copies the body of `callee` before `anchor`, with `args` for its parameters; returns what it yields.
    pub fn copy_body(
        &mut self,
        callee: &Function,
        args: &[Value],
        anchor: Inst,
        types: CopyTypes,
    ) -> Vec<Value> {
        let body = &callee.regions[callee.body];
        let mut copy = Copy {
            patch: self,
            callee,
            types,
            values: body
                .params
                .iter()
                .copied()
                .zip(args.iter().copied())
                .collect(),
        };
        let insts = copy.insts(callee.body);
        let yields = copy.all(&body.yields);
        for inst in insts {
            self.place(inst, anchor);
            self.settle(inst);
        }
        yields
    }

    /// Records where the instructions inside a copied one are.
    fn settle(&mut self, inst: Inst) {
        for region in self.func.insts[inst].regions.clone() {
            for inner in self.func.regions[region].insts.clone() {
                self.home[crate::Entity::index(inner)] = Some(region);
                self.settle(inner);
            }
        }
    }
}

struct Copy<'a, 'f> {
    patch: &'a mut Patch<'f>,
    callee: &'a Function,
    types: CopyTypes<'a>,
    values: HashMap<Value, Value>,
}

impl Copy<'_, '_> {
    fn insts(&mut self, region: Region) -> Vec<Inst> {
        let callee = self.callee;
        let copied = callee.regions[region].insts.iter().map(|&inst| {
            let data = &callee.insts[inst];
            let args = self.all(&data.args);
            let regions = data.regions.iter().map(|&r| self.region(r)).collect();
            let types = data.results.iter().map(|v| (self.types)(callee.ty(*v)));
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
            let new = self
                .patch
                .create(op, args, regions, types, data.loc.clone());
            let results = self.patch.func.insts[new].results.clone();
            for (&old, &value) in data.results.iter().zip(&results) {
                self.patch.func.values[value].name = callee.values[old].name.clone();
                // What is copied with it relies on its type.
                self.patch.targets.insert(value);
                self.values.insert(old, value);
            }
            new
        });
        copied.collect()
    }

    fn region(&mut self, region: Region) -> Region {
        let callee = self.callee;
        let new = self.patch.func.regions.push(Default::default());
        for &param in &callee.regions[region].params {
            let ty = (self.types)(callee.ty(param));
            let name = callee.values[param].name.clone();
            let value = self.patch.func.add_param(new, ty, name);
            self.values.insert(param, value);
        }
        let insts = self.insts(region);
        let yields = self.all(&callee.regions[region].yields);
        self.patch.func.regions[new].insts = insts;
        self.patch.func.regions[new].yields = yields;
        new
    }

    fn all(&self, values: &[Value]) -> Vec<Value> {
        values.iter().map(|v| self.values[v]).collect()
    }
}
