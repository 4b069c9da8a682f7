//! Input counts: the most inputs of an operator, over all versions. Unlisted operators take any
//! number.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Domain, count, and the operators, separated by spaces.
const MAX_INPUTS: &[(&str, usize, &str)] = &[
    ("", 0, "Constant RandomNormal RandomUniform SequenceEmpty"),
    (
        "",
        1,
        "Abs Acos Acosh ArgMax ArgMin Asin Asinh Atan Atanh AveragePool Bernoulli BitCast \
         BitwiseNot BlackmanWindow Cast Ceil Celu ConcatFromSequence ConstantOfShape Cos Cosh \
         DepthToSpace Det DynamicQuantizeLinear Elu Erf Exp EyeLike Flatten Floor Gelu \
         GlobalAveragePool GlobalLpPool GlobalMaxPool HammingWindow HannWindow HardSigmoid \
         HardSwish Hardmax Identity If ImageDecoder IsInf IsNaN LRN LeakyRelu Log LogSoftmax \
         LpNormalization LpPool MaxPool MeanVarianceNormalization Mish Multinomial Neg NonZero \
         Not Optional OptionalGetElement OptionalHasElement RandomNormalLike RandomUniformLike \
         Reciprocal RegexFullMatch Relu Round Selu SequenceLength Shape Shrink Sigmoid Sign Sin \
         Sinh Size Softmax Softplus Softsign SpaceToDepth Sqrt StringNormalizer StringSplit Swish \
         Tan Tanh TfIdfVectorizer ThresholdedRelu Transpose Unique",
    ),
    (
        "",
        2,
        "Add AffineGrid And BitShift BitwiseAnd BitwiseOr BitwiseXor CastLike CenterCropPad \
         Compress CumProd CumSum Div Equal Expand Gather GatherElements GatherND Greater \
         GreaterOrEqual GridSample Less LessOrEqual MatMul MaxRoiPool Mod Mul Or PRelu Pow \
         RMSNormalization ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean \
         ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape ReverseSequence SequenceAt \
         SequenceErase Split SplitToSequence Squeeze StringConcat Sub SwiGLU TopK Trilu Unsqueeze \
         Upsample Xor",
    ),
    (
        "",
        3,
        "Clip Col2Im Conv ConvTranspose DFT DequantizeLinear Dropout Gemm GroupNormalization \
         InstanceNormalization LayerNormalization MaxUnpool NegativeLogLikelihoodLoss OneHot \
         QuantizeLinear Range RoiAlign Scatter ScatterElements ScatterND SequenceInsert \
         SoftmaxCrossEntropyLoss TensorScatter Tile Where",
    ),
    (
        "",
        4,
        "CausalConvWithState ConvInteger MatMulInteger Pad Resize RotaryEmbedding STFT",
    ),
    (
        "",
        5,
        "BatchNormalization DeformConv MelWeightMatrix NonMaxSuppression Slice",
    ),
    ("", 6, "GRU LinearAttention RNN"),
    ("", 7, "Attention"),
    ("", 8, "LSTM QLinearMatMul"),
    ("", 9, "QLinearConv"),
    (
        "ai.onnx.ml",
        1,
        "Binarizer CastMap CategoryMapper DictVectorizer Imputer LabelEncoder LinearClassifier \
         LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsemble \
         TreeEnsembleClassifier TreeEnsembleRegressor ZipMap",
    ),
    ("ai.onnx.ml", 2, "ArrayFeatureExtractor"),
];

/// The greatest number of inputs that an operator has in any version, if there is one.
pub fn max_inputs(domain: &str, op: &str) -> Option<usize> {
    static ALL: LazyLock<HashMap<(&str, &str), usize>> = LazyLock::new(|| {
        let rows = MAX_INPUTS.iter();
        rows.flat_map(|(d, count, ops)| ops.split(' ').map(|op| ((*d, op), *count)))
            .collect()
    });
    ALL.get(&(domain, op)).copied()
}
