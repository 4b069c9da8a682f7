//! Static or dynamic integers: sizes, pads and indices.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, Emit, Op, Value};

use super::cx::{NodeCx, Result};
use super::short::MAX_LIST;
use crate::refusal::Refusal;

/// An `i64`: a constant as far as possible, so that static shapes give constant operands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Int {
    /// Known at import.
    Const(i64),
    /// An `i64[]` value.
    Value(Value),
}

impl Int {
    /// The number, if it is known at import.
    pub fn as_const(self) -> Option<i64> {
        match self {
            Int::Const(c) => Some(c),
            Int::Value(_) => None,
        }
    }
}

impl From<i64> for Int {
    fn from(value: i64) -> Self {
        Int::Const(value)
    }
}

impl From<Value> for Int {
    fn from(value: Value) -> Self {
        Int::Value(value)
    }
}

impl NodeCx<'_> {
    /// The size of an axis.
    pub(super) fn size(&mut self, x: Value, axis: usize) -> Result<Int> {
        match self.shape(x)?.get(axis).and_then(Dim::as_const) {
            Some(c) => Ok(Int::Const(c)),
            None => Ok(Int::Value(self.size_of(x, axis)?)),
        }
    }

    /// The sizes of all axes.
    pub(super) fn sizes(&mut self, x: Value) -> Result<Vec<Int>> {
        (0..self.rank(x)?).map(|axis| self.size(x, axis)).collect()
    }

    /// The elements of an integer array of rank 1 and constant length.
    pub(super) fn int_elements(&mut self, list: Value) -> Result<Vec<Int>> {
        let list = self.cast(list, DType::I64)?;
        let dims = self.shape(list)?;
        let length = dims.first().and_then(Dim::as_const);
        let usable = length.filter(|n| (0..=MAX_LIST as i64).contains(n));
        let (1, Some(n)) = (dims.len(), usable) else {
            return Err(Refusal::ListLength(self.b.ty(list).clone()).into());
        };
        let known: Vec<Option<i64>> = match self.b.known(list) {
            Some(k) => k.iter().map(Dim::as_const).collect(),
            None => match self.const_i64s(list) {
                Some(all) => all.into_iter().map(Some).collect(),
                None => vec![None; n as usize],
            },
        };
        let mut elements = vec![];
        for (i, known) in known.into_iter().enumerate() {
            elements.push(match known {
                Some(c) => Int::Const(c),
                None => Int::Value(self.element(list, i)?),
            });
        }
        Ok(elements)
    }

    /// The number that an integer array of one element holds, whatever its rank.
    pub(super) fn int_scalar(&mut self, x: Value) -> Result<Int> {
        if let Some(&[constant]) = self.const_i64s(x).as_deref() {
            return Ok(Int::Const(constant));
        }
        Ok(Int::Value(self.to_index(x)?))
    }

    /// As an `i64[]` value.
    pub(super) fn int_value(&mut self, x: Int) -> Value {
        match x {
            Int::Const(c) => self.b.i64(c),
            Int::Value(v) => v,
        }
    }

    /// As an `i64[k]` value.
    pub(super) fn ints_value(&mut self, list: &[Int]) -> Result<Value> {
        let constants: Option<Vec<i64>> = list.iter().map(|x| x.as_const()).collect();
        if let Some(constants) = constants {
            return Ok(self.b.i64s(&constants));
        }
        let parts: Vec<Value> = list.iter().map(|&x| self.int_value(x)).collect();
        self.stack_i64s(&parts)
    }

    /// The sum.
    pub(super) fn int_add(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<Int> {
        self.int_op(BinaryOp::Add, a.into(), b.into())
    }

    /// The difference.
    pub(super) fn int_sub(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<Int> {
        self.int_op(BinaryOp::Sub, a.into(), b.into())
    }

    /// The product.
    pub(super) fn int_mul(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<Int> {
        self.int_op(BinaryOp::Mul, a.into(), b.into())
    }

    /// The larger one.
    pub(super) fn int_max(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<Int> {
        self.int_op(BinaryOp::Max, a.into(), b.into())
    }

    /// The smaller one.
    pub(super) fn int_min(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<Int> {
        self.int_op(BinaryOp::Min, a.into(), b.into())
    }

    /// The quotient, rounded toward zero.
    pub(super) fn int_div(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<Int> {
        self.int_op(BinaryOp::Div, a.into(), b.into())
    }

    /// The quotient of a number that is not negative and a positive one, rounded up.
    pub(super) fn int_div_up(&mut self, a: impl Into<Int>, b: i64) -> Result<Int> {
        let a = self.int_add(a, b - 1)?;
        self.int_div(a, b)
    }

    /// The product of sizes.
    pub(super) fn int_product(&mut self, sizes: &[Int]) -> Result<Int> {
        let mut product = Int::Const(1);
        for &size in sizes {
            product = self.int_mul(product, size)?;
        }
        Ok(product)
    }

    /// `0, 1, …, size - 1` as `i64`.
    pub(super) fn iota(&mut self, size: impl Into<Int>) -> Result<Value> {
        let (start, end) = (self.b.i64(0), self.int_value(size.into()));
        self.range(start, end)
    }

    /// `0 <= index < size`, elementwise.
    pub(super) fn is_index(&mut self, index: Value, size: Int) -> Result<Value> {
        let (zero, size) = (self.b.i64(0), self.int_value(size));
        let above = self.compare(CompareOp::Ge, index, zero)?;
        let below = self.compare(CompareOp::Lt, index, size)?;
        self.binary(BinaryOp::And, above, below)
    }

    /// `max(0, min(index, size - 1))`, elementwise.
    pub(super) fn clamp_index(&mut self, index: Value, size: Int) -> Result<Value> {
        let last = self.int_sub(size, 1)?;
        let (zero, last) = (self.b.i64(0), self.int_value(last));
        let index = self.min(index, last)?;
        self.max(index, zero)
    }

    /// `x[.., start..end, ..]` along one axis.
    pub(super) fn cut(
        &mut self,
        x: Value,
        axis: usize,
        start: impl Into<Int>,
        end: impl Into<Int>,
    ) -> Result<Value> {
        let (start, end) = (
            self.ints_value(&[start.into()])?,
            self.ints_value(&[end.into()])?,
        );
        let step = self.b.i64s(&[1]);
        self.op(Op::Slice { axes: vec![axis] }, &[x, start, end, step])
    }

    /// Reshaped to sizes of which some may be computed.
    pub(super) fn reshape_ints(&mut self, x: Value, sizes: &[Int]) -> Result<Value> {
        let shape = self.ints_value(sizes)?;
        self.reshape_to(x, shape)
    }

    fn int_op(&mut self, kind: BinaryOp, a: Int, b: Int) -> Result<Int> {
        if let (Int::Const(x), Int::Const(y)) = (a, b) {
            return Ok(Int::Const(match kind {
                BinaryOp::Add => x.wrapping_add(y),
                BinaryOp::Sub => x.wrapping_sub(y),
                BinaryOp::Mul => x.wrapping_mul(y),
                BinaryOp::Max => x.max(y),
                BinaryOp::Min => x.min(y),
                BinaryOp::Div => x.checked_div(y).unwrap_or(0),
                other => unreachable!("{} of sizes", other.name()),
            }));
        }
        match (kind, a, b) {
            (BinaryOp::Add, _, Int::Const(0)) | (BinaryOp::Sub, _, Int::Const(0)) => return Ok(a),
            (BinaryOp::Mul | BinaryOp::Div, _, Int::Const(1)) => return Ok(a),
            (BinaryOp::Add, Int::Const(0), _) | (BinaryOp::Mul, Int::Const(1), _) => return Ok(b),
            _ => {}
        }
        let (x, y) = (self.int_value(a), self.int_value(b));
        let value = self.binary(kind, x, y)?;
        // Sums of symbols may cancel.
        let known = self.b.known(value).and_then(|k| k.first()?.as_const());
        Ok(known.map_or(Int::Value(value), Int::Const))
    }
}
