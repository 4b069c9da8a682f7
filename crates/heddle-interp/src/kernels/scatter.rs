//! Writing by index: in place where the array has no other owner.

use heddle_ir::op::ScatterReduce;

use super::gather::{element_places, tuple_places};
use super::number::Num;
use super::rows::{Rows, strides};
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Buf, Elem, with_any, with_num};

/// Writes single elements along an axis.
pub fn elements(
    cx: &Context,
    mut x: Array,
    indices: &Array,
    updates: &Array,
    axis: usize,
    reduce: ScatterReduce,
) -> Result<Array, Fault> {
    if indices.shape != updates.shape {
        return Err(misfit(indices, updates, &x));
    }
    let places = element_places(cx, &x.shape, indices, axis)?;
    write(cx, &mut x, &places, 1, updates, reduce)?;
    Ok(x)
}

/// Writes slices that index tuples name.
pub fn nd(
    cx: &Context,
    mut x: Array,
    indices: &Array,
    updates: &Array,
    reduce: ScatterReduce,
) -> Result<Array, Fault> {
    let shape = x.shape.clone();
    let (places, slice) = tuple_places(cx, &shape, indices, 0)?;
    let tuples = &indices.shape[..indices.shape.len() - 1];
    if updates.shape != [tuples, slice].concat() {
        return Err(misfit(indices, updates, &x));
    }
    write(cx, &mut x, &places, count(slice)?, updates, reduce)?;
    Ok(x)
}

fn misfit(indices: &Array, updates: &Array, x: &Array) -> Fault {
    Fault::Shape(format!(
        "updates of shape {:?} do not fit indices of shape {:?} into shape {:?}",
        updates.shape, indices.shape, x.shape
    ))
}

/// Combines `len` elements at each place with the next ones of `updates`.
fn write(
    cx: &Context,
    x: &mut Array,
    places: &[usize],
    len: usize,
    updates: &Array,
    reduce: ScatterReduce,
) -> Result<(), Fault> {
    fn run<T: Elem>(
        cx: &Context,
        x: &mut Array,
        places: &[usize],
        len: usize,
        new: &[T],
        f: impl Fn(&T, &T) -> T,
    ) -> Result<(), Fault> {
        if new.is_empty() {
            return Ok(());
        }
        let data = x.data_mut::<T>(cx)?;
        for (&place, new) in places.iter().zip(new.chunks_exact(len)) {
            cx.tick(len)?;
            for (old, new) in data[place..place + len].iter_mut().zip(new) {
                *old = f(old, new);
            }
        }
        Ok(())
    }
    fn set<T: Elem>(
        cx: &Context,
        x: &mut Array,
        places: &[usize],
        len: usize,
        new: &[T],
    ) -> Result<(), Fault> {
        run(cx, x, places, len, new, |_, n| n.clone())
    }
    let unsupported = Fault::dtype(reduce.name(), x.dtype);
    match (reduce, &updates.data) {
        (ScatterReduce::Set, data) => {
            with_any!(*data, new => set(cx, x, places, len, new))
        }
        (ScatterReduce::Max, Buf::Bool(s)) => run(cx, x, places, len, &s.data, |o, n| o | n),
        (ScatterReduce::Min, Buf::Bool(s)) => run(cx, x, places, len, &s.data, |o, n| o & n),
        (_, data) => with_num!(*data, new => match reduce {
            ScatterReduce::Add => run(cx, x, places, len, new, |o, n| Num::add(*o, *n)),
            ScatterReduce::Mul => run(cx, x, places, len, new, |o, n| Num::mul(*o, *n)),
            ScatterReduce::Max => run(cx, x, places, len, new, |o, n| Num::larger(*o, *n)),
            _ => run(cx, x, places, len, new, |o, n| Num::smaller(*o, *n)),
        }, else Err(unsupported)),
    }?;
    round(cx, x)
}

/// Sums of 16-bit floats are rounded once, when all updates are in.
fn round(cx: &Context, x: &mut Array) -> Result<(), Fault> {
    let dtype = x.dtype;
    if let Buf::F32(_) = x.data
        && dtype != heddle_ir::DType::F32
    {
        f32::round_to(dtype, x.data_mut::<f32>(cx)?);
    }
    Ok(())
}

/// Writes a block.
pub fn update_slice(
    cx: &Context,
    mut x: Array,
    update: &Array,
    starts: &[i64],
) -> Result<Array, Fault> {
    let rank = x.shape.len();
    let inside = starts.len() == rank
        && update.shape.len() == rank
        && (0..rank).all(|i| {
            let room = x.shape[i].checked_sub(update.shape[i]);
            room.is_some_and(|room| starts[i] >= 0 && starts[i] as u64 <= room as u64)
        });
    if !inside {
        return Err(Fault::Shape(format!(
            "an update of shape {:?} at {starts:?} does not lie inside shape {:?}",
            update.shape, x.shape
        )));
    }
    let (to, from) = (strides(&x.shape), strides(&update.shape));
    let places = starts.iter().zip(&to);
    let first = places.fold(0isize, |sum, (&start, &step)| {
        sum.wrapping_add((start as isize).wrapping_mul(step))
    });
    let rows = Rows::new(&update.shape, [&to, &from]);
    with_any!(update.data, new => {
        let data = x.data_mut(cx)?;
        rows.each([first, 0], |at| {
            cx.tick(rows.len)?;
            copy_row(data, new, at, rows.step, rows.len);
            Ok(())
        })?;
    });
    Ok(x)
}

/// Copies a row of one array to a row of another.
pub fn copy_row<T: Elem>(to: &mut [T], from: &[T], at: [isize; 2], step: [isize; 2], len: usize) {
    for k in 0..len as isize {
        let source = &from[(at[1] + k * step[1]) as usize];
        to[(at[0] + k * step[0]) as usize] = source.clone();
    }
}
