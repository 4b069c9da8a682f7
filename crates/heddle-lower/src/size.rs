//! Sizes of axes as expressions over the launch's symbolic sizes.

use heddle_ir::dim::Atom;
use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, DimExpr, Op, TensorType, Type, Value};

use super::{Cause, Lowerer, MAX_LEN, Result};
use crate::value::Val;
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Local, LocalData, LocalKind, Size};

impl Lowerer<'_> {
    /// The size of each axis of a tensor type.
    pub(super) fn shape_of(&mut self, ty: &Type) -> Result<Vec<ExprId>> {
        let shape = ty.as_tensor().and_then(|t| t.shape.as_ref());
        match (shape, self.inferred.clone()) {
            (_, Some(inferred)) => Ok(inferred),
            (Some(shape), None) => shape.iter().map(|d| self.size(d)).collect(),
            (None, None) => self.fail(Cause::Rank("gives")),
        }
    }

    /// The shape of an input; unnamed sizes are launch parameters, too.
    pub(super) fn input_shape(&mut self, input: usize, t: &TensorType) -> Result<Vec<ExprId>> {
        let Some(shape) = &t.shape else {
            return self.fail(Cause::Rank("takes"));
        };
        let sizes = shape.iter().enumerate().map(|(axis, dim)| match dim {
            Dim::Expr(e) => self.size_expr(e),
            Dim::Unknown(_) => {
                let local = self.given_size(Size::Axis { input, axis }, DType::I64);
                Ok(self.program.pool.local(local))
            }
        });
        sizes.collect()
    }

    /// The inferred shape of a result whose type has dynamic sizes; every unit holds those.
    pub(super) fn open_shape(
        &mut self,
        op: &Op,
        args: &[Val],
        result: Value,
    ) -> Result<Option<Vec<ExprId>>> {
        let dims = self.f.ty(result).as_tensor().map(|t| t.shape.clone());
        let Some(dims) = dims else {
            return Ok(None);
        };
        let is_open = |d: &Dim| matches!(d, Dim::Unknown(_));
        if dims.as_ref().is_some_and(|d| !d.iter().any(is_open)) {
            return Ok(None);
        }
        let Some(mut shape) = self.infer_shape(op, args)? else {
            return Ok(None);
        };
        if matches!(op, Op::Broadcast | Op::Pad { .. } | Op::Reshape) {
            self.check_computed(&shape);
        }
        for (k, size) in shape.iter_mut().enumerate() {
            match dims.as_ref().and_then(|d| d.get(k)) {
                Some(Dim::Expr(e)) => *size = self.size_expr(e)?,
                Some(Dim::Unknown(most)) => *size = self.held_size(*size, *most),
                None => *size = self.held_size(*size, None),
            }
        }
        Ok(Some(shape))
    }

    fn held_size(&mut self, size: ExprId, most: Option<u64>) -> ExprId {
        if self.is_of_launch(size) {
            return self.settle_expr(DType::I64, size);
        }
        if matches!(self.program.pool[size], heddle_uprogram::Expr::Local(_)) {
            return size;
        }
        if let Some(&held) = self.held.get(&size) {
            return held;
        }
        let stated = most.map(|most| i64::try_from(most).unwrap_or(i64::MAX));
        let bound = match (self.upper_bound(size), stated) {
            (Some(bound), None) => Some(bound),
            (Some(bound), Some(most))
                if self.program.pool.as_int(bound).is_some_and(|b| b <= most) =>
            {
                Some(bound)
            }
            // Memory has the stated bound, which is checked.
            (bound, Some(most)) => {
                let pool = &mut self.program.pool;
                let most = pool.int(most);
                let fits = pool.compare(CompareOp::Le, DType::I64, size, most);
                let bound = bound.map(|b| pool.binary(BinaryOp::Min, DType::I64, b, most));
                self.check(fits, size, most);
                Some(bound.unwrap_or(most))
            }
            (None, None) => None,
        };
        let held = self.sized(size, bound);
        // Elements of arrays may change between places in a program.
        if !self.program.loads(size) {
            self.held.insert(size, held);
        }
        held
    }

    /// Memory has the bounds that a type states for dynamic sizes, so they are checked before a
    /// value is stored.
    pub(super) fn check_stated(&mut self, of: Value, val: &Val) {
        let dims = self.f.ty(of).as_tensor().and_then(|t| t.shape.clone());
        for (dim, &size) in dims.iter().flatten().zip(val.shape()) {
            let Dim::Unknown(Some(most)) = dim else {
                continue;
            };
            let most = i64::try_from(*most).unwrap_or(i64::MAX);
            let bound = self.upper_bound(size);
            if bound.is_some_and(|b| self.program.pool.as_int(b).is_some_and(|b| b <= most)) {
                continue;
            }
            let pool = &mut self.program.pool;
            let most = pool.int(most);
            let fits = pool.compare(CompareOp::Le, DType::I64, size, most);
            self.check(fits, size, most);
        }
    }

    /// Checks that sizes computed by a model are not negative and small enough for sums without
    /// overflow.
    pub(super) fn check_computed(&mut self, shape: &[ExprId]) {
        for &size in shape {
            let known = self.program.pool.as_int(size);
            if self.is_size(size) || known.is_some_and(|n| (0..=MAX_LEN).contains(&n)) {
                continue;
            }
            let pool = &mut self.program.pool;
            let (zero, most) = (pool.int(0), pool.int(MAX_LEN));
            let some = pool.compare(CompareOp::Ge, DType::I64, size, zero);
            let few = pool.compare(CompareOp::Le, DType::I64, size, most);
            let fits = pool.and(some, few);
            self.check(fits, size, most);
        }
    }

    /// The shape of a carried value; dynamic sizes of its type are those of the initial value.
    pub(super) fn carried_shape(&mut self, t: &TensorType, first: &Val) -> Result<Vec<ExprId>> {
        let Some(dims) = &t.shape else {
            return self.fail(Cause::Rank("carries"));
        };
        let sizes = dims.iter().enumerate().map(|(k, dim)| match dim {
            Dim::Expr(e) => self.size_expr(e),
            Dim::Unknown(most) => {
                let size = first.shape()[k];
                Ok(self.held_size(size, *most))
            }
        });
        sizes.collect()
    }

    /// A size.
    pub(super) fn size(&mut self, dim: &Dim) -> Result<ExprId> {
        match dim {
            Dim::Expr(e) => self.size_expr(e),
            Dim::Unknown(_) => self.fail(Cause::Size),
        }
    }

    /// Defines a symbolic size of the launch.
    pub(super) fn named_size(&mut self, name: &str) {
        if self.sizes.contains_key(name) {
            return;
        }
        let local = self.given_size(Size::Named(name.into()), DType::I64);
        let size = self.program.pool.local(local);
        self.sizes.insert(name.into(), size);
    }

    pub(super) fn given_size(&mut self, size: Size, dtype: DType) -> Local {
        let data = LocalData {
            dtype,
            kind: LocalKind::Size,
            name: size.to_string(),
        };
        let local = self.program.locals.push(data);
        self.program.sizes.push((size, local));
        local
    }

    fn size_expr(&mut self, e: &DimExpr) -> Result<ExprId> {
        let mut sum = self.program.pool.int(0);
        for (atoms, coefficient) in e.terms() {
            let mut term = self.program.pool.int(coefficient);
            for atom in atoms {
                let factor = self.atom(atom)?;
                term = self.program.pool.product(term, factor);
            }
            sum = self.program.pool.sum(sum, term);
        }
        Ok(sum)
    }

    fn atom(&mut self, atom: &Atom) -> Result<ExprId> {
        let (op, pair) = match atom {
            Atom::Sym(name) => {
                let Some(&size) = self.sizes.get(name.as_ref()) else {
                    return self.fail(Cause::Unbound(name.to_string()));
                };
                return Ok(size);
            }
            Atom::FloorDiv(p) => (BinaryOp::Div, p),
            Atom::Max(p) => (BinaryOp::Max, p),
            Atom::Min(p) => (BinaryOp::Min, p),
        };
        let (mut a, b) = (self.size_expr(&pair.0)?, self.size_expr(&pair.1)?);
        let pool = &mut self.program.pool;
        if op == BinaryOp::Div {
            // Floor division: without the remainder, division is exact.
            let rest = pool.binary(BinaryOp::Mod, DType::I64, a, b);
            a = pool.binary(BinaryOp::Sub, DType::I64, a, rest);
        }
        Ok(pool.binary(op, DType::I64, a, b))
    }
}
