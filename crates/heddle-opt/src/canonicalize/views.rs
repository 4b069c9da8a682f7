//! Rules for ops that move elements without computing: reshape, transpose, slice, concat, pad,
//! broadcast; and for reductions and casts that are equivalent to one of these.

use heddle_ir::infer::shape::{slice_bounds, slice_count};
use heddle_ir::op::{BinaryOp, PadMode, ReduceOp};
use heddle_ir::{DType, Dim, Inst, Op, Tensor, Type, Value};

use super::Rule;
use super::pattern::{is_neutral, same_dims};
use super::rewriter::Rewriter;

pub const RULES: &[Rule] = &[
    Rule::new("transpose in place", transpose_identity),
    Rule::new("transpose twice", transpose_twice),
    Rule::new("reshape to its own shape", reshape_identity),
    Rule::new("reshape what was reshaped", reshape_twice),
    Rule::new("reshape to a known shape", reshape_known),
    Rule::new("unsqueeze and squeeze", squeeze_pairs),
    Rule::new("broadcast to its own shape", broadcast_identity),
    Rule::new("broadcast twice", broadcast_twice),
    Rule::new("broadcast to a known shape", broadcast_known),
    Rule::new("implied broadcast", implied_broadcast),
    Rule::new("slice of everything", slice_whole),
    Rule::new("slice of a slice", slice_twice),
    Rule::new("concat of one", concat_one),
    Rule::new("concat with nothing", concat_empty),
    Rule::new("concat of a concat", concat_nested),
    Rule::new("operand of a concat", concat_part),
    Rule::new("pad by nothing", pad_nothing),
    Rule::new("reduce over nothing", reduce_nothing),
    Rule::new("reduce single elements", reduce_single),
    Rule::new("cast to its own type", cast_identity),
    Rule::new("cast twice", cast_twice),
    Rule::new("cast of a moved cast", cast_moved),
    Rule::new("any or all by way of numbers", any_or_all),
    Rule::new("divide by a power of two", divide_by_power),
];

type Found = Option<Vec<Value>>;

fn one(value: Value) -> Found {
    Some(vec![value])
}

/// The op, if it has one result, its operands and that result.
fn parts(cx: &Rewriter, inst: Inst) -> (Op, Vec<Value>, Value) {
    let data = &cx.patch.func().insts[inst];
    (data.op.clone(), cx.patch.args(inst), data.results[0])
}

/// Do two values have the same shape in every run?
fn same_shape(cx: &Rewriter, a: Value, b: Value) -> bool {
    match (cx.shape(a), cx.shape(b)) {
        (Some(a), Some(b)) => same_dims(a, b),
        _ => false,
    }
}

fn transpose_identity(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::Transpose { perm }, args, _) = parts(cx, inst) else {
        return None;
    };
    perm.iter()
        .enumerate()
        .all(|(i, p)| i == *p)
        .then_some(args)
}

fn transpose_twice(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::Transpose { perm }, args, _) = parts(cx, inst) else {
        return None;
    };
    let (Op::Transpose { perm: first }, inner) = cx.definition(args[0])? else {
        return None;
    };
    let perm = perm.iter().map(|p| first.get(*p).copied());
    let perm = perm.collect::<Option<Vec<_>>>()?;
    one(cx.op(Op::Transpose { perm }, &inner)?)
}

fn reshape_identity(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, result) = parts(cx, inst);
    if !matches!(op, Op::Reshape) {
        return None;
    }
    let (x, y) = (cx.shape(args[0])?, cx.shape(result)?);
    if same_dims(x, y) {
        return one(args[0]);
    }
    // If the element counts and all axes but one are equal, that axis is equal too, unless there
    // are no elements. A stated size that differs from the remaining one is an error, which must
    // stay.
    let sizes = cx.integers_of(args[1])?;
    let is_left = |k: usize| sizes.get(k) == Some(&-1);
    let never_empty = |d: &Dim| d.as_const().is_some_and(|c| c > 0);
    let mut pairs = x.iter().zip(y).enumerate();
    let follows = pairs.all(|(k, (a, b))| is_left(k) || a.equals(b) && never_empty(a));
    (x.len() == y.len() && follows).then(|| vec![args[0]])
}

/// A reshape absorbs a reshape, squeeze or unsqueeze before it.
fn reshape_twice(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, result) = parts(cx, inst);
    let is_view = |op: &Op| matches!(op, Op::Reshape | Op::Squeeze { .. } | Op::Unsqueeze { .. });
    let (inner, inner_args) = cx.definition(args[0])?;
    match op {
        Op::Reshape if is_view(inner) => one(cx.op(Op::Reshape, &[inner_args[0], args[1]])?),
        Op::Squeeze { .. } | Op::Unsqueeze { .. } if matches!(inner, Op::Reshape) => {
            let sizes = target(cx.shape(result)?)?;
            let sizes = cx.integers(&sizes)?;
            one(cx.op(Op::Reshape, &[inner_args[0], sizes])?)
        }
        _ => None,
    }
}

/// A shape as the operand of a reshape: constants, and -1 for at most one other dim.
fn target(shape: &[Dim]) -> Option<Vec<i64>> {
    let computed = shape.iter().filter(|d| d.as_const().is_none()).count();
    // Next to an axis of size 0, -1 would be ambiguous.
    if computed > 1 || computed == 1 && shape.iter().any(|d| d.is(0)) {
        return None;
    }
    Some(shape.iter().map(|d| d.as_const().unwrap_or(-1)).collect())
}

fn reshape_known(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, result) = parts(cx, inst);
    if !matches!(op, Op::Reshape) || cx.constant(args[1]).is_some() {
        return None;
    }
    let shape = cx.shape(result)?;
    // If the element counts may differ, the remaining size may be another one, which is an error.
    if !Dim::product(shape).equals(&Dim::product(cx.shape(args[0])?)) {
        return None;
    }
    let sizes = target(shape)?;
    let sizes = cx.integers(&sizes)?;
    one(cx.op(Op::Reshape, &[args[0], sizes])?)
}

fn squeeze_pairs(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, _) = parts(cx, inst);
    if let Op::Squeeze { axes } | Op::Unsqueeze { axes } = &op
        && axes.is_empty()
    {
        return Some(args);
    }
    let (inner, inner_args) = cx.definition(args[0])?;
    match (&op, inner) {
        (Op::Squeeze { axes: a }, Op::Unsqueeze { axes: b })
        | (Op::Unsqueeze { axes: a }, Op::Squeeze { axes: b })
            if a == b =>
        {
            Some(inner_args)
        }
        (Op::Unsqueeze { axes }, Op::Unsqueeze { axes: earlier }) => {
            // Positions of the earlier axes among the later ones.
            let rank = cx.shape(args[0])?.len() + axes.len();
            let kept: Vec<usize> = (0..rank).filter(|i| !axes.contains(i)).collect();
            let mut all = axes.clone();
            all.extend(earlier.iter().map(|&i| kept[i]));
            all.sort();
            one(cx.op(Op::Unsqueeze { axes: all }, &inner_args)?)
        }
        (Op::Squeeze { axes }, Op::Squeeze { axes: earlier }) => {
            let rank = cx.shape(inner_args[0])?.len();
            let kept: Vec<usize> = (0..rank).filter(|i| !earlier.contains(i)).collect();
            let mut all = earlier.clone();
            all.extend(axes.iter().map(|&i| kept[i]));
            all.sort();
            one(cx.op(Op::Squeeze { axes: all }, &inner_args)?)
        }
        _ => None,
    }
}

fn broadcast_identity(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, result) = parts(cx, inst);
    let same = matches!(op, Op::Broadcast) && {
        let ones = || {
            let known = cx.known(args[1])?;
            (known.len() <= cx.shape(args[0])?.len()).then(|| known.iter().all(|d| d.is(1)))
        };
        same_shape(cx, args[0], result) || ones() == Some(true)
    };
    same.then(|| vec![args[0]])
}

fn broadcast_twice(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, result) = parts(cx, inst);
    let (inner, inner_args) = cx.definition(args[0])?;
    if !matches!((&op, inner), (Op::Broadcast, Op::Broadcast)) {
        return None;
    }
    let sizes: Vec<i64> = cx.static_shape(result)?.iter().map(|&d| d as i64).collect();
    let sizes = cx.integers(&sizes)?;
    one(cx.op(Op::Broadcast, &[inner_args[0], sizes])?)
}

fn broadcast_known(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, result) = parts(cx, inst);
    if !matches!(op, Op::Broadcast) || cx.constant(args[1]).is_some() {
        return None;
    }
    let sizes: Vec<i64> = cx.static_shape(result)?.iter().map(|&d| d as i64).collect();
    let sizes = cx.integers(&sizes)?;
    one(cx.op(Op::Broadcast, &[args[0], sizes])?)
}

/// Drops a broadcast of an elementwise operand to a shape that another operand has.
fn implied_broadcast(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, _) = parts(cx, inst);
    if !matches!(op, Op::Binary(_) | Op::Compare(_) | Op::Select) {
        return None;
    }
    for (i, &arg) in args.iter().enumerate() {
        let Some((Op::Broadcast, inner)) = cx.definition(arg) else {
            continue;
        };
        let of = |v: Value| cx.ty(v).as_tensor();
        let others = args.iter().enumerate().filter(|(j, _)| *j != i);
        if others
            .into_iter()
            .any(|(_, &other)| is_neutral(of(arg), of(other)))
        {
            let source = inner[0];
            let mut args = args.clone();
            args[i] = source;
            return one(cx.op(op, &args)?);
        }
    }
    None
}

/// Drops full axes from a slice.
fn slice_whole(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::Slice { axes }, args, result) = parts(cx, inst) else {
        return None;
    };
    if axes.is_empty() {
        return one(args[0]);
    }
    let (x, y) = (cx.shape(args[0])?, cx.shape(result)?);
    let steps = cx.known(args[3])?;
    let whole = |k: usize| steps[k].is(1) && x[axes[k]].equals(&y[axes[k]]);
    let kept: Vec<usize> = (0..axes.len()).filter(|&k| !whole(k)).collect();
    if kept.is_empty() {
        return one(args[0]);
    }
    if kept.len() == axes.len() {
        return None;
    }
    let part = |v: Value| {
        cx.integers_of(v)
            .map(|all| kept.iter().map(|&k| all[k]).collect())
    };
    let parts: Option<Vec<Vec<i64>>> = args[1..].iter().map(|&v| part(v)).collect();
    let mut new = vec![args[0]];
    for part in parts? {
        new.push(cx.integers(&part)?);
    }
    let axes = kept.iter().map(|&k| axes[k]).collect();
    one(cx.op(Op::Slice { axes }, &new)?)
}

/// Fuses two slices with constant bounds: always on different axes, on one axis if both steps are
/// positive.
fn slice_twice(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::Slice { axes }, args, _) = parts(cx, inst) else {
        return None;
    };
    let (Op::Slice { axes: first }, inner) = cx.definition(args[0])? else {
        return None;
    };
    let cuts = |cx: &Rewriter, axes: &[usize], args: &[Value]| -> Option<Vec<(usize, [i64; 3])>> {
        let lists: Option<Vec<_>> = args[1..].iter().map(|&v| cx.integers_of(v)).collect();
        let lists = lists?;
        let cut = |k: usize| (axes[k], [lists[0][k], lists[1][k], lists[2][k]]);
        Some((0..axes.len()).map(cut).collect())
    };
    let mut all = cuts(cx, first, &inner)?;
    let shape = cx.shape(inner[0])?.to_vec();
    for (axis, [start, end, step]) in cuts(cx, &axes, &args)? {
        let Some((_, cut)) = all.iter_mut().find(|(a, _)| *a == axis) else {
            all.push((axis, [start, end, step]));
            continue;
        };
        let [first_start, first_end, first_step] = *cut;
        if first_step != 1 || step != 1 {
            return None;
        }
        if [first_start, first_end, start, end].iter().all(|v| *v >= 0) {
            // Bounds counted from the front do not depend on the size.
            let end = first_start.saturating_add(end).min(first_end);
            *cut = [first_start.saturating_add(start), end, 1];
            continue;
        }
        let size = shape[axis].as_const()?;
        let (base, _) = slice_bounds(size, first_start, first_end, 1);
        let length = slice_count(size, first_start, first_end, 1);
        let (start, end) = slice_bounds(length, start, end, 1);
        *cut = [base + start, base + end.max(start), 1];
    }
    all.sort();
    let mut new = vec![inner[0]];
    for part in 0..3 {
        let list: Vec<i64> = all.iter().map(|(_, cut)| cut[part]).collect();
        new.push(cx.integers(&list)?);
    }
    let axes = all.iter().map(|(axis, _)| *axis).collect();
    one(cx.op(Op::Slice { axes }, &new)?)
}

fn concat_one(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, _) = parts(cx, inst);
    (matches!(op, Op::Concat { .. }) && args.len() == 1).then_some(args)
}

fn concat_empty(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::Concat { axis }, args, _) = parts(cx, inst) else {
        return None;
    };
    let is_empty = |v: &&Value| {
        cx.shape(**v)
            .and_then(|s| s.get(axis))
            .is_some_and(|d| d.is(0))
    };
    let kept: Vec<Value> = args.iter().filter(|v| !is_empty(v)).copied().collect();
    if kept.is_empty() || kept.len() == args.len() {
        return None;
    }
    one(cx.op(Op::Concat { axis }, &kept)?)
}

fn concat_nested(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::Concat { axis }, args, _) = parts(cx, inst) else {
        return None;
    };
    let mut flat = vec![];
    for &arg in &args {
        match cx.definition(arg) {
            // An inner concat with other uses stays.
            Some((Op::Concat { axis: a }, inner)) if *a == axis && cx.uses(arg) == 1 => {
                flat.extend(inner);
            }
            _ => flat.push(arg),
        }
    }
    if flat == args {
        return None;
    }
    one(cx.op(Op::Concat { axis }, &flat)?)
}

/// A slice that is one operand of a concatenation.
fn concat_part(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::Slice { axes }, args, _) = parts(cx, inst) else {
        return None;
    };
    let (Op::Concat { axis }, all) = cx.definition(args[0])? else {
        return None;
    };
    let axis = *axis;
    let [starts, ends, steps] = [1, 2, 3].map(|k| cx.known(args[k]));
    let ([start], [end], [step]) = (starts?, ends?, steps?) else {
        return None;
    };
    let first = cx.shape(all[0])?;
    let fits = |v: &Value| {
        let others = |s: &[Dim]| (0..s.len()).all(|k| k == axis || s[k].equals(&first[k]));
        cx.shape(*v).is_some_and(others)
    };
    if axes != [axis] || !step.is(1) || !start.is_never_negative() || !all.iter().all(fits) {
        return None;
    }
    let mut before = Dim::constant(0);
    for &x in &all {
        let after = before.add(&cx.shape(x)?[axis]);
        if before.equals(start) && after.equals(end) {
            return one(x);
        }
        before = after;
    }
    None
}

fn pad_nothing(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, _) = parts(cx, inst);
    let modes = [
        PadMode::Constant,
        PadMode::Edge,
        PadMode::Reflect,
        PadMode::Wrap,
    ];
    let is_pad = modes.iter().any(|&mode| op == Op::Pad { mode });
    (is_pad && cx.known(args[1])?.iter().all(|d| d.is(0))).then(|| vec![args[0]])
}

fn reduce_nothing(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, _) = parts(cx, inst);
    matches!(op, Op::Reduce { axes, .. } if axes.is_empty()).then_some(args)
}

/// A reduction of one element is that element, except for sums of floats: they start at 0, and `0 +
/// -0` is `0`.
fn reduce_single(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::Reduce { kind, axes, keep }, args, _) = parts(cx, inst) else {
        return None;
    };
    let Type::Tensor(t) = cx.ty(args[0]) else {
        return None;
    };
    let shape = t.shape.as_ref()?;
    if kind == ReduceOp::Sum && t.dtype.is_float() || !axes.iter().all(|&a| shape[a].is(1)) {
        return None;
    }
    match keep {
        true => one(args[0]),
        false => one(cx.op(Op::Squeeze { axes }, &args)?),
    }
}

fn cast_identity(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, _) = parts(cx, inst);
    let (Op::Cast { to, .. } | Op::Bitcast { to }) = op else {
        return None;
    };
    (cx.ty(args[0]).as_tensor()?.dtype == to).then_some(args)
}

/// Drops the first of two casts if its target represents every value of its source.
fn cast_twice(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, _) = parts(cx, inst);
    let Op::Cast { to, .. } = op else { return None };
    let (Op::Cast { to: middle, .. }, inner) = cx.definition(args[0])? else {
        return None;
    };
    let from = cx.ty(inner[0]).as_tensor()?.dtype;
    let plain = |d: DType| d.is_arith() || d == DType::Bool;
    if ![from, *middle, to].into_iter().all(plain) || !holds(*middle, from) {
        return None;
    }
    // Integers wrap and floats saturate when they are cast to integers, so the middle must be of
    // the first's kind; to a float, to `bool` and to what holds everything, a number is cast the
    // same way from any type.
    let same_kind = from == DType::Bool || from.is_float() == middle.is_float();
    if !same_kind && !to.is_float() && to != DType::Bool && !holds(to, from) {
        return None;
    }
    if to == from {
        return one(inner[0]);
    }
    one(cx.op(op, &inner)?)
}

/// Moves a cast through a view towards another cast, so that they can be joined.
fn cast_moved(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, _) = parts(cx, inst);
    let Op::Cast { .. } = op else { return None };
    let (view, mut inner) = cx.definition(args[0])?;
    let moves = matches!(
        view,
        Op::Reshape
            | Op::Transpose { .. }
            | Op::Unsqueeze { .. }
            | Op::Squeeze { .. }
            | Op::Slice { .. }
    );
    let casts = matches!(cx.definition(*inner.first()?)?.0, Op::Cast { .. });
    if !moves || !casts || cx.uses(args[0]) != 1 {
        return None;
    }
    let view = view.clone();
    inner[0] = cx.op(op, &inner[..1])?;
    one(cx.op(view, &inner)?)
}

/// The maximum of booleans cast to numbers is `any`, the minimum is `all`.
fn any_or_all(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, _) = parts(cx, inst);
    let Op::Cast {
        to: DType::Bool, ..
    } = op
    else {
        return None;
    };
    let (reduce @ Op::Reduce { kind, axes, .. }, inner) = cx.definition(args[0])? else {
        return None;
    };
    let (Op::Cast { .. }, source) = cx.definition(inner[0])? else {
        return None;
    };
    // The maximum of no elements is the lowest number, not zero.
    let shape = cx.shape(source[0])?;
    let some = axes
        .iter()
        .all(|&a| shape[a].as_const().is_some_and(|d| d > 0));
    let logical = matches!(kind, ReduceOp::Max | ReduceOp::Min)
        && cx.ty(source[0]).as_tensor()?.dtype == DType::Bool;
    let reduce = reduce.clone();
    (some && logical)
        .then(|| cx.op(reduce, &source))
        .flatten()
        .and_then(one)
}

/// Does `wide` represent every value of `narrow` exactly?
fn holds(wide: DType, narrow: DType) -> bool {
    // Bits of the significand, and whether exponents reach as far.
    let float = |d: DType| match d {
        DType::F64 => Some((53, 11)),
        DType::F32 => Some((24, 8)),
        DType::Bf16 => Some((8, 8)),
        DType::F16 => Some((11, 5)),
        _ => None,
    };
    if wide == narrow || narrow == DType::Bool {
        return true;
    }
    match (float(wide), float(narrow)) {
        (Some((m, e)), Some((n, f))) => m >= n && e >= f,
        (Some((m, e)), None) => {
            let bits = narrow.bits() - narrow.is_signed_int() as usize;
            narrow.is_int() && m >= bits && (1usize << (e - 1)) > bits
        }
        (None, Some(_)) => false,
        (None, None) => {
            let signed = (wide.is_signed_int(), narrow.is_signed_int());
            wide.is_int()
                && narrow.is_int()
                && match signed {
                    (true, true) | (false, false) => wide.bits() >= narrow.bits(),
                    (true, false) => wide.bits() > narrow.bits(),
                    (false, true) => false,
                }
        }
    }
}

/// Floats: the reciprocal of a power of two is exact, so both give the correctly rounded quotient.
fn divide_by_power(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args, _) = parts(cx, inst);
    if op != Op::Binary(BinaryOp::Div) {
        return None;
    }
    let divisor = cx.constant(args[1])?;
    let dtype = divisor.dtype();
    // Exponents for which both the number and its reciprocal are normal.
    let limit = match dtype {
        DType::F32 | DType::Bf16 => 126,
        DType::F64 => 1022,
        DType::F16 => 14,
        _ => return None,
    };
    if divisor.len() > 4096 || divisor.is_empty() {
        return None;
    }
    let is_power = |v: &f64| {
        let mantissa = v.to_bits() & ((1 << 52) - 1);
        v.is_normal() && mantissa == 0 && v.abs().log2().abs() <= f64::from(limit)
    };
    let values = divisor.to_f64s()?;
    if !values.iter().all(is_power) {
        return None;
    }
    let shape = divisor.shape().to_vec();
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|v| Tensor::splat(dtype, vec![], 1.0 / v).bytes().to_vec())
        .collect();
    let reciprocal = Tensor::new(dtype, shape, bytes.into()).ok()?;
    let reciprocal = cx.constant_value(reciprocal)?;
    let mul = Op::Binary(BinaryOp::Mul);
    one(cx.op(mul, &[args[0], reciprocal])?)
}
