//! Estimates of what instructions cost, to decide which transformations pay.

use heddle_ir::{Dim, Function, InstData, Op, Type, Value};

/// What a machine can do; rates are for all of its units together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostModel {
    /// Floating-point operations in a nanosecond.
    pub flops: f64,
    /// Bytes in a nanosecond from memory that a loop's weights fit in no nearer place than.
    pub weights: f64,
    /// Bytes in a nanosecond of intermediate arrays, written and read once.
    pub arrays: f64,
    /// Nanoseconds that a step of a loop costs besides its work.
    pub step: f64,
    /// Bytes that arrays between the loops which one loop becomes may take at any one time before they are made in chunks.
    pub chunk: f64,
    /// What a size that only the run knows is taken to be.
    pub unknown: f64,
    /// How many units may work on different layers of a stack at the same time; 1: none.
    pub units: usize,
    /// Bytes of a layer's weights that stay near one unit from step to step.
    pub near: f64,
}

impl Default for CostModel {
    /// Two cores of a server of 2023 with AVX.
    fn default() -> Self {
        Self {
            flops: 200.0,
            weights: 60.0,
            arrays: 80.0,
            step: 100.0,
            chunk: (4 << 20) as f64,
            unknown: 32.0,
            units: 1,
            near: (256 << 10) as f64,
        }
    }
}

impl CostModel {
    /// The size of an axis.
    pub fn size(&self, dim: &Dim) -> f64 {
        dim.as_const().map_or(self.unknown, |n| n as f64)
    }

    /// The elements of an array.
    pub fn elements(&self, ty: &Type) -> f64 {
        let shape = ty.as_tensor().and_then(|t| t.shape.as_deref());
        shape.map_or(self.unknown, |s| s.iter().map(|d| self.size(d)).product())
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

/// Whether an op is one of those that batches save weights for: sums of products.
pub fn is_contraction(op: &Op) -> bool {
    matches!(op, Op::Dot | Op::Conv { .. })
}
