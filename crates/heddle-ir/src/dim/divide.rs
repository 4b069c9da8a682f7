//! Quotients rounded down, in normal form.
//!
//! For a constant divisor `d > 0`, by which all coefficients are reduced:
//!
//! ```text
//! floordiv(d*a + b, d)           a + floordiv(b, d)
//! floordiv(g*a + c, g*e)         floordiv(a + floordiv(c, g), e)
//! floordiv(-a, d)                -floordiv(a + d-1, d)
//! floordiv(floordiv(a, e), d)    floordiv(a, e*d)
//! ```

use std::collections::BTreeMap;

use super::fraction::gcd;
use super::{Atom, Dim, DimExpr};

impl Dim {
    /// The quotient, rounded down; unknown when the divisor is zero or negative.
    pub fn floor_div(&self, other: &Dim) -> Dim {
        if other.is(1) {
            return self.floor();
        }
        self.combine(other, |a, b| {
            if !a.is_whole() || !b.is_whole() {
                return None;
            }
            match b.as_const() {
                Some(d) if d > 0 => a.floor_by(d),
                Some(_) => None,
                None => a.floor_by_expr(b),
            }
        })
    }

    /// The quotient, rounded up.
    pub fn ceil_div(&self, other: &Dim) -> Dim {
        self.add(other).sub(&Dim::from(1)).floor_div(other)
    }
}

impl DimExpr {
    /// `self / divisor` when it divides every term, constants only.
    pub(super) fn exact_div(&self, divisor: &Self) -> Option<Self> {
        let (whole, rest) = self.split_by(divisor)?;
        rest.terms.is_empty().then_some(whole)
    }

    /// The quotient of the terms that a single term divides, and the other terms.
    fn split_by(&self, divisor: &Self) -> Option<(Self, Self)> {
        let (m, d) = match divisor.terms.iter().next() {
            Some((m, d)) if divisor.terms.len() == 1 => (m, *d),
            _ => return None,
        };
        let quotient = |p: &[Atom], c: i64| {
            let mut rest = p.to_vec();
            for atom in m {
                rest.remove(rest.iter().position(|a| a == atom)?);
            }
            (c.checked_rem(d)? == 0).then(|| (rest, c / d))
        };
        let (mut whole, mut rest) = (BTreeMap::new(), BTreeMap::new());
        for (p, c) in &self.terms {
            match quotient(p, *c) {
                Some((p, c)) => whole.insert(p, c),
                None => rest.insert(p.clone(), *c),
            };
        }
        let of = |terms| Self { terms, over: 1 };
        Some((of(whole), of(rest)))
    }

    fn floor_by_expr(&self, divisor: &Self) -> Option<Self> {
        let Some((whole, rest)) = self.split_by(divisor) else {
            return Dim::pair(self, divisor, Atom::FloorDiv);
        };
        match rest.terms.is_empty() {
            true => Some(whole),
            false => whole.checked_add(&Dim::pair(&rest, divisor, Atom::FloorDiv)?),
        }
    }

    /// The quotient by a positive constant, rounded down.
    fn floor_by(&self, d: i64) -> Option<Self> {
        if let Some(c) = self.as_const() {
            return Some(Self::constant(c.div_euclid(d)));
        }
        let (mut whole, mut rest) = (BTreeMap::new(), BTreeMap::new());
        for (p, &c) in &self.terms {
            // Remainders lie around 0, the constant's above it. Half of the divisor has the sign of `c`.
            let mut left = c.rem_euclid(d);
            let half = left == d - left && c < 0;
            if (left > d - left || half) && !p.is_empty() {
                left -= d;
            }
            whole.insert(p.clone(), c.checked_sub(left)? / d);
            rest.insert(p.clone(), left);
        }
        let whole = Self::from_terms(whole);
        whole.checked_add(&Self::from_terms(rest).floor_of_rest(d)?)
    }

    /// The same where all coefficients are reduced by the divisor.
    fn floor_of_rest(&self, d: i64) -> Option<Self> {
        let mut atoms = self.terms.iter().filter(|(p, _)| !p.is_empty());
        let Some((_, &first)) = atoms.next() else {
            return Some(Self::constant(self.as_const()?.div_euclid(d)));
        };
        if first < 0 {
            let minus = Self::constant(-1);
            let turned = self
                .checked_mul(&minus)?
                .checked_add(&Self::constant(d - 1))?;
            return turned.floor_by(d)?.checked_mul(&minus);
        }
        let shared = atoms.fold(gcd(first, d), |g, (_, c)| gcd(g, *c));
        if shared > 1 {
            let (mut part, mut constant) = (self.clone(), 0);
            for (p, c) in &mut part.terms {
                let by = c.div_euclid(shared);
                match p.is_empty() {
                    true => (*c, constant) = (0, by),
                    false => *c = by,
                }
            }
            part.terms.retain(|_, c| *c != 0);
            let part = part.checked_add(&Self::constant(constant))?;
            return part.floor_by(d / shared);
        }
        match self.single_atom() {
            Some(Atom::FloorDiv(p)) if p.1.as_const().is_some_and(|e| e > 0) => {
                p.0.floor_by(p.1.as_const()?.checked_mul(d)?)
            }
            _ => Dim::pair(self, &Self::constant(d), Atom::FloorDiv),
        }
    }

    fn single_atom(&self) -> Option<&Atom> {
        match self.terms.iter().next() {
            Some((p, 1)) if self.terms.len() == 1 && p.len() == 1 => p.first(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(a: Dim, d: usize) -> String {
        a.floor_div(&Dim::from(d)).to_string()
    }

    #[test]
    fn quotients_have_one_form() {
        let n = Dim::sym("n");
        let times = |k: i64, c: i64| n.mul(&Dim::constant(k)).add(&Dim::constant(c));
        assert_eq!(text(times(2, 1), 2), "n");
        assert_eq!(text(times(5, 7), 3), "2*n-floordiv(n+1, 3)+2");
        assert_eq!(text(times(1, -1), 2), "floordiv(n+1, 2)-1");
        assert_eq!(text(times(-1, 0), 4), "-floordiv(n+3, 4)");
        assert_eq!(text(times(2, 1), 4), "floordiv(n, 2)");
        assert_eq!(
            text(times(1, 0).floor_div(&Dim::from(2)), 3),
            "floordiv(n, 6)"
        );
        let m = Dim::sym("m");
        assert_eq!(n.mul(&m).add(&m).floor_div(&m), n.add(&Dim::from(1)));
    }

    #[test]
    fn quotients_are_right() {
        for k in -7..8 {
            for (c, d) in [(-5, 1), (0, 2), (3, 4), (11, 6), (-9, 6), (1, 12)] {
                let n = Dim::sym("n");
                let e = n.mul(&Dim::constant(k)).add(&Dim::constant(c));
                let q = e.floor_div(&Dim::from(d));
                let q = q.floor_div(&Dim::from(3));
                for v in 0..30 {
                    let found = q.as_expr().unwrap().eval(&|_| Some(v));
                    let right = (k * v + c).div_euclid(d as i64).div_euclid(3);
                    assert_eq!(found, Some(right), "{k}*{v}+{c} by {d}: {q}");
                }
            }
        }
    }

    #[test]
    fn padding_to_a_multiple() {
        let (t, four) = (Dim::sym("t"), Dim::from(4));
        let modulo = |x: &Dim| x.sub(&x.floor_div(&four).mul(&four));
        let more = modulo(&four.sub(&modulo(&t)));
        assert_eq!(t.add(&more).to_string(), "4*floordiv(t+3, 4)");
        assert_eq!(t.add(&more).floor_div(&four), t.ceil_div(&four));
    }
}
