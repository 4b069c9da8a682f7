//! Elementwise arithmetic.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::cx::{NodeCx, Result, Table, invalid};

pub(super) const OPS: Table = &[
    ("Abs", |cx| unary(cx, UnaryOp::Abs)),
    ("Neg", |cx| unary(cx, UnaryOp::Neg)),
    ("Sign", |cx| unary(cx, UnaryOp::Sign)),
    ("Floor", |cx| unary(cx, UnaryOp::Floor)),
    ("Ceil", |cx| unary(cx, UnaryOp::Ceil)),
    ("Round", |cx| unary(cx, UnaryOp::Round)),
    ("Sqrt", |cx| unary(cx, UnaryOp::Sqrt)),
    ("Exp", |cx| unary(cx, UnaryOp::Exp)),
    ("Log", |cx| unary(cx, UnaryOp::Log)),
    ("Sin", |cx| unary(cx, UnaryOp::Sin)),
    ("Cos", |cx| unary(cx, UnaryOp::Cos)),
    ("Tan", |cx| unary(cx, UnaryOp::Tan)),
    ("Asin", |cx| unary(cx, UnaryOp::Asin)),
    ("Acos", |cx| unary(cx, UnaryOp::Acos)),
    ("Atan", |cx| unary(cx, UnaryOp::Atan)),
    ("Sinh", |cx| unary(cx, UnaryOp::Sinh)),
    ("Cosh", |cx| unary(cx, UnaryOp::Cosh)),
    ("Tanh", |cx| unary(cx, UnaryOp::Tanh)),
    ("Asinh", |cx| unary(cx, UnaryOp::Asinh)),
    ("Acosh", |cx| unary(cx, UnaryOp::Acosh)),
    ("Atanh", |cx| unary(cx, UnaryOp::Atanh)),
    ("Erf", erf),
    ("Sigmoid", |cx| unary(cx, UnaryOp::Sigmoid)),
    ("Reciprocal", reciprocal),
    ("Add", |cx| binary(cx, BinaryOp::Add)),
    ("Sub", |cx| binary(cx, BinaryOp::Sub)),
    ("Mul", |cx| binary(cx, BinaryOp::Mul)),
    ("Div", |cx| binary(cx, BinaryOp::Div)),
    ("Mod", modulo),
    ("Pow", pow),
    ("Max", |cx| variadic(cx, BinaryOp::Max)),
    ("Min", |cx| variadic(cx, BinaryOp::Min)),
    ("Sum", |cx| variadic(cx, BinaryOp::Add)),
    ("Mean", mean),
    ("Clip", clip),
];

pub(super) fn unary(cx: &mut NodeCx, kind: UnaryOp) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    Ok(vec![cx.unary(kind, x)?])
}

/// Two operands that broadcast. Before version 7 the axes of the second are those of the first from
/// the attribute `axis` on; without it, the last ones.
pub(super) fn operands(cx: &mut NodeCx) -> Result<(Value, Value)> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let axis = cx
        .int("axis")
        .filter(|_| cx.opset < 7 && cx.flag("broadcast", false));
    let Some(axis) = axis else {
        return Ok((a, b));
    };
    let (rank, own) = (cx.rank(a)?, cx.rank(b)?);
    let axis = cx.axis(axis, rank.max(1))?;
    let Some(behind) = rank.checked_sub(axis + own) else {
        return invalid(format!(
            "{own} axes from axis {axis} on, where the first input has {rank}"
        ));
    };
    let axes: Vec<usize> = (own..own + behind).collect();
    Ok((a, cx.unsqueeze(b, &axes)?))
}

pub(super) fn binary(cx: &mut NodeCx, kind: BinaryOp) -> Result<Vec<Value>> {
    let (a, b) = operands(cx)?;
    Ok(vec![cx.binary(kind, a, b)?])
}

/// Erf is defined on integers too; the result is rounded toward zero.
fn erf(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = cx.dtype(x)?;
    if dtype.is_float() {
        return unary(cx, UnaryOp::Erf);
    }
    let wide = cx.cast(x, DType::F64)?;
    let y = cx.unary(UnaryOp::Erf, wide)?;
    Ok(vec![cx.cast(y, dtype)?])
}

fn reciprocal(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let one = cx.scalar_like(x, 1.0)?;
    Ok(vec![cx.div(one, x)?])
}

fn modulo(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let kind = match cx.int_or("fmod", 0) {
        0 => BinaryOp::Mod,
        1 => BinaryOp::Rem,
        other => return invalid(format!("fmod is {other}, not 0 or 1")),
    };
    binary(cx, kind)
}

/// The result has the base's type; the power is computed in a type that holds base and exponent.
fn pow(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (base, exponent) = operands(cx)?;
    let (to, by) = (cx.dtype(base)?, cx.dtype(exponent)?);
    let common = match (to.is_float(), by.is_float()) {
        _ if to == by => to,
        (true, true) if to == DType::F64 || by == DType::F64 => DType::F64,
        (true, true) => DType::F32,
        (true, false) if to == DType::F64 => DType::F64,
        // `f32` holds every integer of up to 24 bits; larger ones would lose their parity.
        (true, false) if by.bits() <= 16 || is_small(cx, exponent) => DType::F32,
        (true, false) | (false, true) => DType::F64,
        (false, false) if by.is_signed_int() => DType::I64,
        (false, false) => DType::U64,
    };
    let base = cx.cast(base, common)?;
    let exponent = cx.cast(exponent, common)?;
    let power = cx.binary(BinaryOp::Pow, base, exponent)?;
    Ok(vec![cx.cast(power, to)?])
}

fn is_small(cx: &NodeCx, x: Value) -> bool {
    let values = cx.const_i64s(x);
    values.is_some_and(|v| v.iter().all(|e| e.unsigned_abs() < 1 << 24))
}

fn variadic(cx: &mut NodeCx, kind: BinaryOp) -> Result<Vec<Value>> {
    let inputs = cx.all_inputs()?;
    let Some((&first, rest)) = inputs.split_first() else {
        return invalid("at least one input is needed");
    };
    let result = rest
        .iter()
        .try_fold(first, |acc, &x| cx.binary(kind, acc, x))?;
    Ok(vec![result])
}

fn mean(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let sum = variadic(cx, BinaryOp::Add)?[0];
    let count = cx.scalar_like(sum, cx.inputs.len() as f64)?;
    Ok(vec![cx.div(sum, count)?])
}

/// Bounds are attributes before version 11, by default the range of `f32` (none before version 6),
/// and optional inputs since.
fn clip(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let bounds = if cx.opset < 11 {
        let widest = if cx.opset < 6 {
            f32::INFINITY
        } else {
            f32::MAX
        };
        let (low, high) = (cx.float_or("min", -widest), cx.float_or("max", widest));
        [
            Some(cx.scalar_like(x, low.into())?),
            Some(cx.scalar_like(x, high.into())?),
        ]
    } else {
        [cx.opt(1), cx.opt(2)]
    };
    let mut y = x;
    for (bound, kind) in bounds.into_iter().zip([BinaryOp::Max, BinaryOp::Min]) {
        if let Some(bound) = bound {
            let bound = cx.to_scalar(bound)?;
            y = cx.binary(kind, y, bound)?;
        }
    }
    Ok(vec![y])
}

/// `x < 0 ? negative : x`, the shape of many activations.
pub(super) fn below_zero(cx: &mut NodeCx, x: Value, negative: Value) -> Result<Value> {
    let zero = cx.scalar_like(x, 0.0)?;
    let below = cx.compare(CompareOp::Lt, x, zero)?;
    cx.select(below, negative, x)
}
