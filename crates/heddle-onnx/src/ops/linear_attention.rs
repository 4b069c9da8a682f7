//! Recurrent attention: LinearAttention, CausalConvWithState.

use heddle_ir::op::UnaryOp;
use heddle_ir::{DType, Op, Value};

use super::attention::split_heads;
use super::cx::{NodeCx, Result};
use super::sizes::Int;
use super::{OpError, Table};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("LinearAttention", linear_attention),
    ("CausalConvWithState", causal_conv_with_state),
];

/// LinearAttention 27: a loop over positions that carries the state, in `f32`.
fn linear_attention(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (query, key, value) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let (q_heads, kv_heads) = (cx.int_req("q_num_heads")?, cx.int_req("kv_num_heads")?);
    if kv_heads < 1 || q_heads < 1 || q_heads % kv_heads != 0 {
        let message = format!("{q_heads} query heads for {kv_heads} key heads");
        return Err(OpError::Invalid(message));
    }
    let rule = cx.str_or("update_rule", "gated_delta")?;
    let (gated, delta) = match rule {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(OpError::Invalid(format!("update_rule is `{other}`"))),
    };
    let (past, decay, beta) = (cx.opt(3), cx.opt(4), cx.opt(5));
    if gated != decay.is_some() || delta != beta.is_some() {
        let message = format!("the inputs decay and beta do not fit the update rule `{rule}`");
        return Err(OpError::Invalid(message));
    }
    let out_type = cx.dtype(query)?;
    let state_type = past.map_or(Ok(out_type), |p| cx.dtype(p))?;
    // Positions first, so that the loop takes one after the other: [t, b, h, d].
    let by_position = |cx: &mut NodeCx, x: Value, heads: i64| {
        let x = cx.cast(x, DType::F32)?;
        let x = split_heads(cx, x, Some(heads))?;
        cx.transpose(x, &[2, 0, 1, 3])
    };
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
    let scale = match (f64::from(cx.float_or("scale", 0.0)), d_k) {
        (0.0, Int::Const(d)) => cx.real_like(state, 1.0 / (d as f64).sqrt())?,
        (0.0, Int::Value(d)) => {
            let d = cx.cast(d, DType::F32)?;
            let root = cx.unary(UnaryOp::Sqrt, d)?;
            let one = cx.real_like(root, 1.0)?;
            cx.div(one, root)?
        }
        (scale, _) => cx.real_like(state, scale)?,
    };

    let trip = cx.int_value(length);
    let state_ty = cx.b.ty(state).clone();
    let index_ty = heddle_ir::Type::scalar(DType::I64);
    let (_, params) = cx.b.begin_region(&[index_ty, state_ty.clone()]);
    let (t, mut state_t) = (params[0], params[1]);
    let [q, k, mut v] = [q, k, v].map(|x| cx.gather(x, t, 0));
    if let Some(decay) = decay {
        let g = cx.gather(decay, t, 0)?;
        let factor = cx.unary(UnaryOp::Exp, g)?;
        let factor = cx.unsqueeze(factor, &[3])?;
        state_t = cx.mul(state_t, factor)?;
    }
    let row = cx.unsqueeze(k?, &[2])?;
    if let Some(beta) = beta {
        // What the state holds for this key is replaced rather than added to.
        let held = cx.op(Op::Dot, &[row, state_t])?;
        let held = cx.squeeze(held, &[2])?;
        let rate = cx.gather(beta, t, 0)?;
        let change = cx.sub(v?, held)?;
        v = cx.mul(rate, change);
    }
    let column = cx.transpose(row, &[0, 1, 3, 2])?;
    let v = cx.unsqueeze(v?, &[2])?;
    let outer = cx.mul(column, v)?;
    let next = cx.add(state_t, outer)?;
    // Query heads that share a state are rows of one product.
    let group = q_heads / kv_heads;
    let grouped = cx.reshape_ints(q?, &[batch, kv_heads.into(), group.into(), d_k])?;
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

/// CausalConvWithState 27: a depthwise convolution over what came before and the input.
fn causal_conv_with_state(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, weight) = (cx.input(0)?, cx.input(1)?);
    let dtype = cx.dtype(x)?;
    if cx.rank(x)? != 3 || cx.rank(weight)? != 3 {
        let message = "input and weight must have 3 axes".into();
        return Err(OpError::Invalid(message));
    }
    let (batch, channels) = (cx.size(x, 0)?, cx.size(x, 1)?);
    let width = cx.size(weight, 2)?;
    let held = cx.int_sub(width, 1)?;
    let groups = match (channels, cx.size(weight, 0)?) {
        (Int::Const(c), _) | (_, Int::Const(c)) => usize::try_from(c).unwrap_or(0),
        _ => {
            let message = "a number of channels that is not known at import".into();
            return Err(OpError::Unsupported(message));
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
        other => return Err(OpError::Invalid(format!("activation is `{other}`"))),
    }
    let total = cx.size(padded, 2)?;
    let start = cx.int_sub(total, held)?;
    let start = cx.ints_value(&[start])?;
    let end = cx.ints_value(&[total])?;
    let step = cx.b.i64s(&[1]);
    let present = cx.op(Op::Slice { axes: vec![2] }, &[padded, start, end, step])?;
    Ok(vec![y, present])
}
