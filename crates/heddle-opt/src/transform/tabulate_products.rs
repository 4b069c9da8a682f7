//! Products of looked-up rows.

use heddle_ir::{FuncId, Function, Inst, Module, Op, Tensor, Type, Value};

use super::cost::{UNKNOWN_SIZE, elements};
use crate::Edit;
use heddle_ir::patch::{Patch, Stats};

/// Maximum size in bytes of a table of products.
const MAX_BYTES: usize = 64 << 20;
/// Maximum number of multiplications to make a table: about a second.
const MAX_WORK: usize = 1 << 32;

/// Multiplies a constant table by a constant matrix at compile time if rows of the table are looked
/// up and then multiplied: `dot(gather(table, i), w)` becomes `gather(table·w, i)`. An embedding
/// that feeds a recurrent cell is the common case; a row of products is much smaller than the
/// matrix.
///
/// It does *not* make tables of more than 64 MiB or that take long, nor tabulate products of so
/// many rows at once that each is cheap.
pub fn tabulate_products(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        let mut all = vec![];
        module.functions[id].for_each_inst(&mut |inst, _| all.push(inst));
        let mut patch = Patch::new(&mut module.functions[id]);
        for inst in all {
            rewrite(&mut patch, inst);
        }
        stats.merge(patch.apply());
    }
    stats
}

fn rewrite(patch: &mut Patch, inst: Inst) -> Option<()> {
    let found = find(patch.func(), inst)?;
    let rows = elements(&found.indices_type, UNKNOWN_SIZE);
    let [depth, _] = found.matrix.shape() else {
        return None;
    };
    if rows * 2.0 > *depth as f64 {
        return None;
    }
    let products = product(&found.table, &found.matrix)?;
    let mut add = |op: Op, args: &[Value]| patch.op(inst, op, args);
    let products = add(Op::Const(products), &[])?;
    let mut rows = add(Op::Gather { axis: 0 }, &[products, found.indices])?;
    if found.reshaped {
        let sizes = found.result_type.as_tensor()?.static_shape()?;
        let sizes: Vec<i64> = sizes.iter().map(|d| *d as i64).collect();
        let to = add(Op::Const(Tensor::vector(&sizes)), &[])?;
        rows = add(Op::Reshape, &[rows, to])?;
    }
    if patch.replace(found.result, rows) {
        patch.remove(inst);
        patch.because(Edit::ProductTabulated);
    }
    Some(())
}

/// The product of two matrices, in the interpreter's arithmetic; threads take rows in turns.
fn product(table: &Tensor, matrix: &Tensor) -> Option<Tensor> {
    let &[count, depth] = table.shape() else {
        return None;
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let rows = count.div_ceil(threads).max(1);
    let row_bytes = depth.checked_mul(table.dtype().bits())? / 8;
    let part = |first: usize| {
        let last = (first + rows).min(count);
        let bytes = table.bytes().slice(first * row_bytes..last * row_bytes);
        let part = Tensor::new(table.dtype(), vec![last - first, depth], bytes).ok()?;
        heddle_interp::evaluate(&Op::Dot, &[&part, matrix], MAX_WORK as u64)?.pop()
    };
    let parts: Option<Vec<Tensor>> = std::thread::scope(|scope| {
        let firsts = (0..count).step_by(rows);
        let running: Vec<_> = firsts.map(|k| scope.spawn(move || part(k))).collect();
        let done = running.into_iter().map(|thread| thread.join().ok()?);
        done.collect()
    });
    let parts = parts?;
    let bytes: Vec<&[u8]> = parts.iter().map(|p| &p.bytes()[..]).collect();
    let bytes = bytes.concat();
    let shape = vec![count, *matrix.shape().last()?];
    Tensor::new(table.dtype(), shape, bytes.into()).ok()
}

/// A product of rows of a table.
struct Found {
    table: Tensor,
    matrix: Tensor,
    indices: Value,
    indices_type: Type,
    result: Value,
    result_type: Type,
    /// Is there a view between the lookup and the product?
    reshaped: bool,
}

fn find(func: &Function, inst: Inst) -> Option<Found> {
    let data = &func.insts[inst];
    let (Op::Dot, &[rows, matrix]) = (&data.op, &data.args[..]) else {
        return None;
    };
    let matrix = func.constant(matrix)?;
    let looked_up = through_views(func, rows)?;
    let lookup = &func.insts[func.def_inst(looked_up)?];
    let (Op::Gather { axis: 0 }, &[table, indices]) = (&lookup.op, &lookup.args[..]) else {
        return None;
    };
    let table = func.constant(table)?;
    let (&[count, depth], &[k, width]) = (table.shape(), matrix.shape()) else {
        return None;
    };
    let work = count.checked_mul(depth)?.checked_mul(width)?;
    let bytes = count
        .checked_mul(width)?
        .checked_mul(table.dtype().bits())?
        / 8;
    let result = data.results[0];
    let found = Found {
        table: table.clone(),
        matrix: matrix.clone(),
        indices,
        indices_type: func.ty(indices).clone(),
        result,
        result_type: func.ty(result).clone(),
        reshaped: looked_up != rows,
    };
    let sized = !found.reshaped || found.result_type.as_tensor()?.static_shape().is_some();
    let small = work <= MAX_WORK && bytes <= MAX_BYTES;
    (k == depth && table.dtype() == matrix.dtype() && small && sized).then_some(found)
}

/// The source of a chain of views that keep its last axis.
fn through_views(func: &Function, mut value: Value) -> Option<Value> {
    let last = |v: Value| func.ty(v).as_tensor()?.shape.as_ref()?.last()?.as_const();
    let depth = last(value)?;
    while let Some(inst) = func.def_inst(value) {
        let data = &func.insts[inst];
        let view = matches!(
            data.op,
            Op::Reshape | Op::Unsqueeze { .. } | Op::Squeeze { .. }
        );
        if !view || last(data.args[0]) != Some(depth) {
            break;
        }
        value = data.args[0];
    }
    Some(value)
}
