//! Comparisons, logic, bits.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use super::elementwise::{binary, operands, unary};

pub(super) const OPS: Table = &[
    ("Equal", |cx| compare(cx, CompareOp::Eq)),
    ("Less", |cx| compare(cx, CompareOp::Lt)),
    ("LessOrEqual", |cx| compare(cx, CompareOp::Le)),
    ("Greater", |cx| compare(cx, CompareOp::Gt)),
    ("GreaterOrEqual", |cx| compare(cx, CompareOp::Ge)),
    ("And", |cx| binary(cx, BinaryOp::And)),
    ("Or", |cx| binary(cx, BinaryOp::Or)),
    ("Xor", |cx| binary(cx, BinaryOp::Xor)),
    ("Not", |cx| unary(cx, UnaryOp::Not)),
    ("BitwiseAnd", |cx| binary(cx, BinaryOp::And)),
    ("BitwiseOr", |cx| binary(cx, BinaryOp::Or)),
    ("BitwiseXor", |cx| binary(cx, BinaryOp::Xor)),
    ("BitwiseNot", |cx| unary(cx, UnaryOp::Not)),
    ("BitShift", bit_shift),
    ("IsNaN", |cx| unary(cx, UnaryOp::IsNan)),
    ("IsInf", is_inf),
    ("Where", select),
];

fn compare(cx: &mut NodeCx, kind: CompareOp) -> Result<Vec<Value>> {
    let (a, b) = operands(cx)?;
    Ok(vec![cx.compare(kind, a, b)?])
}

fn select(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (cond, a, b) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    Ok(vec![cx.select(cond, a, b)?])
}

/// A negative or too large distance shifts everything out; signed numbers are shifted right
/// arithmetically.
fn bit_shift(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, y) = (cx.input(0)?, cx.input(1)?);
    let left = match cx.str("direction")? {
        Some("LEFT") => true,
        Some("RIGHT") => false,
        other => {
            return invalid(format!("direction is {other:?}, not LEFT or RIGHT"));
        }
    };
    let kind = if left { BinaryOp::Shl } else { BinaryOp::Shr };
    let dtype = cx.dtype(x)?;
    let bits = match dtype {
        DType::I8 => DType::U8,
        DType::I16 => DType::U16,
        DType::I32 => DType::U32,
        DType::I64 => DType::U64,
        _ => return binary(cx, kind),
    };
    cx.same_type(x, y)?;
    // As unsigned numbers negative distances are large ones.
    let y = cx.op(Op::Bitcast { to: bits }, &[y])?;
    let negative = cx.compare_to(CompareOp::Lt, x, 0.0)?;
    let source = if left {
        x
    } else {
        // Copies of the sign bit come in: shift the complement of a negative number.
        let not = cx.unary(UnaryOp::Not, x)?;
        cx.select(negative, not, x)?
    };
    let source = cx.op(Op::Bitcast { to: bits }, &[source])?;
    let shifted = cx.binary(kind, source, y)?;
    let mut z = cx.op(Op::Bitcast { to: dtype }, &[shifted])?;
    if !left {
        let not = cx.unary(UnaryOp::Not, z)?;
        z = cx.select(negative, not, z)?;
    }
    Ok(vec![z])
}

fn is_inf(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let infinite = cx.unary(UnaryOp::IsInf, x)?;
    let (negative, positive) = (
        cx.flag("detect_negative", true),
        cx.flag("detect_positive", true),
    );
    if negative && positive {
        return Ok(vec![infinite]);
    }
    let side = if cx.dtype(x)?.is_float() {
        x
    } else {
        cx.cast(x, DType::F32)?
    };
    let side = match (negative, positive) {
        (true, _) => cx.compare_to(CompareOp::Lt, side, 0.0)?,
        (_, true) => cx.compare_to(CompareOp::Gt, side, 0.0)?,
        // Nothing is detected: no number differs from itself and is infinite.
        _ => cx.compare(CompareOp::Ne, side, side)?,
    };
    Ok(vec![cx.binary(BinaryOp::And, infinite, side)?])
}
