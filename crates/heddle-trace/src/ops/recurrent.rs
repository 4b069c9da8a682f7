//! Recurrent layers as loops over time. The number of steps stays open.
//!
//! Gates stand in the order of PyTorch: LSTM input, forget, cell, output; GRU reset, update, new. Weights of a layer and direction
//! are `w_ih[gates*h, input]`, `w_hh[gates*h, h]`, and, with biases, `b_ih` and `b_hh`; with projections, `w_hr` behind them.

use heddle_ir::op::UnaryOp;
use heddle_ir::{DType, Emit, Type, Value};

use super::Table;
use super::args::Int;
use super::cx::NodeCx;
use super::random::dropped;
use crate::error::{Result, invalid, refuse};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("gru.input", |cx| {
        let start = cx.value(1, "hx")?;
        layers(cx, Cell::Gru, &[start], 2)
    }),
    ("lstm.input", |cx| {
        let starts = cx.values(1, "hx")?;
        layers(cx, Cell::Lstm, &starts, 2)
    }),
    ("mkldnn_rnn_layer", mkldnn),
    ("rnn_relu.input", |cx| {
        let start = cx.value(1, "hx")?;
        layers(cx, Cell::Relu, &[start], 2)
    }),
    ("rnn_tanh.input", |cx| {
        let start = cx.value(1, "hx")?;
        layers(cx, Cell::Tanh, &[start], 2)
    }),
];

#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

/// Weights of one layer and direction.
#[derive(Clone, Copy)]
struct Weights {
    input: Value,
    hidden: Value,
    input_bias: Option<Value>,
    hidden_bias: Option<Value>,
    projection: Option<Value>,
}

/// All layers and directions: the last layer's output, and the last states.
fn layers(cx: &mut NodeCx, cell: Cell, starts: &[Value], at: usize) -> Result<Vec<Value>> {
    let mut x = cx.value(0, "input")?;
    let params = cx.values(at, "params")?;
    let has_biases = cx.flag(at + 1, "has_biases", true)?;
    let count = cx.int(at + 2, "num_layers")?;
    let dropout = cx.float(at + 3, "dropout", 0.0)?;
    let trains = cx.flag(at + 4, "train", false)?;
    let both = cx.flag(at + 5, "bidirectional", false)?;
    let is_batch_first = cx.flag(at + 6, "batch_first", false)?;
    let directions = if both { 2 } else { 1 };
    let cells = usize::try_from(count)
        .ok()
        .and_then(|n| n.checked_mul(directions));
    let Some(cells) = cells.filter(|n| *n > 0 && *n <= params.len()) else {
        return invalid(format!("{count} layers have {} weights", params.len()));
    };
    let each = params.len() / cells;
    let plain = if has_biases { 4 } else { 2 };
    let projects = each == plain + 1 && cell == Cell::Lstm;
    if params.len() != cells * each || each != plain + usize::from(projects) {
        return invalid(format!(
            "{cells} layers and directions have {} weights",
            params.len()
        ));
    }
    if starts.len() != if cell == Cell::Lstm { 2 } else { 1 } {
        return invalid(format!("{} states", starts.len()));
    }
    // One sequence is a batch of one.
    let is_single = cx.rank(x)? == 2;
    let mut states = starts.to_vec();
    if is_single {
        x = cx.unsqueeze(x, &[1])?;
        for state in &mut states {
            *state = cx.unsqueeze(*state, &[1])?;
        }
    } else if is_batch_first {
        x = cx.swap(x, 0, 1)?;
    }
    let mut lasts: Vec<Vec<Value>> = vec![vec![]; states.len()];
    for layer in 0..cells / directions {
        if trains && dropout != 0.0 && layer > 0 {
            x = dropped(cx, x, dropout)?[0];
        }
        let mut sides = vec![];
        for direction in 0..directions {
            let number = layer * directions + direction;
            let params = &params[number * each..(number + 1) * each];
            let weights = Weights {
                input: params[0],
                hidden: params[1],
                input_bias: has_biases.then(|| params[2]),
                hidden_bias: has_biases.then(|| params[3]),
                projection: projects.then(|| params[each - 1]),
            };
            let place = cx.b.i64(number as i64);
            let first: Vec<Value> = states
                .iter()
                .map(|&s| cx.gather(s, place, 0))
                .collect::<Result<_>>()?;
            let (y, last) = run(cx, cell, x, &first, weights, direction == 1)?;
            sides.push(y);
            for (list, value) in lasts.iter_mut().zip(last) {
                list.push(cx.unsqueeze(value, &[0])?);
            }
        }
        x = cx.concat(&sides, 2)?;
    }
    if is_single {
        x = cx.squeeze(x, &[1])?;
    } else if is_batch_first {
        x = cx.swap(x, 0, 1)?;
    }
    let mut results = vec![x];
    for list in lasts {
        let mut last = cx.concat(&list, 0)?;
        if is_single {
            last = cx.squeeze(last, &[1])?;
        }
        results.push(last);
    }
    Ok(results)
}

/// One layer in one direction over `x[time, batch, input]`: the outputs and the last states.
fn run(
    cx: &mut NodeCx,
    cell: Cell,
    x: Value,
    first: &[Value],
    w: Weights,
    is_reverse: bool,
) -> Result<(Value, Vec<Value>)> {
    let matrices = [w.input, w.hidden].map(|m| cx.swap(m, 0, 1));
    let [input, hidden] = matrices;
    let (input, hidden) = (input?, hidden?);
    let projection = w.projection.map(|m| cx.swap(m, 0, 1)).transpose()?;
    // The inputs' part of all steps at once.
    let mut parts = cx.matmul(x, input)?;
    if let Some(bias) = w.input_bias {
        parts = cx.add(parts, bias)?;
    }
    // The hidden bias of a GRU is under the reset gate.
    let inner_bias = match cell {
        Cell::Gru => w.hidden_bias,
        _ => {
            if let Some(bias) = w.hidden_bias {
                parts = cx.add(parts, bias)?;
            }
            None
        }
    };
    let steps = cx.size(x, 0)?;
    let last_step = cx.int_sub(steps, 1)?;
    let (steps, last_step) = (cx.int_value(steps), cx.int_value(last_step));
    let mut types = vec![Type::scalar(DType::I64)];
    types.extend(first.iter().map(|&s| cx.b.ty(s).clone()));
    let (_, params) = cx.b.begin_region(&types);
    let step = match is_reverse {
        true => cx.sub(last_step, params[0])?,
        false => params[0],
    };
    let part = cx.gather(parts, step, 0)?;
    let mut own = cx.matmul(params[1], hidden)?;
    if let Some(bias) = inner_bias {
        own = cx.add(own, bias)?;
    }
    let mut next = match cell {
        Cell::Tanh | Cell::Relu => {
            let sum = cx.add(part, own)?;
            vec![match cell {
                Cell::Tanh => cx.unary(UnaryOp::Tanh, sum)?,
                _ => cx.at_least(sum, 0.0)?,
            }]
        }
        Cell::Lstm => lstm(cx, part, own, params[2])?,
        Cell::Gru => vec![gru(cx, part, own, params[1])?],
    };
    if let Some(projection) = projection {
        next[0] = cx.matmul(next[0], projection)?;
    }
    // States keep their sizes, also where the weights' are open.
    for (value, &param) in next.iter_mut().zip(&params[1..]) {
        if !cx.b.ty(param).accepts(cx.b.ty(*value)) {
            let sizes = cx.sizes(param)?;
            *value = cx.reshape(*value, &sizes)?;
        }
    }
    let mut yields = next.clone();
    yields.push(next[0]);
    let region = cx.b.end_region(&yields);
    let mut results = cx.b.loop_(Some(steps), None, first, region)?;
    let mut outputs = results.pop().unwrap_or(x);
    if is_reverse {
        outputs = cx.reverse(outputs, 0)?;
    }
    Ok((outputs, results))
}

/// The `k`-th of `count` gates.
fn gate(cx: &mut NodeCx, x: Value, k: i64, count: i64) -> Result<Value> {
    let axis = cx.rank(x)? - 1;
    let size = cx.size(x, axis)?;
    let size = cx.int_div(size, count)?;
    let (from, to) = (cx.int_mul(size, k)?, cx.int_mul(size, k + 1)?);
    cx.slice(x, axis, from, to, Int::Const(1))
}

/// The next output and the next cell.
fn lstm(cx: &mut NodeCx, part: Value, own: Value, cell: Value) -> Result<Vec<Value>> {
    let sum = cx.add(part, own)?;
    let mut gates = vec![];
    for k in 0..4 {
        let gate = gate(cx, sum, k, 4)?;
        let kind = if k == 2 {
            UnaryOp::Tanh
        } else {
            UnaryOp::Sigmoid
        };
        gates.push(cx.unary(kind, gate)?);
    }
    let kept = cx.mul(gates[1], cell)?;
    let new = cx.mul(gates[0], gates[2])?;
    let cell = cx.add(kept, new)?;
    let shown = cx.unary(UnaryOp::Tanh, cell)?;
    Ok(vec![cx.mul(gates[3], shown)?, cell])
}

fn gru(cx: &mut NodeCx, part: Value, own: Value, state: Value) -> Result<Value> {
    let mut gates = vec![];
    for k in 0..2 {
        let (a, b) = (gate(cx, part, k, 3)?, gate(cx, own, k, 3)?);
        let sum = cx.add(a, b)?;
        gates.push(cx.unary(UnaryOp::Sigmoid, sum)?);
    }
    let (a, b) = (gate(cx, part, 2, 3)?, gate(cx, own, 2, 3)?);
    let b = cx.mul(gates[0], b)?;
    let new = cx.add(a, b)?;
    let new = cx.unary(UnaryOp::Tanh, new)?;
    let gap = cx.sub(state, new)?;
    let gap = cx.mul(gap, gates[1])?;
    cx.add(new, gap)
}

/// One layer of an LSTM: `input, w_ih, w_hh, b_ih, b_hh, hx, cx, reverse, batch_sizes, mode, …`. The last result is a workspace.
fn mkldnn(cx: &mut NodeCx) -> Result<Vec<Value>> {
    const LSTM: i64 = 2;
    let mode = cx.int(9, "mode")?;
    if mode != LSTM {
        return refuse(format!("mode {mode}"));
    }
    if !cx.ints(8, "batch_sizes")?.is_empty() {
        return refuse("packed sequences");
    }
    let mut x = cx.value(0, "input")?;
    let has_biases = cx.flag(12, "has_biases", true)?;
    let weights = Weights {
        input: cx.value(1, "weight0")?,
        hidden: cx.value(2, "weight1")?,
        input_bias: if has_biases {
            Some(cx.value(3, "weight2")?)
        } else {
            None
        },
        hidden_bias: if has_biases {
            Some(cx.value(4, "weight3")?)
        } else {
            None
        },
        projection: None,
    };
    let states = [cx.value(5, "hx_")?, cx.value(6, "cx_")?];
    let is_reverse = cx.flag(7, "reverse", false)?;
    let is_batch_first = cx.flag(14, "batch_first", false)?;
    if is_batch_first {
        x = cx.swap(x, 0, 1)?;
    }
    let ranks = [cx.rank(states[0])?, cx.rank(states[1])?];
    let mut first = vec![];
    for (state, rank) in states.into_iter().zip(ranks) {
        let zero = cx.b.i64(0);
        first.push(if rank == 3 {
            cx.gather(state, zero, 0)?
        } else {
            state
        });
    }
    let (mut y, last) = run(cx, Cell::Lstm, x, &first, weights, is_reverse)?;
    if is_batch_first {
        y = cx.swap(y, 0, 1)?;
    }
    let mut results = vec![y];
    for (value, rank) in last.into_iter().zip(ranks) {
        results.push(if rank == 3 {
            cx.unsqueeze(value, &[0])?
        } else {
            value
        });
    }
    let byte = cx.b.scalar(DType::U8, 0.0);
    results.push(cx.filled(byte, &[Int::Const(0)])?);
    Ok(results)
}
