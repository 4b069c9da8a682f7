//! New shares for the operators of a wave, of which the most promising ones are tried.

use heddle_uprogram::program::{OperatorId, Share, UProgram};

use crate::latency::Latency;
use crate::trials::Trials;

/// A proposal is tried if its wave takes at least this fraction less time.
const WORTH_A_TRIAL: f64 = 0.01;

/// Shares for the operators of a wave.
pub(super) struct Proposal {
    /// Time saved in the wave alone, times its number of executions.
    gain: f64,
    shares: Vec<(OperatorId, Share)>,
}

impl Proposal {
    /// Shares for a wave that takes `now` and would take `then`, so `often`; `None` if they are not worth a trial.
    pub(super) fn new(
        (now, then): (f64, f64),
        often: f64,
        shares: Vec<(OperatorId, Share)>,
    ) -> Option<Self> {
        let gain = now - then;
        (gain > now * WORTH_A_TRIAL).then_some(Self {
            gain: gain * often,
            shares,
        })
    }
}

/// Tries up to `most` proposals, which bounds compile time, and keeps each with which the whole program takes less time.
pub(super) fn try_proposals(
    program: &mut UProgram,
    latency: &dyn Latency,
    mut proposals: Vec<Proposal>,
    most: usize,
) {
    proposals.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    proposals.truncate(most);
    if proposals.is_empty() {
        return;
    }
    let mut trials = Trials::new(program, latency);
    for proposal in proposals {
        trials.set(program, &proposal.shares);
    }
}
