//! Which instructions may be evaluated where the program would not have evaluated them.

use heddle_ir::{DType, Dim, Function, Inst, Op, Type, Value};

/// Whether an instruction surely succeeds, so that evaluating it in a run that would not have needed it adds no failure.
/// `false` for control flow, calls and random numbers, and wherever that depends on what operands hold.
pub fn cannot_fail(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let ty = |v: &Value| func.ty(*v).as_tensor();
    let shape = |v: &Value| ty(v).and_then(|t| t.shape.as_deref());
    let result = data.results.first().and_then(shape);
    let (Some(result), Some(args)) = (
        result,
        data.args.iter().map(shape).collect::<Option<Vec<_>>>(),
    ) else {
        return false;
    };
    let text = |v: &Value| ty(v).is_some_and(|t| t.dtype == DType::Str);
    if data.args.iter().chain(&data.results).any(text) {
        return matches!(data.op, Op::Const(_));
    }
    let fixed = |dims: &[Dim]| dims.iter().all(|d| d.as_const().is_some());
    let all_fixed = fixed(result) && args.iter().all(|a| fixed(a));
    // Operands after the first are sizes.
    let sizes_known = || data.args[1..].iter().all(|v| func.constant(*v).is_some());
    match &data.op {
        Op::Const(_)
        | Op::Unary(_)
        | Op::Cast { .. }
        | Op::Bitcast { .. }
        | Op::Shape
        | Op::Transpose { .. }
        | Op::Unsqueeze { .. }
        | Op::Reduce { .. }
        | Op::Cumulative { .. } => true,
        Op::Binary(_) | Op::Compare(_) | Op::Select => args.iter().all(|a| broadcasts(a, result)),
        Op::Squeeze { axes } => axes.iter().all(|&k| args[0][k].is(1)),
        Op::Concat { axis } => args.iter().all(|a| {
            let mut pairs = a.iter().zip(result).enumerate();
            pairs.all(|(k, (a, r))| k == *axis || a.equals(r))
        }),
        Op::ArgReduce { axis, .. } => args[0][*axis].as_const().is_some_and(|n| n > 0),
        Op::Dot => {
            let (a, b) = (args[0], args[1]);
            let (m, n) = (a.len() - 2, b.len() - 2);
            let outer = &result[..result.len() - 2];
            a[m + 1].equals(&b[n]) && broadcasts(&a[..m], outer) && broadcasts(&b[..n], outer)
        }
        Op::Reshape | Op::Broadcast | Op::Slice { .. } => all_fixed && sizes_known(),
        Op::Conv { .. } => all_fixed && func.constant(data.args[2]).is_some(),
        Op::Window { .. } => all_fixed && sizes_known(),
        Op::Pad { .. } => all_fixed && func.constant(data.args[1]).is_some(),
        Op::Gather { axis } => all_fixed && in_range(func, data.args[1], &args[0][*axis]),
        _ => false,
    }
}

/// Whether constant indices all lie within an axis.
fn in_range(func: &Function, indices: Value, axis: &Dim) -> bool {
    let indices = func.constant(indices).and_then(|t| t.to_i64s());
    match (indices, axis.as_const()) {
        (Some(indices), Some(n)) => indices.iter().all(|i| (-n..n).contains(i)),
        _ => false,
    }
}

/// Whether the first surely broadcasts to the second.
fn broadcasts(from: &[Dim], to: &[Dim]) -> bool {
    let mut pairs = from.iter().rev().zip(to.iter().rev());
    from.len() <= to.len() && pairs.all(|(f, t)| f.is(1) || f.equals(t))
}

/// The elements of a tensor type, where all axes are constants.
pub fn elements(ty: &Type) -> Option<u64> {
    let shape = ty.as_tensor()?.static_shape()?;
    heddle_ir::tensor::element_count(&shape).map(|n| n as u64)
}
