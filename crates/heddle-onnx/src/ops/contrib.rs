//! Operators of the domain com.microsoft that exporters of transformers emit, as ONNX Runtime
//! defines them.

use heddle_ir::op::UnaryOp;
use heddle_ir::{DType, Emit, Value};

use super::attention::{join_heads, rotate, split_heads};
use super::cx::{NodeCx, Result, Table};
use super::norm::{affine, deviation, moments};
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
    let value = match (packed, cx.int_or("num_heads", 0)) {
        (true, heads @ 1..) => split_heads(cx, x, Some(heads))?,
        (true, _) => {
            // The caches tell how wide a head is.
            let (sizes, half) = (cx.sizes(x)?, cx.size(cos, 1)?);
            let width = cx.int_mul(half, 2)?;
            let heads = cx.int_div(sizes[2], width)?;
            let apart = cx.reshape_ints(x, &[sizes[0], sizes[1], heads, width])?;
            cx.transpose(apart, &[0, 2, 1, 3])?
        }
        (false, _) => split_heads(cx, x, None)?,
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
