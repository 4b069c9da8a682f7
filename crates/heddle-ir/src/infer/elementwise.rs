//! Result types of elementwise ops.

use super::operands::{is, need, same_dtype, tensor};
use super::{Arg, Result, shape};
use crate::op::{BinaryOp, CompareOp, StrOp, UnaryOp};
use crate::{DType, Dim, TensorType, Type};

pub(super) fn unary(args: &[Arg], kind: UnaryOp) -> Result<TensorType> {
    use UnaryOp::*;
    let x = tensor(args, 0)?;
    let d = x.dtype;
    let ok = match kind {
        Neg | Abs | Sign => d.is_arith(),
        Not => d.is_int() || d == DType::Bool,
        IsNan | IsInf => d.is_float() || d.is_small_float(),
        _ => d.is_float(),
    };
    need(ok, || format!("does not take {d}"))?;
    let is_predicate = matches!(kind, IsNan | IsInf);
    Ok(with_dtype(x, if is_predicate { DType::Bool } else { d }))
}

pub(super) fn binary(args: &[Arg], kind: BinaryOp) -> Result<TensorType> {
    let (a, b) = same_dtype(args, 0, 1)?;
    let ok = shape::binary_takes(kind, a.dtype);
    need(ok, || format!("does not take {}", a.dtype))?;
    broadcast(a.dtype, &[a, b])
}

pub(super) fn compare(args: &[Arg], kind: CompareOp) -> Result<TensorType> {
    let (a, b) = same_dtype(args, 0, 1)?;
    let equality = matches!(kind, CompareOp::Eq | CompareOp::Ne);
    let ok = a.dtype.is_arith() || equality && matches!(a.dtype, DType::Bool | DType::Str);
    need(ok, || format!("does not take {}", a.dtype))?;
    broadcast(DType::Bool, &[a, b])
}

pub(super) fn select(args: &[Arg]) -> Result<TensorType> {
    let cond = tensor(args, 0)?;
    is(cond, DType::Bool, "the condition")?;
    let (a, b) = same_dtype(args, 1, 2)?;
    broadcast(a.dtype, &[cond, a, b])
}

pub(super) fn cast(args: &[Arg], to: DType) -> Result<TensorType> {
    let x = tensor(args, 0)?;
    let ok = x.dtype == to || !x.dtype.is_complex() && !to.is_complex();
    need(ok, || format!("from {} to {to} is not defined", x.dtype))?;
    Ok(with_dtype(x, to))
}

pub(super) fn bitcast(args: &[Arg], to: DType) -> Result<TensorType> {
    let x = tensor(args, 0)?;
    let ok = x.dtype.bits() == to.bits() && x.dtype != DType::Str;
    need(ok, || format!("{} and {to} differ in width", x.dtype))?;
    Ok(with_dtype(x, to))
}

pub(super) fn strings(args: &[Arg], kind: &StrOp) -> Result<Vec<Type>> {
    let x = tensor(args, 0)?;
    is(x, DType::Str, "the operand")?;
    Ok(match kind {
        StrOp::Concat => {
            let (a, b) = same_dtype(args, 0, 1)?;
            vec![broadcast(DType::Str, &[a, b])?.into()]
        }
        StrOp::FullMatch { .. } => vec![with_dtype(x, DType::Bool).into()],
        StrOp::Split { .. } => {
            let mut pieces = x.clone();
            if let Some(s) = &mut pieces.shape {
                s.push(Dim::UNKNOWN);
            }
            vec![pieces.into(), with_dtype(x, DType::I64).into()]
        }
        StrOp::Normalize { .. } => {
            let mut out = x.clone();
            match out.shape.as_deref_mut() {
                Some([.., last]) => *last = Dim::UNKNOWN,
                Some([]) => return Err("takes one or two axes".into()),
                None => {}
            }
            vec![out.into()]
        }
    })
}

fn broadcast(dtype: DType, operands: &[&TensorType]) -> Result<TensorType> {
    let shape = shape::broadcast(operands)?;
    Ok(TensorType { dtype, shape })
}

/// A tensor of the same shape.
pub(super) fn with_dtype(x: &TensorType, dtype: DType) -> TensorType {
    TensorType {
        dtype,
        shape: x.shape.clone(),
    }
}
