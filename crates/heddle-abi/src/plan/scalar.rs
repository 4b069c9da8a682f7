//! Scalar operations of memory plans, as the ops' documentation in the graph IR defines them.

use half::{bf16, f16};

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IntKind {
    /// Its width, 1 to 64.
    pub bits: u32,
    /// Two's complement.
    pub signed: bool,
}

/// A float type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum FloatKind {
    F16,
    Bf16,
    F32,
    F64,
}

/// Integer arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum IntOp {
    Add,
    Sub,
    Mul,
    /// Toward zero.
    Div,
    /// Remainder with the divisor's sign.
    Mod,
    /// Remainder with the dividend's sign.
    Rem,
    Pow,
    Max,
    Min,
    And,
    Or,
    Xor,
    /// By the width or more, or by a negative number: 0.
    Shl,
    /// Logical; by the width or more, or by a negative number: 0.
    Shr,
}

/// Float arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum FloatOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Rem,
    Pow,
    /// NaN if either is.
    Max,
    /// NaN if either is.
    Min,
    Atan2,
}

/// A function of a float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Function {
    Neg,
    Abs,
    Sign,
    Floor,
    Ceil,
    /// To nearest, ties to even.
    Round,
    Trunc,
    Sqrt,
    Exp,
    Log,
    Expm1,
    Log1p,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Sigmoid,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// The numbers that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// Integers of this type.
    Integers(IntKind),
    /// Floats.
    Floats,
}

impl IntKind {
    /// `i64`, the type of sizes.
    pub const I64: IntKind = IntKind {
        bits: 64,
        signed: true,
    };

    /// The low bits of an integer, extended.
    pub fn wrap(self, value: i64) -> i64 {
        let spare = 64 - self.bits;
        match self.signed {
            true => value << spare >> spare,
            false => ((value as u64) << spare >> spare) as i64,
        }
    }

    /// The number that is meant.
    pub fn wide(self, value: i64) -> i128 {
        match self.signed {
            true => i128::from(value),
            false => i128::from(value as u64),
        }
    }

    /// A float, truncated and clamped.
    pub fn clamp(self, value: f64) -> i64 {
        let all = i128::MAX >> (127 - self.bits);
        let (low, high) = match self.signed {
            true => (-(all / 2) - 1, all / 2),
            false => (0, all),
        };
        // Saturates; NaN gives 0.
        (value as i128).clamp(low, high) as i64
    }
}

impl IntOp {
    /// The result before it is wrapped. Exact but for products of 64-bit unsigned numbers, `Pow` and `Shl`.
    pub fn apply(self, kind: IntKind, a: i64, b: i64) -> i128 {
        let (x, y) = (kind.wide(a), kind.wide(b));
        let or_zero = |f: fn(i128, i128) -> i128| if y == 0 { 0 } else { f(x, y) };
        let unsigned = |v: i64| {
            IntKind {
                signed: false,
                ..kind
            }
            .wrap(v) as u64
        };
        let shift = u32::try_from(y).ok().filter(|s| *s < kind.bits);
        match self {
            IntOp::Add => x + y,
            IntOp::Sub => x - y,
            IntOp::Mul => x.wrapping_mul(y),
            IntOp::Div => or_zero(|x, y| x / y),
            IntOp::Rem => or_zero(|x, y| x % y),
            IntOp::Mod => or_zero(|x, y| (x % y + y) % y),
            IntOp::Pow => power(kind, x, y),
            IntOp::Max => x.max(y),
            IntOp::Min => x.min(y),
            IntOp::And => x & y,
            IntOp::Or => x | y,
            IntOp::Xor => x ^ y,
            IntOp::Shl => shift.map_or(0, |s| i128::from(kind.wrap(a << s))),
            IntOp::Shr => shift.map_or(0, |s| i128::from(unsigned(a) >> s)),
        }
    }
}

/// By repeated multiplication, wrapping; a negative exponent gives the truncated quotient.
fn power(kind: IntKind, base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut factor, mut n) = (1u64, base as u64, exponent as u64);
    while n > 0 {
        if n & 1 == 1 {
            result = result.wrapping_mul(factor);
        }
        factor = factor.wrapping_mul(factor);
        n >>= 1;
    }
    i128::from(kind.wrap(result as i64))
}

impl FloatOp {
    /// In double precision.
    pub fn apply(self, a: f64, b: f64) -> f64 {
        let nan = a.is_nan() || b.is_nan();
        match self {
            FloatOp::Add => a + b,
            FloatOp::Sub => a - b,
            FloatOp::Mul => a * b,
            FloatOp::Div => a / b,
            FloatOp::Rem => a % b,
            FloatOp::Mod => match a % b {
                r if r != 0.0 && (r < 0.0) != (b < 0.0) => r + b,
                r => r,
            },
            FloatOp::Pow => a.powf(b),
            FloatOp::Max | FloatOp::Min if nan => f64::NAN,
            FloatOp::Max => a.max(b),
            FloatOp::Min => a.min(b),
            FloatOp::Atan2 => a.atan2(b),
        }
    }
}

impl Function {
    /// In double precision.
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Function::Neg => -x,
            Function::Abs => x.abs(),
            Function::Sign if x == 0.0 || x.is_nan() => x,
            Function::Sign => x.signum(),
            Function::Floor => x.floor(),
            Function::Ceil => x.ceil(),
            Function::Round => x.round_ties_even(),
            Function::Trunc => x.trunc(),
            Function::Sqrt => x.sqrt(),
            Function::Exp => x.exp(),
            Function::Log => x.ln(),
            Function::Expm1 => x.exp_m1(),
            Function::Log1p => x.ln_1p(),
            Function::Sin => x.sin(),
            Function::Cos => x.cos(),
            Function::Tan => x.tan(),
            Function::Asin => x.asin(),
            Function::Acos => x.acos(),
            Function::Atan => x.atan(),
            Function::Sinh => x.sinh(),
            Function::Cosh => x.cosh(),
            Function::Tanh => x.tanh(),
            Function::Asinh => x.asinh(),
            Function::Acosh => x.acosh(),
            Function::Atanh => x.atanh(),
            Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        }
    }
}

impl Comparison {
    /// Comparisons with NaN but `Ne` are false.
    pub fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        match self {
            Comparison::Eq => a == b,
            Comparison::Ne => a != b,
            Comparison::Lt => a < b,
            Comparison::Le => a <= b,
            Comparison::Gt => a > b,
            Comparison::Ge => a >= b,
        }
    }
}

impl FloatKind {
    /// The nearest number of the type.
    pub fn round(self, x: f64) -> f64 {
        match self {
            FloatKind::F16 => f16::from_f64(x).to_f64(),
            FloatKind::Bf16 => bf16::from_f64(x).to_f64(),
            FloatKind::F32 => f64::from(x as f32),
            FloatKind::F64 => x,
        }
    }

    /// The bits of a number of the type, zero-extended.
    pub fn bits(self, x: f64) -> i64 {
        match self {
            FloatKind::F16 => i64::from(f16::from_f64(x).to_bits()),
            FloatKind::Bf16 => i64::from(bf16::from_f64(x).to_bits()),
            FloatKind::F32 => i64::from((x as f32).to_bits()),
            FloatKind::F64 => x.to_bits() as i64,
        }
    }

    /// The number of the type with these low bits.
    pub fn from_bits(self, bits: i64) -> f64 {
        match self {
            FloatKind::F16 => f16::from_bits(bits as u16).to_f64(),
            FloatKind::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            FloatKind::F32 => f64::from(f32::from_bits(bits as u32)),
            FloatKind::F64 => f64::from_bits(bits as u64),
        }
    }
}
