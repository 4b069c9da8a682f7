//! The executor: iterations in the inspector's order, in batches.
//!
//! While it runs, rows are stored in the order in which they are written, so that a batch writes a
//! contiguous block. At the end they are permuted to the loop's order.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, FuncBuilder, Op, TensorType, Type, Value};

use super::analyze::RowLoop;
use super::inspect::{Found, Row, between, outer};
use crate::batch::{Batch, Batched, Result};
use crate::transform::rebuild::Rebuild;

/// Appends the executor; gives the final arrays.
pub fn execute(
    rebuild: &mut Rebuild,
    rows: &RowLoop,
    found: &Found,
    most: usize,
) -> Result<Vec<Value>> {
    let outer = outer(rebuild, rows);
    let inits = rebuild.all(&rows.parts.inits);
    let b = &mut rebuild.b;
    let zero = b.i64(0);
    let mut reads = vec![];
    for columns in &found.rows {
        let places: Result<Vec<_>> = columns.iter().map(|row| place(b, found, row)).collect();
        reads.push(places?);
    }
    let go = b.compare(CompareOp::Lt, zero, found.count)?;
    let arrays = inits.iter().map(|v| b.ty(*v).clone());
    let types: Vec<Type> = [Type::scalar(DType::I64), Type::scalar(DType::I64)]
        .into_iter()
        .chain(arrays)
        .collect();
    let (_, inner) = b.begin_region(&types);
    let (at, now) = (inner[1], &inner[2..]);
    let Taken {
        iterations,
        count,
        next,
        dim,
    } = take(b, found, at, most)?;

    let types = |ty: &Type| ty.clone();
    let mut batch = Batch::new(rows.func, count, dim, &types);
    batch.values.extend(outer);
    batch
        .values
        .insert(rows.parts.iteration, Batched::Rows(iterations));
    for &inst in &rows.func.regions[rows.parts.body].insts {
        let read = rows.reads.iter().position(|r| r.0 == inst);
        if let Some(read) = read {
            let array = now[rows.reads[read].1];
            let value = self::read(b, array, &reads[read], iterations, rows, inst)?;
            let result = rows.func.insts[inst].results[0];
            batch.values.insert(result, Batched::Rows(value));
        } else if !rows.updates.contains(&inst) {
            batch.inst(b, inst)?;
        }
    }
    let start = b.binary(BinaryOp::Add, found.base, at)?;
    let more = b.compare(CompareOp::Lt, next, found.count)?;
    let mut yields = vec![more, next];
    for (&update, &array) in rows.updates.iter().zip(now) {
        let value = batch.value(rows.func.insts[update].args[1])?;
        let value = batch.spread(b, value)?;
        yields.push(write(b, array, value, start)?);
    }
    let body = b.end_region(&yields);
    let carried = [vec![zero], inits].concat();
    let results = b.loop_(None, Some(go), &carried, body)?;

    // A row's position is that of the iteration that writes it.
    let index = b.iota(found.extent)?;
    let by = b.binary(BinaryOp::Sub, index, found.base)?;
    let written = between(b, by, found.count)?;
    let last = place(b, found, &Row { index, written, by })?;
    let arrays = results[1..].iter();
    arrays.map(|&array| Ok(b.gather(array, last)?)).collect()
}

/// A batch.
struct Taken {
    /// `i64[?]`: its iterations.
    iterations: Value,
    /// `i64[]`: their number.
    count: Value,
    /// `i64[]`: position of the next batch in the order.
    next: Value,
    /// The count as a size.
    dim: Dim,
}

/// The iterations that are ready from a position on, up to the batch size.
fn take(b: &mut FuncBuilder, found: &Found, at: Value, most: usize) -> Result<Taken> {
    let end = b.gather(found.order.end, at)?;
    let rest = b.binary(BinaryOp::Sub, end, at)?;
    let limit = b.i64(most as i64);
    let count = b.binary(BinaryOp::Min, rest, limit)?;
    let next = b.binary(BinaryOp::Add, at, count)?;
    let (from, to, step) = (b.vector_of(at)?, b.vector_of(next)?, b.i64s(&[1]));
    let axes = vec![0];
    let iterations = b.op1(Op::Slice { axes }, &[found.order.states, from, to, step])?;
    let dim = Dim::Unknown(Some(most as u64));
    let (dtype, shape) = (DType::I64, Some(vec![dim.clone()]));
    b.refine_type(iterations, Type::Tensor(TensorType { dtype, shape }))?;
    Ok(Taken {
        iterations,
        count,
        next,
        dim,
    })
}

/// Writes a batch's rows, each an array with one row, to consecutive rows of an array.
fn write(b: &mut FuncBuilder, array: Value, value: Value, row: Value) -> Result<Value> {
    let value = b.op1(Op::Squeeze { axes: vec![1] }, &[value])?;
    let columns = b.rank(array).map_or(0, |rank| rank - 1);
    let row = b.vector_of(row)?;
    let starts = match columns {
        0 => row,
        _ => {
            let columns = b.i64s(&vec![0; columns]);
            b.join(&[row, columns])?
        }
    };
    Ok(b.op1(Op::UpdateSlice, &[array, value, starts])?)
}

/// `i64[extent]`: position of a row that iterations read.
fn place(b: &mut FuncBuilder, found: &Found, row: &Row) -> Result<Value> {
    let zero = b.i64(0);
    let by = b.select(row.written, row.by, zero)?;
    let place = b.gather(found.order.place, by)?;
    let place = b.binary(BinaryOp::Add, place, found.base)?;
    Ok(b.select(row.written, place, row.index)?)
}

/// The rows that a batch reads, as its instruction gives them.
fn read(
    b: &mut FuncBuilder,
    array: Value,
    columns: &[Value],
    iterations: Value,
    rows: &RowLoop,
    inst: heddle_ir::Inst,
) -> Result<Value> {
    let mut places = vec![];
    for &column in columns {
        places.push(b.gather(column, iterations)?);
    }
    let index = rows.func.insts[inst].args[1];
    let scalar = rows.func.ty(index).as_tensor().and_then(|t| t.rank()) == Some(0);
    if scalar {
        return Ok(b.gather(array, places[0])?);
    }
    for place in &mut places {
        *place = b.op1(Op::Unsqueeze { axes: vec![1] }, &[*place])?;
    }
    let all = match places[..] {
        [one] => one,
        _ => b.op1(Op::Concat { axis: 1 }, &places)?,
    };
    Ok(b.gather(array, all)?)
}
