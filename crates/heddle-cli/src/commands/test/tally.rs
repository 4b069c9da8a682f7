//! Counts of cases that ran compiled, and reasons why the others were left to the interpreter.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::Outcome;
use super::case::{Means, Verdict};

/// Devices that ran the cases that passed.
pub struct Tally {
    /// Number of cases that the device ran.
    pub compiled: usize,
    /// Reasons why the interpreter ran the others, with counts; the most frequent first.
    interpreted: Vec<(String, usize)>,
}

impl Tally {
    /// Counts cases that passed.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let (mut compiled, mut reasons) = (0, HashMap::new());
        for outcome in outcomes
            .iter()
            .filter(|o| o.ended.verdict == Verdict::Passed)
        {
            match &outcome.ended.means {
                Some(Means::Interpreter(why)) => {
                    let first = why.uncompiled.first();
                    let reason = first.map_or(String::new(), |what| what.reason.clone());
                    *reasons.entry(reason).or_insert(0) += 1;
                }
                Some(Means::Device) => compiled += 1,
                None => {}
            }
        }
        let mut interpreted: Vec<_> = reasons.into_iter().collect();
        interpreted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Self {
            compiled,
            interpreted,
        }
    }

    /// A line for the whole, and one for each reason.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (reason, count) in &self.interpreted {
            text += &format!("{count:5} interpreted: {}\n", super::one_line(reason));
        }
        let (compiled, all, share) = (self.compiled, self.all(), self.share());
        text + &format!("{compiled} of {all} ran compiled ({share:.1} %)\n")
    }

    /// Cases that ran compiled, in percent.
    pub fn share(&self) -> f64 {
        100.0 * self.compiled as f64 / self.all().max(1) as f64
    }

    /// The reasons with their counts.
    pub fn document(&self) -> Value {
        let reasons = self.interpreted.iter();
        reasons
            .map(|(reason, count)| json!({"reason": reason, "cases": count}))
            .collect()
    }

    fn all(&self) -> usize {
        self.compiled + self.interpreted.iter().map(|r| r.1).sum::<usize>()
    }
}
