//! Small values in per-unit variables: sizes, conditions, arithmetic on them.

use heddle_ir::{DType, Op};

use super::{Cause, Lowerer, Result};
use crate::value::{Val, View};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{LocalData, LocalKind, Size, Stmt};

impl Lowerer<'_> {
    /// Stores every element in a per-unit variable.
    pub(super) fn let_elements(&mut self, val: &Val, count: i64) -> Val {
        if let Val::Scalars { .. } = val {
            return val.clone();
        }
        let (dtype, shape) = (val.dtype(), val.shape().to_vec());
        let mut elems = vec![];
        for k in 0..count {
            let index = self.index_of(k, &shape);
            let expr = val.read(&mut self.program.pool, &index);
            elems.push(self.let_expr(dtype, expr));
        }
        Val::Scalars {
            dtype,
            shape,
            elems,
        }
    }

    /// A scalar as an expression that every unit may evaluate at any time.
    pub(super) fn scalar(&mut self, val: &Val) -> Result<ExprId> {
        match self.let_elements(val, 1) {
            Val::Scalars { elems, .. } if !elems.is_empty() => Ok(elems[0]),
            _ => self.fail(Cause::Form("a scalar is needed")),
        }
    }

    /// A per-unit variable; constants and variables stay as they are.
    pub(super) fn let_expr(&mut self, dtype: DType, expr: ExprId) -> ExprId {
        let expr = self.settle_expr(dtype, expr);
        if matches!(self.program.pool[expr], Expr::Num(..) | Expr::Local(_)) {
            return expr;
        }
        let local = self.variable(dtype, "x");
        self.block.push(Stmt::Let(local, expr));
        // A size chosen among others is at most the largest; a product of sizes is bounded, too.
        if dtype == DType::I64
            && self.is_size(expr)
            && let Some(bound) = self.upper_bound(expr)
        {
            self.bounds.insert(local, Some(bound));
        }
        self.program.pool.local(local)
    }

    /// Values that depend on launch parameters only are computed once, at launch.
    pub(super) fn settle_expr(&mut self, dtype: DType, expr: ExprId) -> ExprId {
        let plain = matches!(self.program.pool[expr], Expr::Num(..) | Expr::Local(_));
        if plain || !self.is_of_launch(expr) {
            return expr;
        }
        if let Some(&local) = self.derived.get(&expr) {
            return self.program.pool.local(local);
        }
        let data = LocalData {
            dtype,
            kind: LocalKind::Size,
            name: "size".into(),
        };
        let local = self.program.locals.push(data);
        self.program.derived.push((local, expr));
        self.derived.insert(expr, local);
        self.program.pool.local(local)
    }

    /// An input whose elements determine sizes: every unit and the memory plan hold them.
    pub(super) fn input_elements(&mut self, input: usize, dtype: DType, shape: &[ExprId]) -> Val {
        let count = self.program.pool.product_of(shape);
        let count = self.program.pool.as_int(count).unwrap_or(0);
        let elems = (0..count as usize).map(|place| {
            let data = LocalData {
                dtype,
                kind: LocalKind::Size,
                name: "element".into(),
            };
            let local = self.program.locals.push(data);
            let size = Size::Element { input, place };
            self.program.sizes.push((size, local));
            self.program.pool.local(local)
        });
        let elems = elems.collect();
        Val::Scalars {
            dtype,
            shape: shape.to_vec(),
            elems,
        }
    }

    /// The run's key, which every launch is given.
    pub(super) fn run_key(&mut self) -> Val {
        let sizes = &self.program.sizes;
        let known = sizes.iter().find(|(size, _)| *size == Size::RunKey);
        let local = match known {
            Some(&(_, local)) => local,
            None => self.given_size(Size::RunKey, DType::U64),
        };
        Val::Scalars {
            dtype: DType::U64,
            shape: vec![],
            elems: vec![self.program.pool.local(local)],
        }
    }

    /// Stops the run.
    pub(super) fn stop(&mut self) -> Val {
        let pool = &mut self.program.pool;
        let (zero, one) = (pool.int(0), pool.int(1));
        self.check_equal(zero, one);
        Val::Scalars {
            dtype: DType::I64,
            shape: vec![],
            elems: vec![zero],
        }
    }

    /// The number of elements, if static and at most `limit`.
    pub(super) fn at_most(&self, val: &Val, limit: i64) -> Option<i64> {
        let mut sizes = val.shape().iter().map(|&s| self.program.pool.as_int(s));
        let count = sizes.try_fold(1i64, |n, size| n.checked_mul(size?))?;
        (count <= limit).then_some(count)
    }

    /// The index of an element in an array of static shape.
    pub(super) fn index_of(&mut self, element: i64, shape: &[ExprId]) -> Vec<ExprId> {
        let mut rest = element;
        let mut index = vec![];
        for &size in shape.iter().rev() {
            let size = self.program.pool.as_int(size).unwrap_or(1).max(1);
            index.push(self.program.pool.int(rest % size));
            rest /= size;
        }
        index.reverse();
        index
    }

    /// The value in another element type.
    pub(super) fn converted(&mut self, x: &Val, dtype: DType) -> Val {
        if x.dtype() == dtype {
            return x.clone();
        }
        let view = View::Map(Op::cast(dtype), vec![x.clone()]);
        Val::lazy(dtype, x.shape().to_vec(), view)
    }
}
