//! Equations between sizes, and sizes that are never 1.

use std::sync::Arc;

use super::fraction::gcd;
use super::{Atom, Dim, DimExpr};

impl Dim {
    /// Is the size never 1? Besides sizes of 2 and more, multiples are not, since no names make `2*n` 1.
    pub fn is_never_one(&self) -> bool {
        let of_terms =
            |e: &DimExpr| e.is_whole() && e.minus_one().is_some_and(|e| !e.may_be_zero());
        self.is_at_least(&Dim::from(2)) || self.as_expr().is_some_and(of_terms)
    }

    /// Each name for which the equation of two sizes can be solved, with its solution, a size that is never
    /// negative: `m` and `2*n` of `4*n = 2*m`. A solution does not contain its name.
    pub fn solutions(&self, other: &Dim) -> Vec<(Arc<str>, Dim)> {
        let difference = self.sub(other);
        let Some(e) = difference.as_expr().filter(|e| e.is_whole()) else {
            return vec![];
        };
        let divisor = e.common_factor();
        if divisor == 0 || !e.may_be_zero() {
            return vec![];
        }
        let solve = |(product, c): (&[Atom], i64)| {
            let [Atom::Sym(name)] = product else {
                return None;
            };
            // Coefficient and divisor are the same but for the sign, so that the name is minus the rest.
            let sign = (c.checked_abs()? == divisor).then_some(c.signum())?;
            let reduced = difference.quotient(&Dim::constant(-sign * divisor));
            let solution = reduced.add(&Dim::sym(name));
            let fits = solution.is_never_negative() && !solution.names(name);
            fits.then(|| (name.clone(), solution))
        };
        e.terms().filter_map(solve).collect()
    }

    /// Does an expression contain a name?
    pub fn names(&self, name: &str) -> bool {
        let mut found = false;
        if let Dim::Expr(e) = self {
            e.for_each_sym(&mut |s| found |= **s == *name);
        }
        found
    }
}

impl DimExpr {
    fn minus_one(&self) -> Option<Self> {
        self.checked_add(&Self::constant(-1))
    }

    /// The greatest common divisor of all coefficients but the constant; 0 without names.
    fn common_factor(&self) -> i64 {
        let named = self.terms().filter(|(p, _)| !p.is_empty());
        named.fold(0, |g, (_, c)| {
            if g == 0 {
                c.saturating_abs()
            } else {
                gcd(g, c)
            }
        })
    }

    /// Could integers make the sum 0? Not if all coefficients have a divisor that the constant has not.
    fn may_be_zero(&self) -> bool {
        let constant = self.terms.get(&[][..]).copied().unwrap_or(0);
        match self.common_factor() {
            0 => constant == 0,
            factor => constant % factor == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(terms: &[(i64, &str)], constant: i64) -> Dim {
        terms
            .iter()
            .fold(Dim::constant(constant), |sum, (c, name)| {
                sum.add(&Dim::sym(name).mul(&Dim::constant(*c)))
            })
    }

    #[test]
    fn never_one() {
        for (terms, constant, never) in [
            (&[(1, "n")][..], 0, false),
            (&[(1, "n")], 1, false),
            (&[(1, "n")], 2, true),
            (&[(2, "n")], 0, true),
            (&[(2, "n")], 1, false),
            (&[(3, "n"), (6, "m")], -1, true),
            (&[(3, "n"), (2, "m")], 0, false),
            (&[], 1, false),
            (&[], 0, true),
        ] {
            assert_eq!(sum(terms, constant).is_never_one(), never, "{terms:?}");
        }
        assert!(Dim::sym("n").max(&Dim::from(2)).is_never_one());
        assert!(!Dim::UNKNOWN.is_never_one());
    }

    #[test]
    fn equations() {
        let solved = |a: Dim, b: Dim| {
            let found = a.solutions(&b).into_iter();
            found.map(|(n, d)| format!("{n}={d}")).collect::<Vec<_>>()
        };
        let n = |c, k| sum(&[(c, "n")], k);
        let m = |c, k| sum(&[(c, "m")], k);
        assert_eq!(solved(n(1, 2), m(1, 2)), ["m=n", "n=m"]);
        assert_eq!(solved(n(4, 0), m(2, 0)), ["m=2*n"]);
        assert_eq!(solved(n(1, 2), m(1, 0)), ["m=n+2"]);
        assert_eq!(solved(n(2, 0), m(2, 1)), [""; 0]);
        assert_eq!(solved(n(3, 0), m(2, 0)), [""; 0]);
        assert_eq!(solved(n(1, 0), Dim::from(5)), ["n=5"]);
        assert_eq!(solved(n(2, 4), Dim::from(10)), ["n=3"]);
        assert_eq!(solved(n(1, 4), Dim::from(2)), [""; 0]);
        let square = Dim::sym("n").mul(&Dim::sym("n"));
        assert_eq!(solved(n(1, 0), square.clone()), [""; 0]);
        assert_eq!(solved(square, m(1, 0)), ["m=n*n"]);
    }
}
