//! One step of each kind of recurrent cell, and its activation functions.

use heddle_ir::op::UnaryOp;
use heddle_ir::{DType, Emit, Value};

use super::super::activation;
use super::super::cx::{NodeCx, OpError, Result, invalid};
use super::super::quant::{centered, quantized};

/// A kind of cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Lstm,
    Gru,
    Rnn,
}

/// Weights of one direction.
pub(super) struct Weights {
    /// Input weights, `[features, gates * hidden]`.
    w: Value,
    /// State weights, one `[hidden, hidden]` for each group of gates multiplied at once.
    r: Vec<Value>,
    /// Biases `[gates * hidden]` that are added to the projected inputs.
    bias: Option<Value>,
    /// The recurrent bias of a GRU's hidden gate, where it is added before the reset.
    hidden_bias: Option<Value>,
    /// An LSTM's peepholes for the input, output and forget gates.
    peepholes: Option<[Value; 3]>,
    /// Cuts projections into gates.
    gates: Gates,
    /// Operands of products are rounded to 8 bits first.
    rounds: bool,
}

impl Weights {
    /// The product of inputs or a state with a matrix of weights.
    fn product(&self, cx: &mut NodeCx, x: Value, matrix: Value) -> Result<Value> {
        let x = if self.rounds { rounded(cx, x)? } else { x };
        cx.matmul(x, matrix)
    }
}

/// The layout of a projection: each gate is `hidden` long.
#[derive(Clone, Copy)]
struct Gates {
    hidden: Value,
}

impl Gates {
    /// Gates `first..first + count` of the last axis.
    fn take(self, cx: &mut NodeCx, x: Value, first: i64, count: i64) -> Result<Value> {
        let axis = cx.rank(x)?.checked_sub(1);
        let axis = axis.ok_or_else(|| OpError::Invalid("an input has too few axes".into()))?;
        let [first, last] = [first, first + count].map(|g| cx.b.i64(g));
        let start = cx.mul(self.hidden, first)?;
        let end = cx.mul(self.hidden, last)?;
        cx.cut(x, axis, start, end)
    }

    /// A vector of so many gates: one of another size is an error of the node.
    fn vector(self, cx: &mut NodeCx, x: Value, count: i64) -> Result<Value> {
        let count = cx.b.i64(count);
        let size = cx.mul(self.hidden, count)?;
        if self.has_size(cx, x, size)? {
            return Ok(x);
        }
        let shape = cx.stack_i64s(&[size])?;
        cx.reshape_to(x, shape)
    }

    /// A matrix with the rows of so many gates: one of another number of rows is an error of the node.
    fn rows(self, cx: &mut NodeCx, x: Value, count: i64) -> Result<Value> {
        let count = cx.b.i64(count);
        let size = cx.mul(self.hidden, count)?;
        if self.has_size(cx, x, size)? {
            return Ok(x);
        }
        // A concatenation along the other axis asks for it.
        let (start, one) = (cx.b.i64(0), cx.b.i64(1));
        let shape = cx.stack_i64s(&[size, one])?;
        let column = cx.scalar_like(x, 0.0)?;
        let column = cx.broadcast_to(column, shape)?;
        let columns = cx.size_of(x, 1)?;
        let wider = cx.concat(&[x, column], 1)?;
        cx.cut(wider, 1, start, columns)
    }

    /// Is this known to be the size of the first axis?
    fn has_size(self, cx: &NodeCx, x: Value, size: Value) -> Result<bool> {
        let known = cx.b.known(size).and_then(<[_]>::first);
        let shape = cx.shape(x)?;
        Ok(known.zip(shape.first()).is_some_and(|(a, b)| a.equals(b)))
    }
}

impl Cell {
    fn gates(self) -> i64 {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            Cell::Rnn => 1,
        }
    }

    /// The number of activation functions of a direction.
    pub fn activation_count(self) -> usize {
        self.default_activations().len()
    }

    fn default_activations(self) -> &'static [&'static str] {
        match self {
            Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
            Cell::Gru => &["Sigmoid", "Tanh"],
            Cell::Rnn => &["Tanh"],
        }
    }

    /// Cuts one direction's weights out of the inputs W, R, B and P. Those of `rounds` are integers
    /// with scales and zero points, and lie transposed.
    pub fn weights(self, cx: &mut NodeCx, direction: usize, rounds: bool) -> Result<Weights> {
        let part = |cx: &mut NodeCx, all: Value| {
            let i = cx.b.i64(direction as i64);
            cx.gather(all, i, 0)
        };
        let (w, r) = (cx.input(1)?, cx.input(2)?);
        let hidden = cx.size_of(r, if rounds { 1 } else { 2 })?;
        let gates = Gates { hidden };
        let (mut w, mut r) = (part(cx, w)?, part(cx, r)?);
        let n = self.gates();
        if !rounds {
            (w, r) = (gates.rows(cx, w, n)?, gates.rows(cx, r, n)?);
        }
        for (matrix, scale) in [(&mut w, 8), (&mut r, 10)] {
            *matrix = if rounds {
                let (scale, zero) = (cx.input(scale)?, cx.input(scale + 1)?);
                let (scale, zero) = (part(cx, scale)?, part(cx, zero)?);
                dequantized(cx, *matrix, scale, zero)?
            } else {
                cx.transpose(*matrix, &[1, 0])?
            };
        }
        let (mut bias, mut hidden_bias) = (None, None);
        if let Some(all) = cx.opt(3) {
            let all = part(cx, all)?;
            let all = gates.vector(cx, all, 2 * n)?;
            let of_inputs = gates.take(cx, all, 0, n)?;
            let mut of_state = gates.take(cx, all, n, n)?;
            if self == Cell::Gru && cx.flag("linear_before_reset", false) {
                hidden_bias = Some(gates.take(cx, of_state, 2, 1)?);
                let rest = gates.take(cx, of_state, 0, 2)?;
                let none = cx.scalar_like(of_state, 0.0)?;
                let hidden = cx.stack_i64s(&[hidden])?;
                let none = cx.broadcast_to(none, hidden)?;
                of_state = cx.concat(&[rest, none], 0)?;
            }
            bias = Some(cx.add(of_inputs, of_state)?);
        }
        let r = match self {
            Cell::Gru => vec![gates.take(cx, r, 0, 2)?, gates.take(cx, r, 2, 1)?],
            _ => vec![r],
        };
        let peepholes = match (self, cx.opt(7)) {
            (Cell::Lstm, Some(all)) => {
                let all = part(cx, all)?;
                let all = gates.vector(cx, all, 3)?;
                let mut of = |gate| gates.take(cx, all, gate, 1);
                Some([of(0)?, of(1)?, of(2)?])
            }
            _ => None,
        };
        Ok(Weights {
            w,
            r,
            bias,
            hidden_bias,
            peepholes,
            gates,
            rounds,
        })
    }

    /// The inputs' part of all gates at all steps, `[time, batch, gates * hidden]`.
    pub fn project(self, cx: &mut NodeCx, x: Value, weights: &Weights) -> Result<Value> {
        let projected = weights.product(cx, x, weights.w)?;
        match weights.bias {
            Some(bias) => cx.add(projected, bias),
            None => Ok(projected),
        }
    }

    /// The states after a step; the first one is the output.
    pub fn step(
        self,
        cx: &mut NodeCx,
        now: Value,
        state: &[Value],
        weights: &Weights,
        functions: &[Activation],
    ) -> Result<Vec<Value>> {
        match self {
            Cell::Lstm => lstm_step(cx, now, state, weights, functions),
            Cell::Gru => gru_step(cx, now, state[0], weights, functions),
            Cell::Rnn => {
                let recurrent = weights.product(cx, state[0], weights.r[0])?;
                let sum = cx.add(now, recurrent)?;
                Ok(vec![functions[0].apply(cx, sum)?])
            }
        }
    }
}

/// Gates lie in the order input, output, forget, cell.
fn lstm_step(
    cx: &mut NodeCx,
    now: Value,
    state: &[Value],
    weights: &Weights,
    functions: &[Activation],
) -> Result<Vec<Value>> {
    let (h, c, gates) = (state[0], state[1], weights.gates);
    let [f, g] = [functions[0], functions[1]];
    // The clip bounds sums of products, as in ONNX Runtime; the cell is no such sum.
    let last = Activation {
        clip: None,
        ..functions[2]
    };
    let recurrent = weights.product(cx, h, weights.r[0])?;
    let sums = cx.add(now, recurrent)?;
    let peep = |cx: &mut NodeCx, gate: Value, which: usize, cell: Value| match weights.peepholes {
        Some(p) => {
            let seen = cx.mul(p[which], cell)?;
            cx.add(gate, seen)
        }
        None => Ok(gate),
    };
    let input = gates.take(cx, sums, 0, 1)?;
    let input = peep(cx, input, 0, c)?;
    let input = f.apply(cx, input)?;
    let forget = if cx.flag("input_forget", false) {
        let one = cx.scalar_like(input, 1.0)?;
        cx.sub(one, input)?
    } else {
        let forget = gates.take(cx, sums, 2, 1)?;
        let forget = peep(cx, forget, 2, c)?;
        f.apply(cx, forget)?
    };
    let update = gates.take(cx, sums, 3, 1)?;
    let update = g.apply(cx, update)?;
    let (kept, added) = (cx.mul(forget, c)?, cx.mul(input, update)?);
    let cell = cx.add(kept, added)?;
    let output = gates.take(cx, sums, 1, 1)?;
    let output = peep(cx, output, 1, cell)?;
    let output = f.apply(cx, output)?;
    let squashed = last.apply(cx, cell)?;
    let hidden = cx.mul(output, squashed)?;
    Ok(vec![hidden, cell])
}

/// Gates lie in the order update, reset, hidden.
fn gru_step(
    cx: &mut NodeCx,
    now: Value,
    h: Value,
    weights: &Weights,
    functions: &[Activation],
) -> Result<Vec<Value>> {
    let gates = weights.gates;
    let recurrent = weights.product(cx, h, weights.r[0])?;
    let first = gates.take(cx, now, 0, 2)?;
    let sums = cx.add(first, recurrent)?;
    let sums = functions[0].apply(cx, sums)?;
    let (update, reset) = (gates.take(cx, sums, 0, 1)?, gates.take(cx, sums, 1, 1)?);
    let recurrent = if cx.flag("linear_before_reset", false) {
        let mut product = weights.product(cx, h, weights.r[1])?;
        if let Some(bias) = weights.hidden_bias {
            product = cx.add(product, bias)?;
        }
        cx.mul(reset, product)?
    } else {
        let visible = cx.mul(reset, h)?;
        weights.product(cx, visible, weights.r[1])?
    };
    let hidden = gates.take(cx, now, 2, 1)?;
    let hidden = cx.add(hidden, recurrent)?;
    let hidden = functions[1].apply(cx, hidden)?;
    let one = cx.scalar_like(update, 1.0)?;
    let open = cx.sub(one, update)?;
    let (new, kept) = (cx.mul(open, hidden)?, cx.mul(update, h)?);
    Ok(vec![cx.add(new, kept)?])
}

/// Real numbers that 8 bits with one scale and zero point can say.
fn rounded(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let [integers, scale, zero] = quantized(cx, x)?;
    dequantized(cx, integers, scale, zero)
}

/// `(x - zero) * scale`. Products of such numbers are those of the integers up to rounding.
fn dequantized(cx: &mut NodeCx, x: Value, scale: Value, zero: Value) -> Result<Value> {
    let x = centered(cx, x, Some(zero))?;
    let x = cx.cast(x, DType::F32)?;
    cx.mul(x, scale)
}

/// An activation function with its parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activation {
    kind: Kind,
    alpha: f64,
    beta: f64,
    /// Bound on the sums that gates apply the function to.
    clip: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Relu,
    Tanh,
    Sigmoid,
    Affine,
    LeakyRelu,
    ThresholdedRelu,
    ScaledTanh,
    HardSigmoid,
    Elu,
    Softsign,
    Softplus,
}

/// The functions: their name, and the defaults of those parameters that they have.
const KINDS: &[(&str, Kind, Option<f32>, Option<f32>)] = &[
    ("relu", Kind::Relu, None, None),
    ("tanh", Kind::Tanh, None, None),
    ("sigmoid", Kind::Sigmoid, None, None),
    ("affine", Kind::Affine, Some(1.0), Some(0.0)),
    ("leakyrelu", Kind::LeakyRelu, Some(0.01), None),
    ("thresholdedrelu", Kind::ThresholdedRelu, Some(1.0), None),
    ("scaledtanh", Kind::ScaledTanh, Some(1.0), Some(1.0)),
    ("hardsigmoid", Kind::HardSigmoid, Some(0.2), Some(0.5)),
    ("elu", Kind::Elu, Some(1.0), None),
    ("softsign", Kind::Softsign, None, None),
    ("softplus", Kind::Softplus, None, None),
];

/// The functions of all directions. Parameters are consumed in order by the functions that have
/// them.
pub(super) fn activations(cx: &NodeCx, cell: Cell, directions: usize) -> Result<Vec<Activation>> {
    let default = cell.default_activations().repeat(directions);
    let names = match cx.strs("activations")? {
        Some(names) if !names.is_empty() => names,
        _ => default.clone(),
    };
    if names.len() != default.len() {
        let (n, m) = (default.len(), names.len());
        return invalid(format!("{n} activations are needed, not {m}"));
    }
    let mut alphas = cx.floats("activation_alpha").unwrap_or_default().iter();
    let mut betas = cx.floats("activation_beta").unwrap_or_default().iter();
    let clip = cx.float("clip").filter(|c| *c > 0.0).map(f64::from);
    let function = |name: &str| {
        let known = KINDS.iter().find(|k| k.0.eq_ignore_ascii_case(name));
        let (_, kind, alpha, beta) =
            *known.ok_or_else(|| OpError::Invalid(format!("there is no activation `{name}`")))?;
        let next = |list: &mut std::slice::Iter<f32>, default: Option<f32>| {
            default.map_or(0.0, |d| f64::from(list.next().copied().unwrap_or(d)))
        };
        Ok(Activation {
            kind,
            alpha: next(&mut alphas, alpha),
            beta: next(&mut betas, beta),
            clip,
        })
    };
    names.into_iter().map(function).collect()
}

impl Activation {
    /// The function's value.
    fn apply(self, cx: &mut NodeCx, x: Value) -> Result<Value> {
        let x = match self.clip {
            Some(bound) => {
                let (low, high) = (cx.scalar_like(x, -bound)?, cx.scalar_like(x, bound)?);
                let x = cx.max(x, low)?;
                cx.min(x, high)?
            }
            None => x,
        };
        match self.kind {
            Kind::Relu => activation::relu(cx, x),
            Kind::Tanh => cx.unary(UnaryOp::Tanh, x),
            Kind::Sigmoid => cx.unary(UnaryOp::Sigmoid, x),
            Kind::Affine => {
                let scaled = cx.scale(x, self.alpha)?;
                cx.shift(scaled, self.beta)
            }
            Kind::LeakyRelu => activation::leaky_relu(cx, x, self.alpha),
            Kind::ThresholdedRelu => activation::thresholded_relu(cx, x, self.alpha),
            Kind::ScaledTanh => {
                let inner = cx.scale(x, self.beta)?;
                let tanh = cx.unary(UnaryOp::Tanh, inner)?;
                cx.scale(tanh, self.alpha)
            }
            Kind::HardSigmoid => activation::hard_sigmoid(cx, x, self.alpha, self.beta),
            Kind::Elu => activation::elu(cx, x, self.alpha),
            Kind::Softsign => activation::softsign(cx, x),
            Kind::Softplus => activation::softplus(cx, x),
        }
    }
}
