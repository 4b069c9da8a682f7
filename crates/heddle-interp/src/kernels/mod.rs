//! Kernels: the value of each op on arrays. The op's doc in `heddle_ir::Op` is the specification.

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
mod random;
pub mod reduce;
pub mod scatter;
pub mod sequence;
pub mod small;
pub mod strings;
pub mod text;
pub mod walk;
pub mod window;

use heddle_ir::Op;

use crate::context::Context;
use crate::error::Fault;
use crate::value::{Array, Val};

/// Evaluates an op that is neither control flow nor a constant nor the run's key.
pub fn eval(cx: &Context, op: &Op, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    match op {
        Op::ScatterElements { .. } | Op::ScatterNd { .. } | Op::UpdateSlice => {
            Ok(vec![write(cx, op, tensors(args)?)?.into()])
        }
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
        Op::Fail { message } => Err(Fault::Value(message.to_string())),
        Op::TopK { .. } | Op::Unique { .. } => {
            let args: Vec<_> = args.iter().map(Val::tensor).collect::<Result<_, _>>()?;
            sort(cx, op, &args)
        }
        _ => {
            let args: Vec<_> = args.iter().map(Val::tensor).collect::<Result<_, _>>()?;
            Ok(vec![compute(cx, op, &args)?.into()])
        }
    }
}

/// Ops that write into their first operand: in place if it has no other owner.
fn write(cx: &Context, op: &Op, [x, a, b]: [Array; 3]) -> Result<Array, Fault> {
    match op {
        Op::ScatterElements { axis, reduce } => scatter::elements(cx, x, &a, &b, *axis, *reduce),
        Op::ScatterNd { reduce } => scatter::nd(cx, x, &a, &b, *reduce),
        _ => scatter::update_slice(cx, x, &a, b.data()?),
    }
}

/// Ops with several results.
fn sort(cx: &Context, op: &Op, args: &[&Array]) -> Result<Vec<Val>, Fault> {
    match op {
        Op::TopK { axis, kind } => many(order::top_k(cx, args[0], args[1].int()?, *axis, *kind)?),
        Op::Unique { axis, sorted } => many(order::unique(cx, args[0], *axis, *sorted)?),
        _ => Err(no_kernel(op)),
    }
}

/// Ops with one result that read arrays.
fn compute(cx: &Context, op: &Op, args: &[&Array]) -> Result<Array, Fault> {
    let x = args.first().copied();
    let x = x.ok_or_else(|| no_kernel(op))?;
    match op {
        Op::Unary(kind) => elementwise::unary(cx, *kind, x),
        Op::Binary(kind) => elementwise::binary(cx, *kind, x, args[1]),
        Op::Compare(kind) => elementwise::compare(cx, *kind, x, args[1]),
        Op::Select => elementwise::select(cx, x, args[1], args[2]),
        Op::Cast {
            to,
            saturate,
            round,
        } => cast::cast(cx, x, *to, *saturate, *round),
        Op::Bitcast { to } => cast::bitcast(cx, x, *to),
        Op::Range => arrange::range(cx, x, args[1], args[2]),
        Op::NonZero => order::nonzero(cx, x),
        Op::Reduce { kind, axes, keep } => reduce::reduce(cx, x, *kind, axes, *keep),
        Op::SegmentReduce { kind } => reduce::segments(cx, x, args[1].data()?, *kind),
        Op::ArgReduce {
            kind,
            axis,
            keep,
            last,
        } => order::arg_reduce(cx, x, *kind, *axis, *keep, *last),
        Op::Cumulative {
            kind,
            axis,
            exclusive,
            reverse,
        } => reduce::cumulative(cx, x, *kind, *axis, *exclusive, *reverse),
        Op::Dot => contract::dot(cx, x, args[1]),
        Op::Conv {
            strides,
            dilations,
            input_dilations,
            groups,
        } => {
            let spacing = [strides, dilations, input_dilations].map(Vec::as_slice);
            window::conv(cx, x, args[1], args[2].data()?, spacing, *groups)
        }
        Op::Window {
            kind,
            window,
            strides,
            dilations,
        } => {
            let spacing = [window, strides, dilations].map(Vec::as_slice);
            window::window(cx, x, args[1].data()?, *kind, spacing)
        }
        _ => arrange(cx, op, x, args),
    }
}

/// Ops that move or select elements.
fn arrange(cx: &Context, op: &Op, x: &Array, args: &[&Array]) -> Result<Array, Fault> {
    match op {
        Op::Shape => {
            let dims: Vec<i64> = x.shape.iter().map(|&d| d as i64).collect();
            cx.array(heddle_ir::DType::I64, vec![dims.len()], dims)
        }
        Op::Reshape => Ok(x.reshaped(arrange::reshape(x, args[1].data()?)?)),
        Op::Unsqueeze { axes } => {
            let mut shape = x.shape.clone();
            axes.iter()
                .for_each(|&a| shape.insert(a.min(shape.len()), 1));
            Ok(x.reshaped(shape))
        }
        Op::Squeeze { axes } => Ok(x.reshaped(arrange::squeeze(x, axes)?)),
        Op::Transpose { perm } => movement::transpose(cx, x, perm),
        Op::Broadcast => movement::broadcast(cx, x, args[1].data()?),
        Op::Slice { axes } => {
            let (starts, ends, steps) = (args[1].data()?, args[2].data()?, args[3].data()?);
            movement::slice(cx, x, axes, starts, ends, steps)
        }
        Op::Concat { axis } => arrange::concat(cx, args, *axis),
        Op::Pad { mode } => arrange::pad(cx, x, args[1].data()?, args[2], *mode),
        Op::Gather { axis } => gather::gather(cx, x, args[1], *axis),
        Op::GatherElements { axis } => gather::elements(cx, x, args[1], *axis),
        Op::GatherNd { batch_dims } => gather::nd(cx, x, args[1], *batch_dims),
        _ => Err(no_kernel(op)),
    }
}

fn no_kernel(op: &Op) -> Fault {
    Fault::Unsupported(format!("`{}` as a tensor op", op.name()))
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
