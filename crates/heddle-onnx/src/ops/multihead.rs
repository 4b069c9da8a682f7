//! Attention with heads, as the domain com.microsoft has it: projections, masks and caches in many
//! forms. ONNX Runtime's kernels for the processor are the reference.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::attention::{four_axes, join_heads, scaled_scores, split_heads, weighted_values};
use super::cx::{NodeCx, Result, Table, invalid};
use super::quant::centered_matmul;
use super::sizes::Int;
use crate::refusal::Refusal;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("Attention", attention),
    ("QAttention", quantised_attention),
    ("DecoderMaskedSelfAttention", decoder_masked_self_attention),
    ("MultiHeadAttention", multi_head_attention),
    (
        "DecoderMaskedMultiHeadAttention",
        decoder_masked_multi_head_attention,
    ),
];

/// Inputs: x, weights and bias of the projections to queries, keys and values, mask, past keys and
/// values in one array, attention bias, and the number of past keys of a cache that is written in
/// place.
fn attention(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, weights) = (cx.input(0)?, cx.input(1)?);
    let projected = cx.matmul(x, weights)?;
    let shared = cx.flag("past_present_share_buffer", false);
    let cache = Cache {
        length: cx.opt(6).filter(|_| shared),
        beams: None,
    };
    projected_attention(cx, projected, cache, [3, 4, 5])
}

/// The same of one token, with the number of beams, and the beams that past keys belong to.
fn decoder_masked_self_attention(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, weights) = (cx.input(0)?, cx.input(1)?);
    let projected = cx.matmul(x, weights)?;
    let cache = Cache {
        length: cx.opt(6),
        beams: cx.opt(8),
    };
    projected_attention(cx, projected, cache, [3, 4, 5])
}

/// The same of integers. Inputs: x, weights, bias, the scales of both, mask, the zero points of
/// both, past keys and values. The weights' scale and zero point may be lists, for each column.
fn quantised_attention(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, weights) = (cx.input(0)?, cx.input(1)?);
    let (x_zero, weights_zero) = (cx.opt(6), cx.opt(7));
    let product = centered_matmul(cx, x, x_zero, weights, weights_zero)?;
    let (x_scale, weights_scale) = (cx.input(3)?, cx.input(4)?);
    let scale = cx.mul(x_scale, weights_scale)?;
    let dtype = cx.dtype(scale)?;
    let product = cx.cast(product, dtype)?;
    let projected = cx.mul(product, scale)?;
    let cache = Cache {
        length: None,
        beams: None,
    };
    projected_attention(cx, projected, cache, [5, 8, usize::MAX])
}

/// Attention of queries, keys and values side by side, to which input 2 is added. `places` are the
/// inputs with mask, past and bias of the scores.
fn projected_attention(
    cx: &mut NodeCx,
    mut projected: Value,
    cache: Cache,
    [mask, past, score_bias]: [usize; 3],
) -> Result<Vec<Value>> {
    let heads = cx.int_req("num_heads")?;
    if cx.flag("do_rotary", false) {
        return Err(Refusal::Form("do_rotary").into());
    }
    if let Some(bias) = cx.opt(2) {
        projected = cx.add(projected, bias)?;
    }
    let widths = match cx.ints("qkv_hidden_sizes") {
        Some(&[q, k, v]) => [q, k, v].map(Int::Const),
        Some(other) => return invalid(format!("qkv_hidden_sizes is {other:?}")),
        None => {
            let all = cx.size(projected, 2)?;
            [cx.int_div(all, 3)?; 3]
        }
    };
    let mut start = Int::Const(0);
    let mut parts = vec![];
    for width in widths {
        let end = cx.int_add(start, width)?;
        let part = cx.cut(projected, 2, start, end)?;
        parts.push(split_heads(cx, part, Some(heads))?);
        start = end;
    }
    let past = match cx.opt(past) {
        Some(past) => Some((cx.pick(past, 0, 0)?, cx.pick(past, 1, 0)?)),
        None => None,
    };
    let parts = [parts[0], parts[1], parts[2]];
    let results = cached_attention(cx, parts, past, cache, [mask, score_bias])?;
    let mut outputs = vec![results[0]];
    if cx.wants(1) {
        let [k, v] = [results[1], results[2]].map(|x| cx.unsqueeze(x, &[0]));
        outputs.push(cx.concat(&[k?, v?], 0)?);
    }
    Ok(outputs)
}

/// Inputs: query, key, value, bias, key padding mask, attention bias, past key, past value; for a
/// cache that is written in place, the number of keys in it, and the beams that they belong to.
fn multi_head_attention(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let parts = projections(cx, 3)?;
    let past = cx.opt(6).zip(cx.opt(7));
    let cache = Cache {
        length: cx.opt(8),
        beams: cx.opt(9),
    };
    cached_attention(cx, parts, past, cache, [4, 5])
}

/// Inputs: query, key, value, mask, attention bias, past key, past value, number of past keys,
/// number of beams, the beams that past keys belong to, bias.
fn decoder_masked_multi_head_attention(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let parts = projections(cx, 10)?;
    let past = cx.opt(5).zip(cx.opt(6));
    let cache = Cache {
        length: cx.opt(7),
        beams: cx.opt(9),
    };
    cached_attention(cx, parts, past, cache, [3, 4])
}

/// A cache with room for more keys than there are.
struct Cache {
    /// The number of keys that are there.
    length: Option<Value>,
    /// The beam whose key a beam takes, `i32[batch, beams, n]`.
    beams: Option<Value>,
}

/// Attention of projections and past keys; `masks` are the inputs with mask and bias.
fn cached_attention(
    cx: &mut NodeCx,
    [q, k, v]: [Value; 3],
    past: Option<(Value, Value)>,
    cache: Cache,
    masks: [usize; 2],
) -> Result<Vec<Value>> {
    let (mask, bias) = (cx.opt(masks[0]), cx.opt(masks[1]));
    let (Some(length), Some((past_key, past_value))) = (cache.length, past) else {
        if cache.length.or(cache.beams).is_some() {
            return Err(Refusal::SharedCache.into());
        }
        let (k, v) = extended(cx, (k, v), past)?;
        let attended = attend(cx, [q, k, v], mask, bias)?;
        return Ok(vec![attended[0], k, v, attended[1]]);
    };
    let length = cx.int_scalar(length)?;
    let mut used = vec![];
    let mut present = vec![];
    for (new, past) in [(k, past_key), (v, past_value)] {
        let zero = Int::Const(0);
        let place = cx.ints_value(&[zero, zero, length, zero])?;
        let all = cx.op(Op::UpdateSlice, &[past, new, place])?;
        present.push(all);
        let before = match cache.beams {
            Some(beams) => of_beams(cx, past, beams, length)?,
            None => cx.cut(past, 2, 0, length)?,
        };
        used.push(cx.concat(&[before, new], 2)?);
    }
    let attended = attend(cx, [q, used[0], used[1]], mask, bias)?;
    Ok(vec![attended[0], present[0], present[1], attended[1]])
}

/// Keys or values `[rows, heads, length, d]` of a cache, each of the beam that it belongs to.
fn of_beams(cx: &mut NodeCx, cache: Value, beams: Value, length: Int) -> Result<Value> {
    let sizes = cx.sizes(cache)?;
    let [rows, heads, room, width] = sizes[..] else {
        return invalid(format!("a cache has {} axes, not 4", sizes.len()));
    };
    let beams = cx.cut(beams, 2, 0, length)?;
    let beams = cx.cast(beams, DType::I64)?;
    let (batch, count) = (cx.size(beams, 0)?, cx.size(beams, 1)?);
    let (element, count) = (cx.iota(batch)?, cx.int_value(count));
    let first = cx.mul(element, count)?;
    let first = cx.unsqueeze(first, &[1, 2])?;
    let row = cx.add(beams, first)?;
    let (place, stride) = (cx.iota(length)?, cx.int_value(room));
    let row = cx.mul(row, stride)?;
    let place = cx.add(row, place)?;
    let place = cx.reshape_ints(place, &[rows, length])?;
    let cache = cx.transpose(cache, &[0, 2, 1, 3])?;
    let all = cx.int_mul(rows, room)?;
    let cache = cx.reshape_ints(cache, &[all, heads, width])?;
    let taken = cx.gather(cache, place, 0)?;
    cx.transpose(taken, &[0, 2, 1, 3])
}

/// Keys and values behind the past ones.
fn extended(
    cx: &mut NodeCx,
    (k, v): (Value, Value),
    past: Option<(Value, Value)>,
) -> Result<(Value, Value)> {
    match past {
        Some((past_key, past_value)) => Ok((
            cx.concat(&[past_key, k], 2)?,
            cx.concat(&[past_value, v], 2)?,
        )),
        None => Ok((k, v)),
    }
}

/// Queries, keys and values `[b, heads, s, d]`, out of inputs that may be packed, with the bias that
/// input `bias` holds.
fn projections(cx: &mut NodeCx, bias: usize) -> Result<[Value; 3]> {
    let heads = cx.int_req("num_heads")?;
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
    if let Some(bias) = cx.opt(bias) {
        add_projection_bias(cx, &mut parts, bias)?;
    }
    for part in &mut parts {
        match cx.rank(*part)? {
            3 => *part = split_heads(cx, *part, Some(heads))?,
            _ => four_axes(cx, *part)?,
        }
    }
    Ok(parts)
}

/// The mean of values weighted by the softmax of scores, `[b, s, h * d]`, and the scores.
fn attend(
    cx: &mut NodeCx,
    [q, k, v]: [Value; 3],
    mask: Option<Value>,
    bias: Option<Value>,
) -> Result<[Value; 2]> {
    let dtype = cx.dtype(q)?;
    let mut scores = scaled_scores(cx, q, k)?;
    let (queries, keys) = (cx.size(q, 2)?, cx.size(k, 2)?);
    if let Some(mask) = mask {
        let batch = cx.size(q, 0)?;
        let kept = padding_mask(cx, mask, batch, [queries, keys])?;
        let filter = f64::from(cx.float_or("mask_filter_value", -10000.0));
        scores = filtered(cx, scores, kept, filter)?;
    }
    if cx.flag("unidirectional", false) {
        let kept = causal_mask(cx, queries, keys)?;
        scores = filtered(cx, scores, kept, f64::NEG_INFINITY)?;
    }
    if let Some(bias) = bias {
        scores = cx.add(scores, bias)?;
    }
    let logits = cx.widen(scores)?;
    let weights = cx.softmax(logits, &[3])?;
    let weights = cx.cast(weights, dtype)?;
    let y = weighted_values(cx, weights, v)?;
    Ok([join_heads(cx, y)?, scores])
}

/// The keys that a padding mask keeps, broadcast to the scores.
fn padding_mask(
    cx: &mut NodeCx,
    mask: Value,
    batch: Int,
    [queries, keys]: [Int; 2],
) -> Result<Value> {
    let rank = cx.rank(mask)?;
    let axes: &[usize] = match rank {
        1 => return bounds_mask(cx, mask, batch, keys),
        2 => &[1, 2],
        3 => &[1],
        4 => &[],
        rank => return invalid(format!("a mask of {rank} axes")),
    };
    let kept = cx.compare_to(CompareOp::Gt, mask, 0.0)?;
    if rank == 4 {
        // A square of all positions, of which the queries are the last.
        let past = cx.int_sub(keys, queries)?;
        let rows = cx.cut(kept, 2, past, keys)?;
        return cx.cut(rows, 3, 0, keys);
    }
    cx.unsqueeze(kept, axes)
}

/// Keys before the end of each element of the batch and, with two numbers for each, not before its
/// start.
fn bounds_mask(cx: &mut NodeCx, mask: Value, batch: Int, keys: Int) -> Result<Value> {
    let (mask, index) = (cx.cast(mask, DType::I64)?, cx.iota(keys)?);
    let ends = cx.cut(mask, 0, 0, batch)?;
    let ends = cx.unsqueeze(ends, &[1, 2, 3])?;
    let kept = cx.compare(CompareOp::Lt, index, ends)?;
    let (size, both) = (cx.size(mask, 0)?, cx.int_mul(batch, 2)?);
    let same = match (size, both) {
        (Int::Const(size), Int::Const(both)) if size != both => return Ok(kept),
        _ => {
            let (size, both) = (cx.int_value(size), cx.int_value(both));
            cx.compare(CompareOp::Eq, size, both)?
        }
    };
    // Zeros stand in for starts that are not there.
    let shape = cx.ints_value(&[batch])?;
    let zeros = cx.full(DType::I64, shape, 0.0)?;
    let padded = cx.concat(&[mask, zeros], 0)?;
    let starts = cx.cut(padded, 0, batch, both)?;
    let starts = cx.select(same, starts, zeros)?;
    let starts = cx.unsqueeze(starts, &[1, 2, 3])?;
    let begun = cx.compare(CompareOp::Ge, index, starts)?;
    cx.binary(BinaryOp::And, kept, begun)
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
            // Keys and values that have their heads apart have their bias, too.
            return Ok(());
        }
        let width = cx.size(*part, 2)?;
        let end = cx.int_add(start, width)?;
        let share = cx.cut(bias, 0, start, end)?;
        *part = cx.add(*part, share)?;
        start = end;
    }
    Ok(())
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
