//! ONNX's numbers for element types.

use heddle_ir::DType;

use super::OpError;
use super::cx::{NodeCx, Result};
use crate::proto::tensor_proto::DataType;

/// The element type that a `TensorProto.DataType` number stands for.
pub fn dtype_of(number: i64) -> Result<DType> {
    let data_type = i32::try_from(number).map(DataType::try_from);
    Ok(match data_type {
        Ok(Ok(DataType::Float)) => DType::F32,
        Ok(Ok(DataType::Uint8)) => DType::U8,
        Ok(Ok(DataType::Int8)) => DType::I8,
        Ok(Ok(DataType::Uint16)) => DType::U16,
        Ok(Ok(DataType::Int16)) => DType::I16,
        Ok(Ok(DataType::Int32)) => DType::I32,
        Ok(Ok(DataType::Int64)) => DType::I64,
        Ok(Ok(DataType::String)) => DType::Str,
        Ok(Ok(DataType::Bool)) => DType::Bool,
        Ok(Ok(DataType::Float16)) => DType::F16,
        Ok(Ok(DataType::Double)) => DType::F64,
        Ok(Ok(DataType::Uint32)) => DType::U32,
        Ok(Ok(DataType::Uint64)) => DType::U64,
        Ok(Ok(DataType::Complex64)) => DType::C64,
        Ok(Ok(DataType::Complex128)) => DType::C128,
        Ok(Ok(DataType::Bfloat16)) => DType::Bf16,
        Ok(Ok(DataType::Float8e4m3fn)) => DType::F8E4M3FN,
        Ok(Ok(DataType::Float8e4m3fnuz)) => DType::F8E4M3FNUZ,
        Ok(Ok(DataType::Float8e5m2)) => DType::F8E5M2,
        Ok(Ok(DataType::Float8e5m2fnuz)) => DType::F8E5M2FNUZ,
        Ok(Ok(DataType::Uint4)) => DType::U4,
        Ok(Ok(DataType::Int4)) => DType::I4,
        Ok(Ok(DataType::Float4e2m1)) => DType::F4E2M1,
        Ok(Ok(DataType::Float8e8m0)) => DType::F8E8M0,
        Ok(Ok(DataType::Uint2)) => DType::U2,
        Ok(Ok(DataType::Int2)) => DType::I2,
        Ok(Ok(other)) => {
            let message = format!("element type {}", other.as_str_name());
            return Err(OpError::Unsupported(message));
        }
        _ => return Err(OpError::Invalid(format!("element type {number}"))),
    })
}

impl NodeCx<'_> {
    /// An attribute that names an element type; 0 counts as missing.
    pub fn dtype_attr(&self, name: &str) -> Result<Option<DType>> {
        let number = self.int(name).filter(|n| *n != 0);
        number.map(dtype_of).transpose()
    }
}
