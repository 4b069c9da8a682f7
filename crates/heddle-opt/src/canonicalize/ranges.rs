//! Rules for ranges of integers: positions behind those that a cache holds, `arange(past, past + t)`.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, Op, Tensor, Value, ValueDef};

use super::Rule;
use super::rewriter::Rewriter;

pub const RULES: &[Rule] = &[Rule::new("range of a known length", |cx, inst| {
    let args = cx.patch.args(inst);
    match cx.patch.func().insts[inst].op {
        Op::Range => Some(vec![of_known_length(cx, &args)?]),
        _ => None,
    }
})];

/// Maximum number of instructions that are followed.
const MAX_DEPTH: usize = 8;

/// Maximum length of a range that becomes a constant, and constants in sums that do not overflow.
const MAX_LEN: i64 = 4096;

/// A range from `start` to `start + n`, where only `n` is known, is `start` plus a range from 0.
fn of_known_length(cx: &mut Rewriter, args: &[Value]) -> Option<Value> {
    let &[start, limit, step] = args else {
        return None;
    };
    let dtype = cx.ty(start).as_tensor()?.dtype;
    let is_plain = dtype == DType::I64 && cx.integer_of(step) == Some(1);
    // Inference knows the length where both ends are sizes.
    let is_open = !matches!(cx.known(start), Some([Dim::Expr(_)]));
    if !is_plain || !is_open || !is_length(cx, start, 0) {
        return None;
    }
    let ((base, from), (other, to)) = (split(cx, start), split(cx, limit));
    let places = match base == other {
        true => {
            let count = (to - from).max(0);
            let all: Vec<i64> = (0..count.min(MAX_LEN)).collect();
            (count <= MAX_LEN).then_some(())?;
            cx.integers(&all)?
        }
        false => {
            let (Op::Binary(BinaryOp::Add), sides) = cx.definition(limit)? else {
                return None;
            };
            let count = match sides[..] {
                [a, b] if a == start => b,
                [a, b] if b == start => a,
                _ => return None,
            };
            let is_size = |known: &[Dim]| matches!(known, [Dim::Expr(_)]);
            cx.known(count).filter(|known| is_size(known))?;
            let zero = cx.constant_value(Tensor::scalar(0i64))?;
            cx.op(Op::Range, &[zero, count, step])?
        }
    };
    cx.op(Op::Binary(BinaryOp::Add), &[start, places])
}

/// A number as another one plus a small constant.
fn split(cx: &Rewriter, mut value: Value) -> (Value, i64) {
    let mut sum = 0;
    for _ in 0..MAX_DEPTH {
        let small = |v: Value| cx.integer_of(v).filter(|n| n.abs() <= MAX_LEN);
        let found = match cx.definition(value) {
            Some((Op::Binary(BinaryOp::Add), args)) => match (small(args[0]), small(args[1])) {
                (_, Some(n)) => Some((args[0], n)),
                (Some(n), None) => Some((args[1], n)),
                (None, None) => None,
            },
            Some((Op::Binary(BinaryOp::Sub), args)) => small(args[1]).map(|n| (args[0], -n)),
            _ => None,
        };
        let Some((next, by)) = found else { break };
        (value, sum) = (next, sum + by);
    }
    (value, sum)
}

/// Is an integer a length, the number of an iteration, or a sum or difference of a few? None is so
/// large that sums of them overflow.
fn is_length(cx: &Rewriter, value: Value, depth: usize) -> bool {
    if let Some(n) = cx.integer_of(value) {
        return n.abs() <= 1 << 31;
    }
    if matches!(cx.known(value), Some([Dim::Expr(_)])) {
        return true;
    }
    let func = cx.patch.func();
    if let ValueDef::Param(region, 0) = func.values[value].def {
        // Among regions within a function, those of loops alone have parameters.
        return region != func.body;
    }
    let Some((op, args)) = cx.definition(value).filter(|_| depth < MAX_DEPTH) else {
        return false;
    };
    match op {
        Op::Gather { .. } | Op::Slice { .. } => {
            matches!(cx.definition(args[0]), Some((Op::Shape, _)))
        }
        Op::SeqLen => true,
        Op::Squeeze { .. } | Op::Unsqueeze { .. } | Op::Reshape => {
            is_length(cx, args[0], depth + 1)
        }
        Op::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Max | BinaryOp::Min) => {
            args.iter().all(|&arg| is_length(cx, arg, depth + 1))
        }
        _ => false,
    }
}
