//! Conversions between element types.

use heddle_ir::op::ScaleRounding;
use heddle_ir::{DType, Emit, Op, Value};

use super::cx::{NodeCx, Result, Table, invalid, required};
use super::elem::dtype_of;

pub(super) const OPS: Table = &[
    ("Cast", |cx| {
        let to = match cx.opset {
            ..6 => named_type(required(cx.str("to")?, "to")?)?,
            _ => required(cx.dtype_attr("to")?, "to")?,
        };
        convert(cx, to)
    }),
    ("CastLike", |cx| {
        let target = cx.input(1)?;
        let to = cx.dtype(target)?;
        convert(cx, to)
    }),
    ("BitCast", bit_cast),
];

/// The element type of a name, as Cast has it before version 6.
fn named_type(name: &str) -> Result<DType> {
    let names = [
        "FLOAT",
        "UINT8",
        "INT8",
        "UINT16",
        "INT16",
        "INT32",
        "INT64",
        "STRING",
        "BOOL",
        "FLOAT16",
        "DOUBLE",
        "UINT32",
        "UINT64",
        "COMPLEX64",
        "COMPLEX128",
    ];
    match names.iter().position(|n| n.eq_ignore_ascii_case(name)) {
        Some(i) => dtype_of(i as i64 + 1),
        None => invalid(format!("there is no element type `{name}`")),
    }
}

fn convert(cx: &mut NodeCx, to: DType) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let round = cx.choice(
        "round_mode",
        "up",
        &[
            ("up", ScaleRounding::Up),
            ("down", ScaleRounding::Down),
            ("nearest", ScaleRounding::Nearest),
        ],
    )?;
    let from = cx.dtype(x)?;
    if from == to {
        return Ok(vec![x]);
    }
    // Numbers that do not fit 2 or 4 bits lose their higher bits, as with ONNX's own types, and are
    // not clamped.
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
    let to = required(cx.dtype_attr("to")?, "to")?;
    if cx.dtype(x)? == to {
        return Ok(vec![x]);
    }
    Ok(vec![cx.op(Op::Bitcast { to }, &[x])?])
}
