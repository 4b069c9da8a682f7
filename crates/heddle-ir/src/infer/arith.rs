//! One element: arithmetic, comparisons, casts.

use crate::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use crate::{DType, Dim};

/// The result; unknown where the op cannot be followed, `None` for ops that no size passes through.
pub(super) fn unary(kind: UnaryOp, dtype: DType, x: &Dim) -> Option<Dim> {
    let minus = |d: &Dim| d.mul(&Dim::constant(-1));
    Some(match kind {
        UnaryOp::Not if dtype == DType::Bool => match x.as_const() {
            Some(c) => Dim::constant((c == 0) as i64),
            None => Dim::UNKNOWN,
        },
        UnaryOp::Neg => minus(x),
        UnaryOp::Abs if x.is_never_negative() => x.clone(),
        UnaryOp::Abs if minus(x).is_never_negative() => minus(x),
        UnaryOp::Abs => Dim::UNKNOWN,
        UnaryOp::Sign => match x.as_const() {
            Some(c) => Dim::constant(c.signum()),
            None if x.is_at_least(&Dim::from(1)) => Dim::from(1),
            None => Dim::UNKNOWN,
        },
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Trunc => x.trunc(),
        UnaryOp::Round if x.is_whole() => x.clone(),
        UnaryOp::Round => Dim::UNKNOWN,
        _ => return None,
    })
}

/// Casts among numbers: floats are rounded toward zero, all but 0 is true.
pub(super) fn cast(x: &Dim, from: DType, to: DType) -> Option<Dim> {
    let is_number = |d: DType| d.is_int() || matches!(d, DType::Bool | DType::F32 | DType::F64);
    if !is_number(from) || !is_number(to) {
        return None;
    }
    Some(match to {
        DType::Bool => match x.as_const() {
            Some(c) => Dim::constant((c != 0) as i64),
            None if x.is_at_least(&Dim::from(1)) => Dim::from(1),
            None => Dim::UNKNOWN,
        },
        to if to.is_float() => x.clone(),
        // Narrow integers wrap.
        DType::I64 | DType::I32 => x.trunc(),
        _ => match x.as_const() {
            Some(c) => Dim::constant(c),
            None => Dim::UNKNOWN,
        },
    })
}

/// The result; unknown where the op cannot be followed. Overflow gives unknown too.
pub(super) fn binary(kind: BinaryOp, dtype: DType, a: &Dim, b: &Dim) -> Option<Dim> {
    if dtype.is_float() {
        return float(kind, a, b);
    }
    let constants = a.as_const().zip(b.as_const());
    Some(match kind {
        BinaryOp::Add => a.add(b),
        BinaryOp::Sub => a.sub(b),
        BinaryOp::Mul => a.mul(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::Min => a.min(b),
        BinaryOp::Div => match (constants, b.as_const()) {
            (Some((_, 0)), _) => Dim::UNKNOWN,
            (Some((x, y)), _) => Dim::constant(x.wrapping_div(y)),
            (None, Some(c)) if c != 0 => a.quotient(b).trunc(),
            _ => Dim::UNKNOWN,
        },
        BinaryOp::Mod => modulo(a, b),
        // The remainder has the dividend's sign.
        BinaryOp::Rem => match constants {
            Some((_, 0)) => Dim::UNKNOWN,
            Some((x, y)) => Dim::constant(x.wrapping_rem(y)),
            None if a.is_never_negative() => modulo(a, b),
            None => Dim::UNKNOWN,
        },
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => bits(kind, dtype, a, b),
        _ => return None,
    })
}

/// The remainder with the divisor's sign.
fn modulo(a: &Dim, b: &Dim) -> Dim {
    match (a.as_const(), b.as_const()) {
        (_, Some(c)) if c > 0 => a.sub(&a.floor_div(b).mul(b)),
        (Some(x), Some(y)) if y < 0 => {
            let r = x.wrapping_rem(y);
            Dim::constant(if r > 0 { r + y } else { r })
        }
        _ => Dim::UNKNOWN,
    }
}

fn bits(kind: BinaryOp, dtype: DType, a: &Dim, b: &Dim) -> Dim {
    let truths = dtype == DType::Bool;
    match (kind, a.as_const(), b.as_const()) {
        (BinaryOp::And, Some(x), Some(y)) => Dim::constant(x & y),
        (BinaryOp::Or, Some(x), Some(y)) => Dim::constant(x | y),
        (_, Some(x), Some(y)) => Dim::constant(x ^ y),
        // One operand decides.
        (BinaryOp::And, Some(0), _) | (BinaryOp::And, _, Some(0)) => Dim::from(0),
        (BinaryOp::Or, Some(1), _) | (BinaryOp::Or, _, Some(1)) if truths => Dim::from(1),
        _ => Dim::UNKNOWN,
    }
}

/// Exact floats give exact sums and products; a quotient is exact, or only rounded.
fn float(kind: BinaryOp, a: &Dim, b: &Dim) -> Option<Dim> {
    let exact = |d: Dim| {
        if a.is_binary() && b.is_binary() {
            d
        } else {
            Dim::UNKNOWN
        }
    };
    Some(match kind {
        BinaryOp::Add => exact(a.add(b)),
        BinaryOp::Sub => exact(a.sub(b)),
        BinaryOp::Mul => exact(a.mul(b)),
        BinaryOp::Max => exact(a.max(b)),
        BinaryOp::Min => exact(a.min(b)),
        BinaryOp::Div if a.is_whole() && b.is_whole() => a.quotient(b),
        BinaryOp::Div => Dim::UNKNOWN,
        _ => return None,
    })
}

/// The op that combines two elements.
pub(super) fn of_reduction(kind: ReduceOp) -> BinaryOp {
    match kind {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Prod => BinaryOp::Mul,
        ReduceOp::Max => BinaryOp::Max,
        ReduceOp::Min => BinaryOp::Min,
    }
}

pub(super) fn compare(kind: CompareOp, a: &Dim, b: &Dim) -> Dim {
    let one = Dim::from(1);
    let (over, under) = (a.is_at_least(b), b.is_at_least(a));
    let (above, below) = (
        over && a.is_at_least(&b.add(&one)),
        under && b.is_at_least(&a.add(&one)),
    );
    // Fractions may differ by less than 1.
    let differs = a.differs(b) || above || below;
    let decided = |yes: bool, no: bool| match (yes, no) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let (less, more) = (under && differs, over && differs);
    let truth = match kind {
        CompareOp::Eq => decided(a.equals(b), differs),
        CompareOp::Ne => decided(differs, a.equals(b)),
        CompareOp::Lt => decided(less, over),
        CompareOp::Le => decided(under, more),
        CompareOp::Gt => decided(more, under),
        CompareOp::Ge => decided(over, less),
    };
    truth.map_or(Dim::UNKNOWN, |t| Dim::constant(t as i64))
}

pub(super) fn select(c: &Dim, a: &Dim, b: &Dim) -> Dim {
    match c.as_const() {
        Some(0) => b.clone(),
        Some(_) => a.clone(),
        // Either way, it is what both agree on.
        None => a.join(b),
    }
}
