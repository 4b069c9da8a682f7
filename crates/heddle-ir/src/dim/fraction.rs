//! Expressions with a divisor: numbers that a program computes from sizes by way of floats.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Atom, Dim, DimExpr};

/// Divisors beyond this are not followed.
const MAX_DIVISOR: i64 = 1 << 20;

type Terms = BTreeMap<Vec<Atom>, i64>;

impl DimExpr {
    /// Is the value an integer for every binding of names?
    pub fn is_whole(&self) -> bool {
        self.over == 1
    }

    /// Numerator and denominator, if the value does not depend on names.
    pub(super) fn as_ratio(&self) -> Option<(i64, i64)> {
        match self.terms.len() {
            0 => Some((0, 1)),
            1 => Some((self.terms.get(&[][..]).copied()?, self.over)),
            _ => None,
        }
    }

    /// The expression times its divisor.
    pub(super) fn numerator(&self) -> Self {
        Self {
            terms: self.terms.clone(),
            over: 1,
        }
    }

    /// The expression over a further divisor, which is positive.
    pub(super) fn divided(self, by: i64) -> Option<Self> {
        let over = self.over.checked_mul(by).filter(|o| *o <= MAX_DIVISOR)?;
        Some(Self { over, ..self }.reduced())
    }

    /// Without factors that the divisor shares with all coefficients.
    pub(super) fn reduced(mut self) -> Self {
        if self.over == 1 {
            return self;
        }
        let shared = self.terms.values().fold(self.over, |g, c| gcd(g, *c));
        for c in self.terms.values_mut() {
            *c /= shared;
        }
        self.over /= shared;
        self
    }

    /// The terms of two expressions over a common divisor, and that divisor.
    pub(super) fn common<'a>(
        &'a self,
        other: &'a Self,
    ) -> Option<(Cow<'a, Terms>, Cow<'a, Terms>, i64)> {
        let shared = gcd(self.over, other.over);
        let over = (self.over / shared).checked_mul(other.over)?;
        let scaled = |e: &'a Self| match over / e.over {
            1 => Some(Cow::Borrowed(&e.terms)),
            by => {
                let scale = |(p, c): (&Vec<Atom>, &i64)| Some((p.clone(), c.checked_mul(by)?));
                Some(Cow::Owned(
                    e.terms.iter().map(scale).collect::<Option<_>>()?,
                ))
            }
        };
        (over <= MAX_DIVISOR).then_some(())?;
        Some((scaled(self)?, scaled(other)?, over))
    }
}

impl Dim {
    /// The number that a float is, if it has few binary places.
    pub fn of_float(value: f64) -> Dim {
        let places = f64::from(1 << 16);
        let scaled = value * places;
        match scaled.fract() == 0.0 && value.abs() < f64::from(1 << 24) {
            true => Dim::constant(scaled as i64).quotient(&Dim::constant(1 << 16)),
            false => Dim::UNKNOWN,
        }
    }

    /// Is the number an integer, or one that floats hold exactly: over a power of two?
    pub fn is_binary(&self) -> bool {
        self.as_expr().is_some_and(|e| e.over.count_ones() == 1)
    }

    /// Is the number an integer for every binding of names?
    pub fn is_whole(&self) -> bool {
        self.as_expr().is_some_and(DimExpr::is_whole)
    }

    /// The exact quotient by a constant that is not 0, or by what divides every term.
    pub fn quotient(&self, other: &Dim) -> Dim {
        self.combine(other, |a, b| match b.as_ratio() {
            Some((n, over)) => {
                let sign = DimExpr::constant(n.signum().checked_mul(over)?);
                (n != 0).then(|| a.checked_mul(&sign)?.divided(n.checked_abs()?))?
            }
            None => a.is_whole().then(|| a.exact_div(b))?,
        })
    }

    /// Rounded down.
    pub fn floor(&self) -> Dim {
        match self {
            Dim::Expr(e) if !e.is_whole() => {
                Dim::Expr(e.numerator()).floor_div(&Dim::constant(e.over))
            }
            _ => self.clone(),
        }
    }

    /// Rounded up.
    pub fn ceil(&self) -> Dim {
        let minus = Dim::constant(-1);
        self.mul(&minus).floor().mul(&minus)
    }

    /// Rounded toward zero; unknown where the sign is.
    pub fn trunc(&self) -> Dim {
        match self {
            Dim::Expr(e) if e.is_whole() || e.is_never_negative() => self.floor(),
            _ if self.mul(&Dim::constant(-1)).is_never_negative() => self.ceil(),
            _ => Dim::UNKNOWN,
        }
    }
}

pub(super) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_way_of_floats() {
        let n = Dim::sym("n");
        let half = n.mul(&Dim::of_float(0.5));
        assert_eq!(half.to_string(), "(n)/2");
        assert!(!half.is_whole() && half.is_binary());
        assert_eq!(half.ceil().to_string(), "floordiv(n+1, 2)");
        assert_eq!(half.floor().to_string(), "floordiv(n, 2)");
        assert_eq!(half.add(&half), n);
        assert_eq!(half.mul(&Dim::from(4)).to_string(), "2*n");
        let third = n.quotient(&Dim::from(3));
        assert!(!third.is_binary());
        assert_eq!(third.ceil(), n.ceil_div(&Dim::from(3)));
        assert_eq!(Dim::of_float(-1.5).trunc(), Dim::constant(-1));
        assert_eq!(Dim::of_float(0.1), Dim::UNKNOWN);
        assert_eq!(
            Dim::from(7).quotient(&Dim::constant(-2)).floor(),
            Dim::constant(-4)
        );
    }
}
