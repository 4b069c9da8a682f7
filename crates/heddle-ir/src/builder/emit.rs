//! Short forms for the readers of formats, each of which has an error type of its own.

use crate::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use crate::{DType, Dim, FuncBuilder, Op, TensorType, TypeError, Value};

/// The errors of a reader.
pub trait EmitError: From<TypeError> {
    /// The model breaks its format's rules.
    fn invalid(message: String) -> Self;

    /// A tensor's rank must be known, and is not.
    fn unknown_rank() -> Self;
}

/// Appends instructions to a function, and asks about its values.
pub trait Emit {
    /// The reader's error, to which a builder's failure converts.
    type Error: EmitError;

    /// The builder.
    fn builder(&mut self) -> &mut FuncBuilder;

    /// The builder, to ask only.
    fn built(&self) -> &FuncBuilder;

    // ---- facts about values

    /// The type of a tensor.
    fn tensor_ty(&self, v: Value) -> Result<&TensorType, Self::Error> {
        let ty = self.built().ty(v);
        let found = ty.as_tensor();
        found.ok_or_else(|| Self::Error::invalid(format!("a tensor is needed, not {ty}")))
    }

    /// The element type of a tensor.
    fn dtype(&self, v: Value) -> Result<DType, Self::Error> {
        Ok(self.tensor_ty(v)?.dtype)
    }

    /// The shape of a tensor, whose rank must be known.
    fn shape(&self, v: Value) -> Result<Vec<Dim>, Self::Error> {
        let shape = self.tensor_ty(v)?.shape.clone();
        shape.ok_or_else(Self::Error::unknown_rank)
    }

    /// The rank of a tensor, which must be known.
    fn rank(&self, v: Value) -> Result<usize, Self::Error> {
        Ok(self.shape(v)?.len())
    }

    /// The elements of an integer array, if all are known.
    fn const_i64s(&self, v: Value) -> Option<Vec<i64>> {
        let is_float = self.tensor_ty(v).is_ok_and(|t| t.dtype.is_float());
        let known = self.built().known(v).filter(|_| !is_float);
        let small = known.and_then(|k| k.iter().map(Dim::as_const).collect());
        small.or_else(|| self.built().func().constant(v)?.to_i64s())
    }

    // ---- instructions

    /// An op with one result.
    fn op(&mut self, op: Op, args: &[Value]) -> Result<Value, Self::Error> {
        Ok(self.builder().op1(op, args)?)
    }

    /// An elementwise op with one operand.
    fn unary(&mut self, kind: UnaryOp, x: Value) -> Result<Value, Self::Error> {
        self.op(Op::Unary(kind), &[x])
    }

    /// An elementwise op with two operands (broadcast; same element type).
    fn binary(&mut self, kind: BinaryOp, a: Value, b: Value) -> Result<Value, Self::Error> {
        self.op(Op::Binary(kind), &[a, b])
    }

    /// A comparison (broadcast; same element type).
    fn compare(&mut self, kind: CompareOp, a: Value, b: Value) -> Result<Value, Self::Error> {
        self.op(Op::Compare(kind), &[a, b])
    }

    /// `cond ? a : b`, broadcast.
    fn select(&mut self, cond: Value, a: Value, b: Value) -> Result<Value, Self::Error> {
        self.op(Op::Select, &[cond, a, b])
    }

    /// The sum.
    fn add(&mut self, a: Value, b: Value) -> Result<Value, Self::Error> {
        self.binary(BinaryOp::Add, a, b)
    }

    /// The difference.
    fn sub(&mut self, a: Value, b: Value) -> Result<Value, Self::Error> {
        self.binary(BinaryOp::Sub, a, b)
    }

    /// The product.
    fn mul(&mut self, a: Value, b: Value) -> Result<Value, Self::Error> {
        self.binary(BinaryOp::Mul, a, b)
    }

    /// The quotient.
    fn div(&mut self, a: Value, b: Value) -> Result<Value, Self::Error> {
        self.binary(BinaryOp::Div, a, b)
    }

    /// Converts to another element type; emits nothing if it has that type already.
    fn cast(&mut self, x: Value, to: DType) -> Result<Value, Self::Error> {
        Ok(self.builder().cast(to, x)?)
    }

    /// Result axis `i` is axis `perm[i]`; emits nothing for the identity.
    fn transpose(&mut self, x: Value, perm: &[usize]) -> Result<Value, Self::Error> {
        if perm.iter().enumerate().all(|(i, &p)| i == p) && self.rank(x)? == perm.len() {
            return Ok(x);
        }
        let perm = perm.to_vec();
        self.op(Op::Transpose { perm }, &[x])
    }

    /// Adds axes of size 1: the result's `axes` (ascending).
    fn unsqueeze(&mut self, x: Value, axes: &[usize]) -> Result<Value, Self::Error> {
        let axes = axes.to_vec();
        match axes.is_empty() {
            true => Ok(x),
            false => self.op(Op::Unsqueeze { axes }, &[x]),
        }
    }

    /// Removes axes (ascending, of size 1).
    fn squeeze(&mut self, x: Value, axes: &[usize]) -> Result<Value, Self::Error> {
        let axes = axes.to_vec();
        match axes.is_empty() {
            true => Ok(x),
            false => self.op(Op::Squeeze { axes }, &[x]),
        }
    }

    /// Joined along an axis; nothing is emitted for a single value.
    fn concat(&mut self, parts: &[Value], axis: usize) -> Result<Value, Self::Error> {
        match parts {
            [one] => Ok(*one),
            _ => self.op(Op::Concat { axis }, parts),
        }
    }

    /// `indices`' shape replaces `axis` of `x`.
    fn gather(&mut self, x: Value, indices: Value, axis: usize) -> Result<Value, Self::Error> {
        self.op(Op::Gather { axis }, &[x, indices])
    }

    /// A reduction over the axes (ascending).
    fn reduce(
        &mut self,
        kind: ReduceOp,
        x: Value,
        axes: &[usize],
        keep: bool,
    ) -> Result<Value, Self::Error> {
        let axes = axes.to_vec();
        self.op(Op::Reduce { kind, axes, keep }, &[x])
    }

    /// `exp(x) / sum(exp(x))` along the axes, without overflow.
    fn softmax(&mut self, x: Value, axes: &[usize]) -> Result<Value, Self::Error> {
        let max = self.reduce(ReduceOp::Max, x, axes, true)?;
        let shifted = self.sub(x, max)?;
        let exp = self.unary(UnaryOp::Exp, shifted)?;
        let sum = self.reduce(ReduceOp::Sum, exp, axes, true)?;
        self.div(exp, sum)
    }

    /// Matrix product with NumPy's rules for ranks: vectors get an axis that is dropped again.
    fn matmul(&mut self, a: Value, b: Value) -> Result<Value, Self::Error> {
        let (ra, rb) = (self.rank(a)?, self.rank(b)?);
        if ra == 0 || rb == 0 {
            let message = "a matrix product takes no scalars";
            return Err(Self::Error::invalid(message.into()));
        }
        let x = if ra == 1 { self.unsqueeze(a, &[0])? } else { a };
        let y = if rb == 1 { self.unsqueeze(b, &[1])? } else { b };
        let mut z = self.op(Op::Dot, &[x, y])?;
        let rank = self.rank(z)?;
        if rb == 1 {
            z = self.squeeze(z, &[rank - 1])?;
        }
        if ra == 1 {
            let last = self.rank(z)? - 1;
            z = self.squeeze(z, &[if rb == 1 { last } else { rank - 2 }])?;
        }
        Ok(z)
    }

    /// The factors of a Fourier transform of `points` points (`i64[]`): cosine and sine, `f64[rows, columns]`, of
    /// `2 pi rows[i] columns[j] / points`. Angles are reduced to one turn before they become real numbers.
    fn fourier(
        &mut self,
        rows: Value,
        columns: Value,
        points: Value,
    ) -> Result<(Value, Value), Self::Error> {
        let column = self.unsqueeze(rows, &[1])?;
        let product = self.mul(column, columns)?;
        let product = self.binary(BinaryOp::Mod, product, points)?;
        let angle = self.cast(product, DType::F64)?;
        let turn = self.builder().scalar(DType::F64, std::f64::consts::TAU);
        let points = self.cast(points, DType::F64)?;
        let angle = self.mul(angle, turn)?;
        let angle = self.div(angle, points)?;
        Ok((
            self.unary(UnaryOp::Cos, angle)?,
            self.unary(UnaryOp::Sin, angle)?,
        ))
    }
}
