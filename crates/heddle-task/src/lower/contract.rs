//! Lowers contractions: `dot` and `conv`.

use heddle_ir::op::{BinaryOp, ReduceOp};
use heddle_ir::{DType, Type};

use super::ops::window_at;
use super::{Lowerer, Result};
use crate::expr::{Expr, ExprId};
use crate::value::{Val, View, clamped, within};

impl Lowerer<'_> {
    /// Lowers a product of matrices.
    pub(super) fn dot(&mut self, args: &[Val], ty: &Type) -> Result<Val> {
        // Each element is read many times, so it is computed before.
        let (a, b) = (self.ready(&args[0])?, self.ready(&args[1])?);
        let shape = self.shape_of(ty)?;
        let (outer, index) = self.space(&shape, 0);
        let rank = shape.len();
        let depth = a.shape()[a.shape().len() - 1];
        let (inner, k) = self.space(&[depth], rank);
        let rows = [&index[..rank - 1], &k].concat();
        let columns = [&index[..rank - 2], &k, &index[rank - 1..]].concat();
        let dtype = a.dtype();
        let at = |lowerer: &mut Self, x: &Val, index: &[ExprId]| {
            let shape = [&shape[..rank - 2], &x.shape()[x.shape().len() - 2..]].concat();
            let x = Val::lazy(dtype, shape, View::Broadcast(x.clone()));
            x.read(&mut lowerer.program.pool, index)
        };
        let (x, y) = (at(self, &a, &rows), at(self, &b, &columns));
        let value = self.program.pool.binary(BinaryOp::Mul, dtype, x, y);
        self.fold_into(
            dtype,
            &shape,
            ReduceOp::Sum,
            inner,
            value,
            outer,
            &index,
            true,
        )
    }

    /// Lowers a convolution.
    pub(super) fn conv(
        &mut self,
        args: &[Val],
        strides: &[usize],
        dilations: &[usize],
        groups: usize,
        ty: &Type,
    ) -> Result<Val> {
        let (x, w) = (self.ready(&args[0])?, self.ready(&args[1])?);
        let Val::Scalars { elems: pads, .. } = &args[2] else {
            return self.fail("pads that are computed from data");
        };
        let n = strides.len();
        let shape = self.shape_of(ty)?;
        let (outer, index) = self.space(&shape, 0);
        let (inner, k) = self.space(&w.shape()[1..], shape.len());
        let dtype = x.dtype();
        let pool = &mut self.program.pool;
        // The group of output channel `o` starts at input channel `o / (outputs per group) * (inputs per group)`.
        let groups = pool.int(groups as i64);
        let per_group = pool.binary(BinaryOp::Div, DType::I64, w.shape()[0], groups);
        let group = pool.binary(BinaryOp::Div, DType::I64, index[1], per_group);
        let first = match pool.as_int(groups) {
            Some(1) => pool.int(0),
            _ => pool.product(group, w.shape()[1]),
        };
        let channel = pool.sum(first, k[0]);
        let mut place = vec![index[0], channel];
        let mut inside = pool.add(Expr::Num(DType::Bool, 1));
        for i in 0..n {
            let at = window_at(
                self,
                index[2 + i],
                strides[i],
                k[1 + i],
                dilations[i],
                pads[i],
            );
            inside = within(&mut self.program.pool, inside, at, x.shape()[2 + i]);
            place.push(at);
        }
        let place: Vec<_> = place
            .into_iter()
            .map(|i| clamped(&mut self.program.pool, inside, i))
            .collect();
        let pool = &mut self.program.pool;
        let (a, b) = (
            x.read(pool, &place),
            w.read(pool, &[&index[1..2], &k].concat()),
        );
        let product = pool.binary(BinaryOp::Mul, dtype, a, b);
        let zero = pool.add(Expr::Num(dtype, 0));
        let value = pool.select(dtype, inside, product, zero);
        self.fold_into(
            dtype,
            &shape,
            ReduceOp::Sum,
            inner,
            value,
            outer,
            &index,
            false,
        )
    }
}
