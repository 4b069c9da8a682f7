//! Topological order of states, level by level.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, ScatterReduce};
use heddle_ir::{DType, FuncBuilder, Op, Type, Value};

use crate::batch::{Refusal, Result};

/// Dependences between states. The index one past the last state stands for "none".
pub struct Needs<'a> {
    /// `i64[]`: number of states.
    pub states: Value,
    /// `i64[states + 1]`: kind of each state, and the number of kinds, if there are several.
    pub kinds: Option<(Value, usize)>,
    /// `i64[states + 1]` each: a predecessor of each state.
    pub before: &'a [Value],
    /// `bool[states + 1]`: mask of the states to evaluate.
    pub wanted: Value,
    /// `i64[]` or `i64[k]`: the state or states that depend on all others, if there are such.
    pub root: Option<Value>,
}

/// A topological order of the states, sorted by level and within a level by kind.
pub struct Order {
    /// `i64[states + 1]`: position of each state, -1 if it has none.
    pub place: Value,
    /// `i64[states + 1]`: state at each position.
    pub states: Value,
    /// `i64[states + 1]`: end of the group of the state at each position.
    pub end: Value,
    /// `i64[]`: number of states that have a position.
    pub count: Value,
}

/// Appends the computation of the order: a few elementwise passes over the states for each level.
///
/// There are at most `limit` (`i64[]`) levels. States of later levels and states on a dependence
/// cycle get no position. Unless `go` (`bool[]`) holds, no state gets one.
pub fn order(b: &mut FuncBuilder, needs: &Needs, limit: Value, go: Value) -> Result<Order> {
    let (zero, one) = (b.i64(0), b.i64(1));
    let all = b.binary(BinaryOp::Add, needs.states, one)?;
    let own = b.iota(all)?;
    // The index for "none" gets position 0, so that it counts as an evaluated predecessor.
    let real = b.compare(CompareOp::Lt, own, needs.states)?;
    let minus = b.i64(-1);
    let place = b.select(real, minus, zero)?;
    let all = b.vector_of(all)?;
    let end = b.op1(Op::Broadcast, &[zero, all])?;
    let wanted = b.binary(BinaryOp::And, needs.wanted, real)?;
    let types = [
        Type::scalar(DType::I64),
        b.ty(place).clone(),
        b.ty(end).clone(),
        Type::scalar(DType::I64),
    ];
    let (_, inner) = b.begin_region(&types);
    let [_, place_in, end_in, count_in] = inner[..] else {
        return Err(Refusal::LoopParameter);
    };
    let open = b.compare(CompareOp::Lt, place_in, zero)?;
    let mut ready = b.binary(BinaryOp::And, open, wanted)?;
    for &state in needs.before {
        let place = b.gather(place_in, state)?;
        let done = b.compare(CompareOp::Ge, place, zero)?;
        ready = b.binary(BinaryOp::And, ready, done)?;
    }
    let (mut place_now, mut end_now, mut count) = (place_in, end_in, count_in);
    for k in 0..needs.kinds.map_or(1, |k| k.1) {
        let group = match needs.kinds {
            Some((kinds, _)) => {
                let k = b.i64(k as i64);
                let own = b.compare(CompareOp::Eq, kinds, k)?;
                b.binary(BinaryOp::And, own, ready)?
            }
            None => ready,
        };
        let marks = b.cast(DType::I64, group)?;
        let (kind, axis, exclusive, reverse) = (ReduceOp::Sum, 0, true, false);
        let before = Op::Cumulative {
            kind,
            axis,
            exclusive,
            reverse,
        };
        let before = b.op1(before, &[marks])?;
        let to = b.binary(BinaryOp::Add, before, count)?;
        place_now = b.select(group, to, place_now)?;
        let (axes, keep) = (vec![0], false);
        let more = b.op1(Op::Reduce { kind, axes, keep }, &[marks])?;
        count = b.binary(BinaryOp::Add, count, more)?;
        end_now = b.select(group, count, end_now)?;
    }
    let mut more = b.compare(CompareOp::Gt, count, count_in)?;
    if let Some(root) = needs.root {
        let at = b.gather(place_now, root)?;
        let mut open = b.compare(CompareOp::Lt, at, zero)?;
        if b.rank(open) != Some(0) {
            open = b.any(open)?;
        }
        more = b.binary(BinaryOp::And, open, more)?;
    }
    let body = b.end_region(&[more, place_now, end_now, count]);
    let results = b.loop_(Some(limit), Some(go), &[place, end, zero], body)?;
    let (place, end, count) = (results[0], results[1], results[2]);

    // Invert the permutation. States without a position are written to the last element.
    let placed = b.compare(CompareOp::Ge, place, zero)?;
    let placed = b.binary(BinaryOp::And, placed, real)?;
    let to = b.select(placed, place, needs.states)?;
    let none = b.op1(Op::Broadcast, &[zero, all])?;
    let (axis, reduce) = (0, ScatterReduce::Set);
    let states = b.op1(Op::ScatterElements { axis, reduce }, &[none, to, own])?;
    Ok(Order {
        place,
        end: b.gather(end, states)?,
        states,
        count,
    })
}
