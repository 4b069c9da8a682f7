//! Element types of results, as PyTorch states them (`aten/src/ATen/native/TypeProperties.cpp`): arrays with axes come before those
//! without, and those before numbers; a lower one counts only if its kind is higher.

use heddle_ir::{DType, Emit, Value};

use super::args::Number;
use super::cx::NodeCx;
use crate::error::{OpError, Result};

/// An operand: an array or a number.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    Array(Value),
    Number(Number),
}

impl From<Value> for Operand {
    fn from(value: Value) -> Self {
        Operand::Array(value)
    }
}

/// The type that holds both.
pub fn join(a: DType, b: DType) -> DType {
    use DType::*;
    if a == b {
        return a;
    }
    match (a, b) {
        (Bool, other) | (other, Bool) => other,
        _ if a.is_float() && b.is_float() => match a.bits().max(b.bits()) {
            64 => F64,
            _ => F32,
        },
        (float, _) | (_, float) if float.is_float() => float,
        _ if a.is_signed_int() == b.is_signed_int() => {
            if a.bits() >= b.bits() {
                a
            } else {
                b
            }
        }
        _ => {
            let (signed, unsigned) = if a.is_signed_int() { (a, b) } else { (b, a) };
            let bits = (2 * unsigned.bits()).max(signed.bits());
            match bits {
                16 => I16,
                32 => I32,
                _ => I64,
            }
        }
    }
}

/// The type of a result of arrays with axes, of arrays without, and of numbers.
pub fn of_categories([arrays, scalars, numbers]: [Option<DType>; 3]) -> Option<DType> {
    combine(arrays, combine(scalars, numbers))
}

fn combine(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    let (Some(high), Some(low)) = (higher, lower) else {
        return higher.or(lower);
    };
    match high.is_float() || !(high == DType::Bool || low.is_float()) {
        true => Some(high),
        false => Some(join(high, low)),
    }
}

impl NodeCx<'_> {
    /// An argument as an operand.
    pub fn operand(&mut self, i: usize, name: &str) -> Result<Operand> {
        if let Some(number) = self.number(i, name)? {
            return Ok(Operand::Number(number));
        }
        Ok(Operand::Array(self.value(i, name)?))
    }

    /// The element type of a result of operands.
    pub fn promoted(&self, operands: &[Operand]) -> Result<DType> {
        let mut of: [Option<DType>; 3] = [None; 3];
        for operand in operands {
            let (category, dtype) = match operand {
                Operand::Array(value) => {
                    let has_axes = self.rank(*value)? > 0;
                    (usize::from(!has_axes), self.dtype(*value)?)
                }
                Operand::Number(Number::Int(_) | Number::Size(_)) => (2, DType::I64),
                Operand::Number(Number::Float(_)) => (2, DType::F32),
                Operand::Number(Number::Bool(_)) => (2, DType::Bool),
            };
            of[category] = Some(of[category].map_or(dtype, |d| join(d, dtype)));
        }
        of_categories(of).ok_or_else(|| OpError::Invalid("it has no operands".into()))
    }

    /// An operand as an array of an element type.
    pub fn as_type(&mut self, operand: Operand, dtype: DType) -> Result<Value> {
        match operand {
            Operand::Array(value) => self.cast(value, dtype),
            Operand::Number(number) => self.scalar(number, dtype),
        }
    }

    /// A number as an array without axes.
    pub fn scalar(&mut self, number: Number, dtype: DType) -> Result<Value> {
        Ok(match number {
            Number::Size(value) => self.cast(value, dtype)?,
            Number::Float(x) => self.b.scalar(dtype, x),
            Number::Bool(x) => self.b.scalar(dtype, f64::from(u8::from(x))),
            Number::Int(n) if dtype == DType::I64 => self.b.i64(n),
            Number::Int(n) if n.unsigned_abs() <= 1 << 53 => self.b.scalar(dtype, n as f64),
            Number::Int(n) => {
                let value = self.b.i64(n);
                self.cast(value, dtype)?
            }
        })
    }

    /// An array as floats: integers and truth values become `f32`.
    pub fn as_float(&mut self, x: Value) -> Result<Value> {
        match self.dtype(x)?.is_float() {
            true => Ok(x),
            false => self.cast(x, DType::F32),
        }
    }

    /// Does a function on floats, as `f32` where they are narrower. Integers become `f32`.
    pub fn on_floats(
        &mut self,
        x: Value,
        function: impl FnOnce(&mut Self, Value) -> Result<Value>,
    ) -> Result<Value> {
        let x = self.as_float(x)?;
        let dtype = self.dtype(x)?;
        let wide = self.widen(x)?;
        let y = function(self, wide)?;
        self.cast(y, dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType::*;

    #[test]
    fn types_join_as_pytorch_states() {
        let cases = [
            (F32, F64, F64),
            (F16, Bf16, F32),
            (I64, F16, F16),
            (U8, I8, I16),
            (U8, I32, I32),
            (Bool, U8, U8),
            (Bool, F32, F32),
            (I16, I64, I64),
            (F16, F32, F32),
        ];
        for (a, b, both) in cases {
            assert_eq!((join(a, b), join(b, a)), (both, both));
        }
        assert_eq!(combine(Some(I32), Some(I64)), Some(I32));
        assert_eq!(combine(Some(I32), Some(F32)), Some(F32));
        assert_eq!(combine(Some(F16), Some(F64)), Some(F16));
        assert_eq!(combine(Some(Bool), Some(I64)), Some(I64));
    }
}
