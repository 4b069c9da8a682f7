//! Recurrent attention: LinearAttention, CausalConvWithState.

use heddle_ir::op::UnaryOp;
use heddle_ir::{DType, Emit, Op, Value};

use super::attention::split_heads;
use super::cx::{NodeCx, Result, Table, invalid};
use super::sizes::Int;
use crate::refusal::Refusal;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("LinearAttention", linear_attention),
    ("CausalConvWithState", causal_conv_with_state),
];

/// LinearAttention 27: a loop over positions that carries the state, in `f32`.
fn linear_attention(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (query, key, value) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let (past, decay, beta) = (cx.opt(3), cx.opt(4), cx.opt(5));
    let (q_heads, kv_heads) = (cx.int_req("q_num_heads")?, cx.int_req("kv_num_heads")?);
    if kv_heads < 1 || q_heads < 1 || q_heads % kv_heads != 0 {
        return invalid(format!("{q_heads} query heads for {kv_heads} key heads"));
    }
    check_rule(cx, decay.is_some(), beta.is_some())?;
    let out_type = cx.dtype(query)?;
    let state_type = past.map_or(Ok(out_type), |p| cx.dtype(p))?;
    let q = by_position(cx, query, q_heads)?;
    let k = by_position(cx, key, kv_heads)?;
    let v = by_position(cx, value, kv_heads)?;
    // A decay for each key component, or for each head; an update rate for each head, or for all.
    let decay = decay.map(|d| by_position(cx, d, kv_heads)).transpose()?;
    let beta = match beta {
        Some(beta) => {
            let one = cx.shape(beta)?.last().is_some_and(|d| d.is(1));
            Some(by_position(cx, beta, if one { 1 } else { kv_heads })?)
        }
        None => None,
    };
    let (length, batch) = (cx.size(q, 0)?, cx.size(q, 1)?);
    let (d_k, d_v) = (cx.size(q, 3)?, cx.size(v, 3)?);
    let state_shape = cx.ints_value(&[batch, kv_heads.into(), d_k, d_v])?;
    let state = match past {
        Some(past) => cx.cast(past, DType::F32)?,
        None => cx.full(DType::F32, state_shape, 0.0)?,
    };
    let scale = query_scale(cx, state, d_k)?;
    let group = (q_heads / kv_heads).into();

    let trip = cx.int_value(length);
    let state_ty = cx.b.ty(state).clone();
    let index_ty = heddle_ir::Type::scalar(DType::I64);
    let (_, params) = cx.b.begin_region(&[index_ty, state_ty.clone()]);
    let t = params[0];
    let row = cx.gather(k, t, 0)?;
    let row = cx.unsqueeze(row, &[2])?;
    let v = cx.gather(v, t, 0)?;
    let [decay, beta] = [decay, beta].map(|x| x.map(|x| cx.gather(x, t, 0)).transpose());
    let next = next_state(cx, params[1], row, v, decay?, beta?)?;
    // Query heads that share a state are rows of one product.
    let q = cx.gather(q, t, 0)?;
    let grouped = cx.reshape_ints(q, &[batch, kv_heads.into(), group, d_k])?;
    let read = cx.op(Op::Dot, &[grouped, next])?;
    let hidden = cx.int_mul(d_v, q_heads)?;
    let read = cx.reshape_ints(read, &[batch, hidden])?;
    let read = cx.mul(read, scale)?;
    cx.b.refine_type(next, state_ty)?;
    let body = cx.b.end_region(&[next, read]);
    let results = cx.b.loop_(Some(trip), None, &[state], body)?;
    let y = cx.transpose(results[1], &[1, 0, 2])?;
    let y = cx.cast(y, out_type)?;
    Ok(vec![y, cx.cast(results[0], state_type)?])
}

/// Checks that the inputs decay and beta are there exactly if the update rule uses them.
fn check_rule(cx: &NodeCx, decay: bool, beta: bool) -> Result<()> {
    let rules = [
        ("linear", (false, false)),
        ("gated", (true, false)),
        ("delta", (false, true)),
        ("gated_delta", (true, true)),
    ];
    if cx.choice("update_rule", "gated_delta", &rules)? == (decay, beta) {
        return Ok(());
    }
    let rule = cx.str_or("update_rule", "gated_delta")?;
    invalid(format!(
        "the inputs decay and beta do not fit the update rule `{rule}`"
    ))
}

/// `x[b, t, h * d]` as `f32[t, b, h, d]`, so that the loop takes one position after the other.
fn by_position(cx: &mut NodeCx, x: Value, heads: i64) -> Result<Value> {
    let x = cx.cast(x, DType::F32)?;
    let x = split_heads(cx, x, Some(heads))?;
    cx.transpose(x, &[2, 0, 1, 3])
}

/// The attribute `scale`; `1 / sqrt(d)` if it is 0.
fn query_scale(cx: &mut NodeCx, state: Value, d: Int) -> Result<Value> {
    let scale = match (f64::from(cx.float_or("scale", 0.0)), d) {
        (0.0, Int::Value(d)) => {
            let d = cx.cast(d, DType::F32)?;
            let root = cx.unary(UnaryOp::Sqrt, d)?;
            let one = cx.real_like(root, 1.0)?;
            return cx.div(one, root);
        }
        (0.0, Int::Const(d)) => 1.0 / (d as f64).sqrt(),
        (scale, _) => scale,
    };
    cx.real_like(state, scale)
}

/// The state after a position with key `row[b, h, 1, k]` and value `v[b, h, v]`.
fn next_state(
    cx: &mut NodeCx,
    mut state: Value,
    row: Value,
    mut v: Value,
    decay: Option<Value>,
    beta: Option<Value>,
) -> Result<Value> {
    if let Some(decay) = decay {
        let factor = cx.exp(decay)?;
        let factor = cx.unsqueeze(factor, &[3])?;
        state = cx.mul(state, factor)?;
    }
    if let Some(rate) = beta {
        // The value held for this key is replaced rather than added to.
        let held = cx.op(Op::Dot, &[row, state])?;
        let held = cx.squeeze(held, &[2])?;
        let change = cx.sub(v, held)?;
        v = cx.mul(rate, change)?;
    }
    let column = cx.transpose(row, &[0, 1, 3, 2])?;
    let v = cx.unsqueeze(v, &[2])?;
    let outer = cx.mul(column, v)?;
    cx.add(state, outer)
}

/// CausalConvWithState 27: a depthwise convolution over the carried state and the input.
fn causal_conv_with_state(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, weight) = (cx.input(0)?, cx.input(1)?);
    let dtype = cx.dtype(x)?;
    if cx.rank(x)? != 3 || cx.rank(weight)? != 3 {
        return invalid("input and weight must have 3 axes");
    }
    let (batch, channels) = (cx.size(x, 0)?, cx.size(x, 1)?);
    let width = cx.size(weight, 2)?;
    let held = cx.int_sub(width, 1)?;
    let groups = match (channels, cx.size(weight, 0)?) {
        (Int::Const(c), _) | (_, Int::Const(c)) => usize::try_from(c).unwrap_or(0),
        _ => {
            return Err(Refusal::ChannelCount.into());
        }
    };
    let past = match cx.opt(3) {
        Some(past) => past,
        None => {
            let shape = cx.ints_value(&[batch, channels, held])?;
            cx.full(dtype, shape, 0.0)?
        }
    };
    let padded = cx.concat(&[past, x], 2)?;
    let pads = cx.b.i64s(&[0, 0]);
    let op = Op::Conv {
        strides: vec![1],
        dilations: vec![1],
        input_dilations: vec![1],
        groups,
    };
    let mut y = cx.op(op, &[padded, weight, pads])?;
    if let Some(bias) = cx.opt(2) {
        let bias = cx.per_channel(bias, 1)?;
        y = cx.add(y, bias)?;
    }
    match cx.str_or("activation", "none")? {
        "none" => {}
        "silu" | "swish" => {
            let wide = cx.widen(y)?;
            let gate = cx.unary(UnaryOp::Sigmoid, wide)?;
            let product = cx.mul(wide, gate)?;
            y = cx.cast(product, dtype)?;
        }
        other => return invalid(format!("activation is `{other}`")),
    }
    let total = cx.size(padded, 2)?;
    let start = cx.int_sub(total, held)?;
    let present = cx.cut(padded, 2, start, total)?;
    Ok(vec![y, present])
}
