//! Contents of small integer arrays, propagated through the ops that models compute shapes with.

use super::Arg;
use super::shape::{is_non_negative, slice_bounds, slice_count};
use crate::op::{BinaryOp, CompareOp, ReduceOp};
use crate::{DType, Dim, Op, Type};

/// Arrays of more elements are not followed.
const MAX_KNOWN: usize = 64;

/// The elements of the first result, if it is an integer (or `bool`: 0 or 1) array of rank 0 or 1 and all
/// are known at least as dims (some may be unknown).
pub fn known_results(op: &Op, args: &[Arg]) -> Option<Vec<Dim>> {
    let result = evaluate(op, args)?;
    let fits = result.len() <= MAX_KNOWN && result.iter().all(|d| fits(result_dtype(op, args), d));
    fits.then_some(result)
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
fn fits(dtype: Option<DType>, d: &Dim) -> bool {
    let range = match dtype {
        Some(DType::I64) => return true,
        Some(DType::I32) => i64::from(i32::MIN)..=i64::from(i32::MAX),
        Some(DType::Bool) => 0..=1,
        Some(DType::I8) => i64::from(i8::MIN)..=i64::from(i8::MAX),
        Some(DType::I16) => i64::from(i16::MIN)..=i64::from(i16::MAX),
        Some(DType::U8) => 0..=i64::from(u8::MAX),
        Some(DType::U16) => 0..=i64::from(u16::MAX),
        Some(DType::U32) => 0..=i64::from(u32::MAX),
        // Half of its values are beyond a dim's: a difference below zero would be one of them.
        Some(DType::U64) => 0..=i64::MAX,
        _ => return false,
    };
    match (d, dtype) {
        (Dim::Unknown(_), _) => true,
        (d, dtype) => match d.as_const() {
            Some(c) => range.contains(&c),
            None => dtype == Some(DType::I32),
        },
    }
}

fn evaluate(op: &Op, args: &[Arg]) -> Option<Vec<Dim>> {
    let known = |i: usize| args.get(i).and_then(|a| a.known);
    let rank = |i: usize| args[i].ty.as_tensor().and_then(|t| t.rank());
    match op {
        Op::Const(t) => {
            if t.shape().len() > 1 || t.len() > MAX_KNOWN {
                return None;
            }
            Some(t.to_i64s()?.into_iter().map(Dim::constant).collect())
        }
        Op::Shape => args[0].ty.as_tensor()?.shape.clone(),
        Op::Cast {
            to: DType::I64 | DType::I32,
            ..
        } if is_int(args[0].ty) => Some(known(0)?.to_vec()),
        Op::Cast {
            to: DType::Bool, ..
        } if is_int(args[0].ty) => known(0)?
            .iter()
            .map(|d| d.as_const().map(|c| Dim::constant((c != 0) as i64)))
            .collect(),
        Op::Reshape => {
            let target = known(1)?.len();
            (target <= 1).then(|| known(0).map(<[Dim]>::to_vec))?
        }
        Op::Unsqueeze { axes } if rank(0)? + axes.len() <= 1 => Some(known(0)?.to_vec()),
        Op::Squeeze { .. } => Some(known(0)?.to_vec()),
        Op::Broadcast => broadcast(known(0)?, known(1)?),
        Op::Gather { .. } if rank(1)? <= 1 => gather(known(0)?, known(1)?),
        Op::Slice { axes } if axes.len() == 1 => {
            slice(known(0)?, [1, 2, 3].map(|i| first(known(i))))
        }
        Op::Concat { .. } => concat(args),
        Op::Binary(kind) => zip(known(0)?, known(1)?, |a, b| binary(*kind, a, b)),
        Op::Compare(kind) => zip(known(0)?, known(1)?, |a, b| Some(compare(*kind, a, b))),
        Op::Select => select(known(0)?, known(1)?, known(2)?),
        // Over no axes nothing is combined.
        Op::Reduce { axes, .. } if axes.is_empty() => Some(known(0)?.to_vec()),
        Op::Reduce { kind, .. } => reduce(*kind, known(0)?, rank(0)?),
        Op::Range if is_int(args[0].ty) => range([0, 1, 2].map(|i| first(known(i)))),
        _ => None,
    }
}

/// The constant that a scalar or the first element of a vector is.
fn first(known: Option<&[Dim]>) -> Option<i64> {
    known?.first()?.as_const()
}

fn broadcast(x: &[Dim], to: &[Dim]) -> Option<Vec<Dim>> {
    let n = match to {
        [] => 1,
        [n] => usize::try_from(n.as_const()?).ok()?,
        _ => return None,
    };
    match (x.len(), n) {
        (a, b) if a == b || b == 1 => Some(x.to_vec()),
        (1, b) if b <= MAX_KNOWN => Some(vec![x[0].clone(); b]),
        _ => None,
    }
}

fn gather(x: &[Dim], indices: &[Dim]) -> Option<Vec<Dim>> {
    let pick = |i: &Dim| {
        let i = i.as_const()?;
        let i = if i < 0 { i + x.len() as i64 } else { i };
        x.get(usize::try_from(i).ok()?).cloned()
    };
    indices.iter().map(pick).collect()
}

fn slice(x: &[Dim], [start, end, step]: [Option<i64>; 3]) -> Option<Vec<Dim>> {
    let (start, end, step) = (start?, end?, step.filter(|s| *s != 0)?);
    let size = x.len() as i64;
    let (first, _) = slice_bounds(size, start, end, step);
    let count = slice_count(size, start, end, step);
    (0..count)
        .map(|i| x.get(usize::try_from(first + i * step).ok()?).cloned())
        .collect()
}

fn concat(args: &[Arg]) -> Option<Vec<Dim>> {
    let mut all = vec![];
    for arg in args {
        match arg.known {
            Some(known) => all.extend_from_slice(known),
            // A computed part leaves the others as they are.
            None => {
                let length = arg.ty.as_tensor()?.static_shape()?;
                let &[n] = length.as_slice() else {
                    return None;
                };
                all.resize(all.len().checked_add(n.min(MAX_KNOWN + 1))?, Dim::UNKNOWN);
            }
        }
        if all.len() > MAX_KNOWN {
            return None;
        }
    }
    all.iter().any(|d| d.as_expr().is_some()).then_some(all)
}

fn compare(kind: CompareOp, a: &Dim, b: &Dim) -> Dim {
    let equal = match (a.equals(b), a.differs(b)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let constants = a.as_const().zip(b.as_const());
    let truth = match kind {
        CompareOp::Eq => equal,
        CompareOp::Ne => equal.map(|e| !e),
        CompareOp::Lt => constants.map(|(a, b)| a < b),
        CompareOp::Le => constants.map(|(a, b)| a <= b),
        CompareOp::Gt => constants.map(|(a, b)| a > b),
        CompareOp::Ge => constants.map(|(a, b)| a >= b),
    };
    truth.map_or(Dim::UNKNOWN, |t| Dim::constant(t as i64))
}

fn select(c: &[Dim], a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let n = c.len().max(a.len()).max(b.len());
    let at = |x: &[Dim], i: usize| match x.len() {
        1 => Some(x[0].clone()),
        l if l == n => Some(x[i].clone()),
        _ => None,
    };
    (0..n)
        .map(|i| match at(c, i)?.as_const() {
            Some(0) => at(b, i),
            Some(_) => at(a, i),
            // Whichever it is, it is what both agree on.
            None => Some(at(a, i)?.join(&at(b, i)?)),
        })
        .collect()
}

fn reduce(kind: ReduceOp, x: &[Dim], rank: usize) -> Option<Vec<Dim>> {
    let mut items = x.iter().cloned();
    let combine = |a: Dim, b: Dim| match kind {
        ReduceOp::Sum => a.add(&b),
        ReduceOp::Prod => a.mul(&b),
        ReduceOp::Max => a.max(&b),
        ReduceOp::Min => a.min(&b),
    };
    match (items.next(), kind) {
        (Some(first), _) if rank == 1 => Some(vec![items.fold(first, combine)]),
        (Some(first), _) => Some(vec![first]),
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

fn is_int(ty: &Type) -> bool {
    matches!(ty, Type::Tensor(t) if matches!(t.dtype, DType::I64 | DType::I32 | DType::Bool))
}

fn zip(a: &[Dim], b: &[Dim], f: impl Fn(&Dim, &Dim) -> Option<Dim>) -> Option<Vec<Dim>> {
    match (a.len(), b.len()) {
        (x, y) if x == y => a.iter().zip(b).map(|(a, b)| f(a, b)).collect(),
        (1, _) => b.iter().map(|b| f(&a[0], b)).collect(),
        (_, 1) => a.iter().map(|a| f(a, &b[0])).collect(),
        _ => None,
    }
}

/// One element; unknown where the op cannot be followed. Overflow gives unknown too.
fn binary(kind: BinaryOp, a: &Dim, b: &Dim) -> Option<Dim> {
    Some(match kind {
        BinaryOp::Add => a.add(b),
        BinaryOp::Sub => a.sub(b),
        BinaryOp::Mul => a.mul(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::Min => a.min(b),
        // Rounding toward zero is rounding down where nothing is negative.
        BinaryOp::Div if is_non_negative(a) && is_non_negative(b) => match b.as_const() {
            Some(c) if c > 0 => a.floor_div(b),
            _ => Dim::UNKNOWN,
        },
        BinaryOp::Div | BinaryOp::Mod | BinaryOp::Rem => match (a.as_const(), b.as_const()) {
            (Some(x), Some(y)) if y != 0 => match kind {
                BinaryOp::Div => Dim::constant(x.wrapping_div(y)),
                BinaryOp::Rem => Dim::constant(x.wrapping_rem(y)),
                _ => {
                    let r = x.wrapping_rem(y);
                    Dim::constant(if r != 0 && (r < 0) != (y < 0) {
                        r + y
                    } else {
                        r
                    })
                }
            },
            _ => Dim::UNKNOWN,
        },
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => match (a.as_const(), b.as_const()) {
            (Some(x), Some(y)) => Dim::constant(match kind {
                BinaryOp::And => x & y,
                BinaryOp::Or => x | y,
                _ => x ^ y,
            }),
            _ => Dim::UNKNOWN,
        },
        _ => return None,
    })
}
