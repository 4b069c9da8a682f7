//! Padding.

use heddle_ir::op::PadMode;
use heddle_ir::{Emit, Op, Value};

use super::Table;
use super::args::Int;
use super::cx::NodeCx;
use super::promote::Operand;
use crate::error::{Result, invalid, refuse};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("constant_pad_nd", constant),
    ("pad", |cx| {
        let mode = match cx.str(2, "mode", "constant")? {
            "constant" => PadMode::Constant,
            "reflect" => PadMode::Reflect,
            "replicate" => PadMode::Edge,
            "circular" => PadMode::Wrap,
            other => return refuse(format!("mode `{other}`")),
        };
        let x = cx.value(0, "self")?;
        let value = match cx.arg(3, "value") {
            Some(_) => cx.operand(3, "value")?,
            None => Operand::from(cx.like(x, 0.0)?),
        };
        padded(cx, mode, value)
    }),
    ("reflection_pad1d", |cx| moved(cx, PadMode::Reflect)),
    ("reflection_pad2d", |cx| moved(cx, PadMode::Reflect)),
    ("reflection_pad3d", |cx| moved(cx, PadMode::Reflect)),
    ("replication_pad1d", |cx| moved(cx, PadMode::Edge)),
    ("replication_pad2d", |cx| moved(cx, PadMode::Edge)),
    ("replication_pad3d", |cx| moved(cx, PadMode::Edge)),
];

pub(super) fn constant(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let value = match cx.arg(2, "value") {
        Some(_) => cx.operand(2, "value")?,
        None => Operand::from(cx.like(x, 0.0)?),
    };
    padded(cx, PadMode::Constant, value)
}

fn moved(cx: &mut NodeCx, mode: PadMode) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let zero = cx.like(x, 0.0)?;
    padded(cx, mode, zero.into())
}

/// Counts before and after each axis, the last axis first.
fn padded(cx: &mut NodeCx, mode: PadMode, value: Operand) -> Result<Vec<Value>> {
    let name = if cx.arg(1, "pad").is_some() {
        "pad"
    } else {
        "padding"
    };
    let (x, counts) = (cx.value(0, "self")?, cx.size_list(1, name)?);
    let rank = cx.rank(x)?;
    if counts.len() % 2 != 0 || counts.len() > 2 * rank {
        return invalid(format!(
            "{} counts of padding for {rank} axes",
            counts.len()
        ));
    }
    let mut pads = vec![Int::Const(0); 2 * rank];
    for (i, pair) in counts.chunks(2).enumerate() {
        let axis = rank - 1 - i;
        (pads[axis], pads[rank + axis]) = (pair[0], pair[1]);
    }
    let dtype = cx.dtype(x)?;
    let value = cx.as_type(value, dtype)?;
    let pads = cx.ints_value(&pads)?;
    Ok(vec![cx.op(Op::Pad { mode }, &[x, pads, value])?])
}
