//! Arithmetic of the element types, as the op set defines it.

use crate::value::Elem;

/// Numbers that can be computed with: integers wrap, dividing an integer by zero gives zero.
pub trait Num: Elem + Copy + PartialOrd {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The lowest value: what the maximum of nothing is.
    const LOWEST: Self;
    /// The highest value: what the minimum of nothing is.
    const HIGHEST: Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// The remainder with the divisor's sign.
    fn modulo(self, other: Self) -> Self;
    /// The remainder with the dividend's sign.
    fn rem(self, other: Self) -> Self;
    fn pow(self, other: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
    fn is_nan(self) -> bool;

    /// The larger one; NaN if either is.
    #[inline]
    fn larger(self, other: Self) -> Self {
        if self > other || self.is_nan() {
            self
        } else {
            other
        }
    }
    /// The smaller one; NaN if either is.
    #[inline]
    fn smaller(self, other: Self) -> Self {
        if self < other || self.is_nan() {
            self
        } else {
            other
        }
    }
    /// A total order: NaN is larger than all numbers.
    #[inline]
    fn order(self, other: Self) -> std::cmp::Ordering {
        self.partial_cmp(&other)
            .unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
    }
}

/// Integers.
pub trait Int: Num + Eq {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn not(self) -> Self;
    fn shl(self, other: Self) -> Self;
    /// Logical: zeros come in from the left.
    fn shr(self, other: Self) -> Self;
    /// For ranges.
    fn widen(self) -> i128;
}

/// Floats.
pub trait Float: Num {
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn round(self) -> Self;
    fn trunc(self) -> Self;
    fn sqrt(self) -> Self;
    fn exp(self) -> Self;
    fn log(self) -> Self;
    fn expm1(self) -> Self;
    fn log1p(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn tan(self) -> Self;
    fn asin(self) -> Self;
    fn acos(self) -> Self;
    fn atan(self) -> Self;
    fn sinh(self) -> Self;
    fn cosh(self) -> Self;
    fn tanh(self) -> Self;
    fn asinh(self) -> Self;
    fn acosh(self) -> Self;
    fn atanh(self) -> Self;
    fn erf(self) -> Self;
    fn sigmoid(self) -> Self;
    fn atan2(self, other: Self) -> Self;
    fn is_infinite(self) -> bool;
    fn widen(self) -> f64;
    fn narrow(v: f64) -> Self;
}

macro_rules! ints {
    ($($t:ty, $unsigned:ty, $signed:literal;)*) => { $(
        impl Num for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = <$t>::MIN;
            const HIGHEST: Self = <$t>::MAX;
            #[inline]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline]
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline]
            #[allow(unused_comparisons)]
            fn modulo(self, other: Self) -> Self {
                let r = self.rem(other);
                if r != 0 && (r < 0) != (other < 0) { r.wrapping_add(other) } else { r }
            }
            #[inline]
            fn rem(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[allow(unused_comparisons)]
            fn pow(self, exponent: Self) -> Self {
                if exponent < 0 {
                    // The quotient of one and a power is 0 unless the base is 1 or -1.
                    let odd = exponent & 1 == 1;
                    return match self {
                        1 => 1,
                        b if $signed && b == (0 as $t).wrapping_sub(1) => if odd { b } else { 1 },
                        _ => 0,
                    };
                }
                let (mut base, mut rest, mut result) = (self, exponent, 1 as $t);
                while rest > 0 {
                    if rest & 1 == 1 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    rest >>= 1;
                }
                result
            }
            #[inline]
            fn neg(self) -> Self { self.wrapping_neg() }
            #[inline]
            #[allow(unused_comparisons)]
            fn abs(self) -> Self { if self < 0 { self.wrapping_neg() } else { self } }
            #[inline]
            #[allow(unused_comparisons)]
            fn sign(self) -> Self {
                if self > 0 { 1 } else if self < 0 { (0 as $t).wrapping_sub(1) } else { 0 }
            }
            #[inline]
            fn is_nan(self) -> bool { false }
        }

        impl Int for $t {
            #[inline]
            fn and(self, other: Self) -> Self { self & other }
            #[inline]
            fn or(self, other: Self) -> Self { self | other }
            #[inline]
            fn xor(self, other: Self) -> Self { self ^ other }
            #[inline]
            fn not(self) -> Self { !self }
            #[inline]
            fn shl(self, other: Self) -> Self {
                let by = u32::try_from(other).unwrap_or(u32::MAX);
                self.checked_shl(by).unwrap_or(0)
            }
            #[inline]
            fn shr(self, other: Self) -> Self {
                let by = u32::try_from(other).unwrap_or(u32::MAX);
                (self as $unsigned).checked_shr(by).unwrap_or(0) as $t
            }
            #[inline]
            fn widen(self) -> i128 { self as i128 }
        }
    )* };
}
ints! {
    i8, u8, true; i16, u16, true; i32, u32, true; i64, u64, true;
    u8, u8, false; u16, u16, false; u32, u32, false; u64, u64, false;
}

macro_rules! floats {
    ($($t:ident: $erf:ident $asinh:ident $acosh:ident $atanh:ident;)*) => { $(
        impl Num for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LOWEST: Self = $t::NEG_INFINITY;
            const HIGHEST: Self = $t::INFINITY;
            #[inline]
            fn add(self, other: Self) -> Self { self + other }
            #[inline]
            fn sub(self, other: Self) -> Self { self - other }
            #[inline]
            fn mul(self, other: Self) -> Self { self * other }
            #[inline]
            fn div(self, other: Self) -> Self { self / other }
            #[inline]
            fn modulo(self, other: Self) -> Self {
                let r = self % other;
                if r == 0.0 {
                    (0.0 as $t).copysign(other)
                } else if (r < 0.0) != (other < 0.0) {
                    r + other
                } else {
                    r
                }
            }
            #[inline]
            fn rem(self, other: Self) -> Self { self % other }
            #[inline]
            fn pow(self, other: Self) -> Self {
                // Squares are exact but for one rounding, so that they may be written as products.
                if other == 2.0 { self * self } else { self.powf(other) }
            }
            #[inline]
            fn neg(self) -> Self { -self }
            #[inline]
            fn abs(self) -> Self { $t::abs(self) }
            #[inline]
            fn sign(self) -> Self {
                if self > 0.0 { 1.0 } else if self < 0.0 { -1.0 } else if self == 0.0 { 0.0 } else { self }
            }
            #[inline]
            fn is_nan(self) -> bool { $t::is_nan(self) }
        }

        impl Float for $t {
            #[inline]
            fn floor(self) -> Self { $t::floor(self) }
            #[inline]
            fn ceil(self) -> Self { $t::ceil(self) }
            #[inline]
            fn round(self) -> Self { self.round_ties_even() }
            #[inline]
            fn trunc(self) -> Self { $t::trunc(self) }
            #[inline]
            fn sqrt(self) -> Self { $t::sqrt(self) }
            fn exp(self) -> Self { $t::exp(self) }
            fn log(self) -> Self { self.ln() }
            fn expm1(self) -> Self { self.exp_m1() }
            fn log1p(self) -> Self { self.ln_1p() }
            fn sin(self) -> Self { $t::sin(self) }
            fn cos(self) -> Self { $t::cos(self) }
            fn tan(self) -> Self { $t::tan(self) }
            fn asin(self) -> Self { $t::asin(self) }
            fn acos(self) -> Self { $t::acos(self) }
            fn atan(self) -> Self { $t::atan(self) }
            fn sinh(self) -> Self { $t::sinh(self) }
            fn cosh(self) -> Self { $t::cosh(self) }
            fn tanh(self) -> Self { $t::tanh(self) }
            fn asinh(self) -> Self { libm::$asinh(self) }
            fn acosh(self) -> Self { libm::$acosh(self) }
            fn atanh(self) -> Self { libm::$atanh(self) }
            fn erf(self) -> Self { libm::$erf(self) }
            fn sigmoid(self) -> Self {
                if self >= 0.0 {
                    1.0 / (1.0 + $t::exp(-self))
                } else {
                    let e = $t::exp(self);
                    e / (1.0 + e)
                }
            }
            fn atan2(self, other: Self) -> Self { $t::atan2(self, other) }
            #[inline]
            fn is_infinite(self) -> bool { $t::is_infinite(self) }
            #[inline]
            fn widen(self) -> f64 { self as f64 }
            #[inline]
            fn narrow(v: f64) -> Self { v as $t }
        }
    )* };
}
floats! { f32: erff asinhf acoshf atanhf; f64: erf asinh acosh atanh; }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_edges() {
        assert_eq!(Num::div(i32::MIN, -1), i32::MIN);
        assert_eq!(Num::div(7u8, 0), 0);
        assert_eq!(
            (Num::modulo(-7, 3), Num::modulo(7, -3), Num::rem(-7, 3)),
            (2, -2, -1)
        );
        assert_eq!(
            (Num::pow(2i32, -1), Num::pow(-1i32, -3), Num::pow(0i32, -1)),
            (0, -1, 0)
        );
        assert_eq!((Num::pow(3u8, 5), Num::pow(2i64, 63)), (243, i64::MIN));
        assert_eq!(
            (Int::shl(1u8, 8), Int::shr(-1i8, 7), Int::shl(1i32, -1)),
            (0, 1, 0)
        );
        assert_eq!(Num::abs(i8::MIN), i8::MIN);
    }

    #[test]
    fn float_edges() {
        assert!(Num::larger(f32::NAN, 1.0).is_nan() && Num::larger(1.0, f32::NAN).is_nan());
        assert!(Num::smaller(f32::NAN, 1.0).is_nan() && Num::smaller(1.0, f32::NAN).is_nan());
        assert_eq!(
            (Num::modulo(-5.5f64, 2.0), Num::modulo(5.5f64, -2.0)),
            (0.5, -0.5)
        );
        assert!(Num::sign(f32::NAN).is_nan());
        assert_eq!(
            (Float::sigmoid(-1e4f32), Float::sigmoid(1e4f32)),
            (0.0, 1.0)
        );
        assert_eq!(Float::round(2.5f32), 2.0);
    }
}
