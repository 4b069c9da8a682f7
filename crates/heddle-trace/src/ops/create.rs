//! Arrays out of numbers.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Emit, Op, Tensor, Value};

use super::Table;
use super::args::{Int, Number};
use super::cx::NodeCx;
use crate::error::{OpError, Result, invalid};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("arange", |cx| range(cx, None, 0, None)),
    ("arange.start", |cx| range(cx, Some(0), 1, None)),
    ("arange.start_step", |cx| range(cx, Some(0), 1, Some(2))),
    ("empty.memory_format", |cx| filled(cx, 0.0)),
    ("empty_like", |cx| filled_like(cx, 0.0)),
    ("empty_permuted", |cx| filled(cx, 0.0)),
    ("empty_strided", |cx| filled(cx, 0.0)),
    ("eye", |cx| eye(cx, false)),
    ("eye.m", |cx| eye(cx, true)),
    ("fill.Scalar", fill),
    ("fill.Tensor", fill),
    ("full", full),
    ("full_like", full_like),
    ("linspace", linspace),
    ("linspace.Scalar_Tensor", linspace),
    ("linspace.Tensor_Scalar", linspace),
    ("linspace.Tensor_Tensor", linspace),
    ("new_empty", new_filled),
    ("new_empty_strided", new_filled),
    ("new_full", new_full),
    ("new_ones", |cx| new_number(cx, 1.0)),
    ("new_zeros", |cx| new_number(cx, 0.0)),
    ("ones", |cx| filled(cx, 1.0)),
    ("ones_like", |cx| filled_like(cx, 1.0)),
    ("scalar_tensor", scalar_tensor),
    ("tril", |cx| triangle(cx, CompareOp::Le)),
    ("triu", |cx| triangle(cx, CompareOp::Ge)),
    ("zeros", |cx| filled(cx, 0.0)),
    ("zeros_like", |cx| filled_like(cx, 0.0)),
];

/// The argument `dtype`, which is given by name.
fn stated(cx: &NodeCx) -> Result<Option<DType>> {
    cx.dtype_arg(usize::MAX, "dtype")
}

/// The element type of a number alone.
fn type_of(number: Number) -> DType {
    match number {
        Number::Int(_) | Number::Size(_) => DType::I64,
        Number::Float(_) => DType::F32,
        Number::Bool(_) => DType::Bool,
    }
}

fn number(cx: &mut NodeCx, i: usize, name: &str) -> Result<Number> {
    let number = cx.number(i, name)?;
    number.ok_or_else(|| OpError::Invalid(format!("`{name}` is no number")))
}

/// An array of a number.
fn of(cx: &mut NodeCx, x: Value, sizes: &[Int]) -> Result<Vec<Value>> {
    if sizes.iter().any(|n| n.as_const().is_some_and(|n| n < 0)) {
        return invalid("a size is negative");
    }
    Ok(vec![cx.filled(x, sizes)?])
}

fn filled(cx: &mut NodeCx, x: f64) -> Result<Vec<Value>> {
    let sizes = cx.size_list(0, "size")?;
    let dtype = stated(cx)?.unwrap_or(DType::F32);
    let x = cx.b.scalar(dtype, x);
    of(cx, x, &sizes)
}

fn filled_like(cx: &mut NodeCx, x: f64) -> Result<Vec<Value>> {
    let like = cx.value(0, "self")?;
    let (sizes, dtype) = (cx.sizes(like)?, stated(cx)?.unwrap_or(cx.dtype(like)?));
    let x = cx.b.scalar(dtype, x);
    of(cx, x, &sizes)
}

fn full(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let sizes = cx.size_list(0, "size")?;
    if let Some(x) = cx.number(1, "fill_value")? {
        let dtype = stated(cx)?.unwrap_or(type_of(x));
        let x = cx.scalar(x, dtype)?;
        return of(cx, x, &sizes);
    }
    let x = cx.value(1, "fill_value")?;
    let dtype = stated(cx)?.unwrap_or(cx.dtype(x)?);
    let x = cx.cast(x, dtype)?;
    of(cx, x, &sizes)
}

fn full_like(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let like = cx.value(0, "self")?;
    let (sizes, dtype) = (cx.sizes(like)?, stated(cx)?.unwrap_or(cx.dtype(like)?));
    let x = cx.operand(1, "fill_value")?;
    let x = cx.as_type(x, dtype)?;
    of(cx, x, &sizes)
}

fn fill(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let like = cx.value(0, "self")?;
    let (sizes, dtype) = (cx.sizes(like)?, cx.dtype(like)?);
    let x = cx.operand(1, "value")?;
    let x = cx.as_type(x, dtype)?;
    of(cx, x, &sizes)
}

fn new_filled(cx: &mut NodeCx) -> Result<Vec<Value>> {
    new_number(cx, 0.0)
}

fn new_number(cx: &mut NodeCx, x: f64) -> Result<Vec<Value>> {
    let (like, sizes) = (cx.value(0, "self")?, cx.size_list(1, "size")?);
    let dtype = stated(cx)?.unwrap_or(cx.dtype(like)?);
    let x = cx.b.scalar(dtype, x);
    of(cx, x, &sizes)
}

fn new_full(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (like, sizes) = (cx.value(0, "self")?, cx.size_list(1, "size")?);
    let dtype = stated(cx)?.unwrap_or(cx.dtype(like)?);
    let x = cx.operand(2, "fill_value")?;
    let x = cx.as_type(x, dtype)?;
    of(cx, x, &sizes)
}

fn scalar_tensor(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let dtype = stated(cx)?.unwrap_or(DType::F32);
    let x = cx.operand(0, "s")?;
    Ok(vec![cx.as_type(x, dtype)?])
}

/// `start + i * step`: integers are counted as such, other numbers in `f64`.
fn range(
    cx: &mut NodeCx,
    start: Option<usize>,
    end: usize,
    step: Option<usize>,
) -> Result<Vec<Value>> {
    let mut all = [Number::Int(0), number(cx, end, "end")?, Number::Int(1)];
    if let Some(place) = start {
        all[0] = number(cx, place, "start")?;
    }
    if let Some(place) = step
        && cx.arg(place, "step").is_some()
    {
        all[2] = number(cx, place, "step")?;
    }
    let is_float = all.iter().any(|n| matches!(n, Number::Float(_)));
    let default = if is_float { DType::F32 } else { DType::I64 };
    let dtype = stated(cx)?.unwrap_or(default);
    let wide = if is_float { DType::F64 } else { DType::I64 };
    let mut bounds = [None; 3];
    for (place, n) in bounds.iter_mut().zip(all) {
        *place = Some(cx.scalar(n, wide)?);
    }
    let bounds: Vec<Value> = bounds.into_iter().flatten().collect();
    let y = cx.op(Op::Range, &bounds)?;
    if is_float && !dtype.is_float() {
        // The numbers as they are decide how many elements there are, their integer parts which.
        let count = cx.size(y, 0)?;
        let places = cx.iota(count)?;
        let (start, step) = (
            cx.cast(bounds[0], DType::I64)?,
            cx.cast(bounds[2], DType::I64)?,
        );
        let places = cx.mul(places, step)?;
        let y = cx.add(start, places)?;
        return Ok(vec![cx.cast(y, dtype)?]);
    }
    Ok(vec![cx.cast(y, dtype)?])
}

/// Numbers or arrays without axes as bounds.
fn linspace(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let steps = cx.size_arg(2, "steps")?;
    let dtype = stated(cx)?.unwrap_or(DType::F32);
    // Between integers the bounds are their integer parts.
    let bound = if dtype.is_float() { dtype } else { DType::I64 };
    let wide = if dtype == DType::F32 {
        DType::F32
    } else {
        DType::F64
    };
    let places = cx.iota(steps)?;
    let places = cx.cast(places, wide)?;
    let last = cx.int_sub(steps, 1)?;
    let last = cx.int_max(last, 1)?;
    let last = cx.real(last, places)?;
    // From both ends, as PyTorch does: both are exact.
    let (from, to) = (cx.operand(0, "start")?, cx.operand(1, "end")?);
    let (from, to) = (cx.as_type(from, bound)?, cx.as_type(to, bound)?);
    let (from, to) = (cx.cast(from, wide)?, cx.cast(to, wide)?);
    let width = cx.sub(to, from)?;
    let step = cx.div(width, last)?;
    let forth = cx.mul(places, step)?;
    let forth = cx.add(from, forth)?;
    let rest = cx.sub(last, places)?;
    let back = cx.mul(rest, step)?;
    let back = cx.sub(to, back)?;
    let is_first = cx.compare(CompareOp::Lt, places, rest)?;
    let is_alone = cx.compare_with(CompareOp::Eq, places, 0.0)?;
    let is_first = cx.binary(BinaryOp::Or, is_first, is_alone)?;
    let y = cx.select(is_first, forth, back)?;
    Ok(vec![cx.cast(y, dtype)?])
}

fn eye(cx: &mut NodeCx, is_oblong: bool) -> Result<Vec<Value>> {
    let rows = cx.size_arg(0, "n")?;
    let columns = if is_oblong {
        cx.size_arg(1, "m")?
    } else {
        rows
    };
    let dtype = stated(cx)?.unwrap_or(DType::F32);
    let (rows, columns) = (cx.iota(rows)?, cx.iota(columns)?);
    let rows = cx.unsqueeze(rows, &[1])?;
    let is_diagonal = cx.compare(CompareOp::Eq, rows, columns)?;
    Ok(vec![cx.cast(is_diagonal, dtype)?])
}

/// The elements whose column less row compares so with `diagonal`; others are 0.
fn triangle(cx: &mut NodeCx, kind: CompareOp) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let (rank, diagonal) = (cx.rank(x)?, cx.int_or(1, "diagonal", 0)?);
    if rank < 2 {
        return invalid("a matrix is needed");
    }
    let (rows, columns) = (cx.size(x, rank - 2)?, cx.size(x, rank - 1)?);
    let (rows, columns) = (cx.iota(rows)?, cx.iota(columns)?);
    let rows = cx.unsqueeze(rows, &[1])?;
    let offset = cx.sub(columns, rows)?;
    let diagonal = cx.b.constant(Tensor::scalar(diagonal));
    let is_kept = cx.compare(kind, offset, diagonal)?;
    let zero = cx.like(x, 0.0)?;
    Ok(vec![cx.select(is_kept, x, zero)?])
}
