//! Operators of the domain com.microsoft that exporters of transformers emit, as ONNX Runtime
//! defines them.

use heddle_ir::op::{CompareOp, UnaryOp};
use heddle_ir::{DType, Value};

use super::attention::{
    four_axes, join_heads, rotate, scaled_scores, split_heads, weighted_values,
};
use super::cx::{NodeCx, Result, Table, invalid};
use super::norm::{affine, deviation, moments};
use super::sizes::Int;
use crate::refusal::Refusal;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("FusedMatMul", fused_matmul),
    ("Gelu", gelu),
    ("BiasGelu", bias_gelu),
    ("FastGelu", fast_gelu),
    ("QuickGelu", quick_gelu),
    ("SkipLayerNormalization", skip_layer_normalization),
    (
        "SkipSimplifiedLayerNormalization",
        skip_simplified_layer_normalization,
    ),
    (
        "SimplifiedLayerNormalization",
        simplified_layer_normalization,
    ),
    ("MultiHeadAttention", multi_head_attention),
    ("RotaryEmbedding", rotary_embedding),
];

/// Operators that ONNX Runtime's optimiser puts into the default domain, where ONNX has none.
pub(super) const DEFAULT_DOMAIN: Table = &[(
    "SimplifiedLayerNormalization",
    simplified_layer_normalization,
)];

/// `alpha * A' B'`, where A and B may be transposed in their last two axes, after the first axis went
/// behind the others but the last.
fn fused_matmul(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let transposed = |cx: &mut NodeCx, i: usize, flag: &str, batch: &str| {
        let x = cx.input(i)?;
        let rank = cx.rank(x)?;
        if rank < 2 {
            return Ok(x);
        }
        let mut perm: Vec<usize> = (0..rank).collect();
        if cx.flag(batch, false) {
            perm[..rank - 1].rotate_left(1);
        }
        if cx.flag(flag, false) {
            perm.swap(rank - 1, rank - 2);
        }
        cx.transpose(x, &perm)
    };
    let a = transposed(cx, 0, "transA", "transBatchA")?;
    let b = transposed(cx, 1, "transB", "transBatchB")?;
    let y = cx.matmul(a, b)?;
    let alpha = cx.real_like(y, f64::from(cx.float_or("alpha", 1.0)))?;
    Ok(vec![cx.mul(y, alpha)?])
}

/// `x / 2 * (1 + erf(x / sqrt(2)))`.
fn gelu(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    Ok(vec![exact_gelu(cx, x)?])
}

/// Gelu of a sum with a bias.
fn bias_gelu(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, bias) = (cx.input(0)?, cx.input(1)?);
    let sum = cx.add(x, bias)?;
    Ok(vec![exact_gelu(cx, sum)?])
}

fn exact_gelu(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let dtype = cx.dtype(x)?;
    let x = cx.widen(x)?;
    let factor = cx.real_like(x, std::f64::consts::FRAC_1_SQRT_2)?;
    let scaled = cx.mul(x, factor)?;
    let gate = cx.unary(UnaryOp::Erf, scaled)?;
    gated(cx, x, gate, dtype)
}

/// Gelu with tanh in place of erf, of a sum with a bias if there is one.
fn fast_gelu(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let mut x = cx.input(0)?;
    if let Some(bias) = cx.opt(1) {
        x = cx.add(x, bias)?;
    }
    let dtype = cx.dtype(x)?;
    let x = cx.widen(x)?;
    let square = cx.mul(x, x)?;
    let [cubic, one, factor] =
        [0.044715, 1.0, (2.0 / std::f64::consts::PI).sqrt()].map(|v| cx.real_like(x, v));
    let term = cx.mul(square, cubic?)?;
    let sum = cx.add(term, one?)?;
    let inner = cx.mul(x, sum)?;
    let inner = cx.mul(inner, factor?)?;
    let gate = cx.unary(UnaryOp::Tanh, inner)?;
    Ok(vec![gated(cx, x, gate, dtype)?])
}

/// `x / 2 * (1 + gate)`.
fn gated(cx: &mut NodeCx, x: Value, gate: Value, dtype: DType) -> Result<Value> {
    let (half, one) = (cx.real_like(x, 0.5)?, cx.real_like(x, 1.0)?);
    let gate = cx.add(gate, one)?;
    let x = cx.mul(x, half)?;
    let y = cx.mul(x, gate)?;
    cx.cast(y, dtype)
}

/// `x * sigmoid(alpha * x)`.
fn quick_gelu(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = cx.dtype(x)?;
    let x = cx.widen(x)?;
    let alpha = cx.real_like(x, f64::from(cx.float_or("alpha", 1.702)))?;
    let scaled = cx.mul(x, alpha)?;
    let gate = cx.unary(UnaryOp::Sigmoid, scaled)?;
    let y = cx.mul(x, gate)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// Inputs: x, skip, gamma, beta, bias; outputs: the normalised sum, its mean, inverse deviation,
/// and the sum.
fn skip_layer_normalization(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (sum, dtype) = skip_sum(cx, 4)?;
    let last = cx.axis(-1, cx.rank(sum)?)?;
    let epsilon = f64::from(cx.float_or("epsilon", 1e-12));
    let (mean, var) = moments(cx, sum, &[last])?;
    let deviation = deviation(cx, var, epsilon)?;
    let centered = cx.sub(sum, mean)?;
    let y = cx.div(centered, deviation)?;
    let gamma = cx.input(2)?;
    let gamma = cx.widen(gamma)?;
    let beta = cx.opt(3).map(|b| cx.widen(b)).transpose()?;
    let y = affine(cx, y, gamma, beta)?;
    let one = cx.real_like(deviation, 1.0)?;
    let inverse = cx.div(one, deviation)?;
    let (y, sum) = (cx.cast(y, dtype)?, cx.cast(sum, dtype)?);
    Ok(vec![y, mean, inverse, sum])
}

/// Inputs: x, skip, gamma, bias; outputs as of [`skip_layer_normalization`].
fn skip_simplified_layer_normalization(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (sum, dtype) = skip_sum(cx, 3)?;
    let last = cx.axis(-1, cx.rank(sum)?)?;
    let epsilon = f64::from(cx.float_or("epsilon", 1e-12));
    let gamma = cx.input(2)?;
    let gamma = cx.widen(gamma)?;
    let (y, inverse) = root_mean_square(cx, sum, &[last], epsilon)?;
    let y = cx.mul(y, gamma)?;
    let (y, sum) = (cx.cast(y, dtype)?, cx.cast(sum, dtype)?);
    // There is no mean; its output has no user.
    Ok(vec![y, inverse, inverse, sum])
}

fn skip_sum(cx: &mut NodeCx, bias: usize) -> Result<(Value, DType)> {
    let (x, skip) = (cx.input(0)?, cx.input(1)?);
    let dtype = cx.dtype(x)?;
    let (x, skip) = (cx.widen(x)?, cx.widen(skip)?);
    let mut sum = cx.add(x, skip)?;
    if let Some(bias) = cx.opt(bias) {
        let bias = cx.widen(bias)?;
        sum = cx.add(sum, bias)?;
    }
    Ok((sum, dtype))
}

/// RMSNormalization by its older name.
fn simplified_layer_normalization(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, scale) = (cx.input(0)?, cx.input(1)?);
    let dtype = cx.dtype(scale)?;
    let rank = cx.rank(x)?;
    let axes: Vec<usize> = (cx.axis(cx.int_or("axis", -1), rank)?..rank).collect();
    let epsilon = f64::from(cx.float_or("epsilon", 1e-5));
    let x = cx.widen(x)?;
    let scale = cx.widen(scale)?;
    let (y, inverse) = root_mean_square(cx, x, &axes, epsilon)?;
    let y = cx.mul(y, scale)?;
    Ok(vec![cx.cast(y, dtype)?, inverse])
}

/// `x / sqrt(mean(x^2) + epsilon)` and the inverse of that root.
fn root_mean_square(
    cx: &mut NodeCx,
    x: Value,
    axes: &[usize],
    epsilon: f64,
) -> Result<(Value, Value)> {
    let squares = cx.mul(x, x)?;
    let mean = cx.mean(squares, axes, true)?;
    let root = deviation(cx, mean, epsilon)?;
    let one = cx.real_like(root, 1.0)?;
    Ok((cx.div(x, root)?, cx.div(one, root)?))
}

/// Inputs: query, key, value, bias, key padding mask, attention bias, past key, past value.
fn multi_head_attention(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let heads = cx.int_req("num_heads")?;
    if cx.opt(8).is_some() || cx.opt(9).is_some() {
        return Err(Refusal::SharedCache.into());
    }
    let query = cx.input(0)?;
    let mut parts = match (cx.opt(1), cx.opt(2)) {
        (None, None) => {
            let parts = unpacked(cx, query, 3)?;
            [parts[0], parts[1], parts[2]]
        }
        (Some(packed), None) => {
            let parts = unpacked(cx, packed, 2)?;
            [query, parts[0], parts[1]]
        }
        (Some(key), Some(value)) => [query, key, value],
        (None, Some(_)) => return invalid("it has values, but no keys"),
    };
    if let Some(bias) = cx.opt(3) {
        add_projection_bias(cx, &mut parts, bias)?;
    }
    for part in &mut parts {
        match cx.rank(*part)? {
            3 => *part = split_heads(cx, *part, Some(heads))?,
            _ => four_axes(cx, *part)?,
        }
    }
    let [q, mut k, mut v] = parts;
    if let (Some(past_key), Some(past_value)) = (cx.opt(6), cx.opt(7)) {
        k = cx.concat(&[past_key, k], 2)?;
        v = cx.concat(&[past_value, v], 2)?;
    }
    let dtype = cx.dtype(q)?;
    let mut scores = scaled_scores(cx, q, k)?;
    let (queries, keys) = (cx.size(q, 2)?, cx.size(k, 2)?);
    if let Some(mask) = cx.opt(4) {
        let kept = padding_mask(cx, mask, keys)?;
        let filter = f64::from(cx.float_or("mask_filter_value", -10000.0));
        scores = filtered(cx, scores, kept, filter)?;
    }
    if cx.flag("unidirectional", false) {
        let kept = causal_mask(cx, queries, keys)?;
        scores = filtered(cx, scores, kept, f64::NEG_INFINITY)?;
    }
    if let Some(bias) = cx.opt(5) {
        scores = cx.add(scores, bias)?;
    }
    let logits = cx.widen(scores)?;
    let weights = cx.softmax(logits, &[3])?;
    let weights = cx.cast(weights, dtype)?;
    let y = weighted_values(cx, weights, v)?;
    let y = join_heads(cx, y)?;
    Ok(vec![y, k, v, scores])
}

/// The parts of `x[b, s, heads, parts, d]`, each as `[b, s, heads * d]`.
fn unpacked(cx: &mut NodeCx, x: Value, parts: usize) -> Result<Vec<Value>> {
    let sizes = cx.sizes(x)?;
    let [batch, length, heads, count, width] = sizes[..] else {
        return invalid(format!(
            "packed projections have {} axes, not 5",
            sizes.len()
        ));
    };
    if count.as_const().is_some_and(|n| n != parts as i64) {
        return invalid(format!(
            "packed projections are not {parts} in {}",
            cx.b.ty(x)
        ));
    }
    let hidden = cx.int_mul(heads, width)?;
    let part = |i: usize| {
        let part = cx.pick(x, i, 3)?;
        cx.reshape_ints(part, &[batch, length, hidden])
    };
    (0..parts).map(part).collect()
}

/// Adds one bias to the projections of all three, each of its own width.
fn add_projection_bias(cx: &mut NodeCx, parts: &mut [Value], bias: Value) -> Result<()> {
    let mut start = Int::Const(0);
    for part in parts {
        if cx.rank(*part)? != 3 {
            return Err(Refusal::BiasOfSplitHeads.into());
        }
        let width = cx.size(*part, 2)?;
        let end = cx.int_add(start, width)?;
        let share = cx.cut(bias, 0, start, end)?;
        *part = cx.add(*part, share)?;
        start = end;
    }
    Ok(())
}

/// The keys that a padding mask keeps, broadcast to the scores.
fn padding_mask(cx: &mut NodeCx, mask: Value, keys: Int) -> Result<Value> {
    let axes: &[usize] = match cx.rank(mask)? {
        // The number of keys that count.
        1 => {
            let index = cx.iota(keys)?;
            let lengths = cx.cast(mask, DType::I64)?;
            let lengths = cx.unsqueeze(lengths, &[1, 2, 3])?;
            return cx.compare(CompareOp::Lt, index, lengths);
        }
        2 => &[1, 2],
        3 => &[1],
        rank => return invalid(format!("a mask of {rank} axes")),
    };
    let mask = cx.cast(mask, DType::Bool)?;
    cx.unsqueeze(mask, axes)
}

/// The keys up to each query, where queries are the last positions.
fn causal_mask(cx: &mut NodeCx, queries: Int, keys: Int) -> Result<Value> {
    let rows = cx.iota(queries)?;
    let before = cx.int_sub(keys, queries)?;
    let before = cx.int_value(before);
    let rows = cx.add(rows, before)?;
    let rows = cx.unsqueeze(rows, &[1])?;
    let columns = cx.iota(keys)?;
    cx.compare(CompareOp::Le, columns, rows)
}

/// Scores with `filter` added where a key does not count.
fn filtered(cx: &mut NodeCx, scores: Value, kept: Value, filter: f64) -> Result<Value> {
    let zero = cx.real_like(scores, 0.0)?;
    let filter = cx.real_like(scores, filter)?;
    let bias = cx.select(kept, zero, filter)?;
    cx.add(scores, bias)
}

/// Inputs: x, positions (of all tokens, or of the first one), cosines and sines `[positions,
/// rotary / 2]`.
fn rotary_embedding(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, positions) = (cx.input(0)?, cx.input(1)?);
    let (cos, sin) = (cx.input(2)?, cx.input(3)?);
    if cx.flag("is_packed_batching", false) {
        return Err(Refusal::PackedBatching.into());
    }
    let packed = cx.rank(x)? == 3;
    let rotary = cx.int_or("rotary_embedding_dim", 0);
    let value = if packed {
        let heads = match (cx.int_or("num_heads", 0), cx.shape(x)?[2].as_const()) {
            (heads @ 1.., _) => heads,
            // The caches tell how wide a head is.
            (_, Some(hidden)) => match cx.shape(cos)?.get(1).and_then(|d| d.as_const()) {
                Some(half @ 1..) => hidden / 2 / half,
                _ => return Err(Refusal::HeadCount.into()),
            },
            _ => return Err(Refusal::HeadCount.into()),
        };
        split_heads(cx, x, Some(heads))?
    } else {
        split_heads(cx, x, None)?
    };
    let positions = match cx.rank(positions)? {
        2 => positions,
        _ => {
            let index = cx.positions(value, 2)?;
            let first = cx.cast(positions, DType::I64)?;
            let index = cx.add(index, first)?;
            cx.unsqueeze(index, &[0])?
        }
    };
    let (cos, sin) = (cx.gather(cos, positions, 0)?, cx.gather(sin, positions, 0)?);
    let y = rotate(cx, value, cos, sin, rotary, cx.flag("interleaved", false))?;
    Ok(vec![if packed { join_heads(cx, y)? } else { y }])
}
