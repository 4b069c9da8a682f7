//! Sparse tensors as dense ones, made at run time, where memory is guarded.

use bytes::Bytes;
use heddle_ir::op::ScatterReduce;
use heddle_ir::{DType, FuncBuilder, Op, Tensor, Value};

use crate::error::OpError;

/// The dense form of a sparse tensor, whose indices are tuples or positions in row-major order.
pub fn dense(
    b: &mut FuncBuilder,
    values: Tensor,
    indices: Tensor,
    dims: &[i64],
) -> Result<Value, OpError> {
    let (shape, linear) = (b.i64s(dims), indices.shape().len() == 1);
    let total = dims.iter().try_fold(1i64, |n, d| n.checked_mul(*d));
    let total = total.ok_or_else(|| OpError::Invalid("a sparse tensor is too large".into()))?;
    let zero = b.constant(zero(values.dtype())?);
    let start = if linear { b.i64s(&[total]) } else { shape };
    let zeros = b.op1(Op::Broadcast, &[zero, start])?;
    let (values, mut indices) = (b.constant(values), b.constant(indices));
    if linear {
        indices = b.op1(Op::Unsqueeze { axes: vec![1] }, &[indices])?;
    }
    let reduce = ScatterReduce::Set;
    let dense = b.op1(Op::ScatterNd { reduce }, &[zeros, indices, values])?;
    match linear {
        true => Ok(b.op1(Op::Reshape, &[dense, shape])?),
        false => Ok(dense),
    }
}

/// Zero, false or the empty string, of rank 0.
pub fn zero(dtype: DType) -> Result<Tensor, OpError> {
    let zero = match dtype {
        DType::Str => Tensor::strings(vec![], vec!["".into()]),
        _ => {
            let bytes = Bytes::from(vec![0; dtype.bits().div_ceil(8)]);
            Tensor::new(dtype, vec![], bytes)
        }
    };
    zero.map_err(|e| OpError::Invalid(e.to_string()))
}
