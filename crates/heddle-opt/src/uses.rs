//! Use counts of values.

use heddle_ir::{Entity, Function, Region};

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
