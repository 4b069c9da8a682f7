//! Machines as data: one value describes everything that compilation knows about its target.
//!
//! A [`Machine`] is a number of identical *units* (cores, thread blocks, tiles), each of some *lanes* (vector elements, GPU
//! threads). Passes read its figures and compare times; no pass asks which machine it compiles for.
//!
//! Times are in nanoseconds, sizes in bytes, rates in bytes per nanosecond (that is GB/s).
//!
//! [`Machine::host`] describes this computer, [`Machine::reference_host`] a fixed one, so that tests give the same
//! schedules everywhere; accelerators are tables: [`Machine::h100`], [`Machine::h200`], [`Machine::mi300x`],
//! [`Machine::bsp_tiles`]. [`Machine::named`] finds all of them by name.

mod arithmetic;
mod exchange;
mod gpus;
mod host;
mod kernel;
mod level;
mod memory;
mod named;
mod sync;
mod tiles;

pub use arithmetic::{Arithmetic, Class, Cores, Scalar};
pub use exchange::Exchange;
pub use kernel::{Family, Kernel, Layout, Tile};
pub use level::{Level, LevelKind};
pub use memory::{Memory, SharedBy};
pub use named::NameError;
pub use sync::{Cost, Pieces, Syncs};

/// A target of compilation.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Name for messages and dumps, as [`Machine::named`] takes it.
    pub name: String,
    /// Levels of units from the lanes of a unit to all units. There is one [`LevelKind::Lanes`], one [`LevelKind::All`],
    /// and any number of groups between.
    pub levels: Vec<Level>,
    /// Memory levels, nearest first. The last one holds everything.
    pub memories: Vec<Memory>,
    /// Arithmetic of one unit by element type.
    pub arithmetic: Vec<(Scalar, Arithmetic)>,
    /// Nanoseconds of one unit for a multiplication with an addition on tensor cores, by the type that operands are rounded to; empty where
    /// there are none. They are those of a warp of 32 lanes.
    pub cores: Vec<(Cores, f64)>,
    /// The same for instructions of a warpgroup, four warps that multiply matrices in shared memory together; empty where there are none.
    pub warpgroups: Vec<(Cores, f64)>,
    /// Reads of memory in runs.
    pub streams: Streams,
    /// Bytes per nanosecond at which a unit reads what another unit has just written, while it is in that unit's nearest
    /// memory, with the time to take the line back when it is written again. Infinite where units share the memory that keeps
    /// data between operators.
    pub remote_read_rate: f64,
    /// Bytes per nanosecond that a unit stores to the nearest memories of other units of its cluster; infinite where nobody does.
    pub cluster_rate: f64,
    /// Costs of synchronisation.
    pub syncs: Syncs,
    /// Values that the lanes of a unit exchange within an operator; `None` where a unit is one thread.
    pub exchange: Option<Exchange>,
    /// Shares in pieces; `None` where shares are fixed.
    pub pieces: Option<Pieces>,
    /// Start of an operator by a unit: call, share bounds, first iteration. Nanoseconds.
    pub start_ns: f64,
    /// Kernel families for contractions, each with its tile and operand layouts.
    pub kernels: Vec<Kernel>,
    /// Units of each cluster of a launch, which have a barrier of their own; `None`: launches have no clusters.
    pub cluster: Option<usize>,
    /// Hard limits of a unit and of a launch.
    pub limits: Limits,
    /// The processor that launches programs on this machine.
    pub host: Host,
}

/// The cost of reading memory in short runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Streams {
    /// Bytes of a run from which on memory gives its full rate.
    pub run_bytes: f64,
    /// The part by which a byte takes longer in the shortest runs.
    pub short_run: f64,
}

/// Hard limits of a unit and of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Registers of one lane (GPU) or vector registers of one unit (processor).
    pub registers: usize,
    /// Bytes of memory on chip that one unit can address or keep to itself.
    pub on_chip_bytes: usize,
    /// Units that can be resident at the same time, and so wait for each other.
    pub resident_units: usize,
    /// Lanes that one unit can have.
    pub lanes: usize,
}

/// The processor that launches programs and interprets what has no compiled form. A processor is its own host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// A launch of a compiled program, with its checks and its end. Nanoseconds.
    pub launch_ns: f64,
    /// Moving a byte of an input or output across the border of a launch. Nanoseconds.
    pub transfer_byte_ns: f64,
    /// Extra time of a launch whose workers have fallen asleep, or compete with other threads. Nanoseconds.
    pub wake_ns: f64,
    /// Dispatch of an instruction by the interpreter. Nanoseconds.
    pub instruction_ns: f64,
    /// An element that the interpreter computes. Nanoseconds.
    pub element_ns: f64,
    /// A multiplication of a contraction in the interpreter. Nanoseconds.
    pub product_ns: f64,
}

impl Machine {
    /// The same machine with so many units of so many lanes each, as a launch that leaves some of it idle has them.
    pub fn with_grid(mut self, units: usize, lanes: usize) -> Self {
        for level in &mut self.levels {
            level.count = match level.kind {
                LevelKind::Lanes => lanes,
                LevelKind::Group => level.count.min(units),
                LevelKind::All => units,
            };
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.warp = exchange.warp.min(whole_power(lanes));
        }
        self.cluster = None;
        self.limits.resident_units = self.limits.resident_units.max(units);
        self.limits.lanes = self.limits.lanes.max(lanes);
        self
    }

    /// The same machine with launches in clusters of so many units, without the units of an incomplete one; `None` if it has no such clusters.
    pub fn in_clusters(self, units: usize) -> Option<Self> {
        self.syncs.cluster_ns?;
        if units < 2 || units > self.units() {
            return None;
        }
        let (all, lanes) = (self.units() / units * units, self.lanes());
        let mut clustered = self.with_grid(all, lanes);
        clustered.cluster = Some(units);
        Some(clustered)
    }

    /// The number of clusters of a launch, and the units of each.
    pub fn clusters(&self) -> Option<(usize, usize)> {
        self.cluster.map(|units| (self.units() / units, units))
    }

    /// The same machine with warps of so many lanes, of which a power of two that divides them exchange values.
    pub fn with_warp(mut self, lanes: usize) -> Self {
        if let Some(exchange) = &mut self.exchange {
            exchange.warp = exchange.warp.min(whole_power(lanes));
        }
        self
    }

    /// The same machine without tensor cores.
    pub fn without_cores(mut self) -> Self {
        self.cores.clear();
        self.without_warpgroups()
    }

    /// The same machine without instructions of a warpgroup on its tensor cores.
    pub fn without_warpgroups(mut self) -> Self {
        self.warpgroups.clear();
        self
    }

    /// The number of units that run a program together.
    pub fn units(&self) -> usize {
        self.count(LevelKind::All).unwrap_or(1)
    }

    /// The number of lanes of a unit.
    pub fn lanes(&self) -> usize {
        self.count(LevelKind::Lanes).unwrap_or(1)
    }

    /// The number of lanes that a synchronisation must order: 1 where lanes run in lockstep.
    pub fn synced_lanes(&self) -> usize {
        match self.syncs.lanes_ns {
            Some(_) => self.lanes(),
            None => 1,
        }
    }

    /// Bytes of a unit's shared memory for operands that stay there throughout a program; `None` where a unit is a processor's core, whose
    /// caches keep operands.
    pub fn resident_bytes(&self) -> Option<usize> {
        // The limit of static arrays, by which lanes exchange values.
        const STATIC: usize = 48 << 10;
        self.exchange?;
        self.limits.on_chip_bytes.checked_sub(STATIC)
    }

    /// The same machine without shared memory for operands.
    pub fn without_residents(mut self) -> Self {
        self.limits.on_chip_bytes = 0;
        self
    }

    /// The number of units in the innermost group; all units if there are no groups.
    pub fn group_units(&self) -> usize {
        let group = self.count(LevelKind::Group);
        group.unwrap_or_else(|| self.units()).max(1)
    }

    fn count(&self, kind: LevelKind) -> Option<usize> {
        let level = self.levels.iter().find(|l| l.kind == kind);
        level.map(|l| l.count)
    }

    /// The number of groups over which `units` units spread.
    pub fn groups(&self, units: usize) -> usize {
        units.div_ceil(self.group_units()).max(1)
    }

    /// The rates for elements of a type: those of the narrowest listed type of its class that is at least as wide, else of
    /// the widest one.
    pub fn arithmetic(&self, scalar: Scalar) -> Arithmetic {
        let same = || self.arithmetic.iter().filter(|a| a.0.class == scalar.class);
        let wide = same().filter(|a| a.0.bits >= scalar.bits);
        let found = wide.min_by_key(|a| a.0.bits);
        let found = found.or_else(|| same().max_by_key(|a| a.0.bits));
        found
            .or(self.arithmetic.first())
            .map_or_else(Arithmetic::default, |a| a.1)
    }

    /// A barrier of `units` units, including the wait for the last to arrive. Nanoseconds.
    pub fn barrier_ns(&self, units: usize) -> f64 {
        self.syncs.barrier.ns(units, self.groups(units))
    }

    /// All of `units` units wait for one. Nanoseconds beyond its arrival.
    pub fn one_to_all_ns(&self, units: usize) -> f64 {
        self.syncs.one_to_all.ns(units, self.groups(units))
    }

    /// One unit waits for all of `units` units. Nanoseconds beyond the last arrival.
    pub fn all_to_one_ns(&self, units: usize) -> f64 {
        self.syncs.all_to_one.ns(units, self.groups(units))
    }

    /// The same machine with a barrier of all its units that takes `ns`; waits change in proportion.
    pub fn with_barrier_ns(mut self, ns: f64) -> Self {
        let now = self.barrier_ns(self.units());
        if now > 0.0 {
            self.syncs = self.syncs.scaled(ns / now);
        } else {
            self.syncs.barrier = Cost::fixed(ns);
        }
        self
    }

    /// The memory level that a working set comes from: the nearest that keeps data between operators and holds `own`
    /// bytes of each of `units` units that work at the same time on `whole` distinct bytes together.
    pub fn memory(&self, own: f64, whole: f64, units: usize) -> &Memory {
        let fits = |m: &&Memory| m.keeps && self.footprint(m, own, whole, units) <= m.bytes;
        let found = self.memories.iter().find(fits);
        found.unwrap_or_else(|| self.farthest())
    }

    /// The last memory level.
    ///
    /// # Panics
    ///
    /// If the machine has no memory, which no constructor makes.
    pub fn farthest(&self) -> &Memory {
        self.memories.last().expect("a machine has memory")
    }

    /// The nearest memory that keeps data between operators: a core's L2, a tile's memory, the L2 of a GPU.
    pub fn resident(&self) -> &Memory {
        let found = self.memories.iter().find(|m| m.keeps);
        found.unwrap_or_else(|| self.farthest())
    }

    /// The last memory before the farthest that keeps data between operators: an L3, the L2 of a GPU. The farthest if
    /// there is no other.
    pub fn last_cache(&self) -> &Memory {
        let (_, near) = self.memories.split_last().unwrap_or((self.farthest(), &[]));
        let last = near.iter().rev().find(|m| m.keeps);
        last.unwrap_or_else(|| self.farthest())
    }

    /// Bytes per nanosecond that one unit gets of a memory while `units` units read it.
    pub fn unit_rate(&self, memory: &Memory, units: usize) -> f64 {
        let sharers = units.min(self.sharers(memory)).max(1);
        memory.unit_rate.min(memory.rate / sharers as f64)
    }

    /// Bytes per nanosecond that all units together get of a memory.
    pub fn whole_rate(&self, memory: &Memory) -> f64 {
        self.units() as f64 * self.unit_rate(memory, self.units())
    }

    /// Bytes of all instances of a memory.
    pub fn whole_bytes(&self, memory: &Memory) -> f64 {
        let instances = self.units().div_ceil(self.sharers(memory));
        memory.bytes * instances as f64
    }

    /// The most units that share one instance of a memory.
    fn sharers(&self, memory: &Memory) -> usize {
        match memory.shared_by {
            SharedBy::Unit => 1,
            SharedBy::Group => self.group_units(),
            SharedBy::All => self.units(),
        }
    }

    /// The bytes that one instance of a memory must hold.
    fn footprint(&self, memory: &Memory, own: f64, whole: f64, units: usize) -> f64 {
        let sharers = units.min(self.sharers(memory)).max(1);
        (own * sharers as f64).min(whole).max(own)
    }
}

/// The largest power of two that divides a number.
fn whole_power(n: usize) -> usize {
    1 << n.max(1).trailing_zeros()
}

#[cfg(test)]
mod tests;
