//! Element types and the speed of arithmetic on them.

/// A class of element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Floating-point numbers of any format.
    Float,
    /// Integers, signed or not, and booleans.
    Int,
}

/// An element type, as far as its speed depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scalar {
    /// Its class.
    pub class: Class,
    /// Its width.
    pub bits: usize,
}

impl Scalar {
    /// A floating-point type of this width.
    pub const fn float(bits: usize) -> Self {
        Self {
            class: Class::Float,
            bits,
        }
    }

    /// An integer type of this width.
    pub const fn int(bits: usize) -> Self {
        Self {
            class: Class::Int,
            bits,
        }
    }
}

/// A type that tensor cores multiply; they add in `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cores {
    /// `f32` with 10 bits of its mantissa.
    Tf32,
    /// The upper half of an `f32`.
    Bf16,
    /// Half precision.
    F16,
}

/// Nanoseconds for an operation of one unit on one element, with all of its lanes at work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arithmetic {
    /// An addition, comparison or selection in compiled elementwise code, address arithmetic included.
    pub elementwise_ns: f64,
    /// A function such as an exponential or a power.
    pub transcendental_ns: f64,
    /// A multiplication with an addition in a contraction kernel.
    pub fma_ns: f64,
}
