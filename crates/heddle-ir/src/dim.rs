//! Symbolic dimensions: integer expressions over named sizes, kept in a normal form.
//!
//! ```text
//! dim  ::= "?" | "?<=" INT | expr
//! expr ::= sum of products of integers, names and  floordiv(expr, expr)  max(expr, expr)  min(expr, expr)
//! ```
//!
//! Two dims with the same normal form are equal for every binding of their names. Dims that differ
//! by a constant other than zero are never equal. Of others, `order` may know which one is larger.
//!
//! A program may compute a size by way of floats. Its expressions have a common divisor then
//! (`fraction`); the dims of types have none.

mod divide;
mod fraction;
mod order;
mod solve;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The size of one axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// An expression over constants and named sizes.
    Expr(DimExpr),
    /// A size that only the run knows, with an upper bound if one is known.
    Unknown(Option<u64>),
}

/// A polynomial with integer coefficients over [`Atom`]s, in normal form.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DimExpr {
    /// Product of atoms (sorted, with repetition; empty: the constant) to coefficient (never 0).
    terms: BTreeMap<Vec<Atom>, i64>,
    /// Divisor of the sum of all terms, positive and without a factor common to all of them; 1 for integers.
    over: i64,
}

/// A factor of a [`DimExpr`]'s terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom {
    /// A named size.
    Sym(Arc<str>),
    /// The quotient rounded down.
    FloorDiv(Box<(DimExpr, DimExpr)>),
    /// The larger one.
    Max(Box<(DimExpr, DimExpr)>),
    /// The smaller one.
    Min(Box<(DimExpr, DimExpr)>),
}

/// Inclusive bounds of a named size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DimBound {
    /// The least value.
    pub min: u64,
    /// The greatest value, if there is one.
    pub max: Option<u64>,
}

/// Expressions are kept this small; beyond it a dim becomes unknown.
const MAX_TERMS: usize = 16;

/// The atoms of an expression, those within atoms too: nesting would otherwise multiply them.
const MAX_WEIGHT: usize = 128;

impl DimExpr {
    /// The expression that is always `value`.
    pub fn constant(value: i64) -> Self {
        Self::from_terms([(vec![], value)])
    }

    /// The named size.
    pub fn sym(name: &str) -> Self {
        Self::atom(Atom::Sym(name.into()))
    }

    /// The terms: products of atoms with their coefficients.
    pub fn terms(&self) -> impl Iterator<Item = (&[Atom], i64)> {
        self.terms.iter().map(|(m, &c)| (m.as_slice(), c))
    }

    /// The value, if it does not depend on names.
    pub fn as_const(&self) -> Option<i64> {
        self.as_ratio()
            .and_then(|(n, over)| (over == 1).then_some(n))
    }

    /// The name, if the expression is just a name.
    pub fn as_sym(&self) -> Option<&Arc<str>> {
        match self.terms.iter().next() {
            Some((m, 1)) if self.terms.len() == 1 && self.over == 1 => match m.as_slice() {
                [Atom::Sym(s)] => Some(s),
                _ => None,
            },
            _ => None,
        }
    }

    /// The operands, if the expression is just a maximum.
    pub fn as_max(&self) -> Option<&(DimExpr, DimExpr)> {
        match self.terms.iter().next() {
            Some((m, 1)) if self.terms.len() == 1 && self.over == 1 => match m.as_slice() {
                [Atom::Max(p)] => Some(p),
                _ => None,
            },
            _ => None,
        }
    }

    /// The value under a binding of names; `None` when a name is unbound, a divisor is 0 or it overflows.
    pub fn eval(&self, lookup: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        let mut sum = 0i64;
        for (product, coefficient) in self.terms() {
            let mut term = coefficient;
            for atom in product {
                let value = match atom {
                    Atom::Sym(s) => lookup(s)?,
                    Atom::FloorDiv(p) => {
                        let (a, b) = (p.0.eval(lookup)?, p.1.eval(lookup)?);
                        if b <= 0 {
                            return None;
                        }
                        a.div_euclid(b)
                    }
                    Atom::Max(p) => p.0.eval(lookup)?.max(p.1.eval(lookup)?),
                    Atom::Min(p) => p.0.eval(lookup)?.min(p.1.eval(lookup)?),
                };
                term = term.checked_mul(value)?;
            }
            sum = sum.checked_add(term)?;
        }
        (sum % self.over == 0).then(|| sum / self.over)
    }

    /// Calls `visit` with every name that occurs.
    pub fn for_each_sym(&self, visit: &mut dyn FnMut(&Arc<str>)) {
        for atom in self.terms.keys().flatten() {
            match atom {
                Atom::Sym(s) => visit(s),
                Atom::FloorDiv(p) | Atom::Max(p) | Atom::Min(p) => {
                    p.0.for_each_sym(visit);
                    p.1.for_each_sym(visit);
                }
            }
        }
    }

    /// Replaces every name; `None` when `lookup` has no dim for one or the result is not an expression.
    fn substitute(&self, lookup: &dyn Fn(&str) -> Option<Dim>) -> Option<Dim> {
        let mut sum = Dim::from(0);
        for (product, coefficient) in self.terms() {
            let mut term = Dim::constant(coefficient);
            for atom in product {
                let value = match atom {
                    Atom::Sym(s) => lookup(s)?,
                    Atom::FloorDiv(p) => {
                        p.0.substitute(lookup)?.floor_div(&p.1.substitute(lookup)?)
                    }
                    Atom::Max(p) => p.0.substitute(lookup)?.max(&p.1.substitute(lookup)?),
                    Atom::Min(p) => p.0.substitute(lookup)?.min(&p.1.substitute(lookup)?),
                };
                term = term.mul(&value);
            }
            sum = sum.add(&term);
        }
        Some(sum.quotient(&Dim::constant(self.over)))
    }

    fn atom(atom: Atom) -> Self {
        Self::from_terms([(vec![atom], 1)])
    }

    fn from_terms(terms: impl IntoIterator<Item = (Vec<Atom>, i64)>) -> Self {
        Self {
            terms: terms.into_iter().filter(|(_, c)| *c != 0).collect(),
            over: 1,
        }
    }

    fn checked_add(&self, other: &Self) -> Option<Self> {
        let (a, b, over) = self.common(other)?;
        let mut terms = a.into_owned();
        for (product, c) in b.iter() {
            let sum = terms.get(product).copied().unwrap_or(0).checked_add(*c)?;
            if sum == 0 {
                terms.remove(product);
            } else {
                terms.insert(product.clone(), sum);
            }
        }
        let sum = Self { terms, over }.reduced();
        (sum.terms.len() <= MAX_TERMS && sum.weight() <= MAX_WEIGHT).then_some(sum)
    }

    fn checked_mul(&self, other: &Self) -> Option<Self> {
        let mut result = Self::constant(0);
        for (p, c) in &self.terms {
            for (q, d) in &other.terms {
                let mut product = [p.as_slice(), q.as_slice()].concat();
                product.sort();
                if product.len() > 6 {
                    return None;
                }
                let term = Self::from_terms([(product, c.checked_mul(*d)?)]);
                result = result.checked_add(&term)?;
            }
        }
        result.divided(self.over.checked_mul(other.over)?)
    }

    /// The number of terms and atoms, nested ones included.
    fn weight(&self) -> usize {
        let of = |a: &Atom| match a {
            Atom::Sym(_) => 1,
            Atom::FloorDiv(p) | Atom::Max(p) | Atom::Min(p) => 1 + p.0.weight() + p.1.weight(),
        };
        self.terms.len() + self.terms.keys().flatten().map(of).sum::<usize>()
    }

    fn depth(&self) -> usize {
        let of = |a: &Atom| match a {
            Atom::Sym(_) => 0,
            Atom::FloorDiv(p) | Atom::Max(p) | Atom::Min(p) => 1 + p.0.depth().max(p.1.depth()),
        };
        self.terms.keys().flatten().map(of).max().unwrap_or(0)
    }
}

impl Dim {
    /// The size that is always `value`.
    pub fn constant(value: i64) -> Self {
        Dim::Expr(DimExpr::constant(value))
    }

    /// The named size.
    pub fn sym(name: &str) -> Self {
        Dim::Expr(DimExpr::sym(name))
    }

    /// A size of which nothing is known.
    pub const UNKNOWN: Dim = Dim::Unknown(None);

    /// The value, if it is the same in every run.
    pub fn as_const(&self) -> Option<i64> {
        match self {
            Dim::Expr(e) => e.as_const(),
            Dim::Unknown(_) => None,
        }
    }

    /// The expression, if there is one.
    pub fn as_expr(&self) -> Option<&DimExpr> {
        match self {
            Dim::Expr(e) => Some(e),
            Dim::Unknown(_) => None,
        }
    }

    /// The number of terms and atoms, at least 1.
    pub fn weight(&self) -> usize {
        self.as_expr().map_or(1, |e| 1 + e.weight())
    }

    /// Is the size this constant?
    pub fn is(&self, value: i64) -> bool {
        self.as_const() == Some(value)
    }

    /// The sum.
    pub fn add(&self, other: &Dim) -> Dim {
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const()) {
            return a.checked_add(b).map_or(Dim::UNKNOWN, Dim::constant);
        }
        self.combine(other, DimExpr::checked_add)
    }

    /// The difference.
    pub fn sub(&self, other: &Dim) -> Dim {
        self.add(&other.mul(&Dim::constant(-1)))
    }

    /// The product. Zero times anything is zero.
    pub fn mul(&self, other: &Dim) -> Dim {
        if self.is(0) || other.is(0) {
            return Dim::from(0);
        }
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const()) {
            return a.checked_mul(b).map_or(Dim::UNKNOWN, Dim::constant);
        }
        self.combine(other, DimExpr::checked_mul)
    }

    /// The product of sizes; 1 of none.
    pub fn product<'a>(sizes: impl IntoIterator<Item = &'a Dim>) -> Dim {
        let mut product = Dim::from(1);
        for size in sizes {
            product = product.mul(size);
        }
        product
    }

    /// The larger one.
    pub fn max(&self, other: &Dim) -> Dim {
        self.combine(other, |a, b| match Self::order(a, b) {
            Some(Ordering::Less) => Some(b.clone()),
            Some(_) => Some(a.clone()),
            None => Self::pair(Ord::min(a, b), Ord::max(a, b), Atom::Max),
        })
    }

    /// The smaller one.
    pub fn min(&self, other: &Dim) -> Dim {
        self.combine(other, |a, b| match Self::order(a, b) {
            Some(Ordering::Less) => Some(a.clone()),
            Some(_) => Some(b.clone()),
            None => Self::pair(Ord::min(a, b), Ord::max(a, b), Atom::Min),
        })
    }

    /// Are the two different for every binding of names?
    pub fn differs(&self, other: &Dim) -> bool {
        match (self, other) {
            (Dim::Expr(a), Dim::Expr(b)) => Self::difference(a, b).is_some_and(|d| d != 0),
            (Dim::Expr(e), Dim::Unknown(Some(max))) | (Dim::Unknown(Some(max)), Dim::Expr(e)) => {
                e.as_const().is_some_and(|c| c > *max as i64)
            }
            _ => false,
        }
    }

    /// Are the two equal for every binding of names?
    pub fn equals(&self, other: &Dim) -> bool {
        matches!(self, Dim::Expr(_)) && self == other
    }

    /// The join: the dim itself when equal, else unknown, with a bound that both have.
    pub fn join(&self, other: &Dim) -> Dim {
        if self == other {
            return self.clone();
        }
        if let (Dim::Expr(e), Dim::Unknown(Some(most))) | (Dim::Unknown(Some(most)), Dim::Expr(e)) =
            (self, other)
            && Dim::from(*most as usize).is_at_least(&Dim::Expr(e.clone()))
        {
            return Dim::Unknown(Some(*most));
        }
        match (self.upper(), other.upper()) {
            (Some(a), Some(b)) => Dim::Unknown(Some(a.max(b))),
            _ => Dim::UNKNOWN,
        }
    }

    /// May a size be `other` where `self` is expected? A form that took the place of a bounded size is
    /// as bounded, though that may be beyond proof.
    pub fn accepts(&self, other: &Dim) -> bool {
        let is_open = |e: &DimExpr| e.as_const().is_none() && e.upper().is_none();
        match (self, other) {
            (Dim::Unknown(Some(_)), Dim::Expr(e)) if is_open(e) => true,
            _ => self.join(other) == *self,
        }
    }

    /// The meet, for a size that is both: a constant, else an expression, else the lower bound;
    /// of two expressions `self`.
    pub fn meet(&self, other: &Dim) -> Dim {
        match (self, other) {
            (Dim::Expr(a), Dim::Expr(b)) if a.as_const().is_none() && b.as_const().is_some() => {
                other.clone()
            }
            (Dim::Expr(_), _) => self.clone(),
            (_, Dim::Expr(_)) => other.clone(),
            (Dim::Unknown(a), Dim::Unknown(b)) => {
                Dim::Unknown(a.map_or(*b, |a| Some(b.map_or(a, |b| a.min(b)))))
            }
        }
    }

    /// The dim with every name replaced; unknown when `lookup` does not know a name.
    pub fn substitute(&self, lookup: &dyn Fn(&str) -> Option<Dim>) -> Dim {
        match self {
            Dim::Expr(e) => e.substitute(lookup).unwrap_or(Dim::UNKNOWN),
            Dim::Unknown(_) => self.clone(),
        }
    }

    fn upper(&self) -> Option<u64> {
        match self {
            Dim::Expr(e) => e.upper().and_then(|c| u64::try_from(c).ok()),
            Dim::Unknown(max) => *max,
        }
    }

    fn difference(a: &DimExpr, b: &DimExpr) -> Option<i64> {
        if a == b {
            return Some(0);
        }
        if let (Some(a), Some(b)) = (a.as_const(), b.as_const()) {
            return a.checked_sub(b);
        }
        Dim::Expr(a.clone()).sub(&Dim::Expr(b.clone())).as_const()
    }

    fn pair(
        a: &DimExpr,
        b: &DimExpr,
        make: fn(Box<(DimExpr, DimExpr)>) -> Atom,
    ) -> Option<DimExpr> {
        (a.depth().max(b.depth()) < 4 && a.weight() + b.weight() + 2 <= MAX_WEIGHT)
            .then(|| DimExpr::atom(make(Box::new((a.clone(), b.clone())))))
    }

    fn combine(&self, other: &Dim, f: impl Fn(&DimExpr, &DimExpr) -> Option<DimExpr>) -> Dim {
        match (self, other) {
            (Dim::Expr(a), Dim::Expr(b)) => f(a, b).map_or(Dim::UNKNOWN, Dim::Expr),
            _ => Dim::UNKNOWN,
        }
    }
}

impl From<usize> for Dim {
    fn from(value: usize) -> Self {
        i64::try_from(value).map_or(Dim::UNKNOWN, Dim::constant)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Expr(e) => e.fmt(f),
            Dim::Unknown(None) => f.write_str("?"),
            Dim::Unknown(Some(max)) => write!(f, "?<={max}"),
        }
    }
}

impl fmt::Display for DimExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        if self.over != 1 {
            let over = self.over;
            return write!(f, "({})/{over}", self.numerator());
        }
        // The constant comes last: `2*n+1`.
        let (constant, rest): (Vec<_>, Vec<_>) = self.terms().partition(|(m, _)| m.is_empty());
        for (i, (product, c)) in rest.into_iter().chain(constant).enumerate() {
            match (i, c) {
                (_, c) if c < 0 => f.write_str("-")?,
                (0, _) => {}
                _ => f.write_str("+")?,
            }
            let mut separator = "";
            if c.unsigned_abs() != 1 || product.is_empty() {
                write!(f, "{}", c.unsigned_abs())?;
                separator = "*";
            }
            for atom in product {
                write!(f, "{separator}{atom}")?;
                separator = "*";
            }
        }
        Ok(())
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Sym(s) => crate::text::names::write_name(f, s),
            Atom::FloorDiv(p) => write!(f, "floordiv({}, {})", p.0, p.1),
            Atom::Max(p) => write!(f, "max({}, {})", p.0, p.1),
            Atom::Min(p) => write!(f, "min({}, {})", p.0, p.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_form() {
        let n = Dim::sym("n");
        let two_n = n.mul(&Dim::from(2));
        assert_eq!(two_n.add(&Dim::from(1)).to_string(), "2*n+1");
        assert_eq!(n.add(&n), two_n);
        assert_eq!(two_n.floor_div(&Dim::from(2)), n);
        assert_eq!(two_n.sub(&n).sub(&n), Dim::from(0));
        assert!(n.add(&Dim::from(1)).differs(&n));
        let most = Dim::constant(i64::MAX);
        assert_eq!(most.add(&Dim::from(1)), Dim::UNKNOWN);
        assert_eq!(most.mul(&Dim::from(2)), Dim::UNKNOWN);
        assert_eq!(Dim::from(2).sub(&Dim::from(2)), Dim::from(0));
        assert_eq!(Dim::from(0), n.sub(&n));
        assert!(!n.differs(&two_n));
        assert_eq!(n.max(&n.add(&Dim::from(3))).to_string(), "n+3");
        assert_eq!(Dim::from(7).ceil_div(&Dim::from(2)), Dim::from(4));
    }

    #[test]
    fn overflow_is_unknown() {
        assert_eq!(Dim::constant(i64::MAX).add(&Dim::from(1)), Dim::UNKNOWN);
    }
}
