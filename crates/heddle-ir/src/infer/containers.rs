//! Result types of ops on sequences and optionals.

use super::operands::{check_axis, need, opt, scalar, seq, sizes, tensor};
use super::{Arg, Result, bail};
use crate::{DType, Dim, TensorType, Type};

pub(super) fn seq_new(args: &[Arg], elem: &Type) -> Result<Type> {
    for arg in args {
        need(elem.accepts(arg.ty), || format!("{} is no {elem}", arg.ty))?;
    }
    Ok(Type::Seq(Box::new(elem.clone())))
}

pub(super) fn seq_insert(args: &[Arg]) -> Result<Type> {
    scalar(args, 2, DType::I64)?;
    let (elem, x) = (seq(args, 0)?, args[1].ty);
    let Some(joined) = elem.join(x) else {
        bail!("{x} does not go into a seq<{elem}>")
    };
    Ok(Type::Seq(Box::new(joined)))
}

pub(super) fn seq_erase(args: &[Arg]) -> Result<Type> {
    scalar(args, 1, DType::I64)?;
    Ok(Type::Seq(Box::new(seq(args, 0)?.clone())))
}

pub(super) fn seq_at(args: &[Arg]) -> Result<Type> {
    scalar(args, 1, DType::I64)?;
    Ok(seq(args, 0)?.clone())
}

pub(super) fn seq_len(args: &[Arg]) -> Result<Type> {
    seq(args, 0)?;
    Ok(Type::scalar(DType::I64))
}

pub(super) fn seq_concat(args: &[Arg], axis: usize, stack: bool) -> Result<TensorType> {
    let Type::Tensor(t) = seq(args, 0)? else {
        bail!("takes a sequence of tensors")
    };
    let Some(mut dims) = t.shape.clone() else {
        return Ok(TensorType::unranked(t.dtype));
    };
    check_axis(axis, dims.len() + stack as usize)?;
    match stack {
        true => dims.insert(axis, Dim::UNKNOWN),
        false => dims[axis] = Dim::UNKNOWN,
    }
    Ok(TensorType::new(t.dtype, dims))
}

pub(super) fn seq_split(args: &[Arg], axis: usize, squeeze: bool) -> Result<Type> {
    sizes(args, 1)?;
    let mut elem = tensor(args, 0)?.clone();
    if let Some(dims) = &mut elem.shape {
        check_axis(axis, dims.len())?;
        match (squeeze, args[1].known) {
            (true, _) => drop(dims.remove(axis)),
            (false, Some([first, rest @ ..])) if rest.iter().all(|d| d == first) => {
                dims[axis] = first.clone();
            }
            _ => dims[axis] = Dim::UNKNOWN,
        }
    }
    Ok(Type::Seq(Box::new(Type::Tensor(elem))))
}

pub(super) fn opt_has(args: &[Arg]) -> Result<Type> {
    opt(args, 0)?;
    Ok(Type::scalar(DType::Bool))
}

pub(super) fn opt_get(args: &[Arg]) -> Result<Type> {
    Ok(opt(args, 0)?.clone())
}
