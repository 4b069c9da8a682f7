//! Polynomials over sizes that are at least 1.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use crate::expr::{Expr, ExprId};
use crate::program::{Local, LocalKind, UProgram};

/// A polynomial with integer coefficients: products of sizes, in order, with their non-zero
/// coefficients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polynomial {
    terms: BTreeMap<Vec<ExprId>, i64>,
}

impl Polynomial {
    /// A number.
    pub fn constant(value: i64) -> Self {
        let mut p = Self::default();
        p.add_term(vec![], value);
        p
    }

    /// A size that all units know alike, made of sizes of the launch and of variables; `None` if it is none, or too large. It
    /// means the same until one of its variables is assigned again.
    pub fn of(program: &UProgram, expr: ExprId) -> Option<Self> {
        match program.pool[expr] {
            Expr::Num(DType::I64, bits) => return Some(Self::constant(bits as i64)),
            Expr::Binary(BinaryOp::Add, DType::I64, a, b) => {
                return Self::of(program, a)?.plus(&Self::of(program, b)?, 1);
            }
            Expr::Binary(BinaryOp::Sub, DType::I64, a, b) => {
                return Self::of(program, a)?.plus(&Self::of(program, b)?, -1);
            }
            Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
                return Self::of(program, a)?.times(&Self::of(program, b)?);
            }
            _ => {}
        }
        // An index may be 0.
        let is_no_size = |e| matches!(e, Expr::Load(..) | Expr::Index(..));
        let fixed = !program.pool.any(expr, &is_no_size)
            && program.locals_of(expr).iter().all(|&l| {
                matches!(
                    program.locals[l].kind,
                    LocalKind::Size | LocalKind::Variable
                )
            });
        fixed.then(|| Self {
            terms: BTreeMap::from([(vec![expr], 1)]),
        })
    }

    /// Adds its variables to a set.
    pub fn add_variables(&self, program: &UProgram, to: &mut BTreeSet<Local>) {
        for &size in self.terms.keys().flatten() {
            let locals = program.locals_of(size).into_iter();
            to.extend(locals.filter(|&l| program.locals[l].kind == LocalKind::Variable));
        }
    }

    /// Its value, if constant.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.iter().next() {
            None => Some(0),
            Some((sizes, &c)) if sizes.is_empty() && self.terms.len() == 1 => Some(c),
            Some(_) => None,
        }
    }

    /// Its remainder by a number above 0, whatever its sizes are; `None` if that depends on them.
    pub fn remainder(&self, modulus: i64) -> Option<i64> {
        let mut left = 0;
        for (sizes, &c) in &self.terms {
            match sizes.is_empty() {
                true => left = c.rem_euclid(modulus),
                false if c % modulus == 0 => {}
                false => return None,
            }
        }
        Some(left)
    }

    /// This plus `times` the other.
    pub fn plus(&self, other: &Self, times: i64) -> Option<Self> {
        let mut sum = self.clone();
        for (sizes, &c) in &other.terms {
            sum.add_term(sizes.clone(), c.checked_mul(times)?);
        }
        sum.checked()
    }

    /// The product.
    pub fn times(&self, other: &Self) -> Option<Self> {
        let mut product = Self::default();
        for (a, &x) in &self.terms {
            for (b, &y) in &other.terms {
                let mut sizes = [a.as_slice(), b].concat();
                sizes.sort_unstable();
                product.add_term(sizes, x.checked_mul(y)?);
            }
        }
        product.checked()
    }

    /// The quotient by a number above 0 that divides all coefficients.
    pub fn divided(&self, by: i64) -> Option<Self> {
        let mut quotient = self.clone();
        for c in quotient.terms.values_mut() {
            if *c % by != 0 {
                return None;
            }
            *c /= by;
        }
        Some(quotient)
    }

    /// True if it is a polynomial multiple of the other.
    pub fn is_multiple(&self, of: &Self) -> bool {
        // By degree, then by sizes: a monomial order.
        let largest = |p: &Self| {
            let term = p.terms.iter().max_by_key(|t| (t.0.len(), t.0.clone()))?;
            Some((term.0.clone(), *term.1))
        };
        let Some((lead, by)) = largest(of) else {
            return false;
        };
        let mut rest = self.clone();
        // Each step removes the largest term.
        for _ in 0..MAX_TERMS {
            let Some((sizes, c)) = largest(&rest) else {
                return true;
            };
            let (Some(factor), 0) = (without(&sizes, &lead), c % by) else {
                return false;
            };
            let mut quotient = Self::default();
            quotient.add_term(factor, c / by);
            let next = quotient.times(of).and_then(|p| rest.plus(&p, -1));
            let Some(next) = next else { return false };
            rest = next;
        }
        false
    }

    /// True if it is provably at least 0 for all sizes from 1 on; `false` proves nothing.
    pub fn is_nonnegative(&self) -> bool {
        // Substituting 1 + t for each size gives a polynomial in t >= 0 without negative
        // coefficients.
        let mut shifted = Self::default();
        for (sizes, &c) in &self.terms {
            let mut term = Self::constant(c);
            for &size in sizes {
                let mut factor = Self::constant(1);
                factor.add_term(vec![size], 1);
                let Some(product) = term.times(&factor) else {
                    return false;
                };
                term = product;
            }
            let Some(sum) = shifted.plus(&term, 1) else {
                return false;
            };
            shifted = sum;
        }
        shifted.terms.values().all(|&c| c >= 0)
    }

    fn add_term(&mut self, sizes: Vec<ExprId>, coefficient: i64) {
        let sum = self.terms.entry(sizes).or_insert(0);
        // Saturated sums are no valid proof; see `checked`.
        *sum = sum.saturating_add(coefficient);
        self.terms.retain(|_, c| *c != 0);
    }

    fn checked(self) -> Option<Self> {
        let sound = |c: &i64| *c > i64::MIN && *c < i64::MAX;
        (self.terms.len() <= MAX_TERMS && self.terms.values().all(sound)).then_some(self)
    }
}

/// Limit on the terms of a polynomial.
const MAX_TERMS: usize = 64;

/// A product of sizes divided by another; `None` if it does not divide.
fn without(sizes: &[ExprId], remove: &[ExprId]) -> Option<Vec<ExprId>> {
    let mut rest = sizes.to_vec();
    for size in remove {
        rest.remove(rest.iter().position(|s| s == size)?);
    }
    Some(rest)
}
