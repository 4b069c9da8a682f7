//! Constant arrays: element type, shape and bytes that may lie in a mapped file.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::{DType, Type};

/// An array in row-major order. Cloning is cheap: the elements are shared.
#[derive(Clone, PartialEq)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<usize>,
    data: Data,
}

#[derive(Clone, PartialEq)]
enum Data {
    /// Little-endian elements, of any alignment. `bool` is a byte, 0 or 1. Elements of under 8 bits
    /// are packed, the first one in the lowest bits, as in ONNX's `raw_data`.
    Bytes(Bytes),
    Str(Arc<[Box<str>]>),
}

/// The bytes do not fit the type and shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The number of bytes is off.
    #[error("a {dtype} tensor of shape {shape:?} takes {expected} bytes, but {found} are given")]
    Length {
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Vec<usize>,
        /// Bytes that the shape calls for.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The number of elements or bytes does not fit the address space.
    #[error("a {dtype} tensor of shape {shape:?} is too large for this machine")]
    TooLarge {
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Vec<usize>,
    },
}

/// The bytes that `count` elements take; `None` on overflow.
pub fn byte_size(dtype: DType, count: usize) -> Option<usize> {
    count.checked_mul(dtype.bits()).map(|bits| bits.div_ceil(8))
}

/// The number of elements of a shape; `None` on overflow.
pub fn element_count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

/// Do sizes fit those of a type, which are signed?
fn sizes_fit(shape: &[usize]) -> bool {
    shape.iter().all(|&size| i64::try_from(size).is_ok())
}

impl Tensor {
    /// A tensor over bytes laid out as described at [`Tensor::bytes`].
    pub fn new(dtype: DType, shape: Vec<usize>, data: Bytes) -> Result<Self, TensorError> {
        let expected = element_count(&shape).and_then(|n| byte_size(dtype, n));
        match expected.filter(|_| sizes_fit(&shape)) {
            None => Err(TensorError::TooLarge { dtype, shape }),
            Some(expected) if expected != data.len() || dtype == DType::Str => {
                Err(TensorError::Length {
                    dtype,
                    shape,
                    expected,
                    found: data.len(),
                })
            }
            Some(_) => Ok(Self {
                dtype,
                shape,
                data: Data::Bytes(data),
            }),
        }
    }

    /// A tensor of strings.
    pub fn strings(shape: Vec<usize>, data: Vec<Box<str>>) -> Result<Self, TensorError> {
        if !sizes_fit(&shape) {
            let dtype = DType::Str;
            return Err(TensorError::TooLarge { dtype, shape });
        }
        if element_count(&shape) != Some(data.len()) {
            let expected = element_count(&shape).unwrap_or(usize::MAX);
            let found = data.len();
            return Err(TensorError::Length {
                dtype: DType::Str,
                shape,
                expected,
                found,
            });
        }
        Ok(Self {
            dtype: DType::Str,
            shape,
            data: Data::Str(data.into()),
        })
    }

    /// A tensor of rank 1 of a plain Rust type.
    pub fn vector<T: Scalar>(values: &[T]) -> Self {
        Self::from_slice(vec![values.len()], values)
    }

    /// A tensor of rank 0 of a plain Rust type.
    pub fn scalar<T: Scalar>(value: T) -> Self {
        Self::from_slice(vec![], &[value])
    }

    /// A tensor of a plain Rust type. Panics when the shape does not fit; for literals.
    pub fn from_slice<T: Scalar>(shape: Vec<usize>, values: &[T]) -> Self {
        assert_eq!(element_count(&shape), Some(values.len()), "shape {shape:?}");
        let data = Bytes::copy_from_slice(bytemuck::cast_slice(values));
        Self {
            dtype: T::DTYPE,
            shape,
            data: Data::Bytes(data),
        }
    }

    /// A tensor of the given type with every element the same number, converted as by `as`.
    /// `dtype` must be arithmetic or `bool`.
    pub fn splat(dtype: DType, shape: Vec<usize>, value: f64) -> Self {
        let one: Vec<u8> = match dtype {
            DType::F32 => (value as f32).to_le_bytes().to_vec(),
            DType::F64 => value.to_le_bytes().to_vec(),
            DType::F16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
            DType::Bf16 => half::bf16::from_f64(value).to_le_bytes().to_vec(),
            DType::I8 => (value as i8).to_le_bytes().to_vec(),
            DType::I16 => (value as i16).to_le_bytes().to_vec(),
            DType::I32 => (value as i32).to_le_bytes().to_vec(),
            DType::I64 => (value as i64).to_le_bytes().to_vec(),
            DType::U8 => (value as u8).to_le_bytes().to_vec(),
            DType::U16 => (value as u16).to_le_bytes().to_vec(),
            DType::U32 => (value as u32).to_le_bytes().to_vec(),
            DType::U64 => (value as u64).to_le_bytes().to_vec(),
            DType::Bool => vec![(value != 0.0) as u8],
            other => panic!("Tensor::splat of {other}"),
        };
        let count = element_count(&shape).expect("splat of a small shape");
        Self {
            dtype,
            shape,
            data: Data::Bytes(one.repeat(count).into()),
        }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        // The other sizes of an array without elements may be of any product.
        if self.is_empty() {
            0
        } else {
            self.shape.iter().product()
        }
    }

    /// Is there no element?
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The type, with constant dims.
    pub fn ty(&self) -> Type {
        Type::fixed(self.dtype, &self.shape)
    }

    /// Little-endian elements in row-major order, of any alignment. `bool` is a byte, 0 or 1;
    /// elements of under 8 bits are packed, the first one in the lowest bits. Empty for `str`.
    pub fn bytes(&self) -> &Bytes {
        static EMPTY: Bytes = Bytes::new();
        match &self.data {
            Data::Bytes(b) => b,
            Data::Str(_) => &EMPTY,
        }
    }

    /// The elements of a `str` tensor; empty for others.
    pub fn strs(&self) -> &[Box<str>] {
        match &self.data {
            Data::Bytes(_) => &[],
            Data::Str(s) => s,
        }
    }

    /// The same elements in another shape of as many elements.
    pub fn reshaped(&self, shape: Vec<usize>) -> Option<Tensor> {
        (element_count(&shape) == Some(self.len()) && sizes_fit(&shape)).then(|| Tensor {
            dtype: self.dtype,
            shape,
            data: self.data.clone(),
        })
    }

    /// A copy of the elements as a plain Rust type, if that is the element type.
    pub fn to_vec<T: Scalar>(&self) -> Option<Vec<T>> {
        (self.dtype == T::DTYPE).then(|| bytemuck::allocation::pod_collect_to_vec(self.bytes()))
    }

    /// The element of a `bool[]`.
    pub fn truth(&self) -> Option<bool> {
        let scalar = self.dtype() == DType::Bool && self.shape().is_empty();
        scalar.then(|| self.bytes()[..] == [1])
    }

    /// An `i64`, `i32` or `bool` array of rank 0 or 1 with these elements; `None` if `ty` is another type or does not hold
    /// them.
    pub fn of_integers(ty: &Type, values: &[i64]) -> Option<Tensor> {
        let t = ty.as_tensor()?;
        let tensor = match t.dtype {
            DType::I64 => Tensor::vector(values),
            DType::I32 => {
                let narrow: Result<Vec<i32>, _> =
                    values.iter().map(|v| i32::try_from(*v)).collect();
                Tensor::vector(&narrow.ok()?)
            }
            DType::Bool => {
                let bytes: Vec<u8> = values.iter().map(|v| (*v != 0) as u8).collect();
                Tensor::new(DType::Bool, vec![values.len()], bytes.into()).ok()?
            }
            _ => return None,
        };
        match t.rank()? {
            0 => tensor.reshaped(vec![]),
            1 => Some(tensor),
            _ => None,
        }
    }

    /// The elements as `i64`, for integers (from 8 bits up) and `bool` whose values fit.
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        fn widen<T: Scalar + TryInto<i64>>(t: &Tensor) -> Option<Vec<i64>> {
            t.to_vec::<T>()?
                .into_iter()
                .map(|v| v.try_into().ok())
                .collect()
        }
        match self.dtype {
            DType::I8 => widen::<i8>(self),
            DType::I16 => widen::<i16>(self),
            DType::I32 => widen::<i32>(self),
            DType::I64 => self.to_vec(),
            DType::U8 => widen::<u8>(self),
            DType::U16 => widen::<u16>(self),
            DType::U32 => widen::<u32>(self),
            DType::U64 => widen::<u64>(self),
            DType::Bool => Some(self.bytes().iter().map(|&b| b as i64).collect()),
            _ => None,
        }
    }

    /// The elements as `f64`, for `f32`, `f64`, `f16`, `bf16`.
    pub fn to_f64s(&self) -> Option<Vec<f64>> {
        Some(match self.dtype {
            DType::F32 => self.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
            DType::F64 => self.to_vec::<f64>()?,
            DType::F16 => self
                .to_vec::<half::f16>()?
                .into_iter()
                .map(f64::from)
                .collect(),
            DType::Bf16 => self
                .to_vec::<half::bf16>()?
                .into_iter()
                .map(f64::from)
                .collect(),
            _ => return None,
        })
    }
}

/// Rust types that are stored as they are.
pub trait Scalar: bytemuck::Pod {
    /// The element type.
    const DTYPE: DType;
}

macro_rules! scalar {
    ($($t:ty => $d:ident),*) => { $(impl Scalar for $t { const DTYPE: DType = DType::$d; })* };
}
scalar!(f32 => F32, f64 => F64, half::f16 => F16, half::bf16 => Bf16, i8 => I8, i16 => I16, i32 => I32,
        i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64);

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}

/// A value as it crosses the border of a program: what inputs are given as and outputs come as.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// An array.
    Tensor(Tensor),
    /// A list.
    Seq(Vec<Datum>),
    /// A value or none.
    Opt(Option<Box<Datum>>),
}

impl From<Tensor> for Datum {
    fn from(tensor: Tensor) -> Self {
        Datum::Tensor(tensor)
    }
}
