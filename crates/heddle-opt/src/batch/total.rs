//! Which instructions give a result whatever their operands hold.

use heddle_ir::{Dim, Function, Inst, Op, Region};

/// Whether evaluating a region cannot stop a run: it holds no loops and calls, looks nothing up by an index that is not
/// known to be inside, and all sizes fit.
pub fn cannot_fail(f: &Function, region: Region) -> bool {
    f.regions[region]
        .insts
        .iter()
        .all(|&inst| is_total(f, inst))
}

fn is_total(f: &Function, inst: Inst) -> bool {
    let data = &f.insts[inst];
    let dims = |v| f.ty(v).as_tensor().and_then(|t| t.shape.as_deref());
    let shapes: Option<Vec<&[Dim]>> = data.args.iter().map(|v| dims(*v)).collect();
    let Some(shapes) = shapes else { return false };
    match &data.op {
        Op::Const(_) | Op::Unary(_) | Op::Bitcast { .. } | Op::Shape => true,
        Op::Transpose { .. } | Op::Unsqueeze { .. } | Op::Reduce { .. } | Op::Cumulative { .. } => {
            true
        }
        // Text may not be a number.
        Op::Cast { .. } => f
            .ty(data.args[0])
            .as_tensor()
            .is_some_and(|t| t.dtype != heddle_ir::DType::Str),
        Op::Binary(_) | Op::Compare(_) | Op::Select => {
            dims(data.results[0]).is_some_and(|to| shapes.iter().all(|s| broadcasts(s, to)))
        }
        Op::Squeeze { axes } => axes.iter().all(|&k| shapes[0][k].is(1)),
        Op::Concat { axis } => shapes.iter().all(|s| {
            let mut pairs = s.iter().zip(shapes[0]).enumerate();
            pairs.all(|(k, (a, b))| k == *axis || a.equals(b))
        }),
        Op::Slice { .. } => {
            let step = f.constant(data.args[3]).and_then(|t| t.to_i64s());
            step.is_some_and(|s| s.iter().all(|s| *s != 0))
        }
        Op::Dot => {
            let ([.., k], [.., m, _]) = (shapes[0], shapes[1]) else {
                return false;
            };
            shapes[0].len() == 2 && shapes[1].len() == 2 && k.equals(m)
        }
        Op::Gather { axis } => {
            let size = shapes[0][*axis].as_const();
            let indices = f.constant(data.args[1]).and_then(|t| t.to_i64s());
            size.zip(indices)
                .is_some_and(|(n, all)| all.iter().all(|i| (-n..n).contains(i)))
        }
        Op::If => data.regions.iter().all(|r| cannot_fail(f, *r)),
        _ => false,
    }
}

/// Whether the first surely broadcasts to the second.
fn broadcasts(from: &[Dim], to: &[Dim]) -> bool {
    let mut pairs = from.iter().rev().zip(to.iter().rev());
    from.len() <= to.len() && pairs.all(|(f, t)| f.is(1) || f.equals(t))
}
