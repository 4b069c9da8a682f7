//! `GroupQueryAttention` of com.microsoft.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{Emit, Value};

use super::attention::{join_heads, rotate, scaled_scores, split_heads, weighted_values};
use super::cx::{NodeCx, Result, Table, invalid};
use super::sizes::Int;
use crate::refusal::Refusal;

/// The operators of this file.
pub(super) const OPS: Table = &[("GroupQueryAttention", group_query_attention)];

/// Inputs that only other forms have, by place.
const REFUSED: &[(usize, &str)] = &[
    (12, "k_scale"),
    (13, "v_scale"),
    (14, "q_norm_weight"),
    (15, "k_norm_weight"),
];

/// Inputs: query, key, value (or all in the first one), past key, past value, last position of each
/// element of the batch, number of all positions, cosines, sines, positions, attention bias, sinks.
///
/// The new keys of an element stand behind those before its last position, also where the cache is
/// longer.
fn group_query_attention(cx: &mut NodeCx) -> Result<Vec<Value>> {
    for (place, name) in REFUSED {
        if cx.opt(*place).is_some() {
            return Err(Refusal::Form(name).into());
        }
    }
    if cx.flag("sliding_window_cache", false) {
        return Err(Refusal::Form("sliding_window_cache").into());
    }
    if cx.int_or("qk_output", 0) != 0 {
        return Err(Refusal::Form("qk_output").into());
    }
    let [q, k, v] = parts(cx)?;
    let (batch, length) = (cx.size(q, 0)?, cx.size(q, 2)?);
    let before = past_lengths(cx, length)?;
    let [q, k] = match cx.flag("do_rotary", false) {
        true => turned(cx, [q, k], before, length)?,
        false => [q, k],
    };
    let total = cx.input(6)?;
    let total = cx.int_scalar(total)?;
    let room = match cx.opt(3) {
        Some(past) => {
            let past = cx.size(past, 2)?;
            cx.int_max(past, total)?
        }
        None => total,
    };
    let place = Placement {
        batch,
        before,
        length,
        room,
    };
    let (k, v) = (place.cache(cx, 3, k)?, place.cache(cx, 4, v)?);
    let scores = scaled_scores(cx, q, k)?;
    let scores = capped(cx, scores)?;
    let allowed = place.allowed(cx)?;
    let mut logits = cx.widen(scores)?;
    if let Some(bias) = cx.opt(10) {
        let bias = place.widened(cx, bias)?;
        logits = cx.add(logits, bias)?;
    }
    let none = cx.scalar_like(logits, f64::NEG_INFINITY)?;
    let logits = cx.select(allowed, logits, none)?;
    let weights = softmax_with_sinks(cx, logits)?;
    let dtype = cx.dtype(q)?;
    let weights = cx.cast(weights, dtype)?;
    let y = weighted_values(cx, weights, v)?;
    Ok(vec![join_heads(cx, y)?, k, v])
}

/// Queries, keys and values with an axis of heads.
fn parts(cx: &mut NodeCx) -> Result<[Value; 3]> {
    let (heads, groups) = (cx.int_req("num_heads")?, cx.int_req("kv_num_heads")?);
    let query = cx.input(0)?;
    let counts = [heads, groups, groups];
    let apart = match (cx.opt(1), cx.opt(2)) {
        (Some(key), Some(value)) => [query, key, value],
        _ => {
            if heads < 1 || groups < 1 {
                return invalid(format!("num_heads is {heads}, kv_num_heads {groups}"));
            }
            let all = cx.size(query, 2)?;
            let width = cx.int_div(all, heads + 2 * groups)?;
            let mut apart = [query; 3];
            let mut start = Int::Const(0);
            for (part, count) in apart.iter_mut().zip(counts) {
                let size = cx.int_mul(width, count)?;
                let end = cx.int_add(start, size)?;
                *part = cx.cut(query, 2, start, end)?;
                start = end;
            }
            apart
        }
    };
    let [q, k, v] = [0, 1, 2].map(|i| split_heads(cx, apart[i], Some(counts[i])));
    Ok([q?, k?, v?])
}

/// The number of keys before the new ones, `i64[batch]`: none where all positions are new.
fn past_lengths(cx: &mut NodeCx, length: Int) -> Result<Value> {
    let (last, total) = (cx.input(5)?, cx.input(6)?);
    let last = cx.to_indices(last)?;
    let new = cx.int_sub(length, 1)?;
    let new = cx.int_value(new);
    let before = cx.sub(last, new)?;
    let (total, length) = (cx.int_scalar(total)?, cx.int_value(length));
    let total = cx.int_value(total);
    let prompt = cx.compare(CompareOp::Eq, total, length)?;
    let none = cx.b.i64(0);
    cx.select(prompt, none, before)
}

/// Queries and keys turned by the angles of their positions.
fn turned(cx: &mut NodeCx, parts: [Value; 2], before: Value, length: Int) -> Result<[Value; 2]> {
    let positions = match cx.opt(9) {
        Some(positions) => positions,
        None => {
            let before = cx.unsqueeze(before, &[1])?;
            let index = cx.iota(length)?;
            cx.add(before, index)?
        }
    };
    let (cos, sin) = (cx.input(7)?, cx.input(8)?);
    let half = cx.size(cos, 1)?;
    let width = cx.int_mul(half, 2)?;
    let (cos, sin) = (cx.gather(cos, positions, 0)?, cx.gather(sin, positions, 0)?);
    let interleaved = cx.flag("rotary_interleaved", false);
    let [q, k] = parts.map(|x| rotate(cx, x, cos, sin, width, interleaved));
    Ok([q?, k?])
}

/// The places of new keys in a cache.
struct Placement {
    batch: Int,
    /// Keys before the new ones, `i64[batch]`.
    before: Value,
    /// Number of new ones.
    length: Int,
    /// Size of the cache.
    room: Int,
}

impl Placement {
    /// The cache with new keys or values `[b, h, s, d]`, zeros behind them; input `past` is the one
    /// before.
    fn cache(&self, cx: &mut NodeCx, past: usize, new: Value) -> Result<Value> {
        let (rows, old) = match cx.opt(past) {
            Some(past) => (cx.concat(&[past, new], 2)?, cx.size(past, 2)?),
            None => (new, Int::Const(0)),
        };
        let rows = cx.transpose(rows, &[0, 2, 1, 3])?;
        let mut sizes = cx.sizes(rows)?;
        let (stride, first) = (cx.int_value(sizes[1]), cx.iota(self.batch)?);
        let first = cx.mul(first, stride)?;
        let first = cx.unsqueeze(first, &[1])?;
        let all = cx.int_mul(sizes[0], sizes[1])?;
        sizes.splice(..2, [all]);
        let rows = cx.reshape_ints(rows, &sizes)?;
        // Each place takes an old row, or the new one that belongs there.
        let (place, before) = (cx.iota(self.room)?, cx.unsqueeze(self.before, &[1])?);
        let number = cx.sub(place, before)?;
        let is_new = cx.is_index(number, self.length)?;
        let clamped = cx.clamp_index(number, self.length)?;
        let old = cx.int_value(old);
        let new_row = cx.add(clamped, old)?;
        let is_old = cx.compare(CompareOp::Lt, place, before)?;
        let row = cx.select(is_old, place, new_row)?;
        let row = cx.add(row, first)?;
        let taken = cx.gather(rows, row, 0)?;
        let there = cx.binary(BinaryOp::Or, is_old, is_new)?;
        let there = cx.unsqueeze(there, &[2, 3])?;
        let zero = cx.scalar_like(taken, 0.0)?;
        let taken = cx.select(there, taken, zero)?;
        cx.transpose(taken, &[0, 2, 1, 3])
    }

    /// The keys that each query sees, `bool[b, 1, s, t]`.
    fn allowed(&self, cx: &mut NodeCx) -> Result<Value> {
        let before = cx.unsqueeze(self.before, &[1, 2, 3])?;
        let index = cx.iota(self.length)?;
        let index = cx.unsqueeze(index, &[1])?;
        let position = cx.add(before, index)?;
        let key = cx.iota(self.room)?;
        let window = cx.int_or("local_window_size", -1);
        if !cx.flag("causal", true) {
            let length = cx.int_value(self.length);
            let end = cx.add(before, length)?;
            let inside = cx.compare(CompareOp::Lt, key, end)?;
            let shape = [self.batch, 1.into(), self.length, self.room];
            let shape = cx.ints_value(&shape)?;
            return cx.broadcast_to(inside, shape);
        }
        let mut allowed = cx.compare(CompareOp::Le, key, position)?;
        if window > 0 {
            let window = cx.b.i64(window);
            let first = cx.sub(position, window)?;
            let near = cx.compare(CompareOp::Gt, key, first)?;
            allowed = cx.binary(BinaryOp::And, allowed, near)?;
        }
        Ok(allowed)
    }

    /// A bias of the scores with as many keys as the cache has room for.
    fn widened(&self, cx: &mut NodeCx, bias: Value) -> Result<Value> {
        let bias = cx.widen(bias)?;
        let keys = cx.size(bias, 3)?;
        let missing = cx.int_sub(self.room, keys)?;
        let missing = cx.int_max(missing, 0)?;
        let mut sizes = cx.sizes(bias)?;
        sizes[3] = missing;
        let shape = cx.ints_value(&sizes)?;
        let dtype = cx.dtype(bias)?;
        let rest = cx.full(dtype, shape, 0.0)?;
        let bias = cx.concat(&[bias, rest], 3)?;
        cx.cut(bias, 3, 0, self.room)
    }
}

/// Scores bent to a range of `softcap` to both sides, if there is one.
fn capped(cx: &mut NodeCx, scores: Value) -> Result<Value> {
    let cap = f64::from(cx.float_or("softcap", 0.0));
    if cap <= 0.0 {
        return Ok(scores);
    }
    let cap = cx.real_like(scores, cap)?;
    let ratio = cx.div(scores, cap)?;
    let ratio = cx.unary(UnaryOp::Tanh, ratio)?;
    cx.mul(ratio, cap)
}

/// Softmax over the last axis; a sink is one more score of each head, whose weight nobody takes.
fn softmax_with_sinks(cx: &mut NodeCx, logits: Value) -> Result<Value> {
    let sink = match cx.opt(11) {
        Some(sinks) => {
            let sinks = cx.widen(sinks)?;
            cx.unsqueeze(sinks, &[1, 2])?
        }
        None if cx.flag("smooth_softmax", false) => cx.scalar_like(logits, 0.0)?,
        None => return cx.softmax(logits, &[3]),
    };
    let max = cx.reduce(ReduceOp::Max, logits, &[3], true)?;
    let max = cx.max(max, sink)?;
    let shifted = cx.sub(logits, max)?;
    let exp = cx.exp(shifted)?;
    let sum = cx.reduce(ReduceOp::Sum, exp, &[3], true)?;
    let sink = cx.sub(sink, max)?;
    let sink = cx.exp(sink)?;
    let sum = cx.add(sum, sink)?;
    cx.div(exp, sum)
}
