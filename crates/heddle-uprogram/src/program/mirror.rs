//! Arrays of which each unit of a cluster has a copy.

use crate::program::{Body, Cluster, Operator};

/// Copies of an array in the shared memory of a cluster's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Words of the shared memory before each copy.
    pub at: u32,
    /// The cluster.
    pub cluster: Cluster,
}

impl Mirror {
    /// True if all units that run an operator have a copy.
    pub fn is_of(self, op: &Operator) -> bool {
        self.is_of_all() || op.team == Some(self.cluster.team)
    }

    /// True if all units of a launch have a copy.
    pub fn is_of_all(self) -> bool {
        self.cluster.team.of == 1
    }
}

impl Operator {
    /// True if a unit stores each of its results by itself, and reads none of them again: such a store may go to several copies.
    pub fn stores_once(&self) -> bool {
        match &self.body {
            Body::Map { .. } | Body::Fold { .. } => true,
            Body::Contract(c) => c.tile <= 1,
            Body::Chain(chain) => {
                let last = chain.steps.last().map(|step| &step.body);
                matches!(last, Some(Body::Map { .. } | Body::Fold { .. }))
            }
            _ => false,
        }
    }
}
