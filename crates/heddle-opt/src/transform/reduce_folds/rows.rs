//! Arrays whose elements a loop looks up by the number of the iteration.

use std::collections::HashMap;

use heddle_ir::{Function, Inst, Op, Value};

use super::folds::Body;
use crate::transform::rebuild::Rebuild;

/// An array from outside of the loop, of which each iteration reads its element along the first
/// axis.
pub struct Row {
    /// The array in the function that is built.
    pub array: Value,
    /// It has as many elements as there are iterations, and not more.
    pub is_whole: bool,
}

/// The instructions of a body that read such elements, which certainly exist.
pub fn rows(rebuild: &Rebuild, body: &Body) -> HashMap<Inst, Row> {
    let mut rows = HashMap::new();
    for &(inst, _) in &body.insts {
        let data = &body.func.insts[inst];
        let is_row = matches!(data.op, Op::Gather { axis: 0 })
            && data.args[1] == body.view.iteration
            && rebuild.values.contains_key(&data.args[0]);
        if is_row && let Some(is_whole) = is_whole(rebuild, body, data.args[0]) {
            let array = rebuild.values[&data.args[0]];
            rows.insert(inst, Row { array, is_whole });
        }
    }
    rows
}

/// Is the size of an array's first axis the number of iterations? None if it may be less.
fn is_whole(rebuild: &Rebuild, body: &Body, array: Value) -> Option<bool> {
    let trip = body.view.trip?;
    if size_of(body.func, trip).is_some_and(|of| of == counted(body.func, array)) {
        return Some(true);
    }
    let ty = rebuild.b.ty(rebuild.values[&array]).as_tensor()?;
    let size = ty.shape.as_ref()?.first()?;
    let trips = rebuild.b.known(rebuild.values[&trip])?.first()?;
    match (size.as_const(), trips.as_const()) {
        (Some(size), Some(trips)) if trips <= size => Some(trips == size),
        _ => size.equals(trips).then_some(true),
    }
}

/// Is a trip count the size of an array, and so not negative?
pub fn is_size(func: &Function, trip: Value) -> bool {
    size_of(func, trip).is_some()
}

/// The array of whose first axis a number is the size.
fn size_of(func: &Function, number: Value) -> Option<Value> {
    let data = |v: Value| func.def_inst(v).map(|inst| &func.insts[inst]);
    let first = |v: Value| {
        let index = func.constant(v).and_then(|t| t.to_i64s());
        index.is_some_and(|all| all == [0])
    };
    let made = data(number)?;
    let shape = match (&made.op, &made.args[..]) {
        (Op::Gather { axis: 0 }, [shape, index]) if first(*index) => *shape,
        (Op::Squeeze { .. }, [shape]) => *shape,
        _ => return None,
    };
    let made = data(shape).filter(|made| matches!(made.op, Op::Shape))?;
    Some(counted(func, made.args[0]))
}

/// An array with the same size of the first axis: of looked-up rows that of their indices.
fn counted(func: &Function, mut array: Value) -> Value {
    while let Some(inst) = func.def_inst(array)
        && let Op::Gather { axis: 0 } = func.insts[inst].op
    {
        let indices = func.insts[inst].args[1];
        let rank = func.ty(indices).as_tensor().and_then(|t| t.rank());
        if rank.is_none_or(|rank| rank == 0) {
            break;
        }
        array = indices;
    }
    array
}
