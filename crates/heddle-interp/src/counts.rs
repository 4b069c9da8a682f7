//! Counts of a run: how often values were defined and functions called.

use std::collections::HashMap;

use heddle_ir::{FuncId, Value};

use crate::value::Val;

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// By `i64[]` of the entry: the number of times that it was not 0, and the sum of what it was.
    pub values: HashMap<Value, Tally>,
    /// By function: the greatest height of its calls, which is 1 without calls within, and the number of calls.
    pub calls: HashMap<FuncId, Tally>,
}

/// A number of steps and the rows that they had together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The steps.
    pub steps: u64,
    /// The rows.
    pub rows: u64,
}

/// Counts while a program runs.
pub(crate) struct Counter {
    pub counts: Counts,
    /// The heights so far of the calls that are open.
    heights: Vec<u64>,
}

impl Counter {
    pub fn new(watched: &[Value]) -> Self {
        let values = watched.iter().map(|&v| (v, Tally::default())).collect();
        let calls = HashMap::new();
        Self {
            counts: Counts { values, calls },
            heights: vec![],
        }
    }

    /// A value of the entry was defined.
    pub fn defined(&mut self, value: Value, val: &Val) {
        let Some(tally) = self.counts.values.get_mut(&value) else {
            return;
        };
        let number = val.tensor().and_then(|array| array.int());
        if let Ok(rows @ 1..) = number.map(|n| u64::try_from(n).unwrap_or(0)) {
            tally.steps += 1;
            tally.rows += rows;
        }
    }

    pub fn enter(&mut self) {
        self.heights.push(1);
    }

    pub fn leave(&mut self, id: FuncId) {
        let height = self.heights.pop().unwrap_or(1);
        if let Some(caller) = self.heights.last_mut() {
            *caller = (*caller).max(height + 1);
        }
        let tally = self.counts.calls.entry(id).or_default();
        tally.steps = tally.steps.max(height);
        tally.rows += 1;
    }
}
