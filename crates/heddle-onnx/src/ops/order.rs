//! Extremes, sorting, running sums.

use heddle_ir::op::{Extreme, ReduceOp};
use heddle_ir::{Emit, Op, Value};

use super::cx::{NodeCx, Result, Table};

pub(super) const OPS: Table = &[
    ("ArgMax", |cx| arg_reduce(cx, Extreme::Max)),
    ("ArgMin", |cx| arg_reduce(cx, Extreme::Min)),
    ("CumSum", |cx| cumulative(cx, ReduceOp::Sum)),
    ("CumProd", |cx| cumulative(cx, ReduceOp::Prod)),
    ("TopK", top_k),
    ("Unique", unique),
];

fn arg_reduce(cx: &mut NodeCx, kind: Extreme) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let axis = cx.axis(cx.int_or("axis", 0), cx.rank(x)?)?;
    let (keep, last) = (
        cx.flag("keepdims", true),
        cx.flag("select_last_index", false),
    );
    let op = Op::ArgReduce {
        kind,
        axis,
        keep,
        last,
    };
    Ok(vec![cx.op(op, &[x])?])
}

fn cumulative(cx: &mut NodeCx, kind: ReduceOp) -> Result<Vec<Value>> {
    let (x, axis) = (cx.input(0)?, cx.input(1)?);
    let (exclusive, reverse) = (cx.flag("exclusive", false), cx.flag("reverse", false));
    let rank = cx.rank(x)?;
    let y = cx.with_axis(axis, rank, &|cx, axis| {
        let op = Op::Cumulative {
            kind,
            axis,
            exclusive,
            reverse,
        };
        cx.op(op, &[x])
    })?;
    Ok(vec![y])
}

/// The result is sorted also where the node leaves the order open.
fn top_k(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let k = match cx.opset < 10 {
        true => {
            let k = cx.int_req("k")?;
            cx.b.i64(k)
        }
        false => {
            let k = cx.input(1)?;
            cx.to_index(k)?
        }
    };
    let axis = cx.axis(cx.int_or("axis", -1), cx.rank(x)?)?;
    let kind = if cx.flag("largest", true) {
        Extreme::Max
    } else {
        Extreme::Min
    };
    Ok(cx.b.op(Op::TopK { axis, kind }, &[x, k])?)
}

fn unique(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let axis = match cx.int("axis") {
        Some(axis) => Some(cx.axis(axis, cx.rank(x)?)?),
        None => None,
    };
    let sorted = cx.flag("sorted", true);
    Ok(cx.b.op(Op::Unique { axis, sorted }, &[x])?)
}
