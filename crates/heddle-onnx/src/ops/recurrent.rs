//! LSTM, GRU and RNN as loops over time, so that later stages see the body of a step.
//!
//! The products of inputs and weights do not depend on the state: they are computed for all steps
//! before the loop.

mod cell;

use heddle_ir::op::CompareOp;
use heddle_ir::{Dim, Emit, Type, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use cell::{Activation, Cell, activations};

pub(super) const OPS: Table = &[
    ("LSTM", |cx| run(cx, Cell::Lstm, false)),
    ("GRU", |cx| run(cx, Cell::Gru, false)),
    ("RNN", |cx| run(cx, Cell::Rnn, false)),
];

/// Operators of com.microsoft: an LSTM with integer weights, whose inputs and states are rounded to 8
/// bits before each product.
pub(super) const MICROSOFT: Table = &[("DynamicQuantizeLSTM", |cx| run(cx, Cell::Lstm, true))];

/// Inputs that all directions share.
struct Inputs {
    /// The sequences, `[time, batch, features]`.
    x: Value,
    /// The length of each sequence, `[batch, 1]`, if they differ.
    lens: Option<Value>,
    /// Sizes for types: batch and hidden.
    state: [Dim; 2],
    /// The same as `i64[2]`.
    state_shape: Value,
    /// Outputs and states have the batch first.
    batch_first: bool,
    /// Operands of products are rounded.
    rounds: bool,
}

/// The outputs of one direction: `[time, batch, hidden]`, then the last states `[batch, hidden]`.
type Outputs = Vec<Value>;

fn run(cx: &mut NodeCx, cell: Cell, rounds: bool) -> Result<Vec<Value>> {
    let (x, r) = (cx.input(0)?, cx.input(2)?);
    let batch_first = cx.flag("layout", false);
    let x = if batch_first {
        cx.transpose(x, &[1, 0, 2])?
    } else {
        x
    };
    let ranks = [cx.rank(x)?, cx.rank(r)?];
    if ranks != [3, 3] {
        return invalid("X, W and R must have three axes");
    }
    let hidden_axis = if rounds { 1 } else { 2 };
    let (batch, hidden) = (cx.size_of(x, 1)?, cx.size_of(r, hidden_axis)?);
    let inputs = Inputs {
        x,
        lens: lengths(cx, batch)?,
        state: [cx.shape(x)?[1].clone(), cx.shape(r)?[hidden_axis].clone()],
        state_shape: cx.stack_i64s(&[batch, hidden])?,
        batch_first,
        rounds,
    };
    let reverse: &[bool] = cx.choice(
        "direction",
        "forward",
        &[
            ("forward", &[false][..]),
            ("reverse", &[true]),
            ("bidirectional", &[false, true]),
        ],
    )?;
    let functions = activations(cx, cell, reverse.len())?;
    let per_direction = functions.chunks(cell.activation_count());
    let mut directions = vec![];
    for (i, (reverse, functions)) in reverse.iter().zip(per_direction).enumerate() {
        directions.push(direction(cx, cell, &inputs, i, *reverse, functions)?);
    }
    join(cx, &inputs, &directions)
}

/// The lengths of the sequences as `[batch, 1]`; the program checks that there are so many.
fn lengths(cx: &mut NodeCx, batch: Value) -> Result<Option<Value>> {
    let Some(lens) = cx.opt(4) else {
        return Ok(None);
    };
    let lens = cx.to_indices(lens)?;
    let one = cx.b.i64(1);
    let shape = cx.stack_i64s(&[batch, one])?;
    Ok(Some(cx.reshape_to(lens, shape)?))
}

/// Runs one direction. Backward, the steps are taken from the last to the first; a sequence that is
/// shorter than others keeps its initial state until its own last step comes.
fn direction(
    cx: &mut NodeCx,
    cell: Cell,
    inputs: &Inputs,
    index: usize,
    reverse: bool,
    functions: &[Activation],
) -> Result<Outputs> {
    let weights = cell.weights(cx, index, inputs.rounds)?;
    let projected = cell.project(cx, inputs.x, &weights)?;
    let steps = cx.size_of(inputs.x, 0)?;
    let mut initial = vec![initial_state(cx, inputs, 5, index)?];
    if cell == Cell::Lstm {
        initial.push(initial_state(cx, inputs, 6, index)?);
    }
    let states = initial.len();
    let mut results = cx.repeat(steps, &initial, |cx, step, state| {
        let time = if reverse {
            let last = cx.shift(steps, -1.0)?;
            cx.sub(last, step)?
        } else {
            step
        };
        let now = cx.gather(projected, time, 0)?;
        let mut next = cell.step(cx, now, state, &weights, functions)?;
        let mut output = next[0];
        if let Some(lens) = inputs.lens {
            let inside = cx.compare(CompareOp::Lt, time, lens)?;
            for (new, old) in next.iter_mut().zip(state) {
                *new = cx.select(inside, *new, *old)?;
            }
            let zero = cx.scalar_like(output, 0.0)?;
            output = cx.select(inside, output, zero)?;
        }
        Ok((next, vec![output]))
    })?;
    let mut stacked = results.remove(states);
    // Without steps, the stated type gives it its shape.
    let mut dims = cx.shape(stacked)?;
    dims.splice(1.., inputs.state.iter().cloned());
    let ty = Type::tensor(cx.dtype(stacked)?, dims);
    cx.b.refine_type(stacked, ty)?;
    if reverse {
        stacked = cx.reverse(stacked, 0)?;
    }
    results.insert(0, stacked);
    Ok(results)
}

/// A state before the first step: a part of an input, or zeros.
fn initial_state(cx: &mut NodeCx, inputs: &Inputs, input: usize, index: usize) -> Result<Value> {
    let dtype = cx.dtype(inputs.x)?;
    let Some(all) = cx.opt(input) else {
        return cx.full(dtype, inputs.state_shape, 0.0);
    };
    let i = cx.b.i64(index as i64);
    let state = cx.gather(all, i, inputs.batch_first as usize)?;
    let ty = Type::tensor(dtype, inputs.state.to_vec());
    if *cx.b.ty(state) == ty {
        return Ok(state);
    }
    // The specification fixes its shape; the program checks that, and the loop's types are as precise.
    let state = cx.reshape_to(state, inputs.state_shape)?;
    cx.b.refine_type(state, ty)?;
    Ok(state)
}

/// Puts the directions side by side: Y is `[time, directions, batch, hidden]`, or `[batch, time,
/// directions, hidden]`; states are `[directions, batch, hidden]`, or `[batch, directions,
/// hidden]`.
fn join(cx: &mut NodeCx, inputs: &Inputs, directions: &[Outputs]) -> Result<Vec<Value>> {
    let mut outputs = vec![];
    for i in 0..directions[0].len() {
        let axis = (i == 0 || inputs.batch_first) as usize;
        let parts = directions.iter().map(|d| cx.unsqueeze(d[i], &[axis]));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let joined = cx.concat(&parts, axis)?;
        outputs.push(if i == 0 && inputs.batch_first {
            cx.transpose(joined, &[2, 0, 1, 3])?
        } else {
            joined
        });
    }
    Ok(outputs)
}
