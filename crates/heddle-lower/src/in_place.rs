//! Updates of carried arrays in place.

use std::collections::HashMap;

use heddle_ir::{Function, Inst, Op, Region, Value};

use super::{Lowerer, Result};
use crate::value::Val;
use heddle_uprogram::program::Buffer;

/// Carried arrays of the loop that is being lowered, which its body may overwrite.
#[derive(Default)]
pub(super) struct InPlace {
    cells: Vec<Buffer>,
    /// The positions of the body's instructions.
    order: HashMap<Inst, usize>,
    /// The position of the last instruction that uses a value, also in its regions.
    last_use: HashMap<Value, usize>,
    /// The array that the current instruction may overwrite.
    now: Option<Buffer>,
}

impl InPlace {
    pub fn of(f: &Function, body: Region, cells: Vec<Buffer>) -> Self {
        let mut found = InPlace {
            cells,
            ..InPlace::default()
        };
        if found.cells.is_empty() {
            return found;
        }
        let data = &f.regions[body];
        for (at, &inst) in data.insts.iter().enumerate() {
            found.order.insert(inst, at);
            let last = &mut found.last_use;
            last.extend(f.insts[inst].args.iter().map(|&v| (v, at)));
            for &region in &f.insts[inst].regions {
                last.extend(f.regions[region].yields.iter().map(|&v| (v, at)));
                f.for_each_inst_in(region, &mut |_, inner| {
                    last.extend(inner.args.iter().map(|&v| (v, at)));
                    let yields = inner.regions.iter().map(|&r| &f.regions[r].yields);
                    last.extend(yields.flatten().map(|&v| (v, at)));
                });
            }
        }
        let end = data.insts.len();
        found.last_use.extend(data.yields.iter().map(|&v| (v, end)));
        found
    }

    /// May the current instruction overwrite the array?
    pub fn allows(&self, buffer: Buffer) -> bool {
        self.now == Some(buffer)
    }
}

impl Lowerer<'_> {
    /// Lets an update overwrite a carried array that nothing reads afterwards. Values that are
    /// still to be read from it are computed before.
    pub(super) fn settle_readers(&mut self, inst: Inst) -> Result<()> {
        self.in_place.now = None;
        let data = &self.f.insts[inst];
        let at = self.in_place.order.get(&inst);
        let Some(&at) = at.filter(|_| writes_into(&data.op)) else {
            return Ok(());
        };
        let Val::Stored { buffer, .. } = self.values[&data.args[0]] else {
            return Ok(());
        };
        if !self.in_place.cells.contains(&buffer) {
            return Ok(());
        }
        let later = self
            .in_place
            .last_use
            .iter()
            .filter(|(_, last)| **last > at);
        let later = later.map(|(&v, _)| v).chain(data.args[1..].iter().copied());
        let mut readers = vec![];
        for value in later {
            let Some(val) = self.values.get(&value) else {
                continue;
            };
            match val {
                Val::Stored { buffer: b, .. } if *b == buffer => return Ok(()),
                Val::Stored { .. } => {}
                val if val.reads(&self.program.pool, buffer) => readers.push(value),
                _ => {}
            }
        }
        readers.sort();
        readers.dedup();
        for value in readers {
            let val = self.values[&value].clone();
            let val = self.hold(&val)?;
            self.values.insert(value, val);
        }
        self.in_place.now = Some(buffer);
        Ok(())
    }
}

/// True if an op gives its first operand with some elements replaced.
pub(super) fn writes_into(op: &Op) -> bool {
    matches!(
        op,
        Op::ScatterNd { .. } | Op::ScatterElements { .. } | Op::UpdateSlice
    )
}
