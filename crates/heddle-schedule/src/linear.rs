//! Offsets as sums of products, from which the places of elements are derived.

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;
use smallvec::{SmallVec, smallvec};

use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Local, LocalKind, Operator, UProgram};

/// A constant times sizes: fixed ones, and variables that hold one value until they are assigned again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monomial {
    /// The constant.
    pub constant: i64,
    /// The sizes, sorted.
    pub sizes: SmallVec<[ExprId; 2]>,
}

impl Monomial {
    /// A constant.
    pub fn new(constant: i64) -> Self {
        Self {
            constant,
            sizes: smallvec![],
        }
    }

    /// A product of sizes; `None` if it overflows or a factor differs by unit or point.
    pub fn of(program: &UProgram, expr: ExprId) -> Option<Self> {
        if let Some(n) = program.pool.as_int(expr) {
            return Some(Self::new(n));
        }
        if let Expr::Binary(BinaryOp::Mul, DType::I64, a, b) = program.pool[expr] {
            return Self::of(program, a)?.times(&Self::of(program, b)?);
        }
        is_uniform(program, expr).then(|| Self {
            constant: 1,
            sizes: smallvec![expr],
        })
    }

    /// The product.
    pub fn times(&self, other: &Self) -> Option<Self> {
        let mut sizes = self.sizes.clone();
        sizes.extend_from_slice(&other.sizes);
        sizes.sort_unstable();
        let constant = self.constant.checked_mul(other.constant)?;
        Some(Self { constant, sizes })
    }

    /// The quotient, if it divides exactly.
    pub fn over(&self, by: &Self) -> Option<Self> {
        if by.constant == 0 || self.constant % by.constant != 0 {
            return None;
        }
        let mut sizes = self.sizes.clone();
        for size in &by.sizes {
            sizes.remove(sizes.iter().position(|s| s == size)?);
        }
        Some(Self {
            constant: self.constant / by.constant,
            sizes,
        })
    }

    /// Its value, if it has no sizes.
    pub fn as_int(&self) -> Option<i64> {
        self.sizes.is_empty().then_some(self.constant)
    }
}

/// A sum of monomials times atoms: axes, other variables, and other irreducible expressions.
#[derive(Clone, Debug)]
pub struct Linear {
    /// Factor and atom; `None` for a constant term.
    pub terms: SmallVec<[(Monomial, Option<ExprId>); 4]>,
}

/// Limit on the terms of a sum; larger ones are atoms.
const MAX_TERMS: usize = 64;

impl Linear {
    /// Decomposes an offset or index.
    pub fn of(program: &UProgram, op: &Operator, expr: ExprId) -> Self {
        if let Some(alone) = Monomial::of(program, expr) {
            return Self::term(alone, None);
        }
        let taken = match program.pool[expr] {
            Expr::Binary(BinaryOp::Add, DType::I64, a, b) => {
                Self::of(program, op, a).plus(&Self::of(program, op, b), 1)
            }
            Expr::Binary(BinaryOp::Sub, DType::I64, a, b) => {
                Self::of(program, op, a).plus(&Self::of(program, op, b), -1)
            }
            Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
                match (Monomial::of(program, a), Monomial::of(program, b)) {
                    (Some(factor), _) => Self::of(program, op, b).times(&factor),
                    (_, Some(factor)) => Self::of(program, op, a).times(&factor),
                    _ => None,
                }
            }
            // A checked index that is an axis of the same size is in range.
            Expr::Index(i, size) if range(program, op, i) == Some(size) => {
                Some(Self::of(program, op, i))
            }
            _ => None,
        };
        taken.unwrap_or_else(|| Self::term(Monomial::new(1), Some(expr)))
    }

    /// The factor of a variable that occurs in exactly one term and inside no atom.
    pub fn factor(&self, program: &UProgram, local: Local) -> Option<&Monomial> {
        let is_local = |e: ExprId| program.pool[e] == Expr::Local(local);
        let mut own = self.terms.iter().filter(|t| t.1.is_some_and(is_local));
        let (factor, _) = own.next()?;
        let hidden = |e: ExprId| !is_local(e) && program.locals_of(e).contains(&local);
        let single = own.next().is_none() && !self.terms.iter().any(|t| t.1.is_some_and(hidden));
        single.then_some(factor)
    }

    fn term(factor: Monomial, atom: Option<ExprId>) -> Self {
        Self {
            terms: smallvec![(factor, atom)],
        }
    }

    fn plus(mut self, other: &Self, sign: i64) -> Option<Self> {
        for (factor, atom) in &other.terms {
            let factor = factor.times(&Monomial::new(sign))?;
            let same =
                |t: &&mut (Monomial, Option<ExprId>)| t.1 == *atom && t.0.sizes == factor.sizes;
            match self.terms.iter_mut().find(same) {
                Some(t) => t.0.constant = t.0.constant.checked_add(factor.constant)?,
                None => self.terms.push((factor, *atom)),
            }
        }
        self.terms.retain(|t| t.0.constant != 0);
        (self.terms.len() <= MAX_TERMS).then_some(self)
    }

    fn times(mut self, by: &Monomial) -> Option<Self> {
        for t in &mut self.terms {
            t.0 = t.0.times(by)?;
        }
        Some(self)
    }
}

/// An upper bound on the number of values of an atom, which start at 0, if fixed.
pub fn bound(program: &UProgram, op: &Operator, atom: ExprId) -> Option<Monomial> {
    if let Expr::Binary(BinaryOp::Div, DType::I64, whole, by) = program.pool[atom] {
        let by = program.pool.as_int(by).filter(|by| *by > 0)?;
        let whole = bound(program, op, whole)?.as_int().filter(|n| *n > 0)?;
        return Some(Monomial::new((whole - 1) / by + 1));
    }
    let size = range(program, op, atom)?;
    let either = |a, b| Monomial::of(program, a).or_else(|| Monomial::of(program, b));
    match program.pool[size] {
        Expr::Binary(BinaryOp::Min, DType::I64, a, b) if !is_uniform(program, size) => either(a, b),
        _ => Monomial::of(program, size),
    }
}

/// The number of values of an atom, which start at 0, if known.
fn range(program: &UProgram, op: &Operator, atom: ExprId) -> Option<ExprId> {
    match program.pool[atom] {
        Expr::Local(l) => {
            let mut axes = op.axes.iter().chain(op.body.axes());
            axes.find(|a| a.0 == l).map(|a| a.1)
        }
        Expr::Index(_, size) => Some(size),
        Expr::Binary(BinaryOp::Mod, DType::I64, _, m) if program.pool.as_int(m) > Some(0) => {
            Some(m)
        }
        _ => None,
    }
}

/// True if a size is constant during a launch.
pub(super) fn is_fixed(program: &UProgram, expr: ExprId) -> bool {
    let varies = |e| match e {
        Expr::Load(..) | Expr::Index(..) => true,
        Expr::Local(l) => program.locals[l].kind != LocalKind::Size,
        _ => false,
    };
    !program.pool.any(expr, &varies)
}

/// True if all units have the same value of an expression wherever they are in the same iteration: one over sizes and
/// variables, without axes and loads.
fn is_uniform(program: &UProgram, expr: ExprId) -> bool {
    let varies = |e| match e {
        Expr::Load(..) | Expr::Index(..) => true,
        Expr::Local(l) => {
            let kind = program.locals[l].kind;
            !matches!(kind, LocalKind::Size | LocalKind::Variable)
        }
        _ => false,
    };
    !program.pool.any(expr, &varies)
}
