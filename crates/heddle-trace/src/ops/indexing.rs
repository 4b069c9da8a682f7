//! Reading and writing by index.

use heddle_ir::op::{CompareOp, ScatterReduce};
use heddle_ir::{DType, Emit, Op, Value};

use super::Table;
use super::args::Int;
use super::cx::NodeCx;
use crate::error::{Result, invalid, refuse};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("_unsafe_index.Tensor", index),
    ("_unsafe_index_put", index_put),
    ("embedding", |cx| {
        let (weight, places) = (cx.value(0, "weight")?, cx.value(1, "indices")?);
        let places = as_places(cx, places)?;
        Ok(vec![cx.gather(weight, places, 0)?])
    }),
    ("gather", gather),
    ("index.Tensor", index),
    ("index_put", index_put),
    ("index_select", index_select),
    ("masked_select", |cx| {
        let (x, mask) = (cx.value(0, "self")?, cx.value(1, "mask")?);
        let both = cx.shape(x)?.len().max(cx.shape(mask)?.len());
        let (x, mask) = same_shape(cx, x, mask, both)?;
        let places = nonzero(cx, mask)?;
        Ok(vec![cx.op(Op::GatherNd { batch_dims: 0 }, &[x, places])?])
    }),
    ("nonzero", |cx| {
        let x = cx.value(0, "self")?;
        Ok(vec![nonzero(cx, x)?])
    }),
    ("take", |cx| {
        let (x, places) = (cx.value(0, "self")?, cx.value(1, "index")?);
        let (x, places) = (cx.flat(x)?, as_places(cx, places)?);
        Ok(vec![cx.gather(x, places, 0)?])
    }),
];

/// Indices as integers that the IR takes.
pub(super) fn as_places(cx: &mut NodeCx, places: Value) -> Result<Value> {
    match cx.dtype(places)? {
        DType::I64 | DType::I32 => Ok(places),
        dtype if dtype.is_int() => cx.cast(places, DType::I64),
        dtype => invalid(format!("indices are integers, not {dtype}")),
    }
}

/// Two arrays broadcast against each other, of `rank` axes.
pub(super) fn same_shape(
    cx: &mut NodeCx,
    x: Value,
    mask: Value,
    rank: usize,
) -> Result<(Value, Value)> {
    let mut lifted = [x, mask];
    for value in &mut lifted {
        let missing = rank - cx.rank(*value)?;
        *value = cx.unsqueeze(*value, &(0..missing).collect::<Vec<_>>())?;
    }
    let [x, mask] = lifted;
    let (x, mask) = (cx.broadcast_like(x, mask)?, cx.broadcast_like(mask, x)?);
    Ok((x, mask))
}

/// Indices of elements that are not 0, one row each.
fn nonzero(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let x = cx.cast(x, DType::Bool)?;
    let places = cx.op(Op::NonZero, &[x])?;
    cx.swap(places, 0, 1)
}

fn index_select(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, axis, places) = (
        cx.value(0, "self")?,
        cx.int(1, "dim")?,
        cx.indices(2, "index")?,
    );
    let rank = cx.rank(x)?;
    let axis = cx.axis(axis, rank)?;
    let places = as_places(cx, places)?;
    let places = if cx.rank(places)? == 0 {
        cx.unsqueeze(places, &[0])?
    } else {
        places
    };
    if rank == 0 {
        let x = cx.unsqueeze(x, &[0])?;
        let y = cx.gather(x, places, 0)?;
        return Ok(vec![cx.reshape(y, &[])?]);
    }
    Ok(vec![cx.gather(x, places, axis)?])
}

fn gather(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, axis, places) = (
        cx.value(0, "self")?,
        cx.int(1, "dim")?,
        cx.indices(2, "index")?,
    );
    let places = as_places(cx, places)?;
    let rank = cx.rank(x)?;
    let axis = cx.axis(axis, rank)?;
    let sizes = cx.sizes(places)?;
    if cx.int_product(&sizes)?.as_const() == Some(0) {
        // An empty index may have any number of axes.
        let zero = cx.like(x, 0.0)?;
        return Ok(vec![cx.filled(zero, &sizes)?]);
    }
    if rank == 0 || cx.rank(places)? == 0 {
        let x = cx.flat(x)?;
        let shape = cx.sizes(places)?;
        let places = cx.flat(places)?;
        let y = cx.gather(x, places, 0)?;
        return Ok(vec![cx.reshape(y, &shape)?]);
    }
    Ok(vec![cx.op(Op::GatherElements { axis }, &[x, places])?])
}

/// Index arrays of some axes, as PyTorch takes them.
struct Indices {
    /// For each indexed axis, its index array; all broadcast to one shape.
    places: Vec<(usize, Value)>,
    /// The number of axes of that shape.
    rank: usize,
    /// The axis that the index arrays' axes take the place of.
    at: usize,
}

impl Indices {
    /// Masks become the indices of their true elements.
    fn of(cx: &mut NodeCx, x: Value) -> Result<Self> {
        let mut places = vec![];
        let mut axis = 0;
        for index in cx.opt_indices(1, "indices")? {
            let Some(index) = index else {
                axis += 1;
                continue;
            };
            if matches!(cx.dtype(index)?, DType::Bool | DType::U8) {
                let count = cx.rank(index)?;
                if count == 0 {
                    return refuse("a mask without axes");
                }
                let found = nonzero(cx, index)?;
                for column in 0..count {
                    let column_index = cx.b.i64(column as i64);
                    places.push((axis + column, cx.gather(found, column_index, 1)?));
                }
                axis += count;
            } else {
                places.push((axis, as_places(cx, index)?));
                axis += 1;
            }
        }
        if axis > cx.rank(x)? {
            return invalid(format!("{axis} axes are indexed of {}", cx.rank(x)?));
        }
        if places.is_empty() {
            return invalid("there are no indices");
        }
        let mut rank = 0;
        for (_, value) in &places {
            rank = rank.max(cx.rank(*value)?);
        }
        let first = places[0].0;
        let adjacent = places
            .iter()
            .enumerate()
            .all(|(i, (axis, _))| *axis == first + i);
        let at = if adjacent { first } else { 0 };
        Ok(Self { places, rank, at })
    }

    /// The order of the operand's axes with the indexed ones in front.
    fn front(&self, rank: usize) -> Vec<usize> {
        let indexed: Vec<usize> = self.places.iter().map(|(axis, _)| *axis).collect();
        let rest = (0..rank).filter(|axis| !indexed.contains(axis));
        indexed.iter().copied().chain(rest).collect()
    }

    /// Tuples of indices along a last axis.
    fn tuples(&self, cx: &mut NodeCx) -> Result<Value> {
        let mut columns = vec![];
        for &(_, places) in &self.places {
            let missing = self.rank - cx.rank(places)?;
            let lifted = cx.unsqueeze(places, &(0..missing).collect::<Vec<_>>())?;
            columns.push(cx.cast(lifted, DType::I64)?);
        }
        if let [one] = columns[..] {
            return cx.unsqueeze(one, &[self.rank]);
        }
        let zero = cx.b.i64(0);
        let mut all = zero;
        for &column in &columns {
            let zeros = cx.mul(column, zero)?;
            all = cx.add(all, zeros)?;
        }
        for column in &mut columns {
            let full = cx.add(*column, all)?;
            *column = cx.unsqueeze(full, &[self.rank])?;
        }
        cx.concat(&columns, self.rank)
    }

    /// The order of axes of the result, for a value whose index axes are in front of `rest` others.
    fn order(&self, rest: usize) -> Vec<usize> {
        let before = self.rank..self.rank + self.at;
        let after = self.rank + self.at..self.rank + rest;
        before.chain(0..self.rank).chain(after).collect()
    }
}

fn index(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let rank = cx.rank(x)?;
    let indices = Indices::of(cx, x)?;
    if let [(axis, places)] = indices.places[..] {
        return Ok(vec![cx.gather(x, places, axis)?]);
    }
    let front = cx.transpose(x, &indices.front(rank))?;
    let tuples = indices.tuples(cx)?;
    let y = cx.op(Op::GatherNd { batch_dims: 0 }, &[front, tuples])?;
    let order = indices.order(rank - indices.places.len());
    Ok(vec![cx.transpose(y, &order)?])
}

fn index_put(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, values) = (cx.value(0, "self")?, cx.value(2, "values")?);
    let (dtype, rank) = (cx.dtype(x)?, cx.rank(x)?);
    let values = cx.cast(values, dtype)?;
    let accumulates = cx.flag(3, "accumulate", false)?;
    if let [Some(mask)] = cx.opt_indices(1, "indices")?[..]
        && cx.dtype(mask)? == DType::Bool
        && cx.rank(values)? == 0
        && !accumulates
    {
        let behind = rank.saturating_sub(cx.rank(mask)?);
        let first = cx.rank(mask)?;
        let mask = cx.unsqueeze(mask, &(first..first + behind).collect::<Vec<_>>())?;
        return Ok(vec![cx.select(mask, values, x)?]);
    }
    let indices = Indices::of(cx, x)?;
    let front = indices.front(rank);
    let tuples = indices.tuples(cx)?;
    let rest = rank - indices.places.len();
    // The shape that indexing would give: index axes at their place.
    let shape = cx.sizes(tuples)?;
    let sizes = cx.sizes(x)?;
    let kept: Vec<Int> = front[indices.places.len()..]
        .iter()
        .map(|&a| sizes[a])
        .collect();
    let full = [
        &kept[..indices.at],
        &shape[..indices.rank],
        &kept[indices.at..],
    ]
    .concat();
    let values = cx.filled(values, &full)?;
    let order = indices.order(rest);
    let mut back = vec![0; order.len()];
    for (i, &axis) in order.iter().enumerate() {
        back[axis] = i;
    }
    let values = cx.transpose(values, &back)?;
    let moved = cx.transpose(x, &front)?;
    let reduce = if accumulates {
        ScatterReduce::Add
    } else {
        ScatterReduce::Set
    };
    let (moved, values, is_bool) = match dtype {
        DType::Bool if accumulates => (
            cx.cast(moved, DType::I32)?,
            cx.cast(values, DType::I32)?,
            true,
        ),
        _ => (moved, values, false),
    };
    let mut y = cx.op(Op::ScatterNd { reduce }, &[moved, tuples, values])?;
    if is_bool {
        y = cx.compare_with(CompareOp::Ne, y, 0.0)?;
    }
    let mut back = vec![0; rank];
    for (i, &axis) in front.iter().enumerate() {
        back[axis] = i;
    }
    Ok(vec![cx.transpose(y, &back)?])
}
