//! Versions of ONNX's own operator set.

/// Versions that may be imported.
pub const OPSETS: std::ops::RangeInclusive<i64> = 1..=28;

/// The oldest version of which all operators are expanded. Of older ones, those are that did not change since.
const ALL_SINCE: i64 = 7;

/// Operators that a version older than [`ALL_SINCE`] has as that version has them, by the version that made them so.
const UNCHANGED: &[(i64, &[&str])] = &[
    (
        1,
        &[
            "ArgMax",
            "ArgMin",
            "Constant",
            "Conv",
            "ConvTranspose",
            "DepthToSpace",
            "Flatten",
            "Gather",
            "GlobalAveragePool",
            "GlobalMaxPool",
            "Hardmax",
            "Identity",
            "If",
            "LRN",
            "LogSoftmax",
            "Loop",
            "LpNormalization",
            "MatMul",
            "MaxPool",
            "MaxRoiPool",
            "Not",
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceMax",
            "ReduceMean",
            "ReduceMin",
            "ReduceProd",
            "ReduceSum",
            "ReduceSumSquare",
            "Shape",
            "Size",
            "Slice",
            "Softmax",
            "Softplus",
            "Softsign",
            "SpaceToDepth",
            "Squeeze",
            "TopK",
            "Transpose",
            "Unsqueeze",
        ],
    ),
    (2, &["GlobalLpPool", "LpPool", "Pad", "Split"]),
    (4, &["Concat"]),
    (5, &["Reshape"]),
    (
        6,
        &[
            "Abs",
            "Cast",
            "Ceil",
            "Clip",
            "Elu",
            "Exp",
            "Floor",
            "HardSigmoid",
            "InstanceNormalization",
            "LeakyRelu",
            "Log",
            "Max",
            "Mean",
            "Min",
            "Neg",
            "Reciprocal",
            "Relu",
            "Selu",
            "Sigmoid",
            "Sqrt",
            "Sum",
            "Tanh",
            "Tile",
        ],
    ),
];

/// Why an operator of ONNX's own domain cannot be expanded in this version, if it cannot.
pub fn too_old(op: &str, version: i64) -> Option<String> {
    let same = |(since, ops): &(i64, &[&str])| *since <= version && ops.contains(&op);
    if version >= ALL_SINCE || UNCHANGED.iter().any(same) {
        return None;
    }
    Some(format!(
        "its definition is older than version {ALL_SINCE}; convert the model with onnx.version_converter"
    ))
}
