//! Instructions that no longer fit their operands.

use heddle_ir::infer::{Facts, result_types};
use heddle_ir::op::Effect;
use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{DType, FuncId, Function, Inst, Module, Op, Tensor, Type, Value};

use crate::Edit;

/// Replaces instructions whose operands turned out not to fit by failures: a pass found sizes or
/// contents that inference refuses. It may stand in a branch that is never taken, so it is an error
/// of the run that evaluates it.
///
/// It does *not* touch control flow and calls: those do not depend on contents.
pub fn stop_misfits(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        let func = &mut module.functions[id];
        let misfits = misfits(func);
        let mut patch = Patch::new(func);
        for (inst, message) in misfits {
            stop(&mut patch, inst, &message);
        }
        stats.merge(patch.apply());
    }
    stats
}

fn misfits(func: &Function) -> Vec<(Inst, String)> {
    let mut facts = Facts::default();
    let mut found = vec![];
    func.for_each_inst(&mut |inst, data| {
        if matches!(data.op.props().effect, Effect::Regions | Effect::Callee) {
            return;
        }
        let args: Vec<_> = data.args.iter().map(|&v| facts.arg(func, v)).collect();
        let message = match result_types(&data.op, &args, &[]) {
            Ok(types) => {
                let mut pairs = types.iter().zip(&data.results);
                let other = pairs.find(|(ty, v)| !ty.compatible(func.ty(**v)));
                other.map(|(ty, v)| format!("the result is {ty}, not {}", func.ty(*v)))
            }
            Err(e) => Some(e.message),
        };
        match message {
            Some(message) => found.push((inst, message)),
            None => facts.learn(func, inst),
        }
    });
    found
}

/// Values of the types of an instruction's results that depend on a failure.
fn stop(patch: &mut Patch, inst: Inst, message: &str) {
    let results = patch.func().insts[inst].results.clone();
    for old in results {
        let ty = patch.ty(old).clone();
        let new = stopped(patch, inst, message, ty);
        patch.replace(old, new);
    }
    patch.remove(inst);
    patch.because(Edit::Misfit);
}

/// Before an instruction, a value of this type that depends on a failure.
pub fn stopped(patch: &mut Patch, anchor: Inst, message: &str, ty: Type) -> Value {
    let mut insert = |op: Op, args: &[Value], ty: Type| {
        let values = patch.insert(anchor, op, args, vec![], vec![ty]);
        values[0]
    };
    let tensor = match &ty {
        Type::Tensor(tensor) => tensor,
        Type::Opt(inner) => {
            let value = stopped(patch, anchor, message, (**inner).clone());
            return patch.insert(anchor, Op::OptSome, &[value], vec![], vec![ty])[0];
        }
        Type::Seq(_) => {
            let optional = Type::Opt(Box::new(ty.clone()));
            let none = insert(Op::OptNone { elem: ty.clone() }, &[], optional);
            return insert(Op::OptGet, &[none], ty);
        }
    };
    let message = message.into();
    let number = insert(Op::Fail { message }, &[], Type::scalar(DType::I64));
    // Sizes that have a name depend on the failure, so that nobody takes them for numbers.
    let one = Type::fixed(DType::I64, &[1]);
    let mut sizes = vec![];
    for dim in tensor.shape.iter().flatten() {
        sizes.push(match (dim.as_const(), dim.as_expr()) {
            (None, Some(_)) => insert(Op::Unsqueeze { axes: vec![0] }, &[number], one.clone()),
            (size, _) => {
                let size = Tensor::vector(&[size.unwrap_or(1)]);
                insert(Op::Const(size), &[], one.clone())
            }
        });
    }
    let shape = Type::fixed(DType::I64, &[sizes.len()]);
    let shape = match &sizes[..] {
        [] => insert(Op::Const(Tensor::vector::<i64>(&[])), &[], shape),
        [size] => *size,
        all => insert(Op::Concat { axis: 0 }, all, shape),
    };
    let scalar = insert(
        Op::cast(tensor.dtype),
        &[number],
        Type::scalar(tensor.dtype),
    );
    insert(Op::Broadcast, &[scalar, shape], ty.clone())
}
