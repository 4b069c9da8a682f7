//! The choice of a block.

use std::collections::BTreeSet;
use std::ops::Range;

use heddle_ir::op::CompareOp;
use heddle_ir::{FuncBuilder, Type, Value};

use super::drive::Driver;
use super::graph::Block;
use super::state::{State, zeros};
use super::step::Written;
use super::stores::Added;
use crate::batch::{Refusal, Result};

/// The slots to which some block writes.
pub(super) struct Writes {
    pub own: Vec<usize>,
    pub args: Vec<usize>,
    pub results: Vec<usize>,
}

/// Activations of the block that runs.
pub(super) struct Running<'a> {
    /// The number of the block.
    pub number: Value,
    /// The frames.
    pub ids: Value,
    /// The instances.
    pub who: Value,
    pub state: &'a State,
}

impl Driver<'_> {
    /// The rows that the running block writes: for each slot that some block writes to all or none.
    pub(super) fn chosen(&self, b: &mut FuncBuilder, running: &Running) -> Result<Written> {
        let writes = self.writes();
        let mut rows = self
            .choice(b, 0..self.blocks.len(), running, &writes)?
            .into_iter();
        let mut take = |slots: &[usize]| -> Vec<(usize, Value)> {
            slots.iter().copied().zip(rows.by_ref()).collect()
        };
        let (own, args) = (take(&writes.own), take(&writes.args));
        let results = take(&writes.results);
        let mut next = || rows.next().ok_or(Refusal::NotEvaluated);
        let mut stores = vec![];
        for &grows in &self.slots.grows {
            stores.push(Added {
                behind: next()?,
                written: match grows {
                    true => Some([next()?, next()?]),
                    false => None,
                },
            });
        }
        Ok(Written {
            own,
            args,
            results,
            stores,
            next: rows.next(),
        })
    }

    fn writes(&self) -> Writes {
        let (mut own, mut args) = (BTreeSet::new(), BTreeSet::new());
        for (number, block) in self.blocks.iter().enumerate() {
            let parts = |v: &Value| self.parts(block.function, *v);
            for &to in &block.end.next() {
                let is_made =
                    |v: &&Value| self.live.made[number].contains(v) || is_moved(block, **v);
                own.extend(self.live.before[to].iter().filter(is_made).flat_map(parts));
            }
        }
        for (function, &entry) in self.entries.iter().enumerate() {
            let params = self.live.before[entry].iter();
            args.extend(params.flat_map(|&v| self.parts(function, v)));
        }
        Writes {
            own: own.into_iter().collect(),
            args: args.into_iter().collect(),
            results: (0..self.slots.results.types.len()).collect(),
        }
    }

    /// The slots of a value.
    fn parts(&self, function: usize, value: Value) -> Vec<usize> {
        self.slots.own.parts(self.slots.of[&(function, value)])
    }

    /// The rows of all slots, and the next blocks, of the running block, which is one of these.
    fn choice(
        &self,
        b: &mut FuncBuilder,
        among: Range<usize>,
        running: &Running,
        writes: &Writes,
    ) -> Result<Vec<Value>> {
        if among.len() == 1 {
            return self.alone(b, among.start, running, writes);
        }
        let middle = among.start.midpoint(among.end);
        let limit = b.i64(middle as i64);
        let first = b.compare(CompareOp::Lt, running.number, limit)?;
        let mut arms = vec![];
        for half in [among.start..middle, middle..among.end] {
            b.begin_region(&[]);
            let rows = self.choice(b, half, running, writes)?;
            arms.push(b.end_region(&rows));
        }
        Ok(b.if_(first, arms[0], arms[1])?)
    }

    fn alone(
        &self,
        b: &mut FuncBuilder,
        number: usize,
        running: &Running,
        writes: &Writes,
    ) -> Result<Vec<Value>> {
        let written = self.block(b, number, running)?;
        let mut all = vec![];
        let (types, result_types) = (&self.slots.own.types, &self.slots.results.types);
        for (slots, rows, types) in [
            (&writes.own, &written.own, types),
            (&writes.args, &written.args, types),
            (&writes.results, &written.results, result_types),
        ] {
            for &slot in slots {
                all.push(rows_or_empty(b, slot, rows, &types[slot])?);
            }
        }
        all.extend(written.stores.iter().flat_map(Added::values));
        all.push(match written.next {
            Some(next) => next,
            None => b.i64s(&[]),
        });
        Ok(all)
    }
}

/// The rows that a block writes to a slot of this type; no rows if it writes none.
fn rows_or_empty(
    b: &mut FuncBuilder,
    slot: usize,
    written: &[(usize, Value)],
    ty: &Type,
) -> Result<Value> {
    match written.iter().find(|(own, _)| *own == slot) {
        Some((_, rows)) => Ok(*rows),
        None => {
            let none = b.i64(0);
            zeros(b, ty, none)
        }
    }
}

/// Does an edge behind a block give the value another one?
fn is_moved(block: &Block, value: Value) -> bool {
    block.moves().any(|m| m.0 == value)
}
