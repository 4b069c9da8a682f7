//! ONNX's numbers for element types.

use heddle_ir::DType;

use super::cx::{NodeCx, Result, invalid};
use crate::refusal::Refusal;
use crate::types::{TypeFault, dtype};

/// The element type that a `TensorProto.DataType` number stands for.
pub fn dtype_of(number: i64) -> Result<DType> {
    match dtype(number) {
        Ok(dtype) => Ok(dtype),
        Err(TypeFault::Element(name)) => Err(Refusal::ElementType(name).into()),
        Err(TypeFault::UndefinedElement) => Err(Refusal::ElementType("UNDEFINED").into()),
        Err(_) => invalid(format!("element type {number}")),
    }
}

impl NodeCx<'_> {
    /// An attribute that names an element type; 0 counts as missing.
    pub fn dtype_attr(&self, name: &str) -> Result<Option<DType>> {
        let number = self.int(name).filter(|n| *n != 0);
        number.map(dtype_of).transpose()
    }
}
