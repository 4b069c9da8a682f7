//! Uses of values.

use std::collections::{BTreeSet, HashSet};

use heddle_ir::{Entity, Function, Inst, Region, Value};

/// Number of uses of each value, as an operand or yielded, indexed by value.
pub fn count_uses(func: &Function) -> Vec<u32> {
    let mut uses = vec![0; func.values.len()];
    count_in(func, func.body, &mut uses);
    uses
}

fn count_in(func: &Function, region: Region, uses: &mut [u32]) {
    let data = &func.regions[region];
    for &value in &data.yields {
        uses[value.index()] += 1;
    }
    for &inst in &data.insts {
        let inst = &func.insts[inst];
        for &value in &inst.args {
            uses[value.index()] += 1;
        }
        for &inner in &inst.regions {
            count_in(func, inner, uses);
        }
    }
}

/// Values that instructions define and use, in all their regions.
#[derive(Default)]
pub struct Seen {
    /// The results and the parameters of regions.
    pub defined: HashSet<Value>,
    /// The operands and what regions yield.
    pub used: BTreeSet<Value>,
}

impl Seen {
    /// Adds those of an instruction and of its regions.
    pub fn visit(&mut self, func: &Function, inst: Inst) {
        let data = &func.insts[inst];
        self.used.extend(&data.args);
        self.defined.extend(&data.results);
        for &region in &data.regions {
            let data = &func.regions[region];
            self.defined.extend(&data.params);
            self.used.extend(&data.yields);
            data.insts.iter().for_each(|&inst| self.visit(func, inst));
        }
    }

    /// The values that are used and not defined.
    pub fn free(&self) -> impl Iterator<Item = Value> {
        let used = self.used.iter().copied();
        used.filter(|value| !self.defined.contains(value))
    }
}
