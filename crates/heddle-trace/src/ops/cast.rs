//! Conversions of element types, and operators that give their operand.

use heddle_ir::{DType, Emit, Op, Value};

use super::Table;
use super::cx::NodeCx;
use crate::error::{Result, refuse};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("_to_copy", |cx| convert(cx, "self")),
    ("_conj", same),
    ("_conj_physical", same),
    ("alias", same),
    ("clone", same),
    ("contiguous", same),
    ("copy", copy),
    ("detach", same),
    ("detach_", same),
    ("lift", same),
    ("lift_fresh", same),
    ("lift_fresh_copy", same),
    ("positive", same),
    ("resolve_conj", same),
    ("resolve_neg", same),
    ("to.device", |cx| typed(cx, 2)),
    ("to.dtype", |cx| typed(cx, 1)),
    ("to.dtype_layout", |cx| convert(cx, "self")),
    ("to.other", like_other),
    ("type_as", like_other),
    ("view.dtype", bits),
];

fn same(cx: &mut NodeCx) -> Result<Vec<Value>> {
    Ok(vec![cx.value(0, "self")?])
}

/// `dtype` is an argument by name.
fn convert(cx: &mut NodeCx, name: &str) -> Result<Vec<Value>> {
    let x = cx.value(0, name)?;
    match cx.dtype_arg(usize::MAX, "dtype")? {
        Some(dtype) => Ok(vec![cx.cast(x, dtype)?]),
        None => Ok(vec![x]),
    }
}

fn typed(cx: &mut NodeCx, place: usize) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    match cx.dtype_arg(place, "dtype")? {
        Some(dtype) => Ok(vec![cx.cast(x, dtype)?]),
        None => Ok(vec![x]),
    }
}

fn like_other(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, other) = (cx.value(0, "self")?, cx.value(1, "other")?);
    let dtype = cx.dtype(other)?;
    Ok(vec![cx.cast(x, dtype)?])
}

/// The second operand in the first one's type and shape.
fn copy(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, from) = (cx.value(0, "self")?, cx.value(1, "src")?);
    let dtype = cx.dtype(x)?;
    let from = cx.cast(from, dtype)?;
    Ok(vec![cx.broadcast_like(from, x)?])
}

/// The same bits as another type of the same width.
fn bits(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let from = cx.dtype(x)?;
    let to = cx.dtype_arg(1, "dtype")?.unwrap_or(from);
    match from.bits() == to.bits() && (from == to || from != DType::Bool && to != DType::Bool) {
        true if from == to => Ok(vec![x]),
        true => Ok(vec![cx.op(Op::Bitcast { to }, &[x])?]),
        false => refuse(format!("the bits of {from} as {to}")),
    }
}
