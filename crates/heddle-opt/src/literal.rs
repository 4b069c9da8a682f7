//! Constants that passes make and look for.

use heddle_ir::{DType, Tensor, Type};

/// An integer or `bool` array of rank 0 or 1 with these elements.
pub fn integers(ty: &Type, values: &[i64]) -> Option<Tensor> {
    let t = ty.as_tensor()?;
    let tensor = match t.dtype {
        DType::I64 => Tensor::vector(values),
        DType::I32 => {
            let narrow: Result<Vec<i32>, _> = values.iter().map(|v| i32::try_from(*v)).collect();
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

/// What a constant `bool[]` holds.
pub fn truth(tensor: &Tensor) -> Option<bool> {
    let scalar = tensor.dtype() == DType::Bool && tensor.shape().is_empty();
    scalar.then(|| tensor.bytes()[..] == [1])
}
