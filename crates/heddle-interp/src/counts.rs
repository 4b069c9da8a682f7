//! Counts of a run: how often values were defined and functions called.

use std::collections::HashMap;

use heddle_ir::{FuncId, Inst, Value};

use crate::value::Val;

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// By `i64[]` of a function: the number of times that it was not 0, and the sum of what it was.
    pub values: HashMap<(FuncId, Value), Tally>,
    /// By function: the greatest height of its calls, which is 1 without calls within, and the number of calls.
    pub calls: HashMap<FuncId, Tally>,
}

/// Means over a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The size of each axis of an array.
    pub sizes: HashMap<(FuncId, Value), Vec<f64>>,
    /// The trip count of a loop.
    pub trips: HashMap<(FuncId, Inst), f64>,
}

/// Sums over a run, with the number of their terms.
#[derive(Default)]
pub(crate) struct Sums {
    sizes: HashMap<(FuncId, Value), (f64, Vec<f64>)>,
    trips: HashMap<(FuncId, Inst), (f64, f64)>,
}

impl Sums {
    /// A value was defined.
    pub fn defined(&mut self, id: FuncId, value: Value, val: &Val) {
        let Ok(array) = val.tensor() else {
            return;
        };
        let (count, sums) = self.sizes.entry((id, value)).or_default();
        *count += 1.0;
        sums.resize(array.shape.len(), 0.0);
        let sizes = sums.iter_mut().zip(&array.shape);
        sizes.for_each(|(sum, &size)| *sum += size as f64);
    }

    /// A loop ended.
    pub fn looped(&mut self, id: FuncId, inst: Inst, iterations: u64) {
        let (count, sum) = self.trips.entry((id, inst)).or_default();
        *count += 1.0;
        *sum += iterations as f64;
    }

    /// The means.
    pub fn means(self) -> Profile {
        let trips = self.trips.into_iter();
        let sizes = self.sizes.into_iter().map(|(key, (count, sums))| {
            let means = sums.into_iter().map(|sum| sum / count);
            (key, means.collect())
        });
        Profile {
            sizes: sizes.collect(),
            trips: trips
                .map(|(key, (count, sum))| (key, sum / count))
                .collect(),
        }
    }
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
    pub sums: Option<Sums>,
    /// The heights so far of the calls that are open.
    heights: Vec<u64>,
}

impl Counter {
    pub fn new(watched: &[(FuncId, Value)]) -> Self {
        let values = watched.iter().map(|&v| (v, Tally::default())).collect();
        let calls = HashMap::new();
        Self {
            counts: Counts { values, calls },
            sums: None,
            heights: vec![],
        }
    }

    /// A value of a function was defined.
    pub fn defined(&mut self, id: FuncId, value: Value, val: &Val) {
        let Some(tally) = self.counts.values.get_mut(&(id, value)) else {
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
