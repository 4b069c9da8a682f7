//! ONNX's types as the IR's.

use std::collections::HashMap;
use std::collections::HashSet;

use heddle_ir::types::MAX_RANK;
use heddle_ir::{DType, Dim, TensorType, Type};

use crate::proto::tensor_proto::DataType;
use crate::proto::tensor_shape_proto::dimension::Value as DimValue;
use crate::proto::{TensorShapeProto, TypeProto, type_proto};

/// How deep declared types may nest.
const MAX_DEPTH: usize = 32;

/// The element type with this number in `TensorProto.DataType`.
pub fn dtype(number: i32) -> Result<DType, String> {
    Ok(match DataType::try_from(number) {
        Ok(DataType::Float) => DType::F32,
        Ok(DataType::Uint8) => DType::U8,
        Ok(DataType::Int8) => DType::I8,
        Ok(DataType::Uint16) => DType::U16,
        Ok(DataType::Int16) => DType::I16,
        Ok(DataType::Int32) => DType::I32,
        Ok(DataType::Int64) => DType::I64,
        Ok(DataType::String) => DType::Str,
        Ok(DataType::Bool) => DType::Bool,
        Ok(DataType::Float16) => DType::F16,
        Ok(DataType::Double) => DType::F64,
        Ok(DataType::Uint32) => DType::U32,
        Ok(DataType::Uint64) => DType::U64,
        Ok(DataType::Complex64) => DType::C64,
        Ok(DataType::Complex128) => DType::C128,
        Ok(DataType::Bfloat16) => DType::Bf16,
        Ok(DataType::Float8e4m3fn) => DType::F8E4M3FN,
        Ok(DataType::Float8e4m3fnuz) => DType::F8E4M3FNUZ,
        Ok(DataType::Float8e5m2) => DType::F8E5M2,
        Ok(DataType::Float8e5m2fnuz) => DType::F8E5M2FNUZ,
        Ok(DataType::Float8e8m0) => DType::F8E8M0,
        Ok(DataType::Uint4) => DType::U4,
        Ok(DataType::Int4) => DType::I4,
        Ok(DataType::Uint2) => DType::U2,
        Ok(DataType::Int2) => DType::I2,
        Ok(DataType::Float4e2m1) => DType::F4E2M1,
        Ok(DataType::Undefined) => return Err("the element type is not given".into()),
        Ok(other) => {
            return Err(format!(
                "element type {} is not supported",
                other.as_str_name()
            ));
        }
        Err(_) => return Err(format!("there is no element type number {number}")),
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
        let base = identifier(param);
        let mut name = base.clone();
        let mut count = 1;
        while !self.taken.insert(name.clone()) {
            count += 1;
            name = format!("{base}_{count}");
        }
        self.by_param.insert(param.to_owned(), name.clone());
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

/// A declared type. Sizes that are neither numbers nor names are unknown, and so is the rank without a shape.
pub fn convert(proto: &TypeProto, names: &mut DimNames) -> Result<Type, String> {
    convert_at(proto, names, 0)
}

/// `depth` counts the sequences and optionals around.
fn convert_at(proto: &TypeProto, names: &mut DimNames, depth: usize) -> Result<Type, String> {
    use type_proto::Value;
    if depth > MAX_DEPTH {
        return Err(format!("the type nests deeper than {MAX_DEPTH} levels"));
    }
    let element = |e: &Option<Box<TypeProto>>, names: &mut DimNames| match e {
        Some(e) => Ok(Box::new(without_names(&convert_at(e, names, depth + 1)?))),
        None => Err("an element type is missing".to_owned()),
    };
    match &proto.value {
        Some(Value::TensorType(t)) => Ok(Type::Tensor(TensorType {
            dtype: dtype(t.elem_type.unwrap_or(0))?,
            shape: t.shape.as_ref().map(|s| shape(s, names)).transpose()?,
        })),
        Some(Value::SequenceType(s)) => Ok(Type::Seq(element(&s.elem_type, names)?)),
        Some(Value::OptionalType(o)) => Ok(Type::Opt(element(&o.elem_type, names)?)),
        Some(Value::MapType(_)) => Err("maps are not supported".into()),
        Some(Value::SparseTensorType(_)) => Err("sparse tensors are not supported".into()),
        Some(Value::OpaqueType(_)) => Err("opaque types are not supported".into()),
        None => Err("the type is missing".into()),
    }
}

/// Elements of a sequence differ in the sizes that a name stands for.
fn without_names(ty: &Type) -> Type {
    ty.map_dims(&mut |d| match d.as_const() {
        Some(size) => Dim::constant(size),
        None => Dim::UNKNOWN,
    })
}

fn shape(proto: &TensorShapeProto, names: &mut DimNames) -> Result<Vec<Dim>, String> {
    if proto.dim.len() > MAX_RANK {
        return Err(format!(
            "it has {} axes, more than {MAX_RANK}",
            proto.dim.len()
        ));
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
