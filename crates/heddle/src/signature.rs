//! Names and types of a program's inputs and outputs.

use std::fmt;

use heddle_ir::DType;

/// Names and types of the inputs and outputs, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The inputs.
    pub inputs: Vec<Port>,
    /// The outputs.
    pub outputs: Vec<Port>,
}

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name.
    pub name: String,
    /// The type.
    pub ty: Type,
}

/// The type of a [`Value`](crate::Value). As text: `f32[n,3]`, `seq<…>`, `opt<…>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// An array.
    Tensor {
        /// The element type.
        dtype: DType,
        /// One dim per axis; `None` for any rank.
        dims: Option<Vec<Dim>>,
    },
    /// A sequence of any length with elements of one type.
    Seq(Box<Type>),
    /// A value or none.
    Opt(Box<Type>),
}

/// The size of an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// This size.
    Fixed(u64),
    /// A size that inputs set; equal names are equal sizes.
    Named(String),
    /// An expression of named sizes, such as `2*n+1`.
    Computed(String),
    /// Any size, up to a maximum if there is one.
    Dynamic {
        /// The maximum.
        max: Option<u64>,
    },
}

impl Signature {
    pub(crate) fn of(sig: &heddle_ir::Signature) -> Self {
        Self {
            inputs: ports(&sig.params),
            outputs: ports(&sig.results),
        }
    }
}

/// Named types of the IR as ports.
pub(crate) fn ports(named: &[(String, heddle_ir::Type)]) -> Vec<Port> {
    named
        .iter()
        .map(|(name, ty)| Port {
            name: name.clone(),
            ty: Type::of(ty),
        })
        .collect()
}

impl Type {
    pub(crate) fn of(ty: &heddle_ir::Type) -> Self {
        match ty {
            heddle_ir::Type::Tensor(t) => Type::Tensor {
                dtype: t.dtype,
                dims: t.shape.as_ref().map(|s| s.iter().map(Dim::of).collect()),
            },
            heddle_ir::Type::Seq(t) => Type::Seq(Box::new(Type::of(t))),
            heddle_ir::Type::Opt(t) => Type::Opt(Box::new(Type::of(t))),
        }
    }
}

impl Dim {
    fn of(dim: &heddle_ir::Dim) -> Self {
        match dim {
            heddle_ir::Dim::Unknown(max) => Dim::Dynamic { max: *max },
            heddle_ir::Dim::Expr(e) => match dim.as_const().map(u64::try_from) {
                Some(Ok(size)) => Dim::Fixed(size),
                _ => match e.as_sym() {
                    Some(name) => Dim::Named(name.to_string()),
                    None => Dim::Computed(dim.to_string()),
                },
            },
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.ty)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, dims) = match self {
            Type::Tensor { dtype, dims } => (dtype, dims),
            Type::Seq(t) => return write!(f, "seq<{t}>"),
            Type::Opt(t) => return write!(f, "opt<{t}>"),
        };
        let Some(dims) = dims else {
            return write!(f, "{dtype}[..]");
        };
        write!(f, "{dtype}[")?;
        for (i, dim) in dims.iter().enumerate() {
            write!(f, "{}{dim}", if i > 0 { "," } else { "" })?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(size) => size.fmt(f),
            // Quoted where the text form needs it.
            Dim::Named(name) => heddle_ir::DimExpr::sym(name.as_str()).fmt(f),
            Dim::Computed(text) => f.write_str(text),
            Dim::Dynamic { max: Some(max) } => write!(f, "?<={max}"),
            Dim::Dynamic { max: None } => f.write_str("?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;

    #[test]
    fn types_are_written_as_in_programs() {
        let text = "fn @main(%x: f32[n,3], %s: seq<i64[..]>, %o: opt<bool[2*n+1,?,?<=4]>) -> (%y: f32[n,3]) {
  return %x
}
";
        let model = Model::parse("m", text).unwrap();
        let (sig, ir) = (model.signature(), &model.module.entry().sig);
        for (port, (name, ty)) in sig.inputs.iter().zip(&ir.params) {
            assert_eq!(port.to_string(), format!("{name}: {ty}"));
        }
        let dims = vec![Dim::Named("n".into()), Dim::Fixed(3)];
        let x = Type::Tensor {
            dtype: DType::F32,
            dims: Some(dims),
        };
        assert_eq!((&sig.inputs[0].ty, &sig.outputs[0].ty), (&x, &x));
    }
}
