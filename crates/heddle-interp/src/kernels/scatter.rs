//! Writing by index: in place where the array has no other owner.

use heddle_ir::op::{ReduceOp, ScatterReduce};

use super::gather::{element_places, tuple_places};
use super::reduce::combine;
use super::walk::{strides, walk_strided};
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Buf, Elem, with_any, with_scalar};

/// Writes single elements along an axis (ONNX ScatterElements 18).
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

/// Writes slices that index tuples name (ONNX ScatterND 18).
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
        let data = x.data_mut::<T>(cx)?;
        // Without elements, slices have no length.
        for (&place, new) in places.iter().zip(new.chunks_exact(len.max(1))) {
            cx.tick(len)?;
            for (old, new) in data[place..place + len].iter_mut().zip(new) {
                *old = f(old, new);
            }
        }
        Ok(())
    }
    let kind = match reduce {
        ScatterReduce::Set | ScatterReduce::Once => {
            if reduce == ScatterReduce::Once {
                check_once(cx, places)?;
            }
            return with_any!(updates.data, new => run(cx, x, places, len, new, |_, n| Clone::clone(n)));
        }
        ScatterReduce::Add => ReduceOp::Sum,
        ScatterReduce::Mul => ReduceOp::Prod,
        ScatterReduce::Max => ReduceOp::Max,
        ScatterReduce::Min => ReduceOp::Min,
    };
    with_scalar!(updates.data, new => {
        let (_, f) = combine(new, kind, x)?;
        run(cx, x, places, len, new, |o, n| f(*o, *n))
    }, else Err(Fault::dtype(reduce.name(), x.dtype)))?;
    round(cx, x)
}

/// Checks that no place is written twice.
fn check_once(cx: &Context, places: &[usize]) -> Result<(), Fault> {
    cx.tick(places.len())?;
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(Fault::Value(format!(
            "two updates of element {}, where `reduce=once` allows one",
            pair[0]
        ))),
    }
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
    let to = strides(&x.shape);
    let places = starts.iter().zip(&to);
    let first = places.fold(0isize, |sum, (&start, &step)| {
        sum.wrapping_add((start as isize).wrapping_mul(step))
    });
    let mut places = cx.vec(update.len())?;
    walk_strided(cx, &update.shape, first, &to, |p| places.push(p))?;
    write(cx, &mut x, &places, 1, update, ScatterReduce::Set)?;
    Ok(x)
}
