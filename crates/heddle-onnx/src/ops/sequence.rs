//! Sequences and optionals.

use heddle_ir::{DType, Emit, Op, Type, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid};
use crate::refusal::Refusal;
use crate::types::{DimNames, convert};

pub(super) const OPS: Table = &[
    ("SequenceConstruct", construct),
    ("SequenceEmpty", empty),
    ("SequenceInsert", insert),
    ("SequenceErase", erase),
    ("SequenceAt", at),
    ("SequenceLength", length),
    ("SplitToSequence", split),
    ("ConcatFromSequence", concat),
    ("Optional", optional),
    ("OptionalHasElement", has_element),
    ("OptionalGetElement", get_element),
];

fn construct(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let parts = cx.all_inputs()?;
    let types = parts.iter().map(|&p| cx.b.ty(p).clone());
    let elem = types
        .map(Some)
        .reduce(|a, b| a?.join(&b?))
        .flatten()
        .ok_or_else(|| OpError::Invalid("the inputs must be of one element type".into()))?;
    Ok(vec![cx.op(Op::SeqNew { elem }, &parts)?])
}

fn empty(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let dtype = cx.dtype_attr("dtype")?.unwrap_or(DType::F32);
    let elem = Type::unranked(dtype);
    Ok(vec![cx.op(Op::SeqNew { elem }, &[])?])
}

fn insert(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (seq, x) = (cx.input(0)?, cx.input(1)?);
    let place = match cx.opt(2) {
        Some(p) => cx.to_index(p)?,
        None => cx.op(Op::SeqLen, &[seq])?,
    };
    Ok(vec![cx.op(Op::SeqInsert, &[seq, x, place])?])
}

fn erase(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let seq = cx.input(0)?;
    let place = match cx.opt(1) {
        Some(p) => cx.to_index(p)?,
        None => cx.b.i64(-1),
    };
    Ok(vec![cx.op(Op::SeqErase, &[seq, place])?])
}

fn at(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (seq, place) = (cx.input(0)?, cx.input(1)?);
    let place = cx.to_index(place)?;
    Ok(vec![cx.op(Op::SeqAt, &[seq, place])?])
}

fn length(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let seq = cx.input(0)?;
    Ok(vec![cx.op(Op::SeqLen, &[seq])?])
}

/// Into pieces of listed lengths, of one length (the last may be shorter), or of length 1, whose
/// axis may be dropped.
///
/// By the specification `keepdims` does not count next to lengths; exporters of PyTorch's `unbind`
/// write a length of 1 and have the axis dropped nevertheless, as ONNX Runtime does.
fn split(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let axis = cx.axis(cx.int_or("axis", 0), cx.rank(x)?)?;
    let size = cx.size_of(x, axis)?;
    let squeeze = !cx.flag("keepdims", true);
    let Some(split) = cx.opt(1) else {
        let len = cx.stack_i64s(&[size])?;
        let lengths = cx.full(DType::I64, len, 1.0)?;
        return Ok(vec![cx.op(Op::SeqSplit { axis, squeeze }, &[x, lengths])?]);
    };
    let split = cx.cast(split, DType::I64)?;
    let is_scalar = cx.rank(split)? == 0;
    let squeeze = squeeze && is_scalar && cx.const_i64s(split) == Some(vec![1]);
    let lengths = if is_scalar {
        // One piece for each start below the size: `min(split, size - start)` long.
        let zero = cx.b.i64(0);
        let starts = cx.op(Op::Range, &[zero, size, split])?;
        let rest = cx.sub(size, starts)?;
        cx.min(split, rest)?
    } else {
        split
    };
    Ok(vec![cx.op(Op::SeqSplit { axis, squeeze }, &[x, lengths])?])
}

fn concat(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let seq = cx.input(0)?;
    let stack = cx.flag("new_axis", false);
    let axis = cx.int_req("axis")?;
    let rank = match cx.b.ty(seq) {
        Type::Seq(elem) => elem.as_tensor().and_then(|t| t.rank()),
        other => {
            return invalid(format!("a sequence is needed, not {other}"));
        }
    };
    let axis = match (rank, usize::try_from(axis)) {
        (Some(rank), _) => cx.axis(axis, rank + stack as usize)?,
        (None, Ok(axis)) => axis,
        (None, Err(_)) => {
            return Err(Refusal::AxisOfUnknownElements.into());
        }
    };
    Ok(vec![cx.op(Op::SeqConcat { axis, stack }, &[seq])?])
}

fn optional(cx: &mut NodeCx) -> Result<Vec<Value>> {
    if let Some(x) = cx.opt(0) {
        return Ok(vec![cx.op(Op::OptSome, &[x])?]);
    }
    let proto = cx.attr("type").and_then(|a| a.tp.as_ref());
    let proto =
        proto.ok_or_else(|| OpError::Invalid("neither an element nor a type is given".into()))?;
    let elem = convert(proto, &mut DimNames::default()).map_err(Refusal::from)?;
    // Names of sizes have no meaning here.
    let elem = elem.map_dims(&mut |d| match d.as_const() {
        Some(_) => d.clone(),
        None => heddle_ir::Dim::UNKNOWN,
    });
    Ok(vec![cx.op(Op::OptNone { elem }, &[])?])
}

/// False for an input that is left out; true for one that is no optional.
fn has_element(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let has = match cx.opt(0) {
        None => cx.b.scalar(DType::Bool, 0.0),
        Some(x) if matches!(cx.b.ty(x), Type::Opt(_)) => cx.op(Op::OptHas, &[x])?,
        Some(_) => cx.b.scalar(DType::Bool, 1.0),
    };
    Ok(vec![has])
}

fn get_element(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    Ok(vec![match cx.b.ty(x) {
        Type::Opt(_) => cx.op(Op::OptGet, &[x])?,
        _ => x,
    }])
}
