//! Bounds of dims, from the bounds that a function states of its named sizes.

use std::sync::Arc;

use crate::dim::Atom;
use crate::op::Extent;
use crate::{Dim, DimBound, DimExpr, Op, Signature, Type};

/// A function's bounds on its named sizes.
pub struct Bounds<'a> {
    signature: &'a Signature,
}

/// Known lower and upper bound.
type Interval = (Option<i128>, Option<i128>);

impl<'a> Bounds<'a> {
    /// The bounds in a signature; other names are unbounded.
    pub fn of(signature: &'a Signature) -> Self {
        Self { signature }
    }

    /// The largest size that an axis of this dim can have.
    pub fn upper(&self, dim: &Dim) -> Option<u64> {
        match dim {
            Dim::Unknown(max) => *max,
            Dim::Expr(e) => self
                .interval(e)
                .1
                .and_then(|v| u64::try_from(v.max(0)).ok()),
        }
    }

    /// Lower bound of a known array element.
    pub fn lower(&self, dim: &Dim) -> Option<i128> {
        self.interval(dim.as_expr()?).0
    }

    /// Could [`simplify`](Self::simplify) change a type?
    pub fn may_simplify(&self, ty: &Type) -> bool {
        match ty {
            Type::Tensor(t) => {
                let composed = |d: &Dim| d.as_expr().is_some_and(|e| !is_plain(e));
                t.shape.iter().flatten().any(composed)
            }
            Type::Seq(t) | Type::Opt(t) => self.may_simplify(t),
        }
    }

    /// The dim without maxima and minima whose outcome the bounds decide.
    pub fn simplify(&self, dim: &Dim) -> Dim {
        match dim {
            Dim::Expr(e) => self.simplify_expr(e),
            Dim::Unknown(_) => dim.clone(),
        }
    }

    /// Gives axes of unknown size in an op's result the bound that follows from its operands.
    pub fn limit(&self, op: &Op, args: &[&Type], known: &[Option<&[Dim]>], result: &mut Type) {
        let shape = |i: usize| args.get(i)?.as_tensor()?.shape.as_ref();
        let Type::Tensor(t) = result else { return };
        let Some(dims) = &mut t.shape else { return };
        let (rank, one) = (dims.len(), Dim::from(1));
        for (axis, dim) in dims.iter_mut().enumerate() {
            if *dim != Dim::UNKNOWN {
                continue;
            }
            let same_axis = || shape(0).filter(|s| s.len() == rank).map(|s| &s[axis]);
            let bound = match (op.props().extent, op) {
                (_, Op::Unique { axis: None, .. }) => shape(0).and_then(|s| self.count(s)),
                (Extent::FirstOperand, _) => same_axis().and_then(|d| self.upper(d)),
                (Extent::Broadcast, _) => {
                    let aligned = |i: usize| {
                        let s = shape(i)?;
                        Some((axis + s.len()).checked_sub(rank).map_or(&one, |k| &s[k]))
                    };
                    let all: Option<Vec<&Dim>> = (0..args.len()).map(aligned).collect();
                    let all = all.unwrap_or_default();
                    // A size that is never 1 is the result's.
                    let several = |d: &&&Dim| self.lower(d).is_some_and(|least| least > 1);
                    if let Some(&size) = all.iter().find(several) {
                        *dim = size.clone();
                        continue;
                    }
                    let most: Option<Vec<u64>> = all.into_iter().map(|d| self.upper(d)).collect();
                    most.and_then(|all| all.into_iter().max())
                }
                (_, Op::Concat { axis: k }) if *k == axis => (0..args.len())
                    .try_fold(0u64, |sum, i| {
                        sum.checked_add(self.upper(shape(i)?.get(axis)?)?)
                    }),
                (_, Op::NonZero) if axis == 1 => shape(0).and_then(|s| self.count(s)),
                (_, Op::Loop { trip: true, .. }) if axis == 0 => {
                    let trip = known.first().copied().flatten();
                    trip.and_then(|k| self.upper(&k[0]))
                }
                _ => None,
            };
            *dim = Dim::Unknown(bound.filter(|b| *b < i64::MAX as u64));
        }
    }

    /// The most elements that an array of this shape has.
    fn count(&self, shape: &[Dim]) -> Option<u64> {
        shape
            .iter()
            .try_fold(1u64, |n, d| n.checked_mul(self.upper(d)?))
    }

    fn interval(&self, e: &DimExpr) -> Interval {
        let mut sum: Interval = (Some(0), Some(0));
        for (product, coefficient) in e.terms() {
            let mut term: Interval = (Some(coefficient.into()), Some(coefficient.into()));
            for atom in product {
                term = multiply(term, self.atom(atom));
            }
            sum = (add(sum.0, term.0), add(sum.1, term.1));
        }
        sum
    }

    fn atom(&self, atom: &Atom) -> Interval {
        match atom {
            Atom::Sym(name) => self.name(name),
            Atom::Max(p) => {
                let (a, b) = (self.interval(&p.0), self.interval(&p.1));
                let low = match (a.0, b.0) {
                    (Some(x), Some(y)) => Some(x.max(y)),
                    (x, y) => x.or(y),
                };
                (low, a.1.zip(b.1).map(|(x, y)| x.max(y)))
            }
            Atom::Min(p) => {
                let (a, b) = (self.interval(&p.0), self.interval(&p.1));
                let high = match (a.1, b.1) {
                    (Some(x), Some(y)) => Some(x.min(y)),
                    (x, y) => x.or(y),
                };
                (a.0.zip(b.0).map(|(x, y)| x.min(y)), high)
            }
            Atom::FloorDiv(p) => {
                let (a, b) = (self.interval(&p.0), self.interval(&p.1));
                // Only a positive divisor gives a size; dividing by more gives less.
                let least = b.0.map_or(1, |v| v.max(1));
                let low = a.0.and_then(|v| {
                    if v >= 0 {
                        Some(0)
                    } else {
                        v.checked_div_euclid(least)
                    }
                });
                let high = a.1.map(|v| if v >= 0 { v / least } else { -1 });
                (low, high)
            }
        }
    }

    fn name(&self, name: &Arc<str>) -> Interval {
        match self.signature.bounds.get(name) {
            Some(DimBound { min, max }) => (Some((*min).into()), max.map(Into::into)),
            None => (Some(0), None),
        }
    }

    fn simplify_expr(&self, e: &DimExpr) -> Dim {
        if is_plain(e) {
            return Dim::Expr(e.clone());
        }
        let mut sum = Dim::from(0);
        for (product, coefficient) in e.terms() {
            let mut term = Dim::constant(coefficient);
            for atom in product {
                term = term.mul(&self.simplify_atom(atom));
            }
            sum = sum.add(&term);
        }
        match sum {
            Dim::Expr(_) => sum,
            Dim::Unknown(_) => Dim::Expr(e.clone()),
        }
    }

    fn simplify_atom(&self, atom: &Atom) -> Dim {
        let both = |p: &(DimExpr, DimExpr)| (self.simplify_expr(&p.0), self.simplify_expr(&p.1));
        // Is the first never less than the second?
        let over = |a: &Dim, b: &Dim| match a.sub(b) {
            Dim::Expr(d) => self.interval(&d).0.is_some_and(|v| v >= 0),
            Dim::Unknown(_) => false,
        };
        match atom {
            Atom::Sym(name) => Dim::sym(name),
            Atom::FloorDiv(p) => {
                let (a, b) = both(p);
                a.floor_div(&b)
            }
            Atom::Max(p) => match both(p) {
                (a, b) if over(&a, &b) => a,
                (a, b) if over(&b, &a) => b,
                (a, b) => a.max(&b),
            },
            Atom::Min(p) => match both(p) {
                (a, b) if over(&a, &b) => b,
                (a, b) if over(&b, &a) => a,
                (a, b) => a.min(&b),
            },
        }
    }
}

/// Does an expression consist of sums and products of names only?
fn is_plain(e: &DimExpr) -> bool {
    e.terms()
        .all(|(p, _)| p.iter().all(|a| matches!(a, Atom::Sym(_))))
}

fn add(a: Option<i128>, b: Option<i128>) -> Option<i128> {
    a.zip(b).and_then(|(a, b)| a.checked_add(b))
}

/// The product of two intervals; a side that is open leaves the product open where it matters.
fn multiply(a: Interval, b: Interval) -> Interval {
    let closed = |i: Interval| i.0.zip(i.1);
    if let (Some((al, ah)), Some((bl, bh))) = (closed(a), closed(b)) {
        let corners = [
            al.checked_mul(bl),
            al.checked_mul(bh),
            ah.checked_mul(bl),
            ah.checked_mul(bh),
        ];
        let all: Option<Vec<i128>> = corners.into_iter().collect();
        return match all {
            Some(all) => (all.iter().min().copied(), all.iter().max().copied()),
            None => (None, None),
        };
    }
    let (al, bl) = (a.0, b.0);
    let product = |x: Option<i128>, y: Option<i128>| x.zip(y).and_then(|(x, y)| x.checked_mul(y));
    match (al, bl) {
        // Nothing negative on either side.
        (Some(x), Some(y)) if x >= 0 && y >= 0 => (product(al, bl), product(a.1, b.1)),
        // A negative constant turns the other interval around.
        (_, Some(y)) if y >= 0 && a.1.is_some_and(|v| v <= 0) => {
            (product(a.0, b.1), product(a.1, b.0))
        }
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature() -> Signature {
        let mut sig = Signature::default();
        let bound = |min, max| DimBound { min, max };
        sig.bounds.insert("n".into(), bound(1, Some(8)));
        sig.bounds.insert("m".into(), bound(2, None));
        sig
    }

    #[test]
    fn upper_bounds() {
        let sig = signature();
        let bounds = Bounds::of(&sig);
        let (n, m) = (Dim::sym("n"), Dim::sym("m"));
        assert_eq!(
            bounds.upper(&n.mul(&Dim::from(2)).add(&Dim::from(1))),
            Some(17)
        );
        assert_eq!(bounds.upper(&m), None);
        assert_eq!(bounds.upper(&m.min(&Dim::from(5))), Some(5));
        assert_eq!(bounds.upper(&n.sub(&m)), Some(6));
        assert_eq!(bounds.upper(&n.floor_div(&Dim::from(3))), Some(2));
        assert_eq!(bounds.upper(&Dim::sym("other")), None);
    }

    #[test]
    fn decided_maxima() {
        let sig = signature();
        let bounds = Bounds::of(&sig);
        let less = Dim::sym("n").sub(&Dim::from(1));
        assert_eq!(bounds.simplify(&less.max(&Dim::from(0))), less);
        let open = Dim::sym("n").max(&Dim::sym("m"));
        assert_eq!(bounds.simplify(&open), open);
    }
}
