//! Costs of synchronisation.

/// A cost in nanoseconds as a function of the units that take part: `base + unit · units + group · (groups - 1)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The part that does not depend on the number of units.
    pub base_ns: f64,
    /// For each unit: an arrival, or a copy of a cache line.
    pub unit_ns: f64,
    /// For each group of units behind the first.
    pub group_ns: f64,
}

impl Cost {
    /// A cost that does not depend on the number of units.
    pub const fn fixed(ns: f64) -> Self {
        Self {
            base_ns: ns,
            unit_ns: 0.0,
            group_ns: 0.0,
        }
    }

    /// The cost for so many units in so many groups. One unit counts as two: a program that is scheduled for one may run on
    /// several, and each synchronisation that is left in it costs a call in any case.
    pub fn ns(&self, units: usize, groups: usize) -> f64 {
        let (units, groups) = (units.max(2) as f64, groups.max(1) as f64);
        self.base_ns + self.unit_ns * units + self.group_ns * (groups - 1.0)
    }

    fn scaled(self, by: f64) -> Self {
        Self {
            base_ns: self.base_ns * by,
            unit_ns: self.unit_ns * by,
            group_ns: self.group_ns * by,
        }
    }
}

/// Costs of each kind of synchronisation, beyond the arrival of whoever is waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Syncs {
    /// Among the lanes of a warp; `None` where a unit has none. Nanoseconds.
    pub warp_ns: Option<f64>,
    /// Among the lanes of a unit; `None` where they run in lockstep. Nanoseconds.
    pub lanes_ns: Option<f64>,
    /// All units wait for all.
    pub barrier: Cost,
    /// All units wait for one.
    pub one_to_all: Cost,
    /// One unit waits for all.
    pub all_to_one: Cost,
    /// One unit waits for one. Nanoseconds.
    pub one_to_one_ns: f64,
    /// All units of a cluster wait for each other by the device's own barrier; `None` where there are no clusters. Nanoseconds.
    pub cluster_ns: Option<f64>,
    /// All units give each other numbers that lie beside a flag: from the store of the last one to its load by all. `None` where units share
    /// no memory in which that is faster than a barrier. Nanoseconds.
    pub gather_ns: Option<f64>,
    /// A point at which the number of units may change and does not; `None` where it is fixed for a launch. Nanoseconds.
    pub resize_ns: Option<f64>,
}

/// Shares that are cut into pieces, which units take from each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pieces {
    /// Time of a share from which on it is cut. Nanoseconds.
    pub share_ns: f64,
    /// The least time of a piece. Nanoseconds.
    pub piece_ns: f64,
    /// The most pieces of a share.
    pub most: usize,
}

impl Syncs {
    /// Everything between units costs `by` times as much.
    pub(crate) fn scaled(self, by: f64) -> Self {
        Self {
            warp_ns: self.warp_ns,
            lanes_ns: self.lanes_ns,
            barrier: self.barrier.scaled(by),
            one_to_all: self.one_to_all.scaled(by),
            all_to_one: self.all_to_one.scaled(by),
            one_to_one_ns: self.one_to_one_ns * by,
            cluster_ns: self.cluster_ns.map(|ns| ns * by),
            gather_ns: self.gather_ns.map(|ns| ns * by),
            resize_ns: self.resize_ns,
        }
    }
}
