//! Substitution in expressions and operators.

use foldhash::HashMap;
use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{Body, Local};

/// A substitution of expressions.
pub struct Substitution {
    known: HashMap<ExprId, ExprId>,
}

impl Substitution {
    /// Replaces each first expression by the second.
    pub fn new(pairs: impl IntoIterator<Item = (ExprId, ExprId)>) -> Self {
        Self {
            known: pairs.into_iter().collect(),
        }
    }

    /// Replaces another expression, which no expression that it was applied to contains.
    pub fn add(&mut self, from: ExprId, to: ExprId) {
        self.known.insert(from, to);
    }

    /// Renames the axes of one operator to those of another, in order; `None` if their sizes
    /// differ.
    pub fn of_axes(
        pool: &mut Pool,
        from: &[(Local, ExprId)],
        to: &[(Local, ExprId)],
    ) -> Option<Self> {
        let same = from.len() == to.len() && from.iter().zip(to).all(|(f, t)| f.1 == t.1);
        let pairs = from.iter().zip(to);
        same.then(|| Self::new(pairs.map(|(f, t)| (pool.local(f.0), pool.local(t.0)))))
    }

    /// Applies it to an expression.
    pub fn apply(&mut self, pool: &mut Pool, id: ExprId) -> ExprId {
        if let Some(&known) = self.known.get(&id) {
            return known;
        }
        let new = match pool[id] {
            Expr::Num(..) | Expr::Local(_) => id,
            Expr::Load(buffer, offset) => {
                let offset = self.apply(pool, offset);
                pool.add(Expr::Load(buffer, offset))
            }
            Expr::Unary(op, dtype, a) => {
                let a = self.apply(pool, a);
                pool.add(Expr::Unary(op, dtype, a))
            }
            Expr::Cast(from, to, a) => {
                let a = self.apply(pool, a);
                pool.cast(from, to, a)
            }
            Expr::Bits(from, to, a) => {
                let a = self.apply(pool, a);
                pool.bits(from, to, a)
            }
            Expr::Narrow(narrow, a) => {
                let a = self.apply(pool, a);
                pool.add(Expr::Narrow(narrow, a))
            }
            Expr::Binary(op, dtype, a, b) => {
                let (a, b) = (self.apply(pool, a), self.apply(pool, b));
                match (op, dtype) {
                    (BinaryOp::And, DType::Bool) => pool.and(a, b),
                    (BinaryOp::Or, DType::Bool) => pool.or(a, b),
                    _ => pool.binary(op, dtype, a, b),
                }
            }
            Expr::Compare(op, dtype, a, b) => {
                let (a, b) = (self.apply(pool, a), self.apply(pool, b));
                pool.compare(op, dtype, a, b)
            }
            Expr::Index(i, size) => {
                let (i, size) = (self.apply(pool, i), self.apply(pool, size));
                pool.index(i, size)
            }
            Expr::Select(dtype, cond, a, b) => {
                let cond = self.apply(pool, cond);
                let (a, b) = (self.apply(pool, a), self.apply(pool, b));
                pool.select(dtype, cond, a, b)
            }
        };
        self.known.insert(id, new);
        new
    }
}

/// The expressions that a body evaluates at each point, without the operands of contractions and
/// routines, which are read in place.
pub fn point_exprs(body: &mut Body) -> Vec<&mut ExprId> {
    match body {
        Body::Map { store, value }
        | Body::Fold { store, value, .. }
        | Body::ArgFold { store, value, .. }
        | Body::Update { store, value, .. }
        | Body::Scan { store, value, .. } => vec![value, &mut store.offset],
        Body::Call { store, .. } => vec![&mut store.offset],
        Body::Contract(c) => vec![&mut c.finish, &mut c.store.offset],
        Body::Chain(c) => {
            let bodies = c.steps.iter_mut().map(|s| &mut s.body);
            bodies.flat_map(point_exprs).collect()
        }
    }
}
