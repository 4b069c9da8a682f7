//! Checks of operands.

use super::{Arg, Result};
use crate::op::{ReduceOp, ScatterReduce};
use crate::{DType, TensorType, Type};

pub(super) fn need(ok: bool, message: impl FnOnce() -> String) -> Result<()> {
    if ok { Ok(()) } else { Err(message()) }
}

pub(super) fn tensor<'a>(args: &[Arg<'a>], i: usize) -> Result<&'a TensorType> {
    args[i]
        .ty
        .as_tensor()
        .ok_or_else(|| format!("operand {i} must be a tensor, not {}", args[i].ty))
}

pub(super) fn is(t: &TensorType, dtype: DType, what: &str) -> Result<()> {
    need(t.dtype == dtype, || {
        format!("{what} must be {dtype}, not {}", t.dtype)
    })
}

pub(super) fn same_dtype<'a>(
    args: &[Arg<'a>],
    i: usize,
    j: usize,
) -> Result<(&'a TensorType, &'a TensorType)> {
    let (a, b) = (tensor(args, i)?, tensor(args, j)?);
    need(a.dtype == b.dtype, || {
        format!("operands are {} and {}", a.dtype, b.dtype)
    })?;
    Ok((a, b))
}

pub(super) fn same_rank(a: &TensorType, b: &TensorType) -> Result<()> {
    match (a.rank(), b.rank()) {
        (Some(x), Some(y)) if x != y => Err(format!("operands have {x} and {y} axes")),
        _ => Ok(()),
    }
}

pub(super) fn index<'a>(args: &[Arg<'a>], i: usize) -> Result<&'a TensorType> {
    let t = tensor(args, i)?;
    let ok = matches!(t.dtype, DType::I32 | DType::I64);
    need(ok, || {
        format!("indices must be i32 or i64, not {}", t.dtype)
    })?;
    Ok(t)
}

/// An `i64[k]` operand.
pub(super) fn sizes<'a>(args: &[Arg<'a>], i: usize) -> Result<&'a TensorType> {
    let t = tensor(args, i)?;
    let ok = t.dtype == DType::I64 && t.rank().is_none_or(|r| r == 1);
    need(ok, || format!("operand {i} must be i64[k], not {t}"))?;
    Ok(t)
}

pub(super) fn scalar<'a>(args: &[Arg<'a>], i: usize, dtype: DType) -> Result<&'a TensorType> {
    let t = tensor(args, i)?;
    let ok = t.dtype == dtype && t.rank().is_none_or(|r| r == 0);
    need(ok, || format!("operand {i} must be {dtype}[], not {t}"))?;
    Ok(t)
}

pub(super) fn seq<'a>(args: &[Arg<'a>], i: usize) -> Result<&'a Type> {
    match args[i].ty {
        Type::Seq(t) => Ok(t),
        other => Err(format!("operand {i} must be a sequence, not {other}")),
    }
}

pub(super) fn opt<'a>(args: &[Arg<'a>], i: usize) -> Result<&'a Type> {
    match args[i].ty {
        Type::Opt(t) => Ok(t),
        other => Err(format!("operand {i} must be an optional, not {other}")),
    }
}

pub(super) fn check_axis(axis: usize, rank: usize) -> Result<()> {
    need(axis < rank, || format!("axis {axis} of {rank}"))
}

pub(super) fn check_reduce(kind: ReduceOp, dtype: DType) -> Result<()> {
    let logical = dtype == DType::Bool && matches!(kind, ReduceOp::Max | ReduceOp::Min);
    need(dtype.is_arith() || logical, || {
        format!("{} does not take {dtype}", kind.name())
    })
}

pub(super) fn check_scatter(reduce: ScatterReduce, dtype: DType) -> Result<()> {
    let logical = dtype == DType::Bool && matches!(reduce, ScatterReduce::Max | ScatterReduce::Min);
    let replaces = matches!(reduce, ScatterReduce::Set | ScatterReduce::Once);
    let ok = replaces || dtype.is_arith() || logical;
    need(ok, || format!("{} does not take {dtype}", reduce.name()))
}
