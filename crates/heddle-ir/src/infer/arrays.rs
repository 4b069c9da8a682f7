//! Result types of indexing, reductions and order.

use super::elementwise::with_dtype;
use super::operands::{
    check_axis, check_reduce, check_scatter, index, need, same_dtype, same_rank, scalar, sizes,
    tensor,
};
use super::{Arg, Result, shape};
use crate::op::{PadMode, ReduceOp, ScatterReduce};
use crate::{DType, Dim, TensorType, Type};

/// A vector with an element for each axis of the operand.
pub(super) fn axes(args: &[Arg]) -> Result<TensorType> {
    let rank = tensor(args, 0)?.rank().map_or(Dim::UNKNOWN, Dim::from);
    Ok(TensorType::new(DType::I64, vec![rank]))
}

pub(super) fn nonzero(args: &[Arg]) -> Result<TensorType> {
    let rank = tensor(args, 0)?.rank().map_or(Dim::UNKNOWN, Dim::from);
    Ok(TensorType::new(DType::I64, vec![rank, Dim::UNKNOWN]))
}

pub(super) fn broadcast(args: &[Arg]) -> Result<TensorType> {
    let x = tensor(args, 0)?;
    let to = TensorType {
        dtype: x.dtype,
        shape: shape::from_sizes(args, 1)?,
    };
    Ok(TensorType {
        dtype: x.dtype,
        shape: shape::broadcast(&[x, &to])?,
    })
}

pub(super) fn pad(args: &[Arg], mode: PadMode) -> Result<TensorType> {
    let x = tensor(args, 0)?;
    let value = tensor(args, 2)?;
    need(mode != PadMode::Constant || value.dtype == x.dtype, || {
        format!("pads {} with a value of type {}", x.dtype, value.dtype)
    })?;
    need(value.rank().is_none_or(|r| r == 0), || {
        "the value must be a scalar".into()
    })?;
    shape::pad(args)
}

pub(super) fn gather(args: &[Arg], axis: usize) -> Result<TensorType> {
    let (x, i) = (tensor(args, 0)?, index(args, 1)?);
    let (Some(xs), Some(is)) = (&x.shape, &i.shape) else {
        return Ok(TensorType::unranked(x.dtype));
    };
    check_axis(axis, xs.len())?;
    let dims = [&xs[..axis], is, &xs[axis + 1..]].concat();
    Ok(TensorType::new(x.dtype, dims))
}

pub(super) fn gather_elements(args: &[Arg], axis: usize) -> Result<TensorType> {
    let (x, i) = (tensor(args, 0)?, index(args, 1)?);
    same_rank(x, i)?;
    x.rank().map_or(Ok(()), |r| check_axis(axis, r))?;
    Ok(with_dtype(i, x.dtype))
}

pub(super) fn scatter_elements(
    args: &[Arg],
    axis: usize,
    reduce: ScatterReduce,
) -> Result<TensorType> {
    let (x, i) = (tensor(args, 0)?, index(args, 1)?);
    let (_, u) = same_dtype(args, 0, 2)?;
    same_rank(x, i)?;
    same_rank(x, u)?;
    x.rank().map_or(Ok(()), |r| check_axis(axis, r))?;
    check_scatter(reduce, x.dtype)?;
    Ok(x.clone())
}

pub(super) fn scatter_nd(args: &[Arg], reduce: ScatterReduce) -> Result<TensorType> {
    index(args, 1)?;
    let (x, _) = same_dtype(args, 0, 2)?;
    check_scatter(reduce, x.dtype)?;
    Ok(x.clone())
}

pub(super) fn update_slice(args: &[Arg]) -> Result<TensorType> {
    let (x, u) = same_dtype(args, 0, 1)?;
    same_rank(x, u)?;
    sizes(args, 2)?;
    Ok(x.clone())
}

pub(super) fn reduce(
    args: &[Arg],
    kind: ReduceOp,
    axes: &[usize],
    keep: bool,
) -> Result<TensorType> {
    let x = tensor(args, 0)?;
    check_reduce(kind, x.dtype)?;
    shape::drop_axes(x, axes, keep)
}

pub(super) fn arg_reduce(args: &[Arg], axis: usize, keep: bool) -> Result<TensorType> {
    let x = tensor(args, 0)?;
    need(x.dtype.is_arith(), || format!("does not take {}", x.dtype))?;
    let dropped = shape::drop_axes(x, &[axis], keep)?;
    Ok(with_dtype(&dropped, DType::I64))
}

pub(super) fn cumulative(args: &[Arg], kind: ReduceOp, axis: usize) -> Result<TensorType> {
    let x = tensor(args, 0)?;
    check_reduce(kind, x.dtype)?;
    x.rank().map_or(Ok(()), |r| check_axis(axis, r))?;
    Ok(x.clone())
}

pub(super) fn segment_reduce(args: &[Arg], kind: ReduceOp) -> Result<TensorType> {
    let (x, offsets) = (tensor(args, 0)?, sizes(args, 1)?);
    check_reduce(kind, x.dtype)?;
    let ends = offsets.shape.as_ref().map(|s| &s[0]);
    need(!ends.is_some_and(|n| n.is(0)), || {
        "offsets must have an element".into()
    })?;
    let mut found = x.clone();
    if let Some(s) = &mut found.shape {
        check_axis(0, s.len())?;
        s[0] = ends.map_or(Dim::UNKNOWN, |n| n.sub(&Dim::constant(1)));
    }
    Ok(found)
}

pub(super) fn top_k(args: &[Arg], axis: usize) -> Result<Vec<Type>> {
    let x = tensor(args, 0)?;
    need(x.dtype.is_arith(), || format!("does not take {}", x.dtype))?;
    scalar(args, 1, DType::I64)?;
    let mut values = x.clone();
    if let Some(s) = &mut values.shape {
        check_axis(axis, s.len())?;
        s[axis] = args[1].known.map_or(Dim::UNKNOWN, |k| k[0].clone());
    }
    let indices = with_dtype(&values, DType::I64);
    Ok(vec![values.into(), indices.into()])
}

pub(super) fn unique(args: &[Arg], axis: Option<usize>) -> Result<Vec<Type>> {
    let x = tensor(args, 0)?;
    let list = || Type::tensor(DType::I64, vec![Dim::UNKNOWN]);
    let (values, inverse) = match (axis, &x.shape) {
        (None, _) => (TensorType::new(x.dtype, vec![Dim::UNKNOWN]), list()),
        (Some(_), None) => (x.clone(), list()),
        (Some(axis), Some(s)) => {
            check_axis(axis, s.len())?;
            let mut dims = s.clone();
            dims[axis] = Dim::UNKNOWN;
            let inverse = Type::tensor(DType::I64, vec![s[axis].clone()]);
            (TensorType::new(x.dtype, dims), inverse)
        }
    };
    Ok(vec![Type::Tensor(values), list(), inverse, list()])
}
