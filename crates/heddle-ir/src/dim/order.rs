//! Proofs that an expression is never negative, for names that are sizes.
//!
//! A sum of products of what is not negative is not. Otherwise a composed atom is replaced by its
//! bounds, and the proof goes on:
//!
//! ```text
//! c*max(a, b)        either bound suffices for c > 0, both are needed for c < 0
//! c*min(a, b)        both are needed for c > 0, either suffices for c < 0
//! c*floordiv(a, d)   (a - d+1)/d for c > 0, a/d for c < 0
//! ```

use std::cmp::Ordering;

use super::{Atom, Dim, DimExpr};

/// Maximum number of replacements along one path, and in all.
const MAX_DEPTH: usize = 6;
const MAX_STEPS: usize = 64;

impl Dim {
    /// Is the number never negative?
    pub fn is_never_negative(&self) -> bool {
        self.as_expr().is_some_and(DimExpr::is_never_negative)
    }

    /// Is this never less than the other?
    pub fn is_at_least(&self, other: &Dim) -> bool {
        self.sub(other).is_never_negative()
    }

    /// Equal, or the order that the two always have: `Less` is "never greater", `Greater` "never less".
    pub(super) fn order(a: &DimExpr, b: &DimExpr) -> Option<Ordering> {
        if a == b {
            return Some(Ordering::Equal);
        }
        let (a, b) = (Dim::Expr(a.clone()), Dim::Expr(b.clone()));
        let way = match b.sub(&a).as_expr()?.as_ratio() {
            Some((c, _)) => return Some(0.cmp(&c)),
            None if a.is_at_least(&b) => Ordering::Greater,
            None if b.is_at_least(&a) => Ordering::Less,
            None => return None,
        };
        Some(way)
    }
}

impl DimExpr {
    /// A constant that the number never exceeds.
    pub(super) fn upper(&self) -> Option<i64> {
        let bound = |atom: &Atom| match atom {
            Atom::Sym(_) => None,
            Atom::Max(p) => Some(p.0.upper()?.max(p.1.upper()?)),
            Atom::Min(p) => p.0.upper().into_iter().chain(p.1.upper()).min(),
            Atom::FloorDiv(p) => Some(p.0.upper()?.div_euclid(p.1.as_const().filter(|d| *d > 0)?)),
        };
        let mut sum = 0i64;
        for (product, &c) in &self.terms {
            let most = match product.as_slice() {
                [] => Some(c),
                [one] if c > 0 => bound(one)?.checked_mul(c),
                atoms if c < 0 && atoms.iter().all(|a| atom(a, MAX_DEPTH, &mut { MAX_STEPS })) => {
                    Some(0)
                }
                _ => None,
            };
            sum = sum.checked_add(most?)?;
        }
        self.is_whole().then_some(sum)
    }

    /// Is the number never negative, if the names are sizes?
    pub fn is_never_negative(&self) -> bool {
        never_negative(self, MAX_DEPTH, &mut { MAX_STEPS })
    }
}

fn never_negative(e: &DimExpr, depth: usize, steps: &mut usize) -> bool {
    if let Some((n, _)) = e.as_ratio() {
        return n >= 0;
    }
    if depth == 0 || *steps == 0 {
        return false;
    }
    *steps -= 1;
    let mut atoms = e.terms.iter().filter(|(p, _)| !p.is_empty());
    let plain = atoms.all(|(p, c)| *c > 0 && p.iter().all(|a| atom(a, depth - 1, steps)));
    if plain && e.terms.get(&[][..]).is_none_or(|c| *c >= 0) {
        return true;
    }
    let composed = e.terms.iter().find_map(|(p, c)| match p.as_slice() {
        [atom @ (Atom::Max(_) | Atom::Min(_) | Atom::FloorDiv(_))] => Some((atom, *c)),
        _ => None,
    });
    let Some((atom, c)) = composed else {
        return false;
    };
    let mut with = |by: Option<DimExpr>| {
        by.and_then(|by| replaced(e, atom, c, &by))
            .is_some_and(|e| never_negative(&e, depth - 1, steps))
    };
    match atom {
        Atom::Sym(_) => false,
        Atom::Max(p) if c > 0 => with(Some(p.0.clone())) || with(Some(p.1.clone())),
        Atom::Min(p) if c < 0 => with(Some(p.0.clone())) || with(Some(p.1.clone())),
        Atom::Max(p) | Atom::Min(p) => with(Some(p.0.clone())) && with(Some(p.1.clone())),
        Atom::FloorDiv(p) => {
            let Some(d) = p.1.as_const().filter(|d| *d > 0) else {
                return false;
            };
            let less = DimExpr::constant(if c > 0 { 1 - d } else { 0 });
            with(p.0.checked_add(&less).and_then(|a| a.divided(d)))
        }
    }
}

/// Is a factor never negative?
fn atom(atom: &Atom, depth: usize, steps: &mut usize) -> bool {
    let mut of = |e: &DimExpr| never_negative(e, depth, steps);
    match atom {
        Atom::Sym(_) => true,
        Atom::FloorDiv(p) => of(&p.0) && of(&p.1),
        Atom::Max(p) => of(&p.0) || of(&p.1),
        Atom::Min(p) => of(&p.0) && of(&p.1),
    }
}

/// The expression with `c` times an atom replaced by `c` times another expression.
fn replaced(e: &DimExpr, atom: &Atom, c: i64, by: &DimExpr) -> Option<DimExpr> {
    let mut rest = e.numerator();
    rest.terms.remove(std::slice::from_ref(atom));
    // The sign decides, so that the divisor may go.
    rest.checked_add(&by.checked_mul(&DimExpr::constant(c))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs() {
        let (t, zero, two) = (Dim::sym("t"), Dim::from(0), Dim::from(2));
        let half = t.floor_div(&two);
        assert!(t.is_at_least(&half));
        assert!(t.add(&Dim::from(1)).floor_div(&two).is_at_least(&half));
        assert!(!half.is_at_least(&t.sub(&two)));
        let tail = t.sub(&two).max(&zero);
        assert!(t.is_at_least(&tail));
        assert_eq!(t.sub(&tail).max(&zero), t.sub(&tail));
        assert!(t.is_at_least(&t.min(&two)));
        assert!(!t.min(&two).is_at_least(&Dim::from(1)));
        assert_eq!(t.max(&t.mul(&two)), t.mul(&two));
        assert_eq!(t.min(&half), half);
        assert!(!t.sub(&Dim::from(1)).is_never_negative());
        let few = t.add(&Dim::from(1)).min(&Dim::from(5));
        assert_eq!(few.join(&Dim::Unknown(Some(7))), Dim::Unknown(Some(7)));
        assert_eq!(few.join(&Dim::from(3)), Dim::Unknown(Some(5)));
        assert_eq!(few.sub(&t).join(&Dim::from(3)), Dim::Unknown(Some(5)));
    }
}
