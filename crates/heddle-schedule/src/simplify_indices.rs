//! Quotients and remainders that ranges of axes decide.

use foldhash::HashMap;
use heddle_ir::op::BinaryOp;
use heddle_ir::{Arena, DType};
use heddle_machine::Machine;
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{Local, LocalData, LocalKind, Operator, UProgram};
use smallvec::{SmallVec, smallvec};

use crate::fuse::substitute::{Substitution, point_exprs};
use crate::split_axes::split_axis;

/// Replaces quotients and remainders of indices by constants where the ranges of axes decide them: with `i < 32`, `(k · 32 + i) / 32` is
/// `k`, `(k · 32 + i) % 32` is `i`, and `(k · 32 + i) / 320` is `k / 10`. Reshapes leave such indices behind, in which loops can neither be
/// merged nor vectorised.
///
/// A map's axis that is divided by a small number is split into two axes (`split_axis`), so that these are left: an axis of places that
/// are read from several maps in turns. Not so for machines whose lanes share the innermost loop.
///
/// It does *not* touch operands of contractions, whose kernels are found by their form.
pub fn simplify_indices(program: &mut UProgram, machine: &Machine) {
    // Lanes of a unit take places of the innermost axis, which must not become short.
    let splits = machine.synced_lanes() == 1;
    for id in program.operators.keys().collect::<Vec<_>>() {
        let mut op = program.operators[id].clone();
        let pool = &program.pool;
        let is_divided = |e: &mut &mut ExprId| pool.any(**e, &is_division);
        if !point_exprs(&mut op.body).iter_mut().any(is_divided) {
            continue;
        }
        simplify(program, &mut op);
        while splits && split_axis(program, &mut op) {
            simplify(program, &mut op);
        }
        program.operators[id] = op;
    }
}

fn simplify(program: &mut UProgram, op: &mut Operator) {
    let pool = &program.pool;
    let axes = op.axes.iter().chain(op.body.axes());
    let mut indices = Indices {
        axes: axes.map(|&(axis, size)| (axis, last(pool, size))).collect(),
        pool: &mut program.pool,
        locals: &program.locals,
        known: HashMap::default(),
        known_ranges: HashMap::default(),
    };
    for expr in point_exprs(&mut op.body) {
        *expr = indices.simplified(*expr);
    }
}

fn is_division(e: Expr) -> bool {
    matches!(
        e,
        Expr::Binary(BinaryOp::Div | BinaryOp::Mod, DType::I64, ..)
    )
}

/// The indices of an operator.
struct Indices<'p> {
    pool: &'p mut Pool,
    locals: &'p Arena<Local, LocalData>,
    /// The axes with their last places, if those are known.
    axes: HashMap<Local, Option<i64>>,
    known: HashMap<ExprId, ExprId>,
    known_ranges: HashMap<ExprId, Option<Option<i64>>>,
}

/// Limit on the terms of a sum; larger ones stay as they are.
const MAX_TERMS: usize = 64;

/// A sum of atoms, none of which is negative, with positive factors, and of a constant that is not negative.
struct Sum {
    terms: SmallVec<[(i64, ExprId); 4]>,
    constant: i64,
}

impl Indices<'_> {
    fn simplified(&mut self, id: ExprId) -> ExprId {
        if let Some(&known) = self.known.get(&id) {
            return known;
        }
        let operands: SmallVec<[ExprId; 3]> = self.pool[id].operands().collect();
        let new: SmallVec<[ExprId; 3]> = operands.iter().map(|&e| self.simplified(e)).collect();
        let mut result = id;
        if new != operands {
            let pairs = operands.iter().copied().zip(new);
            result = Substitution::new(pairs).apply(self.pool, id);
        }
        if let Expr::Binary(op @ (BinaryOp::Div | BinaryOp::Mod), DType::I64, a, b) =
            self.pool[result]
            && let Some(by) = self.pool.as_int(b).filter(|&by| by > 0)
            && let Some(simpler) = self.divided(op, a, by)
        {
            result = simpler;
        }
        self.known.insert(id, result);
        result
    }

    /// The quotient or the remainder of a sum by a constant, if it has a simpler form.
    fn divided(&mut self, op: BinaryOp, a: ExprId, by: i64) -> Option<ExprId> {
        if let (BinaryOp::Div, Expr::Binary(BinaryOp::Div, DType::I64, inner, first)) =
            (op, self.pool[a])
            && let Some(first) = self.pool.as_int(first).filter(|&first| first > 0)
            && let Some(both) = first.checked_mul(by)
            && self.sum(inner).is_some()
        {
            let simpler = self.divided(op, inner, both);
            return Some(simpler.unwrap_or_else(|| self.by(op, inner, both)));
        }
        let sum = self.sum(a)?;
        if self.most(&sum).is_some_and(|most| most < by) {
            return Some(match op {
                BinaryOp::Div => self.pool.int(0),
                _ => a,
            });
        }
        // Parts of the sum that a factor of the divisor divides, and the rest, which stays below that factor.
        let mut units: SmallVec<[i64; 4]> = smallvec![by];
        units.extend(sum.terms.iter().map(|&(factor, _)| gcd(factor, by)));
        units.sort_unstable_by(|a, b| b.cmp(a));
        units.dedup();
        let mut units = units.into_iter().filter(|&unit| unit > 1);
        let fitting = units.find_map(|unit| {
            let rest = sum.part(|factor| factor % unit != 0, sum.constant % unit);
            let fits = self.most(&rest).is_some_and(|most| most < unit);
            fits.then_some((unit, rest))
        });
        let Some((unit, rest)) = fitting else {
            return self.apart(op, &sum, by);
        };
        let mut whole = sum.part(|factor| factor % unit == 0, sum.constant);
        whole.terms.iter_mut().for_each(|term| term.0 /= unit);
        whole.constant /= unit;
        let (whole, left) = (self.built(&whole), by / unit);
        Some(match op {
            BinaryOp::Div if left == 1 => whole,
            BinaryOp::Div => self.again(op, whole, left),
            _ => {
                let rest = self.built(&rest);
                let high = match left {
                    1 => self.pool.int(0),
                    _ => self.again(op, whole, left),
                };
                let unit = self.pool.int(unit);
                let high = self.pool.product(high, unit);
                self.pool.sum(high, rest)
            }
        })
    }

    /// The quotient or the remainder of a sum whose parts that the divisor divides are left out of the division.
    fn apart(&mut self, op: BinaryOp, sum: &Sum, by: i64) -> Option<ExprId> {
        let rest = sum.part(|factor| factor % by != 0, sum.constant % by);
        let mut whole = sum.part(|factor| factor % by == 0, sum.constant - rest.constant);
        if whole.terms.is_empty() {
            return None;
        }
        whole.terms.iter_mut().for_each(|term| term.0 /= by);
        whole.constant /= by;
        let (rest, whole) = (self.built(&rest), self.built(&whole));
        let rest = self.by(op, rest, by);
        Some(match op {
            BinaryOp::Div => self.pool.sum(whole, rest),
            _ => rest,
        })
    }

    fn again(&mut self, op: BinaryOp, a: ExprId, by: i64) -> ExprId {
        let simpler = self.divided(op, a, by);
        simpler.unwrap_or_else(|| self.by(op, a, by))
    }

    fn by(&mut self, op: BinaryOp, a: ExprId, by: i64) -> ExprId {
        let by = self.pool.int(by);
        self.pool.binary(op, DType::I64, a, by)
    }

    /// An index as a sum; `None` if a part of it may be negative.
    fn sum(&mut self, e: ExprId) -> Option<Sum> {
        if let Some(constant) = self.pool.as_int(e) {
            return (constant >= 0).then_some(Sum {
                terms: smallvec![],
                constant,
            });
        }
        match self.pool[e] {
            Expr::Binary(BinaryOp::Add, DType::I64, a, b) => {
                let (mut sum, other) = (self.sum(a)?, self.sum(b)?);
                sum.constant = sum.constant.checked_add(other.constant)?;
                for (factor, atom) in other.terms {
                    match sum.terms.iter_mut().find(|term| term.1 == atom) {
                        Some(term) => term.0 = term.0.checked_add(factor)?,
                        None => sum.terms.push((factor, atom)),
                    }
                }
                (sum.terms.len() <= MAX_TERMS).then_some(sum)
            }
            Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
                let (of, by) = match (self.pool.as_int(a), self.pool.as_int(b)) {
                    (_, Some(by)) => (a, by),
                    (Some(by), _) => (b, by),
                    _ => return self.atom(e),
                };
                let mut sum = self.sum(of).filter(|_| by > 0)?;
                sum.constant = sum.constant.checked_mul(by)?;
                for term in &mut sum.terms {
                    term.0 = term.0.checked_mul(by)?;
                }
                Some(sum)
            }
            _ => self.atom(e),
        }
    }

    fn atom(&mut self, e: ExprId) -> Option<Sum> {
        self.range(e).map(|_| Sum {
            terms: smallvec![(1, e)],
            constant: 0,
        })
    }

    /// The largest value of an atom, if known; `None` if it may be negative.
    fn range(&mut self, atom: ExprId) -> Option<Option<i64>> {
        if let Some(&known) = self.known_ranges.get(&atom) {
            return known;
        }
        let range = self.find_range(atom);
        self.known_ranges.insert(atom, range);
        range
    }

    fn find_range(&mut self, atom: ExprId) -> Option<Option<i64>> {
        match self.pool[atom] {
            Expr::Local(local) if self.locals[local].kind == LocalKind::Size => Some(None),
            Expr::Local(local) => self.axes.get(&local).copied(),
            Expr::Index(_, size) => Some(last(self.pool, size)),
            Expr::Binary(BinaryOp::Mod, DType::I64, _, by) => {
                let by = self.pool.as_int(by).filter(|&by| by > 0)?;
                Some(Some(by - 1))
            }
            Expr::Binary(BinaryOp::Div, DType::I64, a, by) => {
                let by = self.pool.as_int(by).filter(|&by| by > 0)?;
                let sum = self.sum(a)?;
                Some(self.most(&sum).map(|most| most / by))
            }
            Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
                let (a, b) = (self.sum(a)?, self.sum(b)?);
                let both = self.most(&a).zip(self.most(&b));
                Some(both.and_then(|(a, b)| a.checked_mul(b)))
            }
            _ => None,
        }
    }

    /// The largest value of a sum, if known.
    fn most(&mut self, sum: &Sum) -> Option<i64> {
        let mut most = sum.constant;
        for &(factor, atom) in &sum.terms {
            most = most.checked_add(factor.checked_mul(self.range(atom)??)?)?;
        }
        Some(most)
    }

    fn built(&mut self, sum: &Sum) -> ExprId {
        let mut built = None;
        for &(factor, atom) in &sum.terms {
            let factor = self.pool.int(factor);
            let term = self.pool.product(atom, factor);
            built = Some(match built {
                Some(before) => self.pool.sum(before, term),
                None => term,
            });
        }
        let constant = self.pool.int(sum.constant);
        match built {
            Some(terms) => self.pool.sum(terms, constant),
            None => constant,
        }
    }
}

impl Sum {
    /// Some of its terms, and another constant.
    fn part(&self, has: impl Fn(i64) -> bool, constant: i64) -> Sum {
        let terms = self.terms.iter().filter(|term| has(term.0));
        Sum {
            terms: terms.copied().collect(),
            constant,
        }
    }
}

/// The last place of an axis of this size, if it is known.
fn last(pool: &Pool, size: ExprId) -> Option<i64> {
    pool.as_int(size).map(|n| (n - 1).max(0))
}

fn gcd(a: i64, b: i64) -> i64 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}
