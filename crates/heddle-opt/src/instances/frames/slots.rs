//! The arrays that hold the frames of a recursion, a row for each.

use std::collections::{BTreeSet, HashMap};

use heddle_ir::{Function, Type, Value};

use super::graph::Block;
use super::live::Live;
use super::recursion::Recursion;
use crate::batch::{Refusal, Result};
use crate::instances::Context;
use crate::instances::levels::has_sizes;

/// A value of one of the functions.
pub(super) type Var = (usize, Value);

/// The rows of a frame.
pub(super) struct Slots {
    /// The types of saved values.
    pub types: Vec<Type>,
    /// The slot of each saved value. Values of which no two are needed at the same time share one.
    pub of: HashMap<Var, usize>,
    /// The types of the results of calls.
    pub result_types: Vec<Type>,
    /// The slots of each function's results among these.
    pub results: Vec<Vec<usize>>,
    /// The most calls that an activation has open at the same time.
    pub most_calls: usize,
}

impl Slots {
    pub fn of(
        context: &Context,
        recursion: &Recursion,
        blocks: &[Block],
        live: &Live,
    ) -> Result<Slots> {
        let row = |var: Var| {
            let ty = context.ty(recursion.functions[var.0].ty(var.1));
            match has_sizes(&ty) {
                true => Ok(ty),
                false => Err(Refusal::NoRow(described(
                    &recursion.functions[var.0],
                    var.1,
                ))),
            }
        };
        let mut slots = Slots {
            types: vec![],
            of: HashMap::new(),
            result_types: vec![],
            results: vec![],
            most_calls: 1,
        };
        let mut others: HashMap<Var, BTreeSet<Value>> = HashMap::new();
        let mut order: Vec<Var> = vec![];
        for (k, block) in blocks.iter().enumerate() {
            slots.most_calls = slots.most_calls.max(block.end.sites().len());
            for set in [&live.before[k], &live.after(block)] {
                for &v in set {
                    let var = (block.function, v);
                    let others = others.entry(var).or_insert_with(|| {
                        order.push(var);
                        BTreeSet::new()
                    });
                    others.extend(set);
                }
            }
        }
        for var in order {
            let ty = row(var)?;
            let taken = |slot: usize| {
                let mut others = others[&var].iter();
                others.any(|&v| slots.of.get(&(var.0, v)) == Some(&slot))
            };
            let mut all = 0..slots.types.len();
            let free = all.find(|&slot| slots.types[slot] == ty && !taken(slot));
            let slot = free.unwrap_or_else(|| {
                slots.types.push(ty);
                slots.types.len() - 1
            });
            slots.of.insert(var, slot);
        }
        for (function, source) in recursion.functions.iter().enumerate() {
            let mut own: Vec<usize> = vec![];
            for &v in &source.regions[source.body].yields {
                let ty = row((function, v))?;
                let mut all = 0..slots.result_types.len();
                let free = all.find(|k| slots.result_types[*k] == ty && !own.contains(k));
                own.push(free.unwrap_or_else(|| {
                    slots.result_types.push(ty);
                    slots.result_types.len() - 1
                }));
            }
            slots.results.push(own);
        }
        Ok(slots)
    }
}

/// A value for people: its name, or the op that makes it, and its place.
pub(super) fn described(source: &Function, value: Value) -> String {
    let made = source.def_inst(value).map(|inst| &source.insts[inst]);
    let name = source.values[value]
        .name
        .as_ref()
        .map(|n| format!("`%{n}`"));
    let name = name.or_else(|| made.map(|data| format!("`{}`", data.op.name())));
    let place = made.and_then(|data| data.loc.as_ref());
    let place = place.map(|loc| format!(" at {loc}")).unwrap_or_default();
    let of = &source.sig.name;
    format!(
        "{}{place} in @{of}",
        name.unwrap_or_else(|| "a parameter".into())
    )
}
