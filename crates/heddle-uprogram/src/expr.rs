//! Scalar expressions: the values, indices and sizes at a point of an iteration space.
//!
//! Expressions are hash-consed in one [`Pool`] per program, so that equal ones have equal ids, and
//! simplified when built. They are pure except for [`Expr::Load`], which reads the buffer when the
//! task runs.

use std::collections::{BTreeMap, HashSet};

use foldhash::HashMap;
use heddle_ir::op::{BinaryOp, CompareOp, ScaleRounding, UnaryOp};
use heddle_ir::{Arena, DType};
use smallvec::{SmallVec, smallvec};

use crate::ids::{Buffer, Local};

heddle_ir::entity!(
    /// A scalar expression of a [`Pool`].
    ExprId, "e"
);

/// A scalar expression. Indices and sizes are `i64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A number of this type, as the bits of its little-endian form, zero-extended.
    Num(DType, u64),
    /// A per-unit variable: an axis of an iteration space, an iteration number, a size, a scalar.
    Local(Local),
    /// The element at this offset, counted in elements.
    Load(Buffer, ExprId),
    /// An elementwise op on a value of this type.
    Unary(UnaryOp, DType, ExprId),
    /// An elementwise op on two values of this type.
    Binary(BinaryOp, DType, ExprId, ExprId),
    /// A comparison of two values of this type; `bool`.
    Compare(CompareOp, DType, ExprId, ExprId),
    /// Choice by a `bool` between two values of this type. Both are evaluated, so their loads must
    /// be in bounds.
    Select(DType, ExprId, ExprId, ExprId),
    /// From one type to another, as [`heddle_ir::Op::Cast`].
    Cast(DType, DType, ExprId),
    /// The same bits as another type of the same width.
    Bits(DType, DType, ExprId),
    /// An `f64` as a float of 4 or 8 bits.
    Narrow(Narrow, ExprId),
    /// An index into an axis of this size: a negative one counts from the end; out of range stops
    /// the run.
    Index(ExprId, ExprId),
}

impl Expr {
    /// Its operands.
    pub fn operands(self) -> impl Iterator<Item = ExprId> {
        let operands = match self {
            Expr::Num(..) | Expr::Local(_) => [None; 3],
            Expr::Load(_, a)
            | Expr::Unary(_, _, a)
            | Expr::Cast(_, _, a)
            | Expr::Bits(_, _, a)
            | Expr::Narrow(_, a) => [Some(a), None, None],
            Expr::Binary(_, _, a, b) | Expr::Compare(_, _, a, b) | Expr::Index(a, b) => {
                [Some(a), Some(b), None]
            }
            Expr::Select(_, a, b, c) => [a, b, c].map(Some),
        };
        operands.into_iter().flatten()
    }

    /// The same of other expressions.
    pub fn with_operands(self, of: impl Fn(ExprId) -> ExprId) -> Self {
        match self {
            Expr::Num(..) | Expr::Local(_) => self,
            Expr::Load(buffer, a) => Expr::Load(buffer, of(a)),
            Expr::Unary(op, t, a) => Expr::Unary(op, t, of(a)),
            Expr::Binary(op, t, a, b) => Expr::Binary(op, t, of(a), of(b)),
            Expr::Compare(op, t, a, b) => Expr::Compare(op, t, of(a), of(b)),
            Expr::Select(t, a, b, c) => Expr::Select(t, of(a), of(b), of(c)),
            Expr::Cast(from, to, a) => Expr::Cast(from, to, of(a)),
            Expr::Bits(from, to, a) => Expr::Bits(from, to, of(a)),
            Expr::Narrow(n, a) => Expr::Narrow(n, of(a)),
            Expr::Index(a, b) => Expr::Index(of(a), of(b)),
        }
    }
}

/// The element that a point writes: the counterpart of [`Expr::Load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// The buffer.
    pub buffer: Buffer,
    /// The element's offset.
    pub offset: ExprId,
}

/// Conversion of an `f64` to a float of 4 or 8 bits, as [`heddle_ir::Op::Cast`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Narrow {
    /// The type.
    pub to: DType,
    /// True if overflow becomes the largest number.
    pub saturate: bool,
    /// Rounding of a scale.
    pub round: ScaleRounding,
}

/// All expressions of a program.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    exprs: Arena<ExprId, Expr>,
    ids: HashMap<Expr, ExprId>,
}

/// Expressions that a walk is to meet.
pub type Open = SmallVec<[ExprId; 16]>;

/// Expressions met by a walk. Most walks meet few, and the scheduler walks very often.
#[derive(Default)]
struct Seen {
    few: SmallVec<[ExprId; Seen::FEW]>,
    more: HashSet<ExprId>,
}

impl Seen {
    const FEW: usize = 48;

    /// Inserts one; returns true if it is new.
    fn insert(&mut self, id: ExprId) -> bool {
        if self.few.contains(&id) {
            return false;
        }
        if self.few.len() < Self::FEW {
            self.few.push(id);
            return true;
        }
        self.more.insert(id)
    }
}

impl std::ops::Index<ExprId> for Pool {
    type Output = Expr;
    fn index(&self, id: ExprId) -> &Expr {
        &self.exprs[id]
    }
}

impl Pool {
    /// Adds an expression without simplifying it.
    pub fn add(&mut self, expr: Expr) -> ExprId {
        *self
            .ids
            .entry(expr)
            .or_insert_with(|| self.exprs.push(expr))
    }

    /// The number of expressions.
    pub fn len(&self) -> usize {
        self.exprs.len()
    }

    /// True if there are no expressions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An `i64`.
    pub fn int(&mut self, value: i64) -> ExprId {
        self.add(Expr::Num(DType::I64, value as u64))
    }

    /// A unit's variable.
    pub fn local(&mut self, local: Local) -> ExprId {
        self.add(Expr::Local(local))
    }

    /// The value, if it is an `i64` constant.
    pub fn as_int(&self, id: ExprId) -> Option<i64> {
        match self[id] {
            Expr::Num(DType::I64, bits) => Some(bits as i64),
            _ => None,
        }
    }

    /// The sum of two `i64`.
    pub fn sum(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinaryOp::Add, DType::I64, a, b)
    }

    /// The product of two `i64`.
    pub fn product(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinaryOp::Mul, DType::I64, a, b)
    }

    /// The product of many `i64`.
    pub fn product_of(&mut self, factors: &[ExprId]) -> ExprId {
        let one = self.int(1);
        factors.iter().fold(one, |p, &f| self.product(p, f))
    }

    /// An elementwise op, simplified where that is exact.
    pub fn binary(&mut self, op: BinaryOp, dtype: DType, a: ExprId, b: ExprId) -> ExprId {
        if dtype == DType::I64
            && let Some(simple) = self.simplify(op, a, b)
        {
            return simple;
        }
        self.add(Expr::Binary(op, dtype, a, b))
    }

    /// A choice, simplified if both values are equal or the condition is static.
    pub fn select(&mut self, dtype: DType, cond: ExprId, a: ExprId, b: ExprId) -> ExprId {
        match self[cond] {
            Expr::Num(_, bits) => {
                if bits != 0 {
                    a
                } else {
                    b
                }
            }
            _ if a == b => a,
            _ => self.add(Expr::Select(dtype, cond, a, b)),
        }
    }

    /// A comparison, folded if both operands are constants, or one integer.
    pub fn compare(&mut self, op: CompareOp, dtype: DType, a: ExprId, b: ExprId) -> ExprId {
        if let (DType::I64, Some(x), Some(y)) = (dtype, self.as_int(a), self.as_int(b)) {
            let truth = match op {
                CompareOp::Eq => x == y,
                CompareOp::Ne => x != y,
                CompareOp::Lt => x < y,
                CompareOp::Le => x <= y,
                CompareOp::Gt => x > y,
                CompareOp::Ge => x >= y,
            };
            return self.add(Expr::Num(DType::Bool, truth as u64));
        }
        if dtype == DType::I64 && a == b {
            let truth = matches!(op, CompareOp::Eq | CompareOp::Le | CompareOp::Ge);
            return self.add(Expr::Num(DType::Bool, truth as u64));
        }
        self.add(Expr::Compare(op, dtype, a, b))
    }

    /// A conversion, none for equal types.
    pub fn cast(&mut self, from: DType, to: DType, a: ExprId) -> ExprId {
        if from == to {
            return a;
        }
        if let (DType::Bool, Some(x)) = (to, self.as_int(a)) {
            return self.add(Expr::Num(DType::Bool, (x != 0) as u64));
        }
        self.add(Expr::Cast(from, to, a))
    }

    /// The same bits as another type of the same width.
    pub fn bits(&mut self, from: DType, to: DType, a: ExprId) -> ExprId {
        if from == to {
            return a;
        }
        self.add(Expr::Bits(from, to, a))
    }

    /// Conjunction of two `bool`.
    pub fn and(&mut self, a: ExprId, b: ExprId) -> ExprId {
        match (self[a], self[b]) {
            (Expr::Num(_, 1), _) | (_, Expr::Num(_, 0)) => b,
            (_, Expr::Num(_, 1)) | (Expr::Num(_, 0), _) => a,
            _ => self.binary(BinaryOp::And, DType::Bool, a, b),
        }
    }

    /// Disjunction of two `bool`.
    pub fn or(&mut self, a: ExprId, b: ExprId) -> ExprId {
        match (self[a], self[b]) {
            (Expr::Num(_, 0), _) | (_, Expr::Num(_, 1)) => b,
            (_, Expr::Num(_, 0)) | (Expr::Num(_, 1), _) => a,
            _ => self.binary(BinaryOp::Or, DType::Bool, a, b),
        }
    }

    /// The difference of two `i64`.
    pub fn difference(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinaryOp::Sub, DType::I64, a, b)
    }

    /// An index into an axis; checked at run time unless it is static and in bounds.
    pub fn index(&mut self, index: ExprId, size: ExprId) -> ExprId {
        if let (Some(i), Some(n)) = (self.as_int(index), self.as_int(size)) {
            let i = if i < 0 { i + n } else { i };
            if (0..n).contains(&i) {
                return self.int(i);
            }
        }
        self.add(Expr::Index(index, size))
    }

    /// Replaces a buffer in all loads.
    pub fn rename(&mut self, old: Buffer, new: Buffer) {
        for id in self.exprs.keys().collect::<Vec<_>>() {
            if let Expr::Load(buffer, offset) = self.exprs[id]
                && buffer == old
            {
                self.ids.remove(&self.exprs[id]);
                self.exprs[id] = Expr::Load(new, offset);
                self.ids.entry(self.exprs[id]).or_insert(id);
            }
        }
    }

    /// Calls `visit` once for each distinct subexpression.
    pub fn walk(&self, root: ExprId, visit: &mut dyn FnMut(ExprId, Expr)) {
        // Most roots are leaves.
        if self[root].operands().next().is_none() {
            return visit(root, self[root]);
        }
        self.walk_some(root, &mut |id, expr, open| {
            visit(id, expr);
            open.extend(expr.operands());
        });
    }

    /// The same, but of the parts of a subexpression those alone that `visit` adds to the ones it is given.
    pub fn walk_some(&self, root: ExprId, visit: &mut dyn FnMut(ExprId, Expr, &mut Open)) {
        let mut seen = Seen::default();
        let mut open: Open = smallvec![root];
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                visit(id, self[id], &mut open);
            }
        }
    }

    /// All loads in these expressions: buffer and offset.
    pub fn loads(&self, roots: impl IntoIterator<Item = ExprId>) -> Vec<(Buffer, ExprId)> {
        let mut loads = vec![];
        for root in roots {
            self.walk(root, &mut |_, e| {
                if let Expr::Load(buffer, offset) = e {
                    loads.push((buffer, offset));
                }
            });
        }
        loads
    }

    /// The only load in an expression, with its buffer and offset; `None` if there is none, or more than one.
    pub fn only_load(&self, root: ExprId) -> Option<(ExprId, Buffer, ExprId)> {
        let mut loads = vec![];
        self.walk(root, &mut |id, e| {
            if let Expr::Load(buffer, offset) = e {
                loads.push((id, buffer, offset));
            }
        });
        match loads[..] {
            [load] => Some(load),
            _ => None,
        }
    }

    /// True if `is` holds for some subexpression; stops there.
    pub fn any(&self, root: ExprId, is: &dyn Fn(Expr) -> bool) -> bool {
        let mut seen = Seen::default();
        let mut open: SmallVec<[ExprId; 16]> = smallvec![];
        let mut next = Some(root);
        while let Some(id) = next {
            if seen.insert(id) {
                if is(self[id]) {
                    return true;
                }
                open.extend(self[id].operands());
            }
            next = open.pop();
        }
        false
    }

    /// Renames buffers in all loads.
    pub fn rename_buffers(&mut self, names: &BTreeMap<Buffer, Buffer>) {
        let ids: Vec<_> = self.exprs.keys().collect();
        for id in ids {
            if let Expr::Load(buffer, offset) = self.exprs[id]
                && let Some(&name) = names.get(&buffer)
            {
                self.exprs[id] = Expr::Load(name, offset);
            }
        }
        // Different loads may be equal now; either id is valid.
        self.ids = self.exprs.iter().map(|(id, e)| (*e, id)).collect();
    }

    fn simplify(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> Option<ExprId> {
        let (x, y) = (self.as_int(a), self.as_int(b));
        match (op, x, y) {
            (BinaryOp::Add, Some(x), Some(y)) => Some(self.int(x.wrapping_add(y))),
            (BinaryOp::Sub, Some(x), Some(y)) => Some(self.int(x.wrapping_sub(y))),
            (BinaryOp::Mul, Some(x), Some(y)) => Some(self.int(x.wrapping_mul(y))),
            (BinaryOp::Div, Some(x), Some(y)) if y > 0 => Some(self.int(x / y)),
            (BinaryOp::Mod, Some(x), Some(y)) if y > 0 => Some(self.int(x.rem_euclid(y))),
            (BinaryOp::Max, Some(x), Some(y)) => Some(self.int(x.max(y))),
            (BinaryOp::Min, Some(x), Some(y)) => Some(self.int(x.min(y))),
            (BinaryOp::Add, Some(0), _) | (BinaryOp::Mul, Some(1), _) => Some(b),
            (BinaryOp::Add | BinaryOp::Sub, _, Some(0)) => Some(a),
            (BinaryOp::Mul | BinaryOp::Div, _, Some(1)) => Some(a),
            (BinaryOp::Mul, Some(0), _) => Some(a),
            (BinaryOp::Mul, _, Some(0)) => Some(b),
            (BinaryOp::Mod, _, Some(1)) => Some(self.int(0)),
            (BinaryOp::Max | BinaryOp::Min, ..) if a == b => Some(a),
            // (e + c1) + c2, as nested offsets produce it.
            (BinaryOp::Add, None, Some(y)) => match self[a] {
                Expr::Binary(BinaryOp::Add, DType::I64, e, c) => {
                    let c = self.as_int(c)?;
                    let c = self.int(c.wrapping_add(y));
                    Some(self.sum(e, c))
                }
                _ => None,
            },
            _ => None,
        }
    }
}
