//! Edits of passes, counted by reason.

use std::collections::BTreeMap;

/// The edits of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of edits for each reason.
    pub reasons: BTreeMap<&'static str, usize>,
    /// Patches that [`Patch::apply`](crate::Patch::apply) found to be wrong and did not perform. Always
    /// empty unless a pass is wrong; tests assert that it is.
    pub rejected: Vec<String>,
}

impl Stats {
    /// The number of edits.
    pub fn total(&self) -> usize {
        self.reasons.values().sum()
    }

    /// The number of edits for this reason.
    pub fn count(&self, reason: impl Into<&'static str>) -> usize {
        self.reasons.get(reason.into()).copied().unwrap_or(0)
    }

    /// Counts one edit.
    pub fn record(&mut self, reason: impl Into<&'static str>) {
        *self.reasons.entry(reason.into()).or_default() += 1;
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: Stats) {
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
        self.rejected.extend(other.rejected);
    }
}
