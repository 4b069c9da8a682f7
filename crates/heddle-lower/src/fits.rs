//! Checks of operands' sizes.
//!
//! The interpreter checks sizes when an op runs, whereas compiled code indexes without checks. So
//! where inference cannot prove that operands match, the program checks it before the op and stops
//! with a shape error.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, Op, Value};

use super::{Lowerer, Result};
use crate::value::Val;
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::Stmt;

impl Lowerer<'_> {
    /// Adds the checks of an op with a result of this shape.
    pub(super) fn check_sizes(
        &mut self,
        op: &Op,
        values: &[Value],
        args: &[Val],
        result: Value,
    ) -> Result<()> {
        self.check_negative(op, args, result)?;
        let dims = |v: &Value| {
            let ty = self.f.ty(*v).as_tensor();
            ty.and_then(|t| t.shape.as_deref())
        };
        let types: Option<Vec<&[Dim]>> = values.iter().map(dims).collect();
        if let (Some(types), Some(to)) = (types, dims(&result))
            && fits(op, &types, to)
        {
            return Ok(());
        }
        let shape = &match op {
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Cast { .. }
            | Op::Broadcast
            | Op::Reshape
            | Op::Concat { .. }
            | Op::Dot => self.shape_of(&self.f.ty(result).clone())?,
            _ => vec![],
        };
        self.check_op(op, args, shape);
        Ok(())
    }

    /// Computed sizes that are stated for the case that they are not negative.
    fn check_negative(&mut self, op: &Op, args: &[Val], result: Value) -> Result<()> {
        let dims = self.f.ty(result).as_tensor().and_then(|t| t.shape.clone());
        let clamped = |d: &Dim| d.as_expr().is_some_and(|e| e.as_max().is_some());
        if matches!(op, Op::Broadcast | Op::Pad { .. })
            && dims.is_some_and(|d| d.iter().any(clamped))
            && let Some(computed) = self.infer_shape(op, args)?
        {
            self.check_computed(&computed);
        }
        Ok(())
    }

    fn check_op(&mut self, op: &Op, args: &[Val], shape: &[ExprId]) {
        match op {
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Cast { .. }
            | Op::Broadcast => {
                let count = if *op == Op::Broadcast { 1 } else { args.len() };
                for arg in &args[..count] {
                    self.check_broadcast(arg.shape(), shape);
                }
            }
            Op::Reshape => {
                let pool = &mut self.program.pool;
                let (a, b) = (pool.product_of(args[0].shape()), pool.product_of(shape));
                self.check_equal(a, b);
            }
            Op::Squeeze { axes } => {
                for &axis in axes {
                    let one = self.program.pool.int(1);
                    self.check_equal(args[0].shape()[axis], one);
                }
            }
            Op::Concat { axis } => {
                for arg in args {
                    self.check_same(arg.shape(), shape, Some(*axis));
                }
            }
            Op::Dot => {
                let (a, b) = (args[0].shape(), args[1].shape());
                let (m, n) = (a.len() - 2, b.len() - 2);
                self.check_equal(a[m + 1], b[n]);
                let outer = &shape[..shape.len() - 2];
                self.check_broadcast(&a[..m], outer);
                self.check_broadcast(&b[..n], outer);
            }
            Op::Conv { groups, .. } => {
                let (x, w) = (args[0].shape(), args[1].shape());
                let pool = &mut self.program.pool;
                let groups = pool.int(*groups as i64);
                let inputs = pool.product(w[1], groups);
                let per = pool.binary(BinaryOp::Div, DType::I64, w[0], groups);
                let outputs = pool.product(per, groups);
                self.check_equal(x[1], inputs);
                self.check_equal(w[0], outputs);
            }
            Op::Gather { axis } => self.check_filled(&args[0].shape()[*axis..=*axis], &args[1]),
            Op::GatherElements { axis } => {
                self.check_filled(&args[0].shape()[*axis..=*axis], &args[1]);
                self.check_within(args[1].shape(), args[0].shape(), *axis);
            }
            Op::ScatterElements { axis, .. } => {
                self.check_filled(&args[0].shape()[*axis..=*axis], &args[1]);
                self.check_same(args[1].shape(), args[2].shape(), None);
                self.check_within(args[1].shape(), args[0].shape(), *axis);
            }
            Op::GatherNd { batch_dims } => {
                let looked_up = self.looked_up(&args[1]);
                self.check_filled(&args[0].shape()[*batch_dims..][..looked_up], &args[1]);
                self.check_same(
                    &args[1].shape()[..*batch_dims],
                    &args[0].shape()[..*batch_dims],
                    None,
                );
            }
            Op::ScatterNd { .. } => {
                let looked_up = self.looked_up(&args[1]);
                self.check_filled(&args[0].shape()[..looked_up], &args[1]);
                let (x, indices, updates) = (args[0].shape(), args[1].shape(), args[2].shape());
                let tuples = indices.len() - 1;
                let slice = updates.len().saturating_sub(tuples);
                self.check_same(&updates[..tuples], &indices[..tuples], None);
                let end = x.len().saturating_sub(slice);
                self.check_same(&updates[tuples..], &x[end..], None);
            }
            _ => {}
        }
    }

    /// Stops the run if the condition is false.
    pub(super) fn check(&mut self, cond: ExprId, a: ExprId, b: ExprId) {
        if !matches!(self.program.pool[cond], heddle_uprogram::Expr::Num(_, 1)) {
            self.block.push(Stmt::Check {
                cond,
                sizes: [a, b],
                name: self.name.clone(),
            });
        }
    }

    /// If there are indices into these axes, there must be an element: an index out of range reads
    /// element 0 before the run stops.
    fn check_filled(&mut self, axes: &[ExprId], indices: &Val) {
        let pool = &mut self.program.pool;
        let (zero, one) = (pool.int(0), pool.int(1));
        let count = pool.product_of(indices.shape());
        let none = pool.compare(CompareOp::Eq, DType::I64, count, zero);
        for &size in axes {
            let pool = &mut self.program.pool;
            if pool.as_int(size).is_some_and(|n| n > 0) {
                continue;
            }
            let filled = pool.compare(CompareOp::Gt, DType::I64, size, zero);
            let fine = pool.binary(BinaryOp::Or, DType::Bool, filled, none);
            self.check(fine, size, one);
        }
    }

    /// Number of axes that each index tuple selects.
    fn looked_up(&self, indices: &Val) -> usize {
        let last = indices.shape().last();
        let count = last.and_then(|&k| self.program.pool.as_int(k));
        count.map_or(0, |k| k as usize)
    }

    pub(super) fn check_equal(&mut self, a: ExprId, b: ExprId) {
        if a != b {
            let same = self.program.pool.compare(CompareOp::Eq, DType::I64, a, b);
            self.check(same, a, b);
        }
    }

    fn check_same(&mut self, a: &[ExprId], b: &[ExprId], but: Option<usize>) {
        for (k, (&a, &b)) in a.iter().zip(b).enumerate() {
            if Some(k) != but {
                self.check_equal(a, b);
            }
        }
    }

    /// Checks that the first is nowhere larger, except along one axis.
    fn check_within(&mut self, a: &[ExprId], b: &[ExprId], but: usize) {
        for (k, (&a, &b)) in a.iter().zip(b).enumerate() {
            if k != but && a != b {
                let fits = self.program.pool.compare(CompareOp::Le, DType::I64, a, b);
                self.check(fits, a, b);
            }
        }
    }

    fn check_broadcast(&mut self, from: &[ExprId], to: &[ExprId]) {
        for (&a, &b) in from.iter().rev().zip(to.iter().rev()) {
            if a != b {
                let pool = &mut self.program.pool;
                let one = pool.int(1);
                let single = pool.compare(CompareOp::Eq, DType::I64, a, one);
                let same = pool.compare(CompareOp::Eq, DType::I64, a, b);
                let fits = pool.or(single, same);
                self.check(fits, a, b);
            }
        }
    }
}

/// True if operands of these types always match.
fn fits(op: &Op, args: &[&[Dim]], result: &[Dim]) -> bool {
    match op {
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast { .. } => {
            args.iter().all(|a| broadcasts(a, result))
        }
        Op::Broadcast => broadcasts(args[0], result),
        Op::Reshape => Dim::product(args[0]).equals(&Dim::product(result)),
        Op::Squeeze { axes } => axes.iter().all(|&k| args[0][k].is(1)),
        Op::Concat { axis } => args.iter().all(|a| {
            let mut pairs = a.iter().zip(result).enumerate();
            pairs.all(|(k, (a, r))| k == *axis || a.equals(r))
        }),
        Op::Dot => {
            let (a, b) = (args[0], args[1]);
            let (m, n) = (a.len() - 2, b.len() - 2);
            let outer = &result[..result.len() - 2];
            a[m + 1].equals(&b[n]) && broadcasts(&a[..m], outer) && broadcasts(&b[..n], outer)
        }
        Op::Conv { groups, .. } => {
            let groups = Dim::constant(*groups as i64);
            let (x, w) = (args[0], args[1]);
            let whole = w[0].floor_div(&groups).mul(&groups);
            x[1].equals(&w[1].mul(&groups)) && w[0].equals(&whole)
        }
        Op::Gather { axis } => args[0][*axis].as_const().is_some_and(|n| n > 0),
        Op::GatherElements { .. }
        | Op::ScatterElements { .. }
        | Op::GatherNd { .. }
        | Op::ScatterNd { .. } => false,
        _ => true,
    }
}

/// True if the first provably broadcasts to the second.
fn broadcasts(from: &[Dim], to: &[Dim]) -> bool {
    let mut pairs = from.iter().rev().zip(to.iter().rev());
    from.len() <= to.len() && pairs.all(|(f, t)| f.is(1) || f.equals(t))
}
