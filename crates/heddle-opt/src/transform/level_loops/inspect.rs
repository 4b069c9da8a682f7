//! The inspector: finds an order of the iterations by level.
//!
//! It covers as many iterations as the arrays have rows, so that its arrays have static bounds;
//! those beyond the trip count repeat the last one's reads and are masked.

use std::collections::HashMap;

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, FuncBuilder, Op, Type, Value};

use super::analyze::{RowLoop, Worth};
use crate::batch::{Batch, Batched, Refusal, Result};
use crate::transform::index_precompute::{IndexPrecompute, inside, no};
use crate::transform::order::{Needs, Order, order};
use crate::transform::rebuild::Rebuild;

/// Nanoseconds that the inspector takes per row of the arrays and level.
const ROW: i64 = 6;

/// Results of the inspector.
pub struct Found {
    /// `bool[]`: iterations can run level by level, and it pays. If not, the other fields are
    /// undefined.
    pub ok: Value,
    /// `i64[]`: the row that iteration 0 writes.
    pub base: Value,
    /// `i64[]`: number of iterations.
    pub count: Value,
    /// The order of iterations.
    pub order: Order,
    /// For each read, the rows that iterations read, one array per index.
    pub rows: Vec<Vec<Row>>,
    /// `i64[]`: number of rows of the arrays.
    pub extent: Value,
}

/// A row that each iteration reads.
pub struct Row {
    /// `i64[extent]`: its index.
    pub index: Value,
    /// `bool[extent]`: an iteration writes it.
    pub written: Value,
    /// `i64[extent]`: that iteration.
    pub by: Value,
}

/// `bool[]`: the loop is long enough for an inspector over all rows; none if a single iteration is.
pub fn affordable(rebuild: &mut Rebuild, rows: &RowLoop, worth: &Worth) -> Result<Option<Value>> {
    let most = (worth.share - worth.level) / ROW as f64;
    if rows.extent.as_const().is_some_and(|n| n as f64 <= most) {
        return Ok(None);
    }
    let trip = rebuild.values[&rows.trip];
    let first = rebuild.values[&rows.parts.inits[0]];
    let b = &mut rebuild.b;
    let zero = b.i64(0);
    let extent = b.size(first, 0)?;
    // Avoids overflow; a longer loop runs out of its arrays.
    let trip = b.binary(BinaryOp::Max, trip, zero)?;
    let trip = b.binary(BinaryOp::Min, trip, extent)?;
    let levels = time(b, trip, extent, worth)?;
    Ok(Some(b.compare(CompareOp::Gt, levels, zero)?))
}

/// Appends the inspector.
pub fn inspect(rebuild: &mut Rebuild, rows: &RowLoop, worth: &Worth) -> Result<Found> {
    let trip = rebuild.values[&rows.trip];
    let first = rebuild.values[&rows.parts.inits[0]];
    let outer = outer(rebuild, rows);
    let b = &mut rebuild.b;
    let mut all = Iterations::new(b, rows, trip, first)?;
    let types = |ty: &Type| ty.clone();
    let mut batch = Batch::new(rows.func, all.extent, rows.extent.clone(), &types);
    batch.values.extend(outer);
    let read = all.read;
    batch
        .values
        .insert(rows.parts.iteration, Batched::Rows(read));
    let around = HashMap::new();
    let within = Batched::Rows(all.real);
    let mut ahead = IndexPrecompute::new(b, batch, within, &around, rows.extent.clone());
    let base = all.base(b, rows, &mut ahead)?;
    let mut found = vec![];
    for &(inst, _) in &rows.reads {
        found.push(all.rows(b, rows.func.insts[inst].args[1], base, &mut ahead)?);
    }
    let bad = ahead.batch.spread(b, ahead.bad)?;
    all.wrong.push(bad);
    let fine = all.fine(b, base)?;

    let none = b.constant(no());
    let none = b.vector_of(none)?;
    let needs = Needs {
        states: all.extent,
        kinds: None,
        before: &all.needed,
        wanted: b.join(&[all.real, none])?,
        root: None,
    };
    let limit = limit(b, all.count, all.extent, worth)?;
    let order = order(b, &needs, limit, fine)?;
    let complete = b.compare(CompareOp::Eq, order.count, all.count)?;
    Ok(Found {
        ok: b.binary(BinaryOp::And, fine, complete)?,
        base,
        count: all.count,
        order,
        rows: found,
        extent: all.extent,
    })
}

/// Facts about as many iterations as the arrays have rows.
struct Iterations {
    /// `i64[]`: their number.
    extent: Value,
    /// `i64[]`: the loop's trip count.
    count: Value,
    /// `bool[]`: they include all of the loop's.
    fits: Value,
    /// `i64[extent]`: their numbers.
    own: Value,
    /// `bool[extent]`: below the trip count.
    real: Value,
    /// `i64[extent]`: the iteration whose indices they read.
    read: Value,
    /// `bool[extent]` each: a failed check.
    wrong: Vec<Value>,
    /// `i64[extent + 1]` each: a predecessor.
    needed: Vec<Value>,
}

impl Iterations {
    fn new(b: &mut FuncBuilder, rows: &RowLoop, trip: Value, first: Value) -> Result<Self> {
        let (zero, one) = (b.i64(0), b.i64(1));
        let extent = b.size(first, 0)?;
        let trip = b.binary(BinaryOp::Max, trip, zero)?;
        let fits = b.compare(CompareOp::Le, trip, extent)?;
        let count = b.binary(BinaryOp::Min, trip, extent)?;
        let own = b.iota(extent)?;
        b.refine_type(own, row_of(DType::I64, rows))?;
        let real = b.compare(CompareOp::Lt, own, count)?;
        let last = b.binary(BinaryOp::Sub, count, one)?;
        let last = b.binary(BinaryOp::Max, last, zero)?;
        Ok(Self {
            extent,
            count,
            fits,
            own,
            real,
            read: b.binary(BinaryOp::Min, own, last)?,
            wrong: vec![],
            needed: vec![],
        })
    }

    /// `i64[]`: the row that iteration 0 writes. Each must write the next one, in all arrays, from
    /// its column 0 on.
    fn base(
        &mut self,
        b: &mut FuncBuilder,
        rows: &RowLoop,
        ahead: &mut IndexPrecompute,
    ) -> Result<Value> {
        let zero = b.i64(0);
        let mut base = None;
        for &update in &rows.updates {
            let starts = ahead.value(b, rows.func.insts[update].args[2])?;
            let starts = ahead.batch.spread(b, starts)?;
            let from = b.op1(Op::Gather { axis: 1 }, &[starts, zero])?;
            let from = b.binary(BinaryOp::Sub, from, self.read)?;
            let base = match base {
                Some(base) => base,
                None => {
                    // Without rows, there is no first one.
                    let none = b.i64s(&[-1]);
                    let all = b.join(&[from, none])?;
                    *base.insert(b.gather(all, zero)?)
                }
            };
            self.wrong.push(b.compare(CompareOp::Ne, from, base)?);
            self.wrong.push(moved(b, starts)?);
        }
        base.ok_or(Refusal::NoWrites)
    }

    /// The rows at these indices, one per index.
    fn rows(
        &mut self,
        b: &mut FuncBuilder,
        index: Value,
        base: Value,
        ahead: &mut IndexPrecompute,
    ) -> Result<Vec<Row>> {
        let zero = b.i64(0);
        let index = ahead.value(b, index)?;
        let index = ahead.batch.spread(b, index)?;
        let index = b.cast(DType::I64, index)?;
        let mut all = vec![];
        for index in columns(b, index)? {
            let within = inside(b, self.extent, index)?;
            self.wrong.push(b.op1(Op::Unary(UnaryOp::Not), &[within])?);
            let negative = b.compare(CompareOp::Lt, index, zero)?;
            let from_end = b.binary(BinaryOp::Add, index, self.extent)?;
            let index = b.select(negative, from_end, index)?;
            let by = b.binary(BinaryOp::Sub, index, base)?;
            let written = between(b, by, self.count)?;
            // It would read the row's old value.
            let late = b.compare(CompareOp::Ge, by, self.own)?;
            self.wrong.push(b.binary(BinaryOp::And, written, late)?);
            let needs = b.binary(BinaryOp::And, written, self.real)?;
            let needed = b.select(needs, by, self.extent)?;
            let none = b.vector_of(self.extent)?;
            self.needed.push(b.join(&[needed, none])?);
            all.push(Row { index, written, by });
        }
        Ok(all)
    }

    /// `bool[]`: all rows exist, and no iteration of the loop failed a check.
    fn fine(&self, b: &mut FuncBuilder, base: Value) -> Result<Value> {
        let mut wrong = self.wrong[0];
        for &other in &self.wrong[1..] {
            wrong = b.binary(BinaryOp::Or, wrong, other)?;
        }
        let wrong = b.binary(BinaryOp::And, wrong, self.real)?;
        let none = b.constant(no());
        let none = b.vector_of(none)?;
        let wrong = b.join(&[wrong, none])?;
        let wrong = b.any(wrong)?;
        let mut fine = b.op1(Op::Unary(UnaryOp::Not), &[wrong])?;
        let zero = b.i64(0);
        let low = b.compare(CompareOp::Ge, base, zero)?;
        let space = b.binary(BinaryOp::Sub, self.extent, self.count)?;
        let high = b.compare(CompareOp::Le, base, space)?;
        for other in [self.fits, low, high] {
            fine = b.binary(BinaryOp::And, fine, other)?;
        }
        Ok(fine)
    }
}

/// Values from outside that the body uses.
pub fn outer(rebuild: &Rebuild, rows: &RowLoop) -> HashMap<Value, Batched> {
    let values = rows.outer().into_iter();
    values
        .filter_map(|v| Some((v, Batched::Same(*rebuild.values.get(&v)?))))
        .collect()
}

/// `bool[extent]`: an iteration's row does not begin at column 0.
fn moved(b: &mut FuncBuilder, starts: Value) -> Result<Value> {
    let zero = b.i64(0);
    let moved = b.compare(CompareOp::Ne, starts, zero)?;
    let (from, to, step) = (b.i64s(&[1]), b.i64s(&[i64::MAX]), b.i64s(&[1]));
    let others = b.op1(Op::Slice { axes: vec![1] }, &[moved, from, to, step])?;
    let (kind, axes, keep) = (ReduceOp::Max, vec![1], false);
    let numbers = b.cast(DType::I64, others)?;
    let more = b.i64(0);
    let most = b.op1(Op::Reduce { kind, axes, keep }, &[numbers])?;
    Ok(b.compare(CompareOp::Gt, most, more)?)
}

/// `0 <= x < count`.
pub fn between(b: &mut FuncBuilder, x: Value, count: Value) -> Result<Value> {
    let zero = b.i64(0);
    let low = b.compare(CompareOp::Ge, x, zero)?;
    let high = b.compare(CompareOp::Lt, x, count)?;
    Ok(b.binary(BinaryOp::And, low, high)?)
}

/// One array for each index of an iteration.
fn columns(b: &mut FuncBuilder, index: Value) -> Result<Vec<Value>> {
    let shape = b.ty(index).as_tensor().and_then(|t| t.shape.clone());
    let columns = match shape.as_deref() {
        Some([_]) => return Ok(vec![index]),
        Some([_, columns]) => columns.as_const(),
        _ => None,
    };
    let columns = columns.ok_or(Refusal::UnknownSize)?;
    let column = |k| {
        let k = b.i64(k);
        Ok(b.op1(Op::Gather { axis: 1 }, &[index, k])?)
    };
    (0..columns).map(column).collect()
}

/// Maximum number of levels: more would be too narrow, or take longer than the loop.
fn limit(b: &mut FuncBuilder, count: Value, extent: Value, worth: &Worth) -> Result<Value> {
    let (parts, width) = (
        b.i64(16),
        b.i64((16.0 * worth.width).round().max(1.0) as i64),
    );
    let wide = b.binary(BinaryOp::Mul, count, parts)?;
    let wide = b.binary(BinaryOp::Div, wide, width)?;
    let time = time(b, count, extent, worth)?;
    let one = b.i64(1);
    let limit = b.binary(BinaryOp::Min, wide, time)?;
    Ok(b.binary(BinaryOp::Max, limit, one)?)
}

/// The number of levels whose inspection takes no longer than the loop.
fn time(b: &mut FuncBuilder, count: Value, extent: Value, worth: &Worth) -> Result<Value> {
    let share = b.i64(worth.share.round() as i64);
    let time = b.binary(BinaryOp::Mul, count, share)?;
    let (level, row) = (b.i64(worth.level.round().max(1.0) as i64), b.i64(ROW));
    let each = b.binary(BinaryOp::Mul, extent, row)?;
    let each = b.binary(BinaryOp::Add, each, level)?;
    Ok(b.binary(BinaryOp::Div, time, each)?)
}

/// The type of an array over the iterations.
fn row_of(dtype: DType, rows: &RowLoop) -> Type {
    Type::Tensor(heddle_ir::TensorType {
        dtype,
        shape: Some(vec![rows.extent.clone()]),
    })
}
