//! Operators of the domain com.microsoft that ONNX Runtime's optimiser fuses, and products with packed
//! integers.

use heddle_ir::op::{BinaryOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::activation;
use super::contract::gemm;
use super::conv::conv;
use super::cx::{NodeCx, Result, Table, invalid};
use super::norm::{affine, deviation, moments};
use crate::refusal::Refusal;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("FusedGemm", fused_gemm),
    ("FusedConv", fused_conv),
    ("EmbedLayerNormalization", embed_layer_normalization),
    ("MatMulNBits", matmul_nbits),
];

fn fused_gemm(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let y = gemm(cx)?[0];
    let names = ["activation_alpha", "activation_beta"];
    let parameters: Vec<f32> = names.iter().map_while(|n| cx.float(n)).collect();
    Ok(vec![activated(cx, y, &parameters)?])
}

/// Conv, to which another array may be added before the activation.
fn fused_conv(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let mut y = conv(cx)?[0];
    if let Some(more) = cx.opt(3) {
        y = cx.add(y, more)?;
    }
    let parameters = cx.floats("activation_params").unwrap_or_default();
    Ok(vec![activated(cx, y, parameters)?])
}

/// The function that the attribute `activation` names.
fn activated(cx: &mut NodeCx, x: Value, parameters: &[f32]) -> Result<Value> {
    let parameter = |i: usize, default: f64| parameters.get(i).map_or(default, |p| f64::from(*p));
    match cx.str_or("activation", "")? {
        "" => Ok(x),
        "Relu" => activation::relu(cx, x),
        "Sigmoid" => cx.unary(UnaryOp::Sigmoid, x),
        "Tanh" => cx.unary(UnaryOp::Tanh, x),
        "Softplus" => activation::softplus(cx, x),
        "Softsign" => activation::softsign(cx, x),
        "LeakyRelu" => activation::leaky_relu(cx, x, parameter(0, 0.01)),
        "HardSigmoid" => activation::hard_sigmoid(cx, x, parameter(0, 0.2), parameter(1, 0.5)),
        "Clip" => {
            let low = cx.scalar_like(x, parameter(0, f64::NEG_INFINITY))?;
            let high = cx.scalar_like(x, parameter(1, f64::INFINITY))?;
            let x = cx.max(x, low)?;
            cx.min(x, high)
        }
        other => Err(Refusal::FusedActivation(other.into()).into()),
    }
}

/// The normalised sum of embeddings of words, positions and segments; the number of tokens that the
/// mask keeps; and the sum.
fn embed_layer_normalization(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (ids, words, positions) = (cx.input(0)?, cx.input(2)?, cx.input(3)?);
    let (gamma, beta) = (cx.input(5)?, cx.input(6)?);
    let dtype = cx.dtype(words)?;
    let places = match cx.opt(8) {
        Some(places) => places,
        None => cx.positions(ids, 1)?,
    };
    let (word, place) = (cx.gather(words, ids, 0)?, cx.gather(positions, places, 0)?);
    let mut sum = cx.add(word, place)?;
    if let (Some(segments), Some(table)) = (cx.opt(1), cx.opt(4)) {
        let segment = cx.gather(table, segments, 0)?;
        sum = cx.add(sum, segment)?;
    }
    let x = cx.widen(sum)?;
    let (mean, var) = moments(cx, x, &[2])?;
    let epsilon = f64::from(cx.float_or("epsilon", 1e-12));
    let deviation = deviation(cx, var, epsilon)?;
    let x = cx.sub(x, mean)?;
    let x = cx.div(x, deviation)?;
    let (gamma, beta) = (cx.widen(gamma)?, cx.widen(beta)?);
    let y = affine(cx, x, gamma, Some(beta))?;
    let y = cx.cast(y, dtype)?;
    let kept = match cx.opt(7) {
        Some(mask) => {
            let one = cx.compare_to(heddle_ir::op::CompareOp::Eq, mask, 1.0)?;
            let one = cx.cast(one, DType::I32)?;
            cx.reduce(heddle_ir::op::ReduceOp::Sum, one, &[1], false)?
        }
        None => {
            let batch = cx.size_of(ids, 0)?;
            let batch = cx.stack_i64s(&[batch])?;
            cx.full(DType::I32, batch, 0.0)?
        }
    };
    Ok(vec![y, kept, sum])
}

/// The product with a transposed matrix of small integers, packed from the lowest bits on, with a
/// scale and a zero point for each block of a row.
fn matmul_nbits(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, packed, scales) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    if cx.opt(4).is_some() {
        return Err(Refusal::GroupIndices.into());
    }
    let (depth, rows) = (cx.int_req("K")?, cx.int_req("N")?);
    let (bits, block) = (cx.int_or("bits", 4), cx.int_req("block_size")?);
    if !matches!(bits, 2 | 4 | 8) || block < 1 || depth < 1 || rows < 0 {
        return invalid(format!(
            "K {depth}, N {rows}, bits {bits}, block_size {block}"
        ));
    }
    let blocks = depth.div_euclid(block) + i64::from(depth % block != 0);
    let dtype = cx.dtype(a)?;
    let numbers = unpacked(cx, packed, bits)?;
    let numbers = cx.reshape(numbers, &[rows, blocks, block])?;
    let numbers = cx.cast(numbers, DType::F32)?;
    let zero = match cx.opt(3) {
        None => cx.b.scalar(DType::F32, f64::from(1 << (bits - 1))),
        Some(zeros) if cx.dtype(zeros)? == DType::U8 => {
            let zeros = cx.reshape(zeros, &[rows, -1])?;
            let zeros = unpacked(cx, zeros, bits)?;
            let zeros = cx.reshape(zeros, &[rows, -1])?;
            let zeros = cx.slice(zeros, 1, 0, blocks)?;
            let zeros = cx.reshape(zeros, &[rows, blocks, 1])?;
            cx.cast(zeros, DType::F32)?
        }
        Some(zeros) => {
            let zeros = cx.reshape(zeros, &[rows, blocks, 1])?;
            cx.cast(zeros, DType::F32)?
        }
    };
    let scales = cx.reshape(scales, &[rows, blocks, 1])?;
    let scales = cx.cast(scales, DType::F32)?;
    let centered = cx.sub(numbers, zero)?;
    let weights = cx.mul(centered, scales)?;
    let weights = cx.reshape(weights, &[rows, blocks * block])?;
    let weights = cx.slice(weights, 1, 0, depth)?;
    let weights = cx.transpose(weights, &[1, 0])?;
    let a = cx.cast(a, DType::F32)?;
    let mut y = cx.matmul(a, weights)?;
    if let Some(bias) = cx.opt(5) {
        let bias = cx.cast(bias, DType::F32)?;
        y = cx.add(y, bias)?;
    }
    Ok(vec![cx.cast(y, dtype)?])
}

/// The numbers in each byte, in a new last axis.
fn unpacked(cx: &mut NodeCx, bytes: Value, bits: i64) -> Result<Value> {
    let rank = cx.rank(bytes)?;
    let mask = cx.b.scalar(DType::U8, ((1 << bits) - 1) as f64);
    let mut parts = vec![];
    for i in 0..8 / bits {
        let distance = cx.b.scalar(DType::U8, (i * bits) as f64);
        let part = cx.binary(BinaryOp::Shr, bytes, distance)?;
        let part = cx.binary(BinaryOp::And, part, mask)?;
        parts.push(cx.unsqueeze(part, &[rank])?);
    }
    cx.concat(&parts, rank)
}
