//! Instructions that can be evaluated where the program would not have evaluated them.

use crate::op::Failure;
use crate::{DType, Dim, Function, Inst, Op, Region, Value};

/// Is evaluation certain to succeed, whatever the operands hold, and to take bounded time? Such an instruction may be
/// moved out of a branch or a loop, or be evaluated for both outcomes of a condition.
///
/// `false` is the answer for loops, calls, sequences and optionals, and wherever sizes are not known
/// well enough.
pub fn cannot_fail(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let failure = data.op.props().failure;
    if failure == Failure::Nested {
        let is_branch = matches!(data.op, Op::If);
        return is_branch && data.regions.iter().all(|&r| region_cannot_fail(func, r));
    }
    let operands: Option<Vec<&[Dim]>> = data.args.iter().map(|&v| shape(func, v)).collect();
    let result = data.results.first().and_then(|&v| shape(func, v));
    let (Some(operands), Some(result)) = (operands, result) else {
        return false;
    };
    match failure {
        Failure::Never => true,
        Failure::Broadcast => operands.iter().all(|s| broadcasts(s, result)),
        Failure::Sizes => {
            let is_static = |s: &[Dim]| s.iter().all(|d| d.as_const().is_some());
            let mut sizes = data.op.props().operands.sizes();
            is_static(result)
                && operands.iter().all(|s| is_static(s))
                && sizes.all(|i| func.constant(data.args[i]).is_some())
        }
        Failure::Rule => fits(func, inst, &operands, result),
        Failure::Data | Failure::Nested => false,
    }
}

/// Is evaluating all of a region's instructions certain to succeed?
pub fn region_cannot_fail(func: &Function, region: Region) -> bool {
    let mut insts = func.regions[region].insts.iter();
    insts.all(|&inst| cannot_fail(func, inst))
}

/// The rules of ops with [`Failure::Rule`].
fn fits(func: &Function, inst: Inst, operands: &[&[Dim]], result: &[Dim]) -> bool {
    let data = &func.insts[inst];
    let constant = |i: usize| func.constant(data.args[i]).and_then(|t| t.to_i64s());
    match &data.op {
        // Text may not be a number.
        Op::Cast { .. } => {
            let from = func.ty(data.args[0]).as_tensor();
            from.is_some_and(|t| t.dtype != DType::Str)
        }
        Op::Squeeze { axes } => axes.iter().all(|&k| operands[0][k].is(1)),
        Op::Concat { axis } => operands.iter().all(|s| {
            let mut pairs = s.iter().zip(operands[0]).enumerate();
            pairs.all(|(k, (a, b))| k == *axis || a.equals(b))
        }),
        Op::Slice { axes } => {
            let given = |s: &&[Dim]| matches!(s, [n] if n.is(axes.len() as i64));
            let steps = constant(3);
            operands[1..].iter().all(given) && steps.is_some_and(|s| s.iter().all(|s| *s != 0))
        }
        Op::Gather { axis } => {
            let size = operands[0][*axis].as_const();
            size.zip(constant(1))
                .is_some_and(|(n, all)| all.iter().all(|i| (-n..n).contains(i)))
        }
        Op::ArgReduce { axis, .. } => operands[0][*axis].as_const().is_some_and(|n| n > 0),
        Op::Dot => {
            let ([outer_a @ .., _, k], [outer_b @ .., m, _], [outer @ .., _, _]) =
                (operands[0], operands[1], result)
            else {
                return false;
            };
            k.equals(m) && broadcasts(outer_a, outer) && broadcasts(outer_b, outer)
        }
        _ => false,
    }
}

fn shape(func: &Function, value: Value) -> Option<&[Dim]> {
    func.ty(value).as_tensor()?.shape.as_deref()
}

/// Does the first shape broadcast to the second in every run?
fn broadcasts(from: &[Dim], to: &[Dim]) -> bool {
    let mut pairs = from.iter().rev().zip(to.iter().rev());
    from.len() <= to.len() && pairs.all(|(f, t)| f.is(1) || f.equals(t))
}
