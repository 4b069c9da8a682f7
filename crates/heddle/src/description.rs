//! The description that an ONNX file gives of itself: who made it, and how it declares its inputs and outputs.

use std::path::Path;

use bytes::Bytes;
use heddle_ir::DType;
use heddle_onnx::proto::tensor_proto::DataType;
use heddle_onnx::proto::tensor_shape_proto::dimension::Value as DimValue;
use heddle_onnx::proto::{GraphProto, ModelProto, TensorShapeProto, TypeProto, ValueInfoProto};
use heddle_onnx::proto::{TensorProto, type_proto};

use crate::signature::{Dim, Signature, Type};
use crate::stack::on_large_stack;
use crate::{Error, Port};

/// Nested types that are written out; deeper ones end in `...`.
const MAX_DEPTH: usize = 32;

/// Declarations and metadata of an ONNX file, as it states them: no operator is looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// The tool that wrote the file.
    pub producer: String,
    /// The model's namespace.
    pub domain: String,
    /// The model's version.
    pub version: i64,
    /// The model's documentation.
    pub doc: String,
    /// The graph's name.
    pub graph: String,
    /// The graph's documentation.
    pub graph_doc: String,
    /// Pairs of a name and a text.
    pub metadata: Vec<(String, String)>,
    /// The inputs that a run needs.
    pub inputs: Vec<Declaration>,
    /// Inputs with a default value.
    pub optional: Vec<Declaration>,
    /// The outputs.
    pub outputs: Vec<Declaration>,
}

/// The declaration of an input or output.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// The name.
    pub name: String,
    /// The type in ONNX's notation, such as `tensor(float)` or `seq(tensor(int64))`; empty if there is none.
    pub notation: String,
    /// One dim per axis: a number, the name in the file, or [`Dim::Dynamic`]. `None` for any rank, and where the value is no array.
    pub dims: Option<Vec<Dim>>,
}

impl Description {
    /// Reads that of a file.
    ///
    /// # Errors
    ///
    /// [`Error::Import`] if it can't be read or is no ONNX file.
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        on_large_stack(|| Ok(Self::of(&heddle_onnx::read_proto(path)?)))?
    }

    /// Reads that of a file's bytes. `name` stands for it in errors.
    ///
    /// # Errors
    ///
    /// As for [`Description::of_file`].
    pub fn of_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, Error> {
        let bytes = Bytes::from(bytes);
        on_large_stack(|| {
            let model = heddle_onnx::decode_proto(Path::new(name), bytes)?;
            Ok(Self::of(&model))
        })?
    }

    fn of(model: &ModelProto) -> Self {
        let none = GraphProto::default();
        let graph = model.graph.as_ref().unwrap_or(&none);
        let metadata = model.metadata_props.iter();
        let has_default = |input: &&ValueInfoProto| {
            let named = |tensor: &TensorProto| tensor.name() == input.name();
            let mut sparse = graph.sparse_initializer.iter().flat_map(|t| &t.values);
            graph.initializer.iter().any(named) || sparse.any(named)
        };
        let (optional, inputs): (Vec<_>, Vec<_>) = graph.input.iter().partition(has_default);
        // Before that version every initializer is listed as an input, and is a constant.
        let optional = match model.ir_version() < 4 {
            true => vec![],
            false => optional,
        };
        Self {
            producer: model.producer_name().into(),
            domain: model.domain().into(),
            version: model.model_version(),
            doc: model.doc_string().into(),
            graph: graph.name().into(),
            graph_doc: graph.doc_string().into(),
            metadata: metadata
                .map(|entry| (entry.key().into(), entry.value().into()))
                .collect(),
            inputs: inputs.into_iter().map(Declaration::of).collect(),
            optional: optional.into_iter().map(Declaration::of).collect(),
            outputs: graph.output.iter().map(Declaration::of).collect(),
        }
    }

    /// Fills types and sizes of outputs that the file leaves open with those that the model infers.
    pub fn complete(&mut self, signature: &Signature) {
        let known: Vec<Dim> = self
            .inputs
            .iter()
            .flat_map(|i| &i.dims)
            .flatten()
            .cloned()
            .collect();
        for output in &mut self.outputs {
            if let Some(port) = signature.outputs.iter().find(|p| p.name == output.name) {
                output.complete(port, &known);
            }
        }
    }
}

impl Declaration {
    fn of(info: &ValueInfoProto) -> Self {
        let ty = info.r#type.as_ref();
        Self {
            name: info.name().into(),
            notation: ty.map_or(String::new(), |ty| notation(ty, 0)),
            dims: ty.and_then(dims),
        }
    }

    /// `known` are the dims of inputs: a name that none of them has means nothing to the reader.
    fn complete(&mut self, port: &Port, known: &[Dim]) {
        if self.notation.is_empty() {
            self.notation = notation_of(&port.ty);
        }
        let mut ty = &port.ty;
        while let Type::Opt(inner) = ty {
            ty = inner;
        }
        let Type::Tensor {
            dims: Some(inferred),
            ..
        } = ty
        else {
            return;
        };
        let open = || vec![Dim::Dynamic { max: None }; inferred.len()];
        let dims = self.dims.get_or_insert_with(open);
        for (dim, inferred) in dims.iter_mut().zip(inferred) {
            let is_told = matches!(inferred, Dim::Fixed(_)) || known.contains(inferred);
            if matches!(dim, Dim::Dynamic { .. }) && is_told {
                *dim = inferred.clone();
            }
        }
    }
}

/// A declared type in ONNX's notation.
fn notation(ty: &TypeProto, depth: usize) -> String {
    use type_proto::Value;
    let inner = |ty: &Option<Box<TypeProto>>| match ty {
        Some(ty) if depth < MAX_DEPTH => notation(ty, depth + 1),
        _ => "...".into(),
    };
    match &ty.value {
        Some(Value::TensorType(t)) => format!("tensor({})", element(t.elem_type())),
        Some(Value::SparseTensorType(t)) => format!("sparse_tensor({})", element(t.elem_type())),
        Some(Value::SequenceType(s)) => format!("seq({})", inner(&s.elem_type)),
        Some(Value::OptionalType(o)) => format!("optional({})", inner(&o.elem_type)),
        Some(Value::MapType(m)) => {
            format!("map({},{})", element(m.key_type()), inner(&m.value_type))
        }
        Some(Value::OpaqueType(_)) => "opaque".into(),
        None => String::new(),
    }
}

fn element(number: i32) -> String {
    let found = DataType::try_from(number);
    found.map_or("undefined".into(), |of| of.as_str_name().to_lowercase())
}

/// A type of ours in ONNX's notation.
fn notation_of(ty: &Type) -> String {
    match ty {
        Type::Tensor { dtype, .. } => format!("tensor({})", onnx_name(*dtype)),
        Type::Seq(inner) => format!("seq({})", notation_of(inner)),
        Type::Opt(inner) => format!("optional({})", notation_of(inner)),
    }
}

/// ONNX's name of an element type.
fn onnx_name(dtype: DType) -> String {
    match dtype {
        DType::F32 => "float".into(),
        DType::F64 => "double".into(),
        DType::F16 => "float16".into(),
        DType::Bf16 => "bfloat16".into(),
        DType::Str => "string".into(),
        DType::C64 => "complex64".into(),
        DType::C128 => "complex128".into(),
        other => {
            let name = other.name();
            match (name.split_at_checked(1), name.as_bytes().get(1)) {
                (Some(("i", bits)), Some(b'0'..=b'9')) => format!("int{bits}"),
                (Some(("u", bits)), Some(b'0'..=b'9')) => format!("uint{bits}"),
                (Some(("f", rest)), Some(b'0'..=b'9')) => format!("float{rest}"),
                _ => name.into(),
            }
        }
    }
}

fn dims(ty: &TypeProto) -> Option<Vec<Dim>> {
    use type_proto::Value;
    let mut ty = ty;
    for _ in 0..MAX_DEPTH {
        match &ty.value {
            Some(Value::TensorType(t)) => return t.shape.as_ref().map(shape),
            Some(Value::OptionalType(o)) => ty = o.elem_type.as_ref()?,
            _ => return None,
        }
    }
    None
}

fn shape(proto: &TensorShapeProto) -> Vec<Dim> {
    let dim = |value: &Option<DimValue>| match value {
        Some(DimValue::DimValue(size)) if *size >= 0 => Dim::Fixed(*size as u64),
        Some(DimValue::DimParam(name)) if !name.is_empty() => Dim::Named(name.clone()),
        _ => Dim::Dynamic { max: None },
    };
    proto.dim.iter().map(|d| dim(&d.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_types_have_onnx_names() {
        let names = [
            (DType::F32, "float"),
            (DType::I64, "int64"),
            (DType::U4, "uint4"),
            (DType::Bool, "bool"),
            (DType::F8E4M3FN, "float8e4m3fn"),
            (DType::F4E2M1, "float4e2m1"),
        ];
        for (dtype, name) in names {
            assert_eq!(onnx_name(dtype), name);
        }
    }

    #[test]
    fn what_is_no_model_is_refused() {
        assert!(Description::of_bytes("m", vec![0xff; 9]).is_err());
        assert!(Description::of_file(Path::new("no/such.onnx")).is_err());
        let empty = Description::of_bytes("m", vec![]).unwrap();
        assert_eq!(empty, Description::default());
    }
}
