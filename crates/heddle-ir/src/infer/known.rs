//! Contents of small arrays of numbers, propagated through the ops that models compute shapes with.
//!
//! Floats are followed as long as they are exact: integers, and fractions over a power of two. A quotient by
//! another number is followed to the rounding behind it. As sizes in `i32` are assumed to fit, sizes in a float
//! type are assumed to be integers that it holds.

use super::{Arg, arith, arrange};
use crate::op::ReduceOp;
use crate::{DType, Dim, Op, Tensor, Type};

/// Arrays of more elements are not followed.
pub(super) const MAX_KNOWN: usize = 64;

/// The elements of the first result in row-major order, if it is a small array of numbers (`bool`: 0 or 1) and all
/// are known at least as dims (some may be unknown).
pub fn known_results(op: &Op, args: &[Arg]) -> Option<Vec<Dim>> {
    let mut result = evaluate(op, args)?;
    let dtype = result_dtype(op, args)?;
    if dtype.is_float() {
        for d in &mut result {
            if !holds(dtype, d) {
                *d = Dim::UNKNOWN;
            }
        }
    }
    let fits = result.len() <= MAX_KNOWN && result.iter().all(|d| holds(dtype, d));
    fits.then_some(result)
}

/// The shape of an operand, if it is constant.
pub(super) fn static_shape(ty: &Type) -> Option<Vec<usize>> {
    ty.as_tensor()?.static_shape()
}

fn result_dtype(op: &Op, args: &[Arg]) -> Option<DType> {
    let of = |i: usize| Some(args.get(i)?.ty.as_tensor()?.dtype);
    match op {
        Op::Const(t) => Some(t.dtype()),
        Op::Cast { to, .. } => Some(*to),
        Op::Shape => Some(DType::I64),
        Op::Compare(_) => Some(DType::Bool),
        Op::Select => of(1),
        _ => of(0),
    }
}

/// Does the element type hold a dim that was computed without bounds? Narrow types wrap. Symbolic sizes are assumed to
/// fit `i32`, as programs that compute with them in that type assume; beyond `i64` dims are unknown anyway.
fn holds(dtype: DType, d: &Dim) -> bool {
    let range = match dtype {
        DType::I64 => i64::MIN..=i64::MAX,
        DType::I32 => i64::from(i32::MIN)..=i64::from(i32::MAX),
        DType::Bool => 0..=1,
        DType::I8 => i64::from(i8::MIN)..=i64::from(i8::MAX),
        DType::I16 => i64::from(i16::MIN)..=i64::from(i16::MAX),
        DType::U8 => 0..=i64::from(u8::MAX),
        DType::U16 => 0..=i64::from(u16::MAX),
        DType::U32 => 0..=i64::from(u32::MAX),
        // Half of its values are beyond a dim's: a difference below zero would be one of them.
        DType::U64 => 0..=i64::MAX,
        DType::F32 => -(1 << 24)..=1 << 24,
        DType::F64 => -(1 << 53)..=1 << 53,
        _ => return false,
    };
    let wide = matches!(dtype, DType::I64 | DType::I32 | DType::F32 | DType::F64);
    match (d, d.as_const()) {
        (Dim::Unknown(_), _) => true,
        (_, Some(c)) => range.contains(&c),
        (_, None) => wide && (dtype.is_float() || d.is_whole()),
    }
}

/// The rules, by op.
fn evaluate(op: &Op, args: &[Arg]) -> Option<Vec<Dim>> {
    let known = |i: usize| args.get(i).and_then(|a| a.known);
    let shape = |i: usize| static_shape(args.get(i)?.ty);
    match op {
        Op::Const(t) => elements(t),
        Op::Shape => args[0].ty.as_tensor()?.shape.clone(),
        // The same elements in the same order.
        Op::Reshape | Op::Unsqueeze { .. } | Op::Squeeze { .. } => Some(known(0)?.to_vec()),
        Op::Transpose { perm } => arrange::transpose(known(0)?, &shape(0)?, perm),
        Op::Broadcast => arrange::broadcast(known(0)?, &shape(0)?, known(1)?),
        Op::Gather { axis } => arrange::gather(known(0)?, &shape(0)?, *axis, known(1)?),
        Op::Slice { axes } => arrange::slice(known(0)?, &shape(0)?, axes, [1, 2, 3].map(known)),
        Op::Concat { axis } => arrange::concat(args, *axis),
        Op::Cast { to, .. } => {
            let from = args[0].ty.as_tensor()?.dtype;
            known(0)?
                .iter()
                .map(|d| arith::cast(d, from, *to))
                .collect()
        }
        Op::Unary(kind) => {
            let dtype = args[0].ty.as_tensor()?.dtype;
            known(0)?
                .iter()
                .map(|d| arith::unary(*kind, dtype, d))
                .collect()
        }
        Op::Binary(kind) => {
            let dtype = args[0].ty.as_tensor()?.dtype;
            arrange::zip(args, |[a, b]| arith::binary(*kind, dtype, a, b))
        }
        Op::Compare(kind) => arrange::zip(args, |[a, b]| Some(arith::compare(*kind, a, b))),
        Op::Select => arrange::zip(args, |[c, a, b]| Some(arith::select(c, a, b))),
        Op::Reduce { kind, axes, .. } => reduce(*kind, known(0)?, &shape(0)?, axes, args),
        Op::Range => range([0, 1, 2].map(|i| known(i)?.first()?.as_const())),
        _ => None,
    }
}

fn elements(t: &Tensor) -> Option<Vec<Dim>> {
    if t.len() > MAX_KNOWN {
        return None;
    }
    match t.dtype().is_float() {
        true => Some(t.to_f64s()?.into_iter().map(Dim::of_float).collect()),
        false => Some(t.to_i64s()?.into_iter().map(Dim::constant).collect()),
    }
}

/// Reductions over all axes, or over none.
fn reduce(
    kind: ReduceOp,
    x: &[Dim],
    shape: &[usize],
    axes: &[usize],
    args: &[Arg],
) -> Option<Vec<Dim>> {
    if shape
        .iter()
        .enumerate()
        .all(|(i, n)| *n == 1 || !axes.contains(&i))
    {
        return Some(x.to_vec());
    }
    if axes.len() != shape.len() {
        return None;
    }
    let dtype = args[0].ty.as_tensor()?.dtype;
    let step = arith::of_reduction(kind);
    let mut items = x.iter().cloned();
    match (items.next(), kind) {
        (Some(first), _) => {
            let all = items.try_fold(first, |a, b| arith::binary(step, dtype, &a, &b));
            Some(vec![all?])
        }
        (None, ReduceOp::Sum) => Some(vec![Dim::from(0)]),
        (None, ReduceOp::Prod) => Some(vec![Dim::from(1)]),
        _ => None,
    }
}

fn range([start, limit, step]: [Option<i64>; 3]) -> Option<Vec<Dim>> {
    let (start, limit, step) = (start?, limit?, step?);
    let mut all = vec![];
    let mut v = start;
    while step > 0 && v < limit || step < 0 && v > limit {
        all.push(Dim::constant(v));
        if all.len() > MAX_KNOWN {
            return None;
        }
        v = v.checked_add(step)?;
    }
    Some(all)
}
