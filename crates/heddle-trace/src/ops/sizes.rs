//! Integers and truth values outside of arrays.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::Table;
use super::args::Number;
use super::cx::NodeCx;
use super::elementwise::floor_quotient;
use super::promote::Operand;
use crate::error::{Result, invalid, refuse};
use crate::graph::Arg;

/// Operators on sizes, by their whole target.
pub(super) const OPS: Table = &[
    ("constant", |cx| Ok(vec![cx.value(0, "constant")?])),
    ("operator.add", |cx| arithmetic(cx, BinaryOp::Add)),
    ("operator.and_", |cx| arithmetic(cx, BinaryOp::And)),
    ("operator.eq", |cx| comparison(cx, CompareOp::Eq)),
    ("operator.floordiv", floordiv),
    ("operator.ge", |cx| comparison(cx, CompareOp::Ge)),
    ("operator.gt", |cx| comparison(cx, CompareOp::Gt)),
    ("operator.le", |cx| comparison(cx, CompareOp::Le)),
    ("operator.lt", |cx| comparison(cx, CompareOp::Lt)),
    ("operator.mod", |cx| arithmetic(cx, BinaryOp::Mod)),
    ("operator.mul", |cx| arithmetic(cx, BinaryOp::Mul)),
    ("operator.ne", |cx| comparison(cx, CompareOp::Ne)),
    ("operator.neg", negate),
    ("operator.not_", not),
    ("operator.or_", |cx| arithmetic(cx, BinaryOp::Or)),
    ("operator.pow", |cx| arithmetic(cx, BinaryOp::Pow)),
    ("operator.sub", |cx| arithmetic(cx, BinaryOp::Sub)),
    ("operator.truediv", truediv),
    ("sym_float", |cx| {
        let (x, _) = number(cx, 0)?;
        Ok(vec![cx.cast(x, DType::F64)?])
    }),
    ("sym_int", |cx| {
        let (x, _) = number(cx, 0)?;
        Ok(vec![cx.cast(x, DType::I64)?])
    }),
    ("sym_ite", |cx| {
        let (cond, _) = number(cx, 0)?;
        let (a, b, _) = pair_at(cx, 1)?;
        Ok(vec![cx.select(cond, a, b)?])
    }),
    ("sym_max", |cx| arithmetic(cx, BinaryOp::Max)),
    ("sym_min", |cx| arithmetic(cx, BinaryOp::Min)),
    ("sym_not", not),
];

/// Operators of ATen that give sizes, or are about them.
pub(super) const ATEN: Table = &[
    ("_assert_tensor_metadata", nothing),
    ("_local_scalar_dense", item),
    ("item", item),
    ("sym_constrain_range", nothing),
    ("sym_constrain_range_for_size", nothing),
    ("sym_numel", |cx| {
        let x = cx.value(0, "self")?;
        let count = cx.total(x)?;
        Ok(vec![cx.int_value(count)])
    }),
    ("sym_size.int", |cx| {
        let (x, axis) = (cx.value(0, "self")?, cx.int(1, "dim")?);
        let rank = cx.rank(x)?;
        if rank == 0 {
            return invalid("it has no axes");
        }
        let axis = cx.axis(axis, rank)?;
        let size = cx.size(x, axis)?;
        Ok(vec![cx.int_value(size)])
    }),
    ("sym_storage_offset", |cx| Ok(vec![cx.b.i64(0)])),
    ("sym_stride.int", |cx| {
        let (x, axis) = (cx.value(0, "self")?, cx.int(1, "dim")?);
        let rank = cx.rank(x)?;
        if rank == 0 {
            return invalid("it has no axes");
        }
        let axis = cx.axis(axis, rank)?;
        // As of an array in row-major order.
        let behind: Vec<usize> = (axis + 1..rank).collect();
        let stride = cx.count(x, &behind)?;
        Ok(vec![cx.int_value(stride)])
    }),
];

/// What states facts about sizes and types, which are checked anyway.
fn nothing(_: &mut NodeCx) -> Result<Vec<Value>> {
    Ok(vec![])
}

/// An operand as an array without axes.
fn number(cx: &mut NodeCx, i: usize) -> Result<(Value, DType)> {
    let Some(arg) = cx.arg(i, "") else {
        return invalid(format!("operand {i} is missing"));
    };
    let value = match arg {
        Arg::Float(x) => cx.b.scalar(DType::F64, x.0),
        arg => cx.value_of(arg)?,
    };
    match cx.rank(value)? {
        0 => Ok((value, cx.dtype(value)?)),
        _ => invalid("an operand is an array with axes"),
    }
}

fn pair_at(cx: &mut NodeCx, i: usize) -> Result<(Value, Value, DType)> {
    let ((a, s), (b, t)) = (number(cx, i)?, number(cx, i + 1)?);
    let dtype = super::promote::join(s, t);
    Ok((cx.cast(a, dtype)?, cx.cast(b, dtype)?, dtype))
}

/// Truth values are counted but by `and` and `or`.
fn arithmetic(cx: &mut NodeCx, kind: BinaryOp) -> Result<Vec<Value>> {
    let (a, b, dtype) = pair_at(cx, 0)?;
    let is_logic = matches!(
        kind,
        BinaryOp::And | BinaryOp::Or | BinaryOp::Max | BinaryOp::Min
    );
    let (a, b) = match dtype {
        DType::Bool if !is_logic => (cx.cast(a, DType::I64)?, cx.cast(b, DType::I64)?),
        _ => (a, b),
    };
    Ok(vec![cx.binary(kind, a, b)?])
}

fn comparison(cx: &mut NodeCx, kind: CompareOp) -> Result<Vec<Value>> {
    let (a, b, dtype) = pair_at(cx, 0)?;
    let (a, b) = match dtype {
        DType::Bool => (cx.cast(a, DType::I64)?, cx.cast(b, DType::I64)?),
        _ => (a, b),
    };
    Ok(vec![cx.compare(kind, a, b)?])
}

fn floordiv(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b, _) = pair_at(cx, 0)?;
    Ok(vec![floor_quotient(cx, a, b)?])
}

fn truediv(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b, _) = pair_at(cx, 0)?;
    let (a, b) = (cx.cast(a, DType::F64)?, cx.cast(b, DType::F64)?);
    Ok(vec![cx.div(a, b)?])
}

fn negate(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, _) = number(cx, 0)?;
    Ok(vec![cx.unary(UnaryOp::Neg, x)?])
}

fn not(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, _) = number(cx, 0)?;
    let x = cx.cast(x, DType::Bool)?;
    Ok(vec![cx.unary(UnaryOp::Not, x)?])
}

/// The only element of an array, as the result states it.
fn item(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = match cx.operand(0, "self")? {
        Operand::Array(x) => x,
        Operand::Number(Number::Size(x)) => x,
        Operand::Number(_) => return refuse("the element of a number"),
    };
    let x = cx.reshape(x, &[])?;
    let dtype = cx.dtype(x)?;
    Ok(vec![match dtype {
        DType::Bool => x,
        _ if dtype.is_float() => match cx.node.results.first().map(|r| r.ty.as_str()) {
            Some("f64") => cx.cast(x, DType::F64)?,
            _ => x,
        },
        _ => cx.cast(x, DType::I64)?,
    }])
}
