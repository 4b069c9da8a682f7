//! Estimates of what instructions cost, to decide which transformations pay.

use heddle_ir::{Dim, Function, InstData, Op, Type, Value};
use heddle_machine::{Machine, Scalar, SharedBy};

/// Assumed value of a dynamic size.
pub const UNKNOWN_SIZE: f64 = 32.0;

/// Reads from the last cache that a byte of an intermediate array costs: it is fetched, written and
/// read again, in part while units compute.
const TRANSFERS: f64 = 2.5;

/// The share of the last cache that arrays between loops may take; weights take the rest.
const CHUNK: f64 = 1.0 / 8.0;

/// The share of a unit's resident memory that a layer's weights may take, next to its state and
/// inputs.
const NEAR: f64 = 0.5;

/// The most bytes of a layer's weights for which pipelining has been measured to pay
/// (docs/scheduler.md). A unit goes through the layers of its group chunk by chunk, so a larger
/// cache does not keep larger weights near.
const MOST_NEAR: f64 = 256.0 * 1024.0;

/// The share of the resident memory's rate that products with one row reach.
const STREAMING: f64 = 0.9;

/// Starts of operators that the walk of a call and the copies of its operands and results take
/// together.
const CALL_STARTS: f64 = 90.0;

/// Units that the rows of a batch occupy, however few columns its products have.
const FEW_UNITS: usize = 2;

/// Barriers of a level: its operators depend on each other.
const LEVEL_BARRIERS: f64 = 6.0;

/// Figures of a machine that transformations decide by; rates are for all of its units together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostModel {
    /// Floating-point operations in a nanosecond.
    pub flops: f64,
    /// Bytes in a nanosecond of a loop's weights from the farthest memory.
    pub weights: f64,
    /// Bytes in a nanosecond of intermediate arrays, written and read once.
    pub arrays: f64,
    /// Nanoseconds that a step of a loop costs besides its work.
    pub step: f64,
    /// Bytes of arrays between distributed loops above which they are made in chunks.
    pub chunk: f64,
    /// Assumed value of a dynamic size.
    pub unknown: f64,
    /// Units that may work on different layers of a stack at the same time; 1: none.
    pub units: usize,
    /// True if several units work on a layer together, as a team: its weights lie in a memory that all units share.
    pub teams: bool,
    /// Units that early work of a recursion may be streamed over, beside its levels: all of the
    /// machine; 1: it is not streamed.
    pub streamed: usize,
    /// Columns of a product that are not worth another unit: those of a kernel's tile, or enough
    /// for a unit's lanes at the assumed number of rows.
    pub tile: f64,
    /// Bytes of a layer's weights that stay near the units that work on it from step to step.
    pub near: f64,
    /// Bytes of weights that stay in the memories near all units from call to call.
    pub near_all: f64,
    /// Bytes in a nanosecond from there.
    pub near_rate: f64,
    /// Maximum number of a recursion's calls whose results are kept at once.
    pub frames: Option<usize>,
    /// Nanoseconds that a call in a batch takes more than one by itself, besides its contractions.
    pub call: f64,
    /// Nanoseconds that a level of batches takes besides its calls.
    pub level: f64,
}

impl CostModel {
    /// The figures of a machine, without pipelined layers.
    pub fn of(machine: &Machine) -> Self {
        let units = machine.units();
        let (near, cache) = (machine.resident(), machine.last_cache());
        let fma_ns = machine.arithmetic(Scalar::float(32)).fma_ns;
        let barrier = machine.barrier_ns(units);
        Self {
            flops: 2.0 * units as f64 / fma_ns,
            weights: machine.whole_rate(machine.farthest()),
            arrays: machine.whole_rate(cache) / TRANSFERS,
            step: machine.one_to_all_ns(units),
            chunk: CHUNK * machine.whole_bytes(cache),
            unknown: UNKNOWN_SIZE,
            units: 1,
            teams: near.shared_by == SharedBy::All && units > FEW_UNITS,
            streamed: if units > FEW_UNITS { units } else { 1 },
            tile: tile(machine),
            near: match near.shared_by {
                SharedBy::All => NEAR * machine.whole_bytes(near),
                _ => MOST_NEAR.min(NEAR * machine.whole_bytes(near) / units as f64),
            },
            near_all: machine.whole_bytes(near),
            near_rate: STREAMING * machine.whole_rate(near),
            frames: None,
            call: CALL_STARTS * machine.start_ns,
            level: LEVEL_BARRIERS * barrier,
        }
    }

    /// The size of an axis.
    pub fn size(&self, dim: &Dim) -> f64 {
        size(dim, self.unknown)
    }

    /// The elements of an array.
    pub fn elements(&self, ty: &Type) -> f64 {
        elements(ty, self.unknown)
    }

    /// The bytes of an array.
    pub fn bytes(&self, ty: &Type) -> f64 {
        let bits = ty.as_tensor().map_or(64, |t| t.dtype.bits());
        self.elements(ty) * bits as f64 / 8.0
    }

    /// The arithmetic of a contraction or convolution, 0 for others.
    pub fn contraction(&self, func: &Function, inst: &InstData) -> f64 {
        let shape = |v: &Value| func.ty(*v).as_tensor().and_then(|t| t.shape.as_deref());
        let result = || self.elements(func.ty(inst.results[0]));
        match &inst.op {
            Op::Dot => {
                let depth = shape(&inst.args[0]).and_then(|s| s.last());
                2.0 * result() * depth.map_or(self.unknown, |d| self.size(d))
            }
            Op::Conv { .. } => {
                let window = shape(&inst.args[1]).map_or(self.unknown, |s| {
                    s[1..].iter().map(|d| self.size(d)).product()
                });
                2.0 * result() * window
            }
            _ => 0.0,
        }
    }
}

/// Columns of a product of `f32` for one unit.
fn tile(machine: &Machine) -> f64 {
    let float = Scalar::float(32);
    let kernels = machine.kernels.iter();
    let own = kernels.filter(|k| k.scalars.is_empty() || k.scalars.contains(&float));
    let bytes = own.map(|k| k.tile.column_bytes).max().unwrap_or(0);
    let columns = bytes as f64 * 8.0 / float.bits as f64;
    let lanes = machine.lanes() as f64 / UNKNOWN_SIZE;
    columns.max(lanes).max(1.0)
}

/// The size of an axis; `unknown` if it is dynamic.
fn size(dim: &Dim, unknown: f64) -> f64 {
    dim.as_const().map_or(unknown, |n| n as f64)
}

/// The elements of an array whose dynamic sizes are taken to be `unknown`.
pub fn elements(ty: &Type, unknown: f64) -> f64 {
    let shape = ty.as_tensor().and_then(|t| t.shape.as_deref());
    shape.map_or(unknown, |s| s.iter().map(|d| size(d, unknown)).product())
}
