//! Literals become constants.

use heddle_ir::{DType, Tensor, TensorType, Value};

use super::{Lower, Result};
use crate::lexer::Span;
use crate::value::Literal;

/// Limit of the elements of a literal that takes the shape of its surroundings.
const MAX_SPLAT: usize = 1 << 20;

impl<'a> Lower<'a> {
    /// The constant with a literal's shape and this element type.
    pub(super) fn constant(
        &mut self,
        literal: &Literal<'a>,
        dtype: DType,
        span: Span,
    ) -> Result<Value> {
        let tensor = self.tensor(literal, dtype, span)?;
        Ok(self.frame.b.constant(tensor))
    }

    /// The constant with this type.
    pub(super) fn constant_as(
        &mut self,
        literal: &Literal<'a>,
        ty: &TensorType,
        span: Span,
    ) -> Result<Value> {
        let shape = ty.static_shape();
        let is_small =
            |s: &Vec<usize>| heddle_ir::tensor::element_count(s).is_some_and(|n| n <= MAX_SPLAT);
        match shape.filter(is_small) {
            Some(shape) if literal.shape.is_empty() && !shape.is_empty() => {
                let one = number(literal.items[0], ty.dtype);
                let one = one.map_err(|message| self.error(span, message))?;
                let value = match one {
                    Number::Float(x) => x,
                    Number::Int(n) if n.unsigned_abs() < 1 << 53 => n as f64,
                    Number::Int(n) => {
                        return Err(self.error(span, format!("{n} is too large to fill an array")));
                    }
                };
                let tensor = Tensor::splat(ty.dtype, shape, value);
                Ok(self.frame.b.constant(tensor))
            }
            Some(shape) if shape == literal.shape => self.constant(literal, ty.dtype, span),
            _ if literal.shape.is_empty() && ty.rank() == Some(0) => {
                self.constant(literal, ty.dtype, span)
            }
            _ => Err(self.error(
                span,
                format!("a number in place of {ty}, whose size is not known here"),
            )),
        }
    }

    pub(super) fn tensor(&self, literal: &Literal<'_>, dtype: DType, span: Span) -> Result<Tensor> {
        if !dtype.is_arith() {
            return Err(self.error(span, format!("a number is no {dtype}")));
        }
        let mut bytes = vec![];
        for text in &literal.items {
            let one = number(text, dtype).map_err(|message| self.error(span, message))?;
            bytes.extend_from_slice(&match (one, dtype) {
                (Number::Int(n), DType::I64) => n.to_le_bytes().to_vec(),
                (Number::Int(n), DType::U64) => (n as u64).to_le_bytes().to_vec(),
                (Number::Int(n), _) => scalar(dtype, n as f64),
                (Number::Float(x), _) => scalar(dtype, x),
            });
        }
        Tensor::new(dtype, literal.shape.clone(), bytes.into())
            .map_err(|error| self.error(span, error.to_string()))
    }
}

fn scalar(dtype: DType, value: f64) -> Vec<u8> {
    let one = Tensor::splat(dtype, vec![], value);
    one.bytes().to_vec()
}

enum Number {
    Int(i64),
    Float(f64),
}

/// The number that is written so, which must fit the type.
fn number(text: &str, dtype: DType) -> std::result::Result<Number, String> {
    if dtype.is_float() {
        let value = text.parse().map_err(|_| format!("{text} is no number"))?;
        return Ok(Number::Float(value));
    }
    let fault = || format!("{text} is no {dtype}");
    let value: i128 = text.parse().map_err(|_| fault())?;
    let bits = dtype.bits() as u32;
    let (low, high) = match dtype.is_signed_int() {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    if value < low || value > high {
        return Err(fault());
    }
    // The bits of large unsigned numbers are those of negative ones.
    Ok(Number::Int(value as i64))
}
