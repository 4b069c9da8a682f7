//! Conversions between element types.

use heddle_ir::op::ScaleRounding;
use heddle_ir::{DType, Op, Value};

use super::Table;
use super::cx::{NodeCx, OpError, Result};

pub(super) const OPS: Table = &[
    ("Cast", |cx| {
        let to = cx
            .dtype_attr("to")?
            .ok_or_else(|| OpError::Invalid("attribute `to` is missing".into()))?;
        convert(cx, to)
    }),
    ("CastLike", |cx| {
        let target = cx.input(1)?;
        let to = cx.dtype(target)?;
        convert(cx, to)
    }),
    ("BitCast", bit_cast),
];

fn convert(cx: &mut NodeCx, to: DType) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let round = match cx.str_or("round_mode", "up")? {
        "up" => ScaleRounding::Up,
        "down" => ScaleRounding::Down,
        "nearest" => ScaleRounding::Nearest,
        other => return Err(OpError::Invalid(format!("round_mode is `{other}`"))),
    };
    let from = cx.dtype(x)?;
    if from == to {
        return Ok(vec![x]);
    }
    // What does not fit 2 or 4 bits loses its higher bits, as with ONNX's own types, and is not
    // clamped.
    let x = if from.is_float() && to.is_small_int() {
        cx.cast(x, DType::I32)?
    } else {
        x
    };
    let saturate = cx.flag("saturate", true);
    Ok(vec![cx.op(
        Op::Cast {
            to,
            saturate,
            round,
        },
        &[x],
    )?])
}

fn bit_cast(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let to = cx
        .dtype_attr("to")?
        .ok_or_else(|| OpError::Invalid("attribute `to` is missing".into()))?;
    if cx.dtype(x)? == to {
        return Ok(vec![x]);
    }
    Ok(vec![cx.op(Op::Bitcast { to }, &[x])?])
}
