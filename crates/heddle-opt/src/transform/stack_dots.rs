//! Horizontal fusion of contractions.

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{Entity, FuncId, Inst, Module, Op, Region, Tensor, Type, Value};

use crate::Edit;
use crate::uses::count_uses;

/// Maximum size of the stacked matrix in elements. Larger products are enough work by themselves.
const MAX_ELEMENTS: usize = 1 << 22;

/// Fuses contractions of one operand with several constant matrices: `dot(x, a)` and `dot(x, b)`
/// become slices of `dot(x, [a b])`. An example is a recurrent cell whose gates are separate
/// products. The operand is read once, and one operator is partitioned instead of many.
///
/// The matrices must have one shape, so that equal positions in the slices stay on the same unit.
/// They must have no other use, so that the program does not grow. The pass does *not* look across
/// regions.
pub fn stack_dots(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        let func = &mut module.functions[id];
        let uses = count_uses(func);
        let mut regions = vec![func.body];
        func.for_each_inst(&mut |_, inst| regions.extend(&inst.regions));
        let mut patch = Patch::new(func);
        for region in regions {
            for group in groups(&patch, region, &uses) {
                stack(&mut patch, &group);
            }
        }
        stats.merge(patch.apply());
    }
    stats
}

/// Groups of contractions of a region that can be fused.
fn groups(patch: &Patch, region: Region, uses: &[u32]) -> Vec<Vec<Inst>> {
    let func = patch.func();
    let mut groups: Vec<(Value, Type, Vec<Inst>)> = vec![];
    for &inst in &func.regions[region].insts {
        let data = &func.insts[inst];
        let (Op::Dot, &[x, w]) = (&data.op, &data.args[..]) else {
            continue;
        };
        let Some(matrix) = func.constant(w).filter(|_| uses[w.index()] == 1) else {
            continue;
        };
        let shape = func.ty(data.results[0]).as_tensor();
        let ranked = shape.is_some_and(|t| t.rank().is_some_and(|r| r >= 2));
        if !ranked || matrix.shape().len() != 2 {
            continue;
        }
        match groups.iter_mut().find(|g| g.0 == x && g.1 == matrix.ty()) {
            Some(group) => group.2.push(inst),
            None => groups.push((x, matrix.ty(), vec![inst])),
        }
    }
    let groups = groups.into_iter().map(|g| g.2);
    groups.filter(|g| g.len() > 1).collect()
}

fn stack(patch: &mut Patch, group: &[Inst]) -> Option<()> {
    let func = patch.func();
    let first = &func.insts[group[0]];
    let x = first.args[0];
    let axis = func.ty(first.results[0]).as_tensor()?.rank()? - 1;
    let matrices: Vec<&Tensor> = group
        .iter()
        .filter_map(|i| func.constant(func.insts[*i].args[1]))
        .collect();
    let width = *matrices.first()?.shape().last()?;
    let elements = matrices[0].len().checked_mul(matrices.len())?;
    if elements > MAX_ELEMENTS {
        return None;
    }
    let all = heddle_interp::evaluate(&Op::Concat { axis: 1 }, &matrices, 4 * elements as u64)?;
    let all = all.into_iter().next()?;
    let mut add = |op: Op, args: &[Value]| patch.op(group[0], op, args);
    let stacked = add(Op::Const(all), &[])?;
    let products = add(Op::Dot, &[x, stacked])?;
    let step = add(Op::Const(Tensor::vector(&[1i64])), &[])?;
    let mut slices = vec![];
    for k in 0..group.len() {
        let mut place = |k: usize| add(Op::Const(Tensor::vector(&[(k * width) as i64])), &[]);
        let args = [products, place(k)?, place(k + 1)?, step];
        slices.push(add(Op::Slice { axes: vec![axis] }, &args)?);
    }
    for (&inst, slice) in group.iter().zip(slices) {
        let old = patch.func().insts[inst].results[0];
        if patch.replace(old, slice) {
            patch.remove(inst);
            patch.because(Edit::DotsStacked);
        }
    }
    Some(())
}
