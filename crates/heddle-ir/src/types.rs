//! Types of values: tensors with symbolic shapes, sequences and optionals.

use std::fmt;

use crate::{DType, Dim};

/// No array has more axes.
pub const MAX_RANK: usize = 64;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// An array.
    Tensor(TensorType),
    /// A list of any length whose elements are of one type.
    Seq(Box<Type>),
    /// A value or none.
    Opt(Box<Type>),
}

/// The type of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// One dim per axis; `None` when not even the rank is known.
    pub shape: Option<Vec<Dim>>,
}

impl TensorType {
    /// A tensor type of known rank.
    pub fn new(dtype: DType, shape: impl Into<Vec<Dim>>) -> Self {
        Self {
            dtype,
            shape: Some(shape.into()),
        }
    }

    /// A tensor type of unknown rank.
    pub fn unranked(dtype: DType) -> Self {
        Self { dtype, shape: None }
    }

    /// The number of axes, if known.
    pub fn rank(&self) -> Option<usize> {
        self.shape.as_ref().map(Vec::len)
    }

    /// The shape when every dim is a constant that fits a `usize`.
    pub fn static_shape(&self) -> Option<Vec<usize>> {
        let dims = self.shape.as_ref()?;
        dims.iter()
            .map(|d| d.as_const().and_then(|c| usize::try_from(c).ok()))
            .collect()
    }
}

impl Type {
    /// A tensor of known rank.
    pub fn tensor(dtype: DType, shape: impl Into<Vec<Dim>>) -> Type {
        Type::Tensor(TensorType::new(dtype, shape))
    }

    /// A tensor with constant dims.
    pub fn fixed(dtype: DType, shape: &[usize]) -> Type {
        Type::tensor(
            dtype,
            shape.iter().map(|&d| Dim::from(d)).collect::<Vec<_>>(),
        )
    }

    /// A tensor of rank 0.
    pub fn scalar(dtype: DType) -> Type {
        Type::tensor(dtype, vec![])
    }

    /// A tensor of unknown rank.
    pub fn unranked(dtype: DType) -> Type {
        Type::Tensor(TensorType::unranked(dtype))
    }

    /// The size of the type: levels, axes, and terms and atoms of dims.
    pub fn weight(&self) -> usize {
        match self {
            Type::Tensor(t) => {
                let dims = t.shape.as_deref().unwrap_or(&[]);
                1 + dims.iter().map(Dim::weight).sum::<usize>()
            }
            Type::Seq(t) | Type::Opt(t) => 1 + t.weight(),
        }
    }

    /// The tensor type, if it is one.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            _ => None,
        }
    }

    /// May every value of type `other` be used where `self` is expected? It has the same kinds and
    /// element types, and every dim that `self` states is the same dim in `other`, or has a form of
    /// which nobody can tell that it exceeds the bound that `self` states.
    pub fn accepts(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Tensor(a), Type::Tensor(b)) => {
                a.dtype == b.dtype
                    && match (&a.shape, &b.shape) {
                        (None, _) => true,
                        (Some(x), Some(y)) => {
                            x.len() == y.len() && x.iter().zip(y).all(|(d, e)| d.accepts(e))
                        }
                        (Some(_), None) => false,
                    }
            }
            (Type::Seq(a), Type::Seq(b)) | (Type::Opt(a), Type::Opt(b)) => a.accepts(b),
            _ => false,
        }
    }

    /// Could some value be of both types? Nothing that one states contradicts the other.
    pub fn compatible(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Tensor(a), Type::Tensor(b)) => {
                a.dtype == b.dtype
                    && match (&a.shape, &b.shape) {
                        (Some(x), Some(y)) => {
                            x.len() == y.len() && x.iter().zip(y).all(|(d, e)| !d.differs(e))
                        }
                        _ => true,
                    }
            }
            (Type::Seq(a), Type::Seq(b)) | (Type::Opt(a), Type::Opt(b)) => a.compatible(b),
            _ => false,
        }
    }

    /// The least type that accepts both: dims that differ become unknown, differing ranks make it
    /// unranked. `None` when kinds or element types differ.
    pub fn join(&self, other: &Type) -> Option<Type> {
        Some(match (self, other) {
            (Type::Tensor(a), Type::Tensor(b)) if a.dtype == b.dtype => {
                let shape = match (&a.shape, &b.shape) {
                    (Some(x), Some(y)) if x.len() == y.len() => {
                        Some(x.iter().zip(y).map(|(d, e)| d.join(e)).collect())
                    }
                    _ => None,
                };
                Type::Tensor(TensorType {
                    dtype: a.dtype,
                    shape,
                })
            }
            (Type::Seq(a), Type::Seq(b)) => Type::Seq(Box::new(a.join(b)?)),
            (Type::Opt(a), Type::Opt(b)) => Type::Opt(Box::new(a.join(b)?)),
            _ => return None,
        })
    }

    /// The meet: the type of a value that is of both types; where both state an expression, `self`'s stands.
    /// `None` when they contradict each other.
    pub fn meet(&self, other: &Type) -> Option<Type> {
        if !self.compatible(other) {
            return None;
        }
        Some(match (self, other) {
            (Type::Tensor(a), Type::Tensor(b)) => {
                let shape = match (&a.shape, &b.shape) {
                    (Some(x), Some(y)) => Some(x.iter().zip(y).map(|(d, e)| d.meet(e)).collect()),
                    (x, y) => x.clone().or_else(|| y.clone()),
                };
                Type::Tensor(TensorType {
                    dtype: a.dtype,
                    shape,
                })
            }
            (Type::Seq(a), Type::Seq(b)) => Type::Seq(Box::new(a.meet(b)?)),
            (Type::Opt(a), Type::Opt(b)) => Type::Opt(Box::new(a.meet(b)?)),
            _ => return None,
        })
    }

    /// The type with every dim replaced by `f`.
    pub fn map_dims(&self, f: &mut dyn FnMut(&Dim) -> Dim) -> Type {
        match self {
            Type::Tensor(t) => Type::Tensor(TensorType {
                dtype: t.dtype,
                shape: t.shape.as_ref().map(|s| s.iter().map(f).collect()),
            }),
            Type::Seq(t) => Type::Seq(Box::new(t.map_dims(f))),
            Type::Opt(t) => Type::Opt(Box::new(t.map_dims(f))),
        }
    }

    /// The type with every tensor's element type replaced.
    pub fn with_dtype(&self, dtype: DType) -> Type {
        match self {
            Type::Tensor(t) => Type::Tensor(TensorType {
                dtype,
                shape: t.shape.clone(),
            }),
            Type::Seq(t) => Type::Seq(Box::new(t.with_dtype(dtype))),
            Type::Opt(t) => Type::Opt(Box::new(t.with_dtype(dtype))),
        }
    }
}

impl From<TensorType> for Type {
    fn from(t: TensorType) -> Self {
        Type::Tensor(t)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Tensor(t) => t.fmt(f),
            Type::Seq(t) => write!(f, "seq<{t}>"),
            Type::Opt(t) => write!(f, "opt<{t}>"),
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dtype)?;
        let Some(shape) = &self.shape else {
            return f.write_str("[..]");
        };
        f.write_str("[")?;
        for (i, dim) in shape.iter().enumerate() {
            write!(f, "{}{dim}", if i > 0 { "," } else { "" })?;
        }
        f.write_str("]")
    }
}
