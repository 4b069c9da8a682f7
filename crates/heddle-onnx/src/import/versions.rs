//! Versions of ONNX's own operator set.

use crate::refusal::Refusal;

/// The supported versions.
pub const OPSETS: std::ops::RangeInclusive<i64> = 1..=28;

/// Operators that came after version 1, by version. From version 7 on an operator that came later
/// is taken in its first form, as exporters write it.
const INTRODUCED: &[(i64, &str)] = &[
    (7, "Acos Asin Atan Cos Multinomial Sin Tan"),
    (8, "Expand Scan"),
    (
        9,
        "Acosh Asinh Atanh Compress ConstantOfShape Cosh Erf EyeLike IsNaN MaxUnpool NonZero OneHot \
         Scatter Shrink Sign Sinh TfIdfVectorizer Where",
    ),
    (
        10,
        "ConvInteger DequantizeLinear IsInf MatMulInteger Mod NonMaxSuppression QLinearConv \
         QLinearMatMul QuantizeLinear Resize ReverseSequence RoiAlign StringNormalizer",
    ),
    (
        11,
        "BitShift ConcatFromSequence CumSum Det DynamicQuantizeLinear GatherElements GatherND Range \
         Round ScatterElements ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase \
         SequenceInsert SequenceLength SplitToSequence Unique",
    ),
    (
        12,
        "Celu Einsum GreaterOrEqual LessOrEqual NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    ),
    (14, "HardSwish Trilu"),
    (
        15,
        "Bernoulli CastLike Optional OptionalGetElement OptionalHasElement",
    ),
    (16, "GridSample"),
    (
        17,
        "BlackmanWindow DFT HammingWindow HannWindow LayerNormalization MelWeightMatrix STFT \
         SequenceMap",
    ),
    (
        18,
        "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CenterCropPad Col2Im GroupNormalization Mish",
    ),
    (19, "DeformConv"),
    (
        20,
        "AffineGrid Gelu ImageDecoder RegexFullMatch StringConcat StringSplit",
    ),
    (23, "Attention RMSNormalization RotaryEmbedding"),
    (24, "Swish TensorScatter"),
    (26, "BitCast CumProd"),
    (27, "CausalConvWithState LinearAttention"),
    (28, "SwiGLU"),
];

/// The refusal of an operator of ONNX's own domain that this version does not have, if so.
pub fn not_yet(op: &str, version: i64) -> Option<Refusal> {
    let later = |(_, ops): &&(i64, &str)| ops.split(' ').any(|o| o == op);
    let (since, _) = INTRODUCED.iter().find(later).filter(|_| version < 7)?;
    Some(Refusal::NotYet { since: *since })
}
