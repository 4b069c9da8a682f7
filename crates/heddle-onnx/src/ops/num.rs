//! Static or dynamic real numbers: scales and coordinates. They are `f64`, so that coordinates are
//! as exact as those of static models.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::cx::{NodeCx, Result};
use super::sizes::Int;

/// An `f64`: a constant as far as possible.
#[derive(Clone, Copy, Debug)]
pub(super) enum Num {
    /// Known at import.
    Const(f64),
    /// An `f64[]` value.
    Value(Value),
}

impl From<f64> for Num {
    fn from(value: f64) -> Self {
        Num::Const(value)
    }
}

impl Num {
    /// The number, if it is known at import.
    pub fn as_const(self) -> Option<f64> {
        match self {
            Num::Const(c) => Some(c),
            Num::Value(_) => None,
        }
    }
}

impl NodeCx<'_> {
    /// The elements of a float array of rank 1 with `n` elements.
    pub(super) fn num_elements(&mut self, list: Value, n: usize) -> Result<Vec<Num>> {
        if let Some(all) = self.const_f64s(list).filter(|l| l.len() == n) {
            return Ok(all.into_iter().map(Num::Const).collect());
        }
        let list = self.reshape(list, &[n as i64])?;
        let list = self.cast(list, DType::F64)?;
        let element = |i: usize| {
            let index = self.b.i64(i as i64);
            Ok(Num::Value(self.gather(list, index, 0)?))
        };
        (0..n).map(element).collect()
    }

    /// An integer as a real number.
    pub(super) fn num_of(&mut self, x: Int) -> Result<Num> {
        match x {
            Int::Const(c) => Ok(Num::Const(c as f64)),
            Int::Value(v) => Ok(Num::Value(self.cast(v, DType::F64)?)),
        }
    }

    /// As an `f64[]` value.
    pub(super) fn num_value(&mut self, x: Num) -> Value {
        match x {
            Num::Const(c) => self.b.scalar(DType::F64, c),
            Num::Value(v) => v,
        }
    }

    /// Rounded down, as an integer.
    pub(super) fn num_floor(&mut self, x: Num) -> Result<Int> {
        match x {
            Num::Const(c) => Ok(Int::Const(c.floor() as i64)),
            Num::Value(v) => {
                let floor = self.unary(UnaryOp::Floor, v)?;
                Ok(Int::Value(self.cast(floor, DType::I64)?))
            }
        }
    }

    /// Sum, difference, product, quotient, larger or smaller one.
    pub(super) fn num_op(
        &mut self,
        kind: BinaryOp,
        a: impl Into<Num>,
        b: impl Into<Num>,
    ) -> Result<Num> {
        let (a, b) = (a.into(), b.into());
        if let (Num::Const(x), Num::Const(y)) = (a, b) {
            let constant = match kind {
                BinaryOp::Add => Some(x + y),
                BinaryOp::Sub => Some(x - y),
                BinaryOp::Mul => Some(x * y),
                BinaryOp::Div => Some(x / y),
                BinaryOp::Max => Some(x.max(y)),
                BinaryOp::Min => Some(x.min(y)),
                _ => None,
            };
            if let Some(constant) = constant {
                return Ok(Num::Const(constant));
            }
        }
        let (x, y) = (self.num_value(a), self.num_value(b));
        Ok(Num::Value(self.binary(kind, x, y)?))
    }

    /// `size > 1 ? many : one`.
    pub(super) fn num_unless_one(&mut self, size: Int, many: Num, one: Num) -> Result<Num> {
        if let Some(size) = size.as_const() {
            return Ok(if size > 1 { many } else { one });
        }
        let (size, limit) = (self.int_value(size), self.b.i64(1));
        let more = self.compare(CompareOp::Gt, size, limit)?;
        let (many, one) = (self.num_value(many), self.num_value(one));
        Ok(Num::Value(self.select(more, many, one)?))
    }

    /// `x op number` elementwise, `x` an `f64` array.
    pub(super) fn with_num(&mut self, kind: BinaryOp, x: Value, number: Num) -> Result<Value> {
        match (kind, number) {
            (BinaryOp::Mul | BinaryOp::Div, Num::Const(1.0)) => Ok(x),
            (BinaryOp::Add | BinaryOp::Sub, Num::Const(0.0)) => Ok(x),
            _ => {
                let number = self.num_value(number);
                self.binary(kind, x, number)
            }
        }
    }
}
