//! ONNX's test data: inputs and expected outputs as `.pb` files.

use std::path::Path;

use heddle_ir::{Datum, Type};

use crate::ImportError;
use crate::file::{decode, open, with_stack};
use crate::proto::{OptionalProto, SequenceProto, TensorProto};
use crate::scan::Kind;
use crate::tensor::Store;

/// Reads a file that holds a value of this type: a `TensorProto`, `SequenceProto` or
/// `OptionalProto`.
///
/// Only the kind of the type matters: element type and shape are those of the file. External data
/// is not read.
pub fn read_datum(path: &Path, expected: &Type) -> Result<Datum, ImportError> {
    with_stack(|| {
        let bytes = open(path)?;
        match expected {
            Type::Tensor(_) => tensor(&decode(path, bytes, Kind::Tensor)?),
            Type::Seq(elem) => sequence(&decode(path, bytes, Kind::Sequence)?, elem),
            Type::Opt(elem) => optional(&decode(path, bytes, Kind::Optional)?, elem),
        }
    })
}

/// Name, if it has one, and rank of the tensor in a file, if that is what the file holds.
pub fn read_label(path: &Path) -> Option<(Option<String>, usize)> {
    let proto: TensorProto = with_stack(|| decode(path, open(path)?, Kind::Tensor)).ok()?;
    let name = proto.name.filter(|name| !name.is_empty());
    Some((name, proto.dims.len()))
}

fn tensor(proto: &TensorProto) -> Result<Datum, ImportError> {
    match Store::new(None).tensor(proto) {
        Ok(tensor) => Ok(tensor.into()),
        Err(message) => Err(ImportError::Tensor {
            name: proto.name().to_owned(),
            message,
        }),
    }
}

fn sequence(proto: &SequenceProto, elem: &Type) -> Result<Datum, ImportError> {
    let items: Result<Vec<_>, _> = match elem {
        Type::Tensor(_) => proto.tensor_values.iter().map(tensor).collect(),
        Type::Seq(e) => proto
            .sequence_values
            .iter()
            .map(|s| sequence(s, e))
            .collect(),
        Type::Opt(e) => proto
            .optional_values
            .iter()
            .map(|o| optional(o, e))
            .collect(),
    };
    Ok(Datum::Seq(items?))
}

fn optional(proto: &OptionalProto, elem: &Type) -> Result<Datum, ImportError> {
    let value = match elem {
        Type::Tensor(_) => proto.tensor_value.as_ref().map(tensor),
        Type::Seq(e) => proto.sequence_value.as_ref().map(|s| sequence(s, e)),
        Type::Opt(e) => proto.optional_value.as_ref().map(|o| optional(o, e)),
    };
    Ok(Datum::Opt(value.transpose()?.map(Box::new)))
}
