//! ONNX's types as the IR's.

use std::collections::{HashMap, HashSet};

use heddle_ir::types::MAX_RANK;
use heddle_ir::{DType, Dim, TensorType, Type};

use crate::proto::tensor_proto::DataType;
use crate::proto::tensor_shape_proto::dimension::Value as DimValue;
use crate::proto::{TensorShapeProto, TypeProto, type_proto};

/// Nesting limit of declared types.
const MAX_DEPTH: usize = 32;

/// A declared type that the IR cannot express.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TypeFault {
    /// There is no type.
    #[error("the type is missing")]
    Missing,
    /// A sequence or optional without a type of its elements.
    #[error("an element type is missing")]
    MissingElement,
    /// `UNDEFINED` where an element type is needed.
    #[error("the element type is not given")]
    UndefinedElement,
    /// An element type of ONNX that the IR lacks.
    #[error("element type {0} is not supported")]
    Element(&'static str),
    /// A number that stands for no element type.
    #[error("there is no element type number {0}")]
    Number(i64),
    /// A kind of type that the IR lacks, in the plural.
    #[error("{0} are not supported")]
    Kind(&'static str),
    /// Sequences and optionals nest too deep.
    #[error("the type nests deeper than {MAX_DEPTH} levels")]
    Depth,
    /// A tensor of too many axes.
    #[error("it has {0} axes, more than {MAX_RANK}")]
    Rank(usize),
}

/// The element type with this number in `TensorProto.DataType`.
pub fn dtype(number: impl Into<i64>) -> Result<DType, TypeFault> {
    let number = number.into();
    let data_type = i32::try_from(number)
        .ok()
        .and_then(|n| DataType::try_from(n).ok());
    Ok(match data_type.ok_or(TypeFault::Number(number))? {
        DataType::Float => DType::F32,
        DataType::Uint8 => DType::U8,
        DataType::Int8 => DType::I8,
        DataType::Uint16 => DType::U16,
        DataType::Int16 => DType::I16,
        DataType::Int32 => DType::I32,
        DataType::Int64 => DType::I64,
        DataType::String => DType::Str,
        DataType::Bool => DType::Bool,
        DataType::Float16 => DType::F16,
        DataType::Double => DType::F64,
        DataType::Uint32 => DType::U32,
        DataType::Uint64 => DType::U64,
        DataType::Complex64 => DType::C64,
        DataType::Complex128 => DType::C128,
        DataType::Bfloat16 => DType::Bf16,
        DataType::Float8e4m3fn => DType::F8E4M3FN,
        DataType::Float8e4m3fnuz => DType::F8E4M3FNUZ,
        DataType::Float8e5m2 => DType::F8E5M2,
        DataType::Float8e5m2fnuz => DType::F8E5M2FNUZ,
        DataType::Float8e8m0 => DType::F8E8M0,
        DataType::Uint4 => DType::U4,
        DataType::Int4 => DType::I4,
        DataType::Uint2 => DType::U2,
        DataType::Int2 => DType::I2,
        DataType::Float4e2m1 => DType::F4E2M1,
        DataType::Undefined => return Err(TypeFault::UndefinedElement),
        other => return Err(TypeFault::Element(other.as_str_name())),
    })
}

/// Names of sizes: ONNX's `dim_param`s are any text, the IR's are identifiers.
#[derive(Default)]
pub struct DimNames {
    by_param: HashMap<String, String>,
    taken: HashSet<String>,
}

impl DimNames {
    /// The size's name: the same for the same text, another for another.
    pub fn name(&mut self, param: &str) -> String {
        if let Some(name) = self.by_param.get(param) {
            return name.clone();
        }
        let name = self.unused(param);
        self.by_param.insert(param.to_owned(), name.clone());
        name
    }

    /// A type with names for the sizes of a tensor's axes that have none. `place` begins the names.
    pub fn complete(&mut self, ty: &Type, place: &str) -> Type {
        let Type::Tensor(t) = ty else {
            return ty.clone();
        };
        let mut ty = t.clone();
        for (axis, dim) in ty.shape.iter_mut().flatten().enumerate() {
            if *dim == Dim::UNKNOWN {
                *dim = Dim::sym(&self.unused(&format!("{place}_{axis}")));
            }
        }
        Type::Tensor(ty)
    }

    /// A name like this text that no size has.
    fn unused(&mut self, text: &str) -> String {
        let base = identifier(text);
        let mut name = base.clone();
        let mut count = 1;
        while !self.taken.insert(name.clone()) {
            count += 1;
            name = format!("{base}_{count}");
        }
        name
    }
}

/// Text as an identifier that is no word of the dim grammar.
fn identifier(text: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = text.chars().take(64).map(word).collect();
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match name.as_str() {
        "floordiv" | "max" | "min" | "_" => format!("{name}_dim"),
        _ if starts_well => name,
        _ => format!("d{name}"),
    }
}

/// A declared type. Sizes that are neither numbers nor names are unknown; so is the rank without a
/// shape.
pub fn convert(proto: &TypeProto, names: &mut DimNames) -> Result<Type, TypeFault> {
    convert_at(proto, names, 0)
}

/// `depth` counts the sequences and optionals around.
fn convert_at(proto: &TypeProto, names: &mut DimNames, depth: usize) -> Result<Type, TypeFault> {
    use type_proto::Value;
    if depth > MAX_DEPTH {
        return Err(TypeFault::Depth);
    }
    let element = |e: &Option<Box<TypeProto>>, names: &mut DimNames| match e {
        Some(e) => Ok(Box::new(without_names(&convert_at(e, names, depth + 1)?))),
        None => Err(TypeFault::MissingElement),
    };
    match &proto.value {
        Some(Value::TensorType(t)) => Ok(Type::Tensor(TensorType {
            dtype: dtype(t.elem_type.unwrap_or(0))?,
            shape: t.shape.as_ref().map(|s| shape(s, names)).transpose()?,
        })),
        Some(Value::SequenceType(s)) => Ok(Type::Seq(element(&s.elem_type, names)?)),
        Some(Value::OptionalType(o)) => Ok(Type::Opt(element(&o.elem_type, names)?)),
        Some(Value::MapType(_)) => Err(TypeFault::Kind("maps")),
        Some(Value::SparseTensorType(_)) => Err(TypeFault::Kind("sparse tensors")),
        Some(Value::OpaqueType(_)) => Err(TypeFault::Kind("opaque types")),
        None => Err(TypeFault::Missing),
    }
}

/// Elements of a sequence differ in the sizes that a name stands for.
fn without_names(ty: &Type) -> Type {
    ty.map_dims(&mut |d| match d.as_const() {
        Some(size) => Dim::constant(size),
        None => Dim::UNKNOWN,
    })
}

fn shape(proto: &TensorShapeProto, names: &mut DimNames) -> Result<Vec<Dim>, TypeFault> {
    if proto.dim.len() > MAX_RANK {
        return Err(TypeFault::Rank(proto.dim.len()));
    }
    let dim = |value: &Option<DimValue>| match value {
        Some(DimValue::DimValue(size)) if *size >= 0 => Dim::constant(*size),
        Some(DimValue::DimParam(name)) if !name.is_empty() => Dim::sym(&names.name(name)),
        _ => Dim::UNKNOWN,
    };
    Ok(proto.dim.iter().map(|d| &d.value).map(dim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dim_names_are_unique_identifiers() {
        let mut names = DimNames::default();
        assert_eq!(names.name("batch size"), "batch_size");
        assert_eq!(names.name("batch_size"), "batch_size_2");
        assert_eq!(names.name("batch size"), "batch_size");
        assert_eq!(names.name("2*n"), "d2_n");
        assert_eq!(names.name("max"), "max_dim");
        assert_eq!(names.name("größe"), "gr__e");
    }
}
