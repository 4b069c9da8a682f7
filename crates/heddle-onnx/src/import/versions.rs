//! Versions of ONNX's own operator set.

use crate::refusal::Refusal;

/// The supported versions.
pub const OPSETS: std::ops::RangeInclusive<i64> = 1..=28;

/// The oldest version whose operators are all expanded. Of older versions, those operators are
/// expanded that have not changed since.
const ALL_SINCE: i64 = 7;

/// Operators whose definition in [`ALL_SINCE`] is older, by the version that introduced
/// it.
const UNCHANGED: &[(i64, &str)] = &[
    (
        1,
        "ArgMax ArgMin Constant Conv ConvTranspose DepthToSpace Flatten Gather GlobalAveragePool \
         GlobalMaxPool Hardmax Identity If LRN LogSoftmax Loop LpNormalization MatMul MaxPool \
         MaxRoiPool Not RandomNormal RandomNormalLike RandomUniform RandomUniformLike ReduceL1 \
         ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd \
         ReduceSum ReduceSumSquare Shape Size Slice Softmax Softplus Softsign SpaceToDepth \
         Squeeze TopK Transpose Unsqueeze",
    ),
    (2, "GlobalLpPool LpPool Pad Split"),
    (4, "Concat"),
    (5, "Reshape"),
    (
        6,
        "Abs Cast Ceil Clip Elu Exp Floor HardSigmoid InstanceNormalization LeakyRelu Log Max \
         Mean Min Neg Reciprocal Relu Selu Sigmoid Sqrt Sum Tanh Tile",
    ),
];

/// The refusal of an operator of ONNX's own domain in this version, if there is one.
pub fn too_old(op: &str, version: i64) -> Option<Refusal> {
    let same = |(since, ops): &(i64, &str)| *since <= version && ops.split(' ').any(|o| o == op);
    let supported = version >= ALL_SINCE || UNCHANGED.iter().any(same);
    (!supported).then_some(Refusal::TooOld { since: ALL_SINCE })
}
