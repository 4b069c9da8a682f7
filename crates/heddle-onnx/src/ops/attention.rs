//! Attention and RotaryEmbedding.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use super::sizes::Int;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("Attention", attention),
    ("RotaryEmbedding", rotary_embedding),
];

/// Attention 23, 24, 25. Every step is in the input's type, as the operator's function body has it.
fn attention(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (q, k, v) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let dtype = cx.dtype(q)?;
    let packed = cx.rank(q)? == 3;
    let (q_heads, kv_heads) = match packed {
        true => (
            Some(cx.int_req("q_num_heads")?),
            Some(cx.int_req("kv_num_heads")?),
        ),
        false => (None, None),
    };
    let q = split_heads(cx, q, q_heads)?;
    let mut k = split_heads(cx, k, kv_heads)?;
    let mut v = split_heads(cx, v, kv_heads)?;
    let (past_key, past_value, valid) = (cx.opt(4), cx.opt(5), cx.opt(6));
    if past_key.is_some() != past_value.is_some() || past_key.is_some() && valid.is_some() {
        return invalid("past_key and past_value go together, and without nonpad_kv_seqlen");
    }
    if let (Some(past_key), Some(past_value)) = (past_key, past_value) {
        k = cx.concat(&[past_key, k], 2)?;
        v = cx.concat(&[past_value, v], 2)?;
    }
    let present = (k, v);

    let scores = scaled_scores(cx, q, k)?;
    let cap = f64::from(cx.float_or("softcap", 0.0));
    let capped = match cap > 0.0 {
        true => {
            let cap = cx.real_like(scores, cap)?;
            let ratio = cx.div(scores, cap)?;
            let ratio = cx.unary(UnaryOp::Tanh, ratio)?;
            cx.mul(ratio, cap)?
        }
        false => scores,
    };
    let bias = Bias {
        queries: cx.size(q, 2)?,
        keys: cx.size(k, 2)?,
        valid,
        past: past_key.map(|p| cx.size(p, 2)).transpose()?,
        dtype,
    };
    let bias = bias.build(cx)?;
    let biased = match bias {
        Some(bias) => cx.add(capped, bias)?,
        None => capped,
    };
    let precision = cx.dtype_attr("softmax_precision")?.unwrap_or(dtype);
    let logits = cx.cast(biased, precision)?;
    let mut weights = guarded_softmax(cx, logits)?;
    if let Some(bias) = bias {
        // Rows without an allowed key give zeros, whatever their scores are.
        let last = cx.rank(bias)?.checked_sub(1);
        let highest = match last {
            Some(last) => cx.reduce(ReduceOp::Max, bias, &[last], true)?,
            None => bias,
        };
        let none = cx.real_like(highest, f64::NEG_INFINITY)?;
        let masked = cx.compare(CompareOp::Eq, highest, none)?;
        let zero = cx.real_like(weights, 0.0)?;
        weights = cx.select(masked, zero, weights)?;
    }
    let weights = cx.cast(weights, dtype)?;
    let y = weighted_values(cx, weights, v)?;
    let y = if packed { join_heads(cx, y)? } else { y };
    let shown = match cx.int_or("qk_matmul_output_mode", 0) {
        0 => scores,
        1 => capped,
        2 => biased,
        3 => weights,
        other => {
            return invalid(format!("qk_matmul_output_mode is {other}"));
        }
    };
    Ok(vec![y, present.0, present.1, shown])
}

/// `x[b, s, h * d]` as `[b, h, s, d]`; a value of four axes stays as it is.
pub(super) fn split_heads(cx: &mut NodeCx, x: Value, heads: Option<i64>) -> Result<Value> {
    let Some(heads) = heads else {
        four_axes(cx, x)?;
        return Ok(x);
    };
    let sizes = cx.sizes(x)?;
    let [batch, length, hidden] = sizes[..] else {
        return invalid(format!("an input has {} axes, not 3", sizes.len()));
    };
    if heads < 1 || hidden.as_const().is_some_and(|h| h % heads != 0) {
        return invalid(format!("{} does not divide into {heads} heads", cx.b.ty(x)));
    }
    let width = cx.int_div(hidden, heads)?;
    let x = cx.reshape_ints(x, &[batch, length, heads.into(), width])?;
    cx.transpose(x, &[0, 2, 1, 3])
}

/// `x[b, h, s, d]` as `[b, s, h * d]`.
pub(super) fn join_heads(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let x = cx.transpose(x, &[0, 2, 1, 3])?;
    let sizes = cx.sizes(x)?;
    let hidden = cx.int_mul(sizes[2], sizes[3])?;
    cx.reshape_ints(x, &[sizes[0], sizes[1], hidden])
}

/// `q k^T * scale` for `q[b, h, s, d]` and `k[b, g, t, d]`: `[b, h, s, t]`. The attribute `scale`
/// is `1 / sqrt(d)` if missing; its root goes to each factor.
pub(super) fn scaled_scores(cx: &mut NodeCx, q: Value, k: Value) -> Result<Value> {
    let dtype = cx.dtype(q)?;
    let width = cx.size(q, 3)?;
    let root = match (cx.float("scale"), width) {
        (Some(scale), _) => cx.real_like(q, f64::from(scale).sqrt())?,
        (None, Int::Const(d)) => cx.real_like(q, (1.0 / (d as f64).sqrt()).sqrt())?,
        (None, Int::Value(d)) => {
            let d = cx.cast(d, DType::F64)?;
            let root = cx.unary(UnaryOp::Sqrt, d)?;
            let root = cx.unary(UnaryOp::Sqrt, root)?;
            let one = cx.real_like(root, 1.0)?;
            let inverse = cx.div(one, root)?;
            cx.cast(inverse, dtype)?
        }
    };
    let q = cx.mul(q, root)?;
    let k = cx.mul(k, root)?;
    let k = cx.transpose(k, &[0, 1, 3, 2])?;
    grouped_dot(cx, q, k)
}

/// `weights v` for `weights[b, h, s, t]` and `v[b, g, t, d]`.
pub(super) fn weighted_values(cx: &mut NodeCx, weights: Value, v: Value) -> Result<Value> {
    grouped_dot(cx, weights, v)
}

/// `a[b, h, m, k] b[b, g, k, n]`, where each of `g` heads is shared by `h / g` consecutive ones.
fn grouped_dot(cx: &mut NodeCx, a: Value, b: Value) -> Result<Value> {
    four_axes(cx, a)?;
    four_axes(cx, b)?;
    let (x, y) = (cx.sizes(a)?, cx.sizes(b)?);
    if cx.shape(a)?[1].equals(&cx.shape(b)?[1]) {
        return cx.op(Op::Dot, &[a, b]);
    }
    if let (Int::Const(h), Int::Const(g)) = (x[1], y[1])
        && (g == 0 || h % g != 0)
    {
        return invalid(format!("{h} query heads for {g} key heads"));
    }
    let shared = cx.int_div(x[1], y[1])?;
    let a = cx.reshape_ints(a, &[x[0], y[1], shared, x[2], x[3]])?;
    let b = cx.unsqueeze(b, &[2])?;
    let product = cx.op(Op::Dot, &[a, b])?;
    cx.reshape_ints(product, &[x[0], x[1], x[2], y[3]])
}

/// Softmax over the last axis, where a row of minus infinity gives zeros.
fn guarded_softmax(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let last = cx.rank(x)? - 1;
    let max = cx.reduce(ReduceOp::Max, x, &[last], true)?;
    let zero = cx.real_like(max, 0.0)?;
    let none = cx.real_like(max, f64::NEG_INFINITY)?;
    let one = cx.real_like(max, 1.0)?;
    let masked = cx.compare(CompareOp::Eq, max, none)?;
    let max = cx.select(masked, zero, max)?;
    let shifted = cx.sub(x, max)?;
    let exp = cx.exp(shifted)?;
    let sum = cx.reduce(ReduceOp::Sum, exp, &[last], true)?;
    let empty = cx.compare(CompareOp::Eq, sum, zero)?;
    let sum = cx.select(empty, one, sum)?;
    cx.div(exp, sum)
}

/// The bias of the scores: a sum of masks, each minus infinity where it forbids.
struct Bias {
    queries: Int,
    keys: Int,
    /// The number of valid keys of each batch element.
    valid: Option<Value>,
    /// The number of cached keys before the given ones.
    past: Option<Int>,
    dtype: DType,
}

impl Bias {
    fn build(&self, cx: &mut NodeCx) -> Result<Option<Value>> {
        let mut sum = match cx.opt(3) {
            Some(mask) => Some(self.given(cx, mask)?),
            None => None,
        };
        let mut allowed = vec![];
        let causal = cx.flag("is_causal", false);
        let left = cx.int_or("left_window_size", -1);
        let right = cx.int_or("right_window_size", -1);
        if left < -1 || right < -1 {
            return invalid(format!("windows of {left} and {right}"));
        }
        if causal || left >= 0 || right >= 0 {
            // Distance of each key behind each query: [q, k] or [b, 1, q, k].
            let behind = self.distance(cx)?;
            if causal {
                let zero = cx.b.i64(0);
                allowed.push(cx.compare(CompareOp::Ge, behind, zero)?);
            }
            if left >= 0 {
                let left = cx.b.i64(left);
                allowed.push(cx.compare(CompareOp::Le, behind, left)?);
            }
            if right >= 0 {
                let right = cx.b.i64(-right);
                allowed.push(cx.compare(CompareOp::Ge, behind, right)?);
            }
        }
        if let Some(valid) = self.valid {
            let index = cx.iota(self.keys)?;
            let valid = cx.cast(valid, DType::I64)?;
            let valid = cx.unsqueeze(valid, &[1, 2, 3])?;
            allowed.push(cx.compare(CompareOp::Lt, index, valid)?);
        }
        for allowed in allowed {
            let zero = cx.b.scalar(self.dtype, 0.0);
            let none = cx.b.scalar(self.dtype, f64::NEG_INFINITY);
            let bias = cx.select(allowed, zero, none)?;
            sum = Some(cx.fold(BinaryOp::Add, sum, bias)?);
        }
        Ok(sum)
    }

    /// The input mask; keys beyond its end are forbidden.
    fn given(&self, cx: &mut NodeCx, mask: Value) -> Result<Value> {
        let mut bias = match cx.dtype(mask)? {
            DType::Bool => {
                let zero = cx.b.scalar(self.dtype, 0.0);
                let none = cx.b.scalar(self.dtype, f64::NEG_INFINITY);
                cx.select(mask, zero, none)?
            }
            _ => cx.cast(mask, self.dtype)?,
        };
        let rank = cx.rank(bias)?;
        if rank == 0 {
            return Ok(bias);
        }
        let length = cx.size(bias, rank - 1)?;
        let missing = cx.int_sub(self.keys, length)?;
        let missing = cx.int_max(missing, 0)?;
        if missing.as_const() != Some(0) {
            let mut pads = vec![Int::Const(0); 2 * rank];
            pads[2 * rank - 1] = missing;
            let pads = cx.ints_value(&pads)?;
            let none = cx.b.scalar(self.dtype, f64::NEG_INFINITY);
            bias = cx.pad(bias, pads, none)?;
        }
        Ok(bias)
    }

    fn distance(&self, cx: &mut NodeCx) -> Result<Value> {
        let rows = cx.iota(self.queries)?;
        let rows = cx.unsqueeze(rows, &[1])?;
        let columns = cx.iota(self.keys)?;
        let behind = cx.sub(rows, columns)?;
        match (self.past, self.valid) {
            (Some(past), _) => {
                let past = cx.int_value(past);
                cx.add(behind, past)
            }
            (None, Some(valid)) => {
                let valid = cx.cast(valid, DType::I64)?;
                let queries = cx.int_value(self.queries);
                let before = cx.sub(valid, queries)?;
                let before = cx.unsqueeze(before, &[1, 2, 3])?;
                cx.add(behind, before)
            }
            (None, None) => Ok(behind),
        }
    }
}

/// RotaryEmbedding 23.
fn rotary_embedding(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, cos, sin) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let heads = match cx.rank(x)? {
        4 => None,
        _ => Some(cx.int_req("num_heads")?),
    };
    let rotary = cx.int_or("rotary_embedding_dim", 0);
    let positions = cx.opt(3);
    let interleaved = cx.flag("interleaved", false);
    let value = split_heads(cx, x, heads)?;
    // Both [b, s, d / 2].
    let [cos, sin] = [cos, sin].map(|cache| match positions {
        Some(p) => cx.gather(cache, p, 0),
        None => Ok(cache),
    });
    let y = rotate(cx, value, cos?, sin?, rotary, interleaved)?;
    Ok(vec![match heads {
        Some(_) => join_heads(cx, y)?,
        None => y,
    }])
}

/// `x[b, h, s, d]` with its first `rotary` components (all, if 0) turned by the angles with the
/// cosines and sines `[b, s, rotary / 2]`.
pub(super) fn rotate(
    cx: &mut NodeCx,
    x: Value,
    cos: Value,
    sin: Value,
    rotary: impl Into<Int>,
    interleaved: bool,
) -> Result<Value> {
    let width = match rotary.into() {
        Int::Const(0) => cx.size(x, 3)?,
        rotary => rotary,
    };
    if let Int::Const(width) = width
        && (width < 0 || width % 2 != 0)
    {
        return invalid(format!("a rotary dimension of {width}"));
    }
    let turned = cx.cut(x, 3, 0, width)?;
    let rest = cx.cut(x, 3, width, i64::MAX)?;
    let (cos, sin) = (cx.unsqueeze(cos, &[1])?, cx.unsqueeze(sin, &[1])?);
    let half = cx.int_div(width, 2)?;
    let (a, b) = match interleaved {
        true => (
            cx.slice_step(turned, 3, 0, i64::MAX, 2)?,
            cx.slice_step(turned, 3, 1, i64::MAX, 2)?,
        ),
        false => (cx.cut(turned, 3, 0, half)?, cx.cut(turned, 3, half, width)?),
    };
    let (ca, sb) = (cx.mul(cos, a)?, cx.mul(sin, b)?);
    let real = cx.sub(ca, sb)?;
    let (sa, cb) = (cx.mul(sin, a)?, cx.mul(cos, b)?);
    let imaginary = cx.add(sa, cb)?;
    let turned = match interleaved {
        true => {
            let (real, imaginary) = (cx.unsqueeze(real, &[4])?, cx.unsqueeze(imaginary, &[4])?);
            let pairs = cx.concat(&[real, imaginary], 4)?;
            let mut sizes = cx.sizes(x)?;
            sizes[3] = width;
            cx.reshape_ints(pairs, &sizes)?
        }
        false => cx.concat(&[real, imaginary], 3)?,
    };
    cx.concat(&[turned, rest], 3)
}

/// FlexAttention 1 (ai.onnx.preview), its first part: scores of queries and keys, in the type of
/// the softmax. Its graphs modify scores and probabilities between the parts.
pub(crate) fn flex_scores(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (q, k) = (cx.input(0)?, cx.input(1)?);
    four_axes(cx, q)?;
    four_axes(cx, k)?;
    let scores = scaled_scores(cx, q, k)?;
    let precision = match (cx.dtype_attr("softmax_precision")?, cx.dtype(q)?) {
        (Some(precision), _) => precision,
        (None, DType::F64) => DType::F64,
        (None, _) => DType::F32,
    };
    Ok(vec![cx.cast(scores, precision)?])
}

/// The second part: probabilities out of scores.
pub(crate) fn flex_probabilities(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let scores = cx.input(0)?;
    four_axes(cx, scores)?;
    Ok(vec![cx.softmax(scores, &[3])?])
}

/// The third part: the mean of the values (the second input), weighted with the probabilities
/// (the first).
pub(crate) fn flex_values(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (weights, v) = (cx.input(0)?, cx.input(1)?);
    four_axes(cx, weights)?;
    four_axes(cx, v)?;
    let (precision, dtype) = (cx.dtype(weights)?, cx.dtype(v)?);
    let v = cx.cast(v, precision)?;
    let y = weighted_values(cx, weights, v)?;
    Ok(vec![cx.cast(y, dtype)?])
}

pub(super) fn four_axes(cx: &NodeCx, x: Value) -> Result<()> {
    match cx.rank(x)? {
        4 => Ok(()),
        rank => invalid(format!("an input has {rank} axes, not 4")),
    }
}
