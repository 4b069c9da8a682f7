//! What each op computes. A kernel gets its operands by value: one that it owns alone it may reuse.

pub mod arrange;
pub mod cast;
pub mod contract;
pub mod elementwise;
pub mod gather;
#[cfg(test)]
mod hostile;
pub mod movement;
pub mod number;
pub mod order;
pub mod random;
pub mod reduce;
pub mod rows;
pub mod scatter;
pub mod sequence;
pub mod small;
pub mod strings;
pub mod text;
pub mod window;

use heddle_ir::Op;

use crate::context::Context;
use crate::error::Fault;
use crate::value::{Array, Val};

/// Evaluates an op that is neither control flow nor a constant nor random.
pub fn eval(cx: &Context, op: &Op, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let t = |i: usize| args[i].tensor();
    let one = |array: Array| Ok(vec![Val::Tensor(array)]);
    match op {
        Op::Unary(kind) => one(elementwise::unary(cx, *kind, t(0)?)?),
        Op::Binary(kind) => one(elementwise::binary(cx, *kind, t(0)?, t(1)?)?),
        Op::Compare(kind) => one(elementwise::compare(cx, *kind, t(0)?, t(1)?)?),
        Op::Select => one(elementwise::select(cx, t(0)?, t(1)?, t(2)?)?),
        Op::Cast {
            to,
            saturate,
            round,
        } => one(cast::cast(cx, t(0)?, *to, *saturate, *round)?),
        Op::Bitcast { to } => one(cast::bitcast(cx, t(0)?, *to)?),

        Op::Shape => {
            let dims: Vec<i64> = t(0)?.shape.iter().map(|&d| d as i64).collect();
            one(cx.array(heddle_ir::DType::I64, vec![dims.len()], dims)?)
        }
        Op::Reshape => {
            let shape = arrange::reshape(t(0)?, t(1)?.data()?)?;
            reshaped(args, |s| *s = shape)
        }
        Op::Transpose { perm } => one(movement::transpose(cx, t(0)?, perm)?),
        Op::Unsqueeze { axes } => reshaped(args, |s| {
            axes.iter().for_each(|&a| s.insert(a.min(s.len()), 1))
        }),
        Op::Squeeze { axes } => {
            let shape = arrange::squeeze(t(0)?, axes)?;
            reshaped(args, |s| *s = shape)
        }
        Op::Broadcast => one(movement::broadcast(cx, t(0)?, t(1)?.data()?)?),
        Op::Slice { axes } => {
            let (starts, ends, steps) = (t(1)?.data()?, t(2)?.data()?, t(3)?.data()?);
            one(movement::slice(cx, t(0)?, axes, starts, ends, steps)?)
        }
        Op::Concat { axis } => {
            let arrays = args
                .iter()
                .map(Val::tensor)
                .collect::<Result<Vec<_>, _>>()?;
            one(arrange::concat(cx, &arrays, *axis)?)
        }
        Op::Pad { mode } => one(arrange::pad(cx, t(0)?, t(1)?.data()?, t(2)?, *mode)?),

        Op::Gather { axis } => one(gather::gather(cx, t(0)?, t(1)?, *axis)?),
        Op::GatherElements { axis } => one(gather::elements(cx, t(0)?, t(1)?, *axis)?),
        Op::GatherNd { batch_dims } => one(gather::nd(cx, t(0)?, t(1)?, *batch_dims)?),
        Op::ScatterElements { axis, reduce } => {
            let [x, indices, updates] = tensors(args)?;
            one(scatter::elements(
                cx, x, &indices, &updates, *axis, *reduce,
            )?)
        }
        Op::ScatterNd { reduce } => {
            let [x, indices, updates] = tensors(args)?;
            one(scatter::nd(cx, x, &indices, &updates, *reduce)?)
        }
        Op::UpdateSlice => {
            let [x, update, starts] = tensors(args)?;
            one(scatter::update_slice(cx, x, &update, starts.data()?)?)
        }
        Op::Range => one(arrange::range(cx, t(0)?, t(1)?, t(2)?)?),
        Op::NonZero => one(order::nonzero(cx, t(0)?)?),

        Op::Reduce { kind, axes, keep } => one(reduce::reduce(cx, t(0)?, *kind, axes, *keep)?),
        Op::ArgReduce {
            kind,
            axis,
            keep,
            last,
        } => one(order::arg_reduce(cx, t(0)?, *kind, *axis, *keep, *last)?),
        Op::Cumulative {
            kind,
            axis,
            exclusive,
            reverse,
        } => one(reduce::cumulative(
            cx,
            t(0)?,
            *kind,
            *axis,
            *exclusive,
            *reverse,
        )?),
        Op::TopK { axis, kind } => many(order::top_k(cx, t(0)?, t(1)?.int()?, *axis, *kind)?),
        Op::Unique { axis, sorted } => many(order::unique(cx, t(0)?, *axis, *sorted)?),

        Op::Dot => one(contract::dot(cx, t(0)?, t(1)?)?),
        Op::Conv {
            strides,
            dilations,
            input_dilations,
            groups,
        } => {
            let spacing = [strides, dilations, input_dilations].map(Vec::as_slice);
            one(window::conv(
                cx,
                t(0)?,
                t(1)?,
                t(2)?.data()?,
                spacing,
                *groups,
            )?)
        }
        Op::Window {
            kind,
            window,
            strides,
            dilations,
        } => one(window::window(
            cx,
            t(0)?,
            t(1)?.data()?,
            *kind,
            [window, strides, dilations].map(Vec::as_slice),
        )?),

        Op::SeqNew { .. }
        | Op::SeqInsert
        | Op::SeqErase
        | Op::SeqAt
        | Op::SeqLen
        | Op::SeqConcat { .. }
        | Op::SeqSplit { .. }
        | Op::OptSome
        | Op::OptNone { .. }
        | Op::OptHas
        | Op::OptGet => sequence::eval(cx, op, args),
        Op::Str(kind) => strings::eval(cx, kind, &args),

        Op::Const(_) | Op::Random { .. } | Op::If | Op::Loop { .. } | Op::Call(_) => Err(
            Fault::Unsupported(format!("`{}` as a tensor op", op.name())),
        ),
    }
}

/// The first operand under another shape of as many elements.
fn reshaped(args: Vec<Val>, change: impl FnOnce(&mut Vec<usize>)) -> Result<Vec<Val>, Fault> {
    let mut args = args.into_iter();
    match args.next() {
        Some(Val::Tensor(mut a)) => {
            change(&mut a.shape);
            Ok(vec![a.into()])
        }
        _ => Err(Fault::Unsupported("reshaping a sequence".into())),
    }
}

fn tensors<const N: usize>(args: Vec<Val>) -> Result<[Array; N], Fault> {
    let mut arrays = vec![];
    for arg in args {
        match arg {
            Val::Tensor(a) => arrays.push(a),
            _ => return Err(Fault::Unsupported("a sequence or optional here".into())),
        }
    }
    arrays
        .try_into()
        .map_err(|_| Fault::Unsupported("this number of operands".into()))
}

fn many<const N: usize>(arrays: [Array; N]) -> Result<Vec<Val>, Fault> {
    Ok(arrays.map(Val::Tensor).into())
}

/// An index made non-negative and checked.
pub(crate) fn resolve(index: i64, axis: usize, size: usize) -> Result<usize, Fault> {
    let wrapped = if index < 0 {
        index.saturating_add(size as i64)
    } else {
        index
    };
    match usize::try_from(wrapped) {
        Ok(i) if i < size => Ok(i),
        _ => Err(Fault::Index { axis, index, size }),
    }
}
