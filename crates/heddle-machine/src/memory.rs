//! Memory levels.

/// A memory level: a cache, a scratchpad, or main memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// The field's name for it: `L2`, `HBM`.
    pub name: &'static str,
    /// Bytes of one instance; infinite if it holds whatever programs need.
    pub bytes: f64,
    /// Units that share an instance.
    pub shared_by: SharedBy,
    /// Bytes per nanosecond that one unit gets when no other reads.
    pub unit_rate: f64,
    /// Bytes per nanosecond of one instance for all units that share it.
    pub rate: f64,
    /// A dependent load. Nanoseconds.
    pub latency_ns: f64,
    /// Do contents last from one operator to the next? An L1 is refilled by whatever runs in between, and the L1 of a GPU
    /// is not coherent, so no operator's data is expected there.
    pub keeps: bool,
}

/// Units that share one instance of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedBy {
    /// The lanes of one unit.
    Unit,
    /// The units of one group.
    Group,
    /// All units.
    All,
}
