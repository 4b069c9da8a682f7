//! Rows of a table, combined by bag.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, ScatterReduce};
use heddle_ir::{DType, Emit, Op, Value};

use super::Table;
use super::args::Int;
use super::cx::NodeCx;
use super::indexing::as_places;
use crate::error::{Result, invalid};
use crate::graph::Size;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("_embedding_bag", bags),
    ("_embedding_bag_forward_only", bags),
];

const SUM: i64 = 0;
const MEAN: i64 = 1;
const MAX: i64 = 2;

/// The combined rows, and what gradients want: the bag of each index, the number of indices in each bag, and the indices whose rows
/// hold the maxima (zeros in the other modes).
fn bags(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (table, places) = (cx.value(0, "weight")?, cx.value(1, "indices")?);
    let (starts, mode) = (cx.value(2, "offsets")?, cx.int_or(4, "mode", SUM)?);
    let factors = cx.opt_value(6, "per_sample_weights")?;
    let padding = cx.int_or(8, "padding_idx", -1)?;
    if !(SUM..=MAX).contains(&mode) {
        return invalid(format!("mode is {mode}"));
    }
    if cx.rank(table)? != 2 || cx.rank(places)? != 1 || cx.rank(starts)? != 1 {
        return invalid("a table has 2 axes, indices and offsets have 1");
    }
    if factors.is_some() && mode != SUM {
        return invalid("factors by index are for sums");
    }
    let stated = cx.dtype(starts)?;
    let (places, starts) = (as_places(cx, places)?, cx.cast(starts, DType::I64)?);
    let [places, starts] = checked(cx, places, starts)?;
    let mut count = cx.size(starts, 0)?;
    let has_end = cx.flag(7, "include_last_offset", false)?;
    if has_end {
        count = cx.int_sub(count, 1)?;
    }
    let bag = bag_of(cx, places, starts, count)?;
    // Without bags, indices are written to a row that is cut off.
    let room = cx.int_max(count, 1)?;
    let row = cx.at_least(bag, 0.0)?;
    let one = cx.b.i64(1);
    let many = [cx.size(places, 0)?];
    let mut weight = cx.filled(one, &many)?;
    if padding >= 0 {
        let is_read = cx.compare_with(CompareOp::Ne, places, padding as f64)?;
        weight = cx.cast(is_read, DType::I64)?;
    }
    if has_end {
        // Indices behind the last bag are in none.
        let (number, end) = (cx.iota(many[0])?, cx.int_value(count));
        let end = cx.gather(starts, end, 0)?;
        let is_before = cx.compare(CompareOp::Lt, number, end)?;
        let is_before = cx.cast(is_before, DType::I64)?;
        weight = cx.mul(weight, is_before)?;
    }
    let zero = cx.b.i64(0);
    let zeros = cx.filled(zero, &[room])?;
    let sizes = write(cx, zeros, row, weight, ScatterReduce::Add)?;

    let dtype = cx.dtype(table)?;
    let rows = cx.gather(table, places, 0)?;
    let rows = cx.widen(rows)?;
    let is_read = cx.compare_with(CompareOp::Gt, weight, 0.0)?;
    let is_read = cx.unsqueeze(is_read, &[1])?;
    let shape = [room, cx.size(table, 1)?];
    let zero = cx.like(rows, 0.0)?;
    let (mut made, best) = match mode {
        MAX => maxima(cx, rows, places, row, is_read, sizes, &shape)?,
        _ => {
            let mut rows = cx.select(is_read, rows, zero)?;
            if let Some(factors) = factors {
                let wide = cx.dtype(rows)?;
                let factors = cx.cast(factors, wide)?;
                let factors = cx.unsqueeze(factors, &[1])?;
                rows = cx.mul(rows, factors)?;
            }
            let zeros = cx.filled(zero, &shape)?;
            let zero = cx.b.i64(0);
            let none = cx.filled(zero, &[room])?;
            (write(cx, zeros, row, rows, ScatterReduce::Add)?, none)
        }
    };
    if mode == MEAN {
        let number = cx.at_least(sizes, 1.0)?;
        let wide = cx.dtype(made)?;
        let number = cx.cast(number, wide)?;
        let number = cx.unsqueeze(number, &[1])?;
        made = cx.div(made, number)?;
    }
    let mut by_bag = [made, sizes, best];
    if !matches!(count, Int::Const(1..)) {
        for value in &mut by_bag {
            *value = cx.slice(*value, 0, 0.into(), count, 1.into())?;
        }
    }
    let [made, sizes, mut best] = by_bag;
    // PyTorch's graphs state if the bags of indices are wanted.
    let is_empty = |i: usize| {
        let stated = cx.node.results.get(i);
        stated.is_some_and(|r| matches!(r.shape[..], [Size::Int(0)]))
    };
    let (mut bag, is_bag_empty, is_best_empty) = (bag, is_empty(1), is_empty(3));
    if is_bag_empty {
        bag = cx.slice(bag, 0, 0.into(), 0.into(), 1.into())?;
    }
    if is_best_empty && mode != MAX {
        best = cx.slice(best, 0, 0.into(), 0.into(), 1.into())?;
    }
    Ok(vec![
        cx.cast(made, dtype)?,
        cx.cast(bag, stated)?,
        cx.cast(sizes, stated)?,
        cx.cast(best, stated)?,
    ])
}

/// Indices and offsets that stop the run where PyTorch refuses them; the table's size bounds the indices as they are read.
fn checked(cx: &mut NodeCx, places: Value, starts: Value) -> Result<[Value; 2]> {
    let is_place = cx.compare_with(CompareOp::Ge, places, 0.0)?;
    let holds = cx.all(is_place)?;
    let both = cx.stop_unless(holds, "an index of a bag is negative", [places, starts])?;

    let [places, starts] = both;
    let first = cx.slice(starts, 0, 0.into(), 1.into(), 1.into())?;
    let is_zero = cx.compare_with(CompareOp::Eq, first, 0.0)?;
    let holds = cx.all(is_zero)?;
    let both = cx.stop_unless(holds, "the first offset of bags is not 0", [places, starts])?;

    let [places, starts] = both;
    let before = cx.slice(starts, 0, 0.into(), (-1).into(), 1.into())?;
    let behind = cx.slice(starts, 0, 1.into(), i64::MAX.into(), 1.into())?;
    let ascends = cx.compare(CompareOp::Le, before, behind)?;
    let holds = cx.all(ascends)?;
    let message = "an offset of bags is less than the one before it";
    let both = cx.stop_unless(holds, message, [places, starts])?;

    let [places, starts] = both;
    let size = cx.size(places, 0)?;
    let size = cx.int_value(size);
    let fits = cx.compare(CompareOp::Le, starts, size)?;
    let holds = cx.all(fits)?;
    cx.stop_unless(
        holds,
        "an offset of bags is behind the indices",
        [places, starts],
    )
}

/// The bag of each index: how many bags begin at or before it, less one.
fn bag_of(cx: &mut NodeCx, places: Value, starts: Value, count: Int) -> Result<Value> {
    let starts = cx.slice(starts, 0, 0.into(), count, 1.into())?;
    let size = cx.size(places, 0)?;
    // Bags may begin behind the last index, and are empty then.
    let room = cx.int_add(size, 1)?;
    let (zero, one) = (cx.b.i64(0), cx.b.i64(1));
    let (zeros, ones) = (cx.filled(zero, &[room])?, cx.filled(one, &[count])?);
    let begun = write(cx, zeros, starts, ones, ScatterReduce::Add)?;
    let op = Op::Cumulative {
        kind: ReduceOp::Sum,
        axis: 0,
        exclusive: false,
        reverse: false,
    };
    let begun = cx.op(op, &[begun])?;
    let begun = cx.slice(begun, 0, 0.into(), size, 1.into())?;
    cx.sub(begun, one)
}

/// The largest of each bag's rows by column, zeros for an empty bag, and the first index that has it.
fn maxima(
    cx: &mut NodeCx,
    rows: Value,
    places: Value,
    bag: Value,
    is_read: Value,
    sizes: Value,
    shape: &[Int],
) -> Result<(Value, Value)> {
    let least = cx.like(rows, f64::NEG_INFINITY)?;
    let rows = cx.select(is_read, rows, least)?;
    let start = cx.filled(least, shape)?;
    let most = write(cx, start, bag, rows, ScatterReduce::Max)?;
    let own = cx.gather(most, bag, 0)?;
    let is_most = cx.compare(CompareOp::Eq, rows, own)?;
    let is_most = cx.binary(BinaryOp::And, is_most, is_read)?;
    let size = cx.size(places, 0)?;
    let number = cx.iota(size)?;
    let number = cx.unsqueeze(number, &[1])?;
    let last = cx.int_value(size);
    let candidates = cx.select(is_most, number, last)?;
    let ends = cx.filled(last, shape)?;
    let first = write(cx, ends, bag, candidates, ScatterReduce::Min)?;
    // An empty bag reads a zero behind the indices.
    let wide = cx.cast(places, DType::I64)?;
    let zero = cx.b.i64s(&[0]);
    let padded = cx.concat(&[wide, zero], 0)?;
    let best = cx.gather(padded, first, 0)?;
    let is_empty = cx.compare_with(CompareOp::Eq, sizes, 0.0)?;
    let is_empty = cx.unsqueeze(is_empty, &[1])?;
    let zero = cx.like(most, 0.0)?;
    Ok((cx.select(is_empty, zero, most)?, best))
}

/// Rows written at indices of the first axis.
fn write(
    cx: &mut NodeCx,
    x: Value,
    places: Value,
    rows: Value,
    reduce: ScatterReduce,
) -> Result<Value> {
    let tuples = cx.unsqueeze(places, &[1])?;
    cx.op(Op::ScatterNd { reduce }, &[x, tuples, rows])
}
