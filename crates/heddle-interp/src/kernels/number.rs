//! Arithmetic of the element types, as the op set (`heddle_ir::op`) defines it: a table of
//! operations for bools, one for integers and one for floats.

use std::cmp::Ordering;

use heddle_ir::op::{BinaryOp, ReduceOp, UnaryOp};

use super::random::{gumbel, normal, philox};
use crate::value::Elem;

/// A number on its way from one type to another: exact in either case.
#[derive(Clone, Copy)]
pub enum Number {
    /// An integer or bool.
    Int(i128),
    /// A float.
    Float(f64),
}

impl Number {
    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Float(f) => f,
        }
    }
}

/// The neutral element and the operation of a reduction.
pub type Combine<T> = (T, fn(T, T) -> T);

/// Numbers and bools.
pub trait Scalar: Elem + Copy + PartialOrd {
    /// Exactly this number.
    fn number(self) -> Number;
    /// The conversion of the op `cast`: to floats rounds to nearest; from floats truncates and
    /// saturates; among integers wraps.
    fn from_number(number: Number) -> Self;
    /// Appends `op` of each element; `false` if it is not defined for the type.
    fn unary(op: UnaryOp, x: &[Self], out: &mut Vec<Self>) -> bool;
    /// Appends `op` of each pair; `false` if it is not defined for the type.
    fn binary(op: BinaryOp, x: &[Self], y: &[Self], out: &mut Vec<Self>) -> bool;
    /// The reduction, if it is defined for the type.
    fn combine(kind: ReduceOp) -> Option<Combine<Self>>;

    /// True for NaN, the only value that is not equal to itself.
    fn is_nan(self) -> bool {
        self.partial_cmp(&self).is_none()
    }
    /// The larger one; NaN if either is.
    fn larger(self, other: Self) -> Self {
        if self > other || self.is_nan() {
            self
        } else {
            other
        }
    }
    /// The smaller one; NaN if either is.
    fn smaller(self, other: Self) -> Self {
        if self < other || self.is_nan() {
            self
        } else {
            other
        }
    }
    /// A total order: NaN is larger than all numbers.
    fn order(self, other: Self) -> Ordering {
        let nan_last = || self.is_nan().cmp(&other.is_nan());
        self.partial_cmp(&other).unwrap_or_else(nan_last)
    }
}

/// Numbers: integers wrap.
pub trait Num: Scalar {
    /// Zero.
    const ZERO: Self;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}

fn map<T: Copy>(x: &[T], out: &mut Vec<T>, f: impl Fn(T) -> T) -> bool {
    out.extend(x.iter().map(|&v| f(v)));
    true
}

fn zip<T: Copy>(x: &[T], y: &[T], out: &mut Vec<T>, f: impl Fn(T, T) -> T) -> bool {
    out.extend(x.iter().zip(y).map(|(&a, &b)| f(a, b)));
    true
}

impl Scalar for bool {
    fn number(self) -> Number {
        Number::Int(self.into())
    }
    fn from_number(number: Number) -> Self {
        match number {
            Number::Int(i) => i != 0,
            Number::Float(f) => f != 0.0,
        }
    }
    fn unary(op: UnaryOp, x: &[Self], out: &mut Vec<Self>) -> bool {
        op == UnaryOp::Not && map(x, out, |v| !v)
    }
    fn binary(op: BinaryOp, x: &[Self], y: &[Self], out: &mut Vec<Self>) -> bool {
        match op {
            BinaryOp::And | BinaryOp::Min => zip(x, y, out, |a, b| a & b),
            BinaryOp::Or | BinaryOp::Max => zip(x, y, out, |a, b| a | b),
            BinaryOp::Xor => zip(x, y, out, |a, b| a ^ b),
            _ => false,
        }
    }
    fn combine(kind: ReduceOp) -> Option<Combine<Self>> {
        match kind {
            ReduceOp::Max => Some((false, |a, b| a | b)),
            ReduceOp::Min => Some((true, |a, b| a & b)),
            ReduceOp::Sum | ReduceOp::Prod => None,
        }
    }
}

/// Items that integers and floats share.
macro_rules! scalar {
    ($t:ident, $number:ident($wide:ty), $one:literal, $lowest:expr, $highest:expr) => {
        fn number(self) -> Number {
            Number::$number(self as $wide)
        }
        fn from_number(number: Number) -> Self {
            match number {
                Number::Int(i) => i as $t,
                Number::Float(f) => f as $t,
            }
        }
        fn combine(kind: ReduceOp) -> Option<Combine<Self>> {
            Some(match kind {
                ReduceOp::Sum => (Self::ZERO, Num::add),
                ReduceOp::Prod => ($one, Num::mul),
                ReduceOp::Max => ($lowest, Scalar::larger),
                ReduceOp::Min => ($highest, Scalar::smaller),
            })
        }
    };
}

macro_rules! ints {
    ($($t:ident: $unsigned:ty;)*) => { $(
        impl Num for $t {
            const ZERO: Self = 0;
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Scalar for $t {
            scalar!($t, Int(i128), 1, $t::MIN, $t::MAX);

            #[allow(unused_comparisons)]
            fn unary(op: UnaryOp, x: &[$t], out: &mut Vec<$t>) -> bool {
                match op {
                    UnaryOp::Neg => map(x, out, |v| v.wrapping_neg()),
                    UnaryOp::Abs => map(x, out, |v| if v < 0 { v.wrapping_neg() } else { v }),
                    UnaryOp::Sign => map(x, out, |v| match v < 0 {
                        true => (0 as $t).wrapping_sub(1),
                        false => (v > 0) as $t,
                    }),
                    UnaryOp::Not => map(x, out, |v| !v),
                    _ => false,
                }
            }

            #[allow(unused_comparisons)]
            fn binary(op: BinaryOp, x: &[$t], y: &[$t], out: &mut Vec<$t>) -> bool {
                let rem = |a: $t, b: $t| if b == 0 { 0 } else { a.wrapping_rem(b) };
                let by = |b: $t| u32::try_from(b).unwrap_or(u32::MAX);
                match op {
                    BinaryOp::Add => zip(x, y, out, |a, b| a.wrapping_add(b)),
                    BinaryOp::Sub => zip(x, y, out, |a, b| a.wrapping_sub(b)),
                    BinaryOp::Mul => zip(x, y, out, |a, b| a.wrapping_mul(b)),
                    BinaryOp::Div => {
                        zip(x, y, out, |a, b| if b == 0 { 0 } else { a.wrapping_div(b) })
                    }
                    BinaryOp::Mod => zip(x, y, out, |a, b| {
                        let r = rem(a, b);
                        if r != 0 && (r < 0) != (b < 0) { r.wrapping_add(b) } else { r }
                    }),
                    BinaryOp::Rem => zip(x, y, out, rem),
                    BinaryOp::Pow => zip(x, y, out, |a, b| {
                        let exponent = b as i128;
                        <$t>::from_number(Number::Int(power(a as i128, exponent)))
                    }),
                    BinaryOp::Max => zip(x, y, out, Ord::max),
                    BinaryOp::Min => zip(x, y, out, Ord::min),
                    BinaryOp::And => zip(x, y, out, |a, b| a & b),
                    BinaryOp::Or => zip(x, y, out, |a, b| a | b),
                    BinaryOp::Xor => zip(x, y, out, |a, b| a ^ b),
                    BinaryOp::Shl => zip(x, y, out, |a, b| a.checked_shl(by(b)).unwrap_or(0)),
                    BinaryOp::Shr => zip(x, y, out, |a, b| {
                        (a as $unsigned).checked_shr(by(b)).unwrap_or(0) as $t
                    }),
                    BinaryOp::Philox => {
                        zip(x, y, out, |a, b| philox(a as u64, b as u64) as $t)
                    }
                    BinaryOp::Normal => {
                        zip(x, y, out, |a, b| normal(a as u64, b as u64) as $t)
                    }
                    BinaryOp::Gumbel => {
                        zip(x, y, out, |a, b| gumbel(a as u64, b as u64) as $t)
                    }
                    BinaryOp::Atan2 => false,
                }
            }
        }
    )* };
}
ints! { i8: u8; i16: u16; i32: u32; i64: u64; u8: u8; u16: u16; u32: u32; u64: u64; }

/// A power by repeated squaring, modulo 2^128. A negative exponent gives the truncated quotient of
/// one and the power.
fn power(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    let (mut base, mut rest, mut result) = (base, exponent, 1i128);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        rest >>= 1;
    }
    result
}

macro_rules! floats {
    ($($t:ident: $erf:ident $asinh:ident $acosh:ident $atanh:ident;)*) => { $(
        impl Num for $t {
            const ZERO: Self = 0.0;
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
        }

        impl Scalar for $t {
            scalar!($t, Float(f64), 1.0, $t::NEG_INFINITY, $t::INFINITY);

            fn unary(op: UnaryOp, x: &[$t], out: &mut Vec<$t>) -> bool {
                match op {
                    UnaryOp::Neg => map(x, out, |v| -v),
                    UnaryOp::Abs => map(x, out, $t::abs),
                    UnaryOp::Sign => map(x, out, |v| match v == 0.0 {
                        true => 0.0,
                        false => v.signum(),
                    }),
                    UnaryOp::Floor => map(x, out, $t::floor),
                    UnaryOp::Ceil => map(x, out, $t::ceil),
                    UnaryOp::Round => map(x, out, $t::round_ties_even),
                    UnaryOp::Trunc => map(x, out, $t::trunc),
                    UnaryOp::Sqrt => map(x, out, $t::sqrt),
                    UnaryOp::Exp => map(x, out, $t::exp),
                    UnaryOp::Log => map(x, out, $t::ln),
                    UnaryOp::Expm1 => map(x, out, $t::exp_m1),
                    UnaryOp::Log1p => map(x, out, $t::ln_1p),
                    UnaryOp::Sin => map(x, out, $t::sin),
                    UnaryOp::Cos => map(x, out, $t::cos),
                    UnaryOp::Tan => map(x, out, $t::tan),
                    UnaryOp::Asin => map(x, out, $t::asin),
                    UnaryOp::Acos => map(x, out, $t::acos),
                    UnaryOp::Atan => map(x, out, $t::atan),
                    UnaryOp::Sinh => map(x, out, $t::sinh),
                    UnaryOp::Cosh => map(x, out, $t::cosh),
                    UnaryOp::Tanh => map(x, out, $t::tanh),
                    UnaryOp::Asinh => map(x, out, libm::$asinh),
                    UnaryOp::Acosh => map(x, out, libm::$acosh),
                    UnaryOp::Atanh => map(x, out, libm::$atanh),
                    UnaryOp::Erf => map(x, out, libm::$erf),
                    UnaryOp::Sigmoid => map(x, out, |v| {
                        let e = (-v.abs()).exp();
                        if v >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
                    }),
                    UnaryOp::Not | UnaryOp::IsNan | UnaryOp::IsInf => false,
                }
            }

            fn binary(op: BinaryOp, x: &[$t], y: &[$t], out: &mut Vec<$t>) -> bool {
                match op {
                    BinaryOp::Add => zip(x, y, out, |a, b| a + b),
                    BinaryOp::Sub => zip(x, y, out, |a, b| a - b),
                    BinaryOp::Mul => zip(x, y, out, |a, b| a * b),
                    BinaryOp::Div => zip(x, y, out, |a, b| a / b),
                    BinaryOp::Mod => zip(x, y, out, |a, b| {
                        let r = a % b;
                        match r == 0.0 {
                            true => (0.0 as $t).copysign(b),
                            false if (r < 0.0) != (b < 0.0) => r + b,
                            false => r,
                        }
                    }),
                    BinaryOp::Rem => zip(x, y, out, |a, b| a % b),
                    // Squares are exact but for one rounding, so that they may be written as
                    // products.
                    BinaryOp::Pow => {
                        zip(x, y, out, |a, b| if b == 2.0 { a * a } else { a.powf(b) })
                    }
                    BinaryOp::Max => zip(x, y, out, Scalar::larger),
                    BinaryOp::Min => zip(x, y, out, Scalar::smaller),
                    BinaryOp::Atan2 => zip(x, y, out, $t::atan2),
                    _ => false,
                }
            }
        }
    )* };
}
floats! { f32: erff asinhf acoshf atanhf; f64: erf asinh acosh atanh; }

#[cfg(test)]
mod tests {
    use heddle_ir::op::BinaryOp::*;

    use super::*;

    fn binary<T: Scalar>(op: BinaryOp, a: T, b: T) -> T {
        let mut out = vec![];
        assert!(T::binary(op, &[a], &[b], &mut out));
        out[0]
    }

    fn unary<T: Scalar>(op: UnaryOp, a: T) -> T {
        let mut out = vec![];
        assert!(T::unary(op, &[a], &mut out));
        out[0]
    }

    #[test]
    fn integer_edges() {
        assert_eq!(binary(Div, i32::MIN, -1), i32::MIN);
        assert_eq!(binary(Div, 7u8, 0), 0);
        assert_eq!(
            (binary(Mod, -7, 3), binary(Mod, 7, -3), binary(Rem, -7, 3)),
            (2, -2, -1)
        );
        assert_eq!(
            (binary(Pow, 2, -1), binary(Pow, -1, -3), binary(Pow, 0, -1)),
            (0, -1, 0)
        );
        assert_eq!(
            (binary(Pow, 3u8, 5), binary(Pow, 2i64, 63)),
            (243, i64::MIN)
        );
        assert_eq!((binary(Pow, 255u8, 255), binary(Pow, -1i8, -2)), (255, 1));
        assert_eq!(
            (
                binary(Shl, 1u8, 8),
                binary(Shr, -1i8, 7),
                binary(Shl, 1i32, -1)
            ),
            (0, 1, 0)
        );
        assert_eq!(unary(UnaryOp::Abs, i8::MIN), i8::MIN);
        assert_eq!(
            (unary(UnaryOp::Sign, -7i8), unary(UnaryOp::Sign, 7u8)),
            (-1, 1)
        );
    }

    #[test]
    fn float_edges() {
        assert!(binary(Max, f32::NAN, 1.0).is_nan() && binary(Max, 1.0, f32::NAN).is_nan());
        assert!(binary(Min, f32::NAN, 1.0).is_nan() && binary(Min, 1.0, f32::NAN).is_nan());
        assert_eq!(
            (binary(Mod, -5.5f64, 2.0), binary(Mod, 5.5f64, -2.0)),
            (0.5, -0.5)
        );
        assert!(unary(UnaryOp::Sign, f32::NAN).is_nan());
        let sigmoid = |v: f32| unary(UnaryOp::Sigmoid, v);
        assert_eq!((sigmoid(-1e4), sigmoid(1e4)), (0.0, 1.0));
        assert_eq!(unary(UnaryOp::Round, 2.5f32), 2.0);
    }
}
