//! Products of matrices that lie beside each other.

use heddle_ir::op::BinaryOp;
use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{FuncId, Inst, Module, Op, Tensor, Value};

use crate::Edit;
use crate::gathered::gathered_parts;

/// Turns a product of gathered matrices side by side with one matrix, `dot(concat(a, b, axis=2), w)`,
/// into a sum of products with the parts of `w`. Each reads its matrices where they lie, and
/// nothing is put side by side: a tree network with a matrix in each node moves no matrices.
///
/// It does *not* split products with more columns than depth, whose partial sums are larger than
/// the copy, nor those of 16-bit floats, which would be rounded once more.
pub fn split_dots(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        let func = &mut module.functions[id];
        let mut dots = vec![];
        func.for_each_inst(&mut |inst, data| dots.extend((data.op == Op::Dot).then_some(inst)));
        let mut patch = Patch::new(func);
        for inst in dots {
            rewrite(&mut patch, inst);
        }
        stats.merge(patch.apply());
    }
    stats
}

fn rewrite(patch: &mut Patch, inst: Inst) -> Option<()> {
    let data = patch.func().insts[inst].clone();
    let [x, w] = data.args[..] else {
        return None;
    };
    let parts = gathered_parts(patch.func(), x)?;
    let ty = patch.ty(w).as_tensor()?;
    let [depth, columns] = ty.static_shape()?[..] else {
        return None;
    };
    if columns > depth || ty.dtype.bits() < 32 {
        return None;
    }
    let depths = parts.iter().map(|part| {
        let shape = patch.ty(*part).as_tensor()?.shape.as_ref()?;
        shape.last()?.as_const()
    });
    let depths = depths.collect::<Option<Vec<i64>>>()?;
    let mut add = |op: Op, args: &[Value]| patch.op(inst, op, args);
    let plus = || Op::Binary(BinaryOp::Add);
    let (mut sum, mut last, mut start) = (None, None, 0);
    let step = add(Op::Const(Tensor::vector(&[1i64])), &[])?;
    let count = parts.len();
    for (k, (&part, depth)) in parts.iter().zip(depths).enumerate() {
        let [from, to] = [start, start + depth].map(|k| Tensor::vector(&[k]));
        let (from, to) = (add(Op::Const(from), &[])?, add(Op::Const(to), &[])?);
        let own = add(Op::Slice { axes: vec![0] }, &[w, from, to, step])?;
        let product = add(Op::Dot, &[part, own])?;
        sum = match sum {
            None => Some(product),
            Some(sum) if k + 1 < count => Some(add(plus(), &[sum, product])?),
            Some(sum) => {
                last = Some([sum, product]);
                None
            }
        };
        start += depth;
    }
    patch.change(inst, plus(), last?.to_vec(), data.results.clone());
    patch.because(Edit::DotSplit);
    Some(())
}
