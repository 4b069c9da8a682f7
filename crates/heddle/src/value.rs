//! Values that go into and come out of programs.

use std::fmt;

use bytes::Bytes;
use heddle_ir::tensor::Scalar;
use heddle_ir::{DType, Datum, TensorError};

use crate::signature::{Dim, Type};

/// An array in row-major order. Cloning is cheap: the elements are shared.
#[derive(Clone, PartialEq)]
pub struct Tensor(pub(crate) heddle_ir::Tensor);

impl Tensor {
    /// A tensor over bytes laid out as [`Tensor::bytes`] says. They are not copied.
    ///
    /// # Errors
    ///
    /// The bytes do not fit the type and shape.
    pub fn new(dtype: DType, shape: Vec<usize>, bytes: Vec<u8>) -> Result<Self, TensorError> {
        heddle_ir::Tensor::new(dtype, shape, bytes.into()).map(Self)
    }

    /// A tensor over memory that somebody else keeps, laid out as [`Tensor::bytes`] says. It is not copied; `owner` is dropped with
    /// the last tensor that reads it.
    ///
    /// # Errors
    ///
    /// The bytes do not fit the type and shape.
    pub fn borrowed(
        dtype: DType,
        shape: Vec<usize>,
        owner: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<Self, TensorError> {
        let bytes = Bytes::from_owner(owner);
        heddle_ir::Tensor::new(dtype, shape, bytes).map(Self)
    }

    /// A tensor of strings.
    ///
    /// # Errors
    ///
    /// The number of strings does not fit the shape.
    pub fn strings(shape: Vec<usize>, strings: Vec<Box<str>>) -> Result<Self, TensorError> {
        heddle_ir::Tensor::strings(shape, strings).map(Self)
    }

    /// A tensor of rank 0.
    pub fn scalar<T: Scalar>(value: T) -> Self {
        Self(heddle_ir::Tensor::scalar(value))
    }

    /// A tensor of rank 1.
    pub fn vector<T: Scalar>(values: &[T]) -> Self {
        Self(heddle_ir::Tensor::vector(values))
    }

    /// A tensor of any rank.
    ///
    /// # Panics
    ///
    /// If the number of values is not the shape's product.
    pub fn from_slice<T: Scalar>(shape: Vec<usize>, values: &[T]) -> Self {
        Self(heddle_ir::Tensor::from_slice(shape, values))
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype()
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    /// The type, with fixed dims.
    pub fn ty(&self) -> Type {
        let dims = self.shape().iter().map(|&size| Dim::Fixed(size as u64));
        Type::Tensor {
            dtype: self.dtype(),
            dims: Some(dims.collect()),
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is there no element?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Little-endian elements in row-major order, of any alignment. `bool` is a byte, 0 or 1; elements of under 8 bits are
    /// packed, the first one in the lowest bits. Empty for `str`.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// True if the memory of the elements is this tensor's alone; false where somebody else keeps it, as of a result that a program hands over.
    pub fn is_unique(&self) -> bool {
        self.0.bytes().is_unique()
    }

    /// The elements of a `str` tensor; empty for others.
    pub fn strs(&self) -> &[Box<str>] {
        self.0.strs()
    }

    /// The elements as numbers of a Rust type, if that is the element type.
    pub fn to_vec<T: Scalar>(&self) -> Option<Vec<T>> {
        self.0.to_vec()
    }

    /// The elements of integers (from 8 bits up) and `bool`, if they fit.
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        self.0.to_i64s()
    }

    /// The elements of `f32`, `f64`, `f16` and `bf16`.
    pub fn to_f64s(&self) -> Option<Vec<f64>> {
        self.0.to_f64s()
    }

    /// The same elements in another shape; `None` if it has another number of elements.
    pub fn reshaped(&self, shape: Vec<usize>) -> Option<Self> {
        self.0.reshaped(shape).map(Self)
    }
}

/// Type and shape, not the elements.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An input or output of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An array.
    Tensor(Tensor),
    /// A sequence.
    Seq(Vec<Value>),
    /// An optional: a value or none.
    Opt(Option<Box<Value>>),
}

impl Value {
    /// The array, if it is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Value::Tensor(tensor)
    }
}

/// The type; for sequences the length.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Tensor(t) => t.ty().fmt(f),
            Value::Seq(items) => write!(f, "a sequence of {}", items.len()),
            Value::Opt(Some(item)) => write!(f, "an optional holding {item}"),
            Value::Opt(None) => f.write_str("an empty optional"),
        }
    }
}

#[doc(hidden)]
impl From<heddle_ir::Tensor> for Tensor {
    fn from(tensor: heddle_ir::Tensor) -> Self {
        Self(tensor)
    }
}

#[doc(hidden)]
impl From<heddle_ir::Tensor> for Value {
    fn from(tensor: heddle_ir::Tensor) -> Self {
        Value::Tensor(Tensor(tensor))
    }
}

#[doc(hidden)]
impl From<Datum> for Value {
    fn from(datum: Datum) -> Self {
        match datum {
            Datum::Tensor(t) => Value::Tensor(Tensor(t)),
            Datum::Seq(items) => Value::Seq(items.into_iter().map(Value::from).collect()),
            Datum::Opt(item) => Value::Opt(item.map(|item| Box::new(Value::from(*item)))),
        }
    }
}

#[doc(hidden)]
impl From<Value> for Datum {
    fn from(value: Value) -> Self {
        match value {
            Value::Tensor(Tensor(t)) => Datum::Tensor(t),
            Value::Seq(items) => Datum::Seq(items.into_iter().map(Datum::from).collect()),
            Value::Opt(item) => Datum::Opt(item.map(|item| Box::new(Datum::from(*item)))),
        }
    }
}
