//! Limits of axes: the values at which comparisons begin or cease to hold, where only the run knows them.

use std::fmt;

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_uprogram::program::{Local, LocalKind, UProgram};
use heddle_uprogram::{Expr, ExprId};

use crate::scalar::name;

/// Limit on the depth to which sums are read, since a shared part is read once for each place where it stands.
pub const DEPTH: usize = 12;

/// A sum of variables with factors, and of a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sum {
    pub terms: Vec<(Local, i64)>,
    pub constant: i64,
}

impl Sum {
    /// The sum that an integer is, if it is one.
    pub fn of(program: &UProgram, id: ExprId) -> Option<Self> {
        Self::read(program, id, DEPTH)
    }

    fn read(program: &UProgram, id: ExprId, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        match program.pool[id] {
            Expr::Num(DType::I64, bits) => Some(Self {
                terms: vec![],
                constant: bits as i64,
            }),
            Expr::Local(local) => Some(Self {
                terms: vec![(local, 1)],
                constant: 0,
            }),
            Expr::Binary(op, DType::I64, a, b) => {
                let a = Self::read(program, a, depth)?;
                let b = Self::read(program, b, depth)?;
                match op {
                    BinaryOp::Add => a.plus(&b),
                    BinaryOp::Sub => a.plus(&b.times(-1)?),
                    BinaryOp::Mul if b.terms.is_empty() => a.times(b.constant),
                    BinaryOp::Mul if a.terms.is_empty() => b.times(a.constant),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    pub fn plus(&self, other: &Self) -> Option<Self> {
        let mut terms = self.terms.clone();
        for &(local, factor) in &other.terms {
            match terms.iter_mut().find(|term| term.0 == local) {
                Some(term) => term.1 = term.1.checked_add(factor)?,
                None => terms.push((local, factor)),
            }
        }
        terms.retain(|term| term.1 != 0);
        terms.sort_unstable();
        let constant = self.constant.checked_add(other.constant)?;
        Some(Self { terms, constant })
    }

    pub fn times(&self, by: i64) -> Option<Self> {
        let times = |&(local, factor): &(Local, i64)| Some((local, factor.checked_mul(by)?));
        let mut terms = self.terms.iter().map(times).collect::<Option<Vec<_>>>()?;
        terms.retain(|term| term.1 != 0);
        let constant = self.constant.checked_mul(by)?;
        Some(Self { terms, constant })
    }

    /// True if it is certainly not negative. Sizes may be: the padding of a map that is cropped is one.
    pub fn is_natural(&self, program: &UProgram) -> bool {
        let is_axis = |local: Local| program.locals[local].kind == LocalKind::Axis;
        let mut terms = self.terms.iter();
        self.constant >= 0 && terms.all(|&(local, factor)| factor > 0 && is_axis(local))
    }

    /// A sum as a limit.
    pub fn limit(self) -> Limit {
        Limit(self)
    }
}

/// A value of an axis at which a condition begins or ceases to hold: a sum of sizes, of axes of loops around it and of a number, or a
/// variable by itself, whose sums might overflow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit(pub Sum);

impl Limit {
    /// The limit of a comparison's values of an axis, and the truth of the comparison below it.
    pub fn of(program: &UProgram, cond: ExprId, axis: Local) -> Option<(Self, bool)> {
        let Expr::Compare(op, DType::I64, a, b) = program.pool[cond] else {
            return None;
        };
        let sum = |id| Sum::of(program, id);
        let mut difference = sum(a)?.plus(&sum(b)?.times(-1)?)?;
        let factor = difference.terms.iter().find(|term| term.0 == axis)?.1;
        let mut op = op;
        if factor == -1 {
            (difference, op) = (difference.times(-1)?, mirrored(op));
        } else if factor != 1 {
            return None;
        }
        difference.terms.retain(|term| term.0 != axis);
        let mut limit = difference.times(-1)?;
        let holds_below = match op {
            CompareOp::Lt => true,
            CompareOp::Ge => false,
            CompareOp::Le | CompareOp::Gt => {
                limit.constant = limit.constant.checked_add(1)?;
                op == CompareOp::Le
            }
            CompareOp::Eq | CompareOp::Ne => return None,
        };
        let is_small = |local: Local| program.locals[local].kind != LocalKind::Variable;
        let is_plain = limit.constant == 0 && matches!(limit.terms[..], [(_, 1)]);
        let is_sum = limit
            .terms
            .iter()
            .all(|term| is_small(term.0) && term.1.abs() < 1 << 16);
        (is_plain || is_sum).then_some((limit.limit(), holds_below))
    }

    /// True if it is certainly not negative.
    pub fn is_natural(&self, program: &UProgram) -> bool {
        self.0.is_natural(program)
    }

    /// Its distance from another one, if that is a number.
    pub fn beyond(&self, other: &Self) -> Option<i64> {
        let same = self.0.terms == other.0.terms;
        same.then(|| self.0.constant.checked_sub(other.0.constant))?
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ([(local, 1)], 0) = (&self.0.terms[..], self.0.constant) {
            return f.write_str(&name(*local));
        }
        f.write_str("(")?;
        for (k, &(local, factor)) in self.0.terms.iter().enumerate() {
            let between = if k > 0 { " + " } else { "" };
            match factor {
                1 => write!(f, "{between}{}", name(local))?,
                factor => write!(f, "{between}{} * ({factor})", name(local))?,
            }
        }
        let between = if self.0.terms.is_empty() { "" } else { " + " };
        match self.0.constant {
            0 if !self.0.terms.is_empty() => {}
            constant if constant < 0 => write!(f, "{between}({constant})")?,
            constant => write!(f, "{between}{constant}")?,
        }
        f.write_str(")")
    }
}

/// The comparison of exchanged operands.
pub fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        op => op,
    }
}
