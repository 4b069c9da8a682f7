//! Times of operators and synchronisations, from the cost model or from measurements.

use heddle_machine::Machine;

use crate::cost::time;
use heddle_uprogram::program::{OperatorId, Share, Sync, UProgram, Units};

/// Source of times for the scheduler: the cost model of a [`Machine`], or a profiler. All times are
/// in nanoseconds.
pub trait Latency {
    /// The target machine.
    fn machine(&self) -> &Machine;

    /// The time of an operator under this share: that of the unit with the largest load.
    fn operator(&self, program: &UProgram, id: OperatorId, share: Share) -> f64;

    /// Cost of a synchronisation to its waiters, beyond the wait itself.
    fn sync(&self, sync: Sync) -> f64;

    /// Cost of a barrier.
    fn barrier(&self) -> f64 {
        self.sync(Sync::ALL)
    }
}

impl Latency for Machine {
    fn machine(&self) -> &Machine {
        self
    }

    fn operator(&self, program: &UProgram, id: OperatorId, share: Share) -> f64 {
        time(self, program, &program.operators[id], share)
    }

    fn sync(&self, sync: Sync) -> f64 {
        let units = self.units();
        match sync {
            Sync::Warp => self.syncs.warp_ns.unwrap_or(0.0),
            Sync::Unit => self.syncs.lanes_ns.unwrap_or(0.0),
            Sync::Resize => self.syncs.resize_ns.unwrap_or(0.0),
            Sync::Cluster(_) => self.syncs.cluster_ns.unwrap_or(f64::INFINITY),
            Sync::ALL => self.barrier_ns(units),
            // Each waits for the units of three teams, side by side.
            Sync::Near(of) => {
                let own = (units / of.max(1) as usize).max(1);
                self.all_to_one_ns((3 * own).min(units))
            }
            Sync::Wait { from, to } => match (from, to) {
                (Units::One(_), Units::All) => self.one_to_all_ns(units),
                (Units::All, Units::One(_)) => self.all_to_one_ns(units),
                (Units::Team(team), _) => self.all_to_one_ns(team.units(units).len()),
                (_, Units::Team(team)) => self.one_to_all_ns(team.units(units).len()),
                _ => self.syncs.one_to_one_ns,
            },
        }
    }
}
