//! Reasons why a valid model is not imported.

use heddle_ir::{DType, Dim, Type};

use crate::types::TypeFault;

/// Something valid that Heddle does not do (yet).
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// Neither ONNX nor the model defines the operator.
    #[error("there is no such operator or function")]
    UnknownOperator,
    /// The operator came after the imported version.
    #[error("this version has no such operator, which came with version {since}")]
    NotYet {
        /// The version that introduced it.
        since: i64,
    },
    /// The expansion depends on the rank of an input.
    #[error("an input whose rank is not known")]
    UnknownRank,
    /// An axis counted from the end of a value of unknown rank.
    #[error("an axis of a value whose rank is not known")]
    AxisOfUnknownRank,
    /// The same for the elements of a sequence.
    #[error("a negative axis of elements whose rank is not known")]
    AxisOfUnknownElements,
    /// A reduction of unknown rank over axes that are negative or computed.
    #[error("an input whose rank is not known, with axes that are negative or not known")]
    ReductionOfUnknownRank,
    /// A computed axis selects among too many.
    #[error("a computed axis of {rank} axes")]
    ComputedAxis {
        /// The number of axes.
        rank: usize,
    },
    /// A list input of dynamic or excessive length.
    #[error("a list whose length is not known at import, or very large ({0})")]
    ListLength(Type),
    /// A dynamic number of channels.
    #[error("a number of channels that is not known at import")]
    ChannelCount,
    /// An element type without an equivalent in the IR.
    #[error("element type {0}")]
    ElementType(&'static str),
    /// A declared type without an equivalent in the IR.
    #[error(transparent)]
    DeclaredType(#[from] TypeFault),
    /// Arithmetic on an element type that has none.
    #[error("arithmetic on {0}")]
    Arithmetic(DType),
    /// Quantisation to this element type.
    #[error("quantisation to {0}")]
    Quantisation(DType),
    /// Labels of this element type.
    #[error("labels of type {0}")]
    Labels(DType),
    /// A signal whose last axis holds neither real nor complex numbers.
    #[error("a last axis of size {0}, not 1 or 2")]
    SignalParts(Dim),
    /// A function fused into another operator.
    #[error("activation {0}")]
    FusedActivation(String),
    /// Groups of rows of a quantised matrix in another order.
    #[error("g_idx")]
    GroupIndices,
    /// Sequences packed into one batch element.
    #[error("is_packed_batching")]
    PackedBatching,
    /// A form of an operator that an attribute or an input asks for.
    #[error("this form of `{0}`")]
    Form(&'static str),
    /// Too many skips between the items of an n-gram.
    #[error("max_skip_count above {limit}")]
    SkipCount {
        /// The largest supported number.
        limit: usize,
    },
    /// Too many comparisons of n-grams.
    #[error("{count} comparisons of items, more than {limit}")]
    Comparisons {
        /// The number that the attributes ask for.
        count: usize,
        /// The largest supported number.
        limit: usize,
    },
    /// A matrix of weights that would hold mostly zeros.
    #[error("weights of {rows} {items} for {columns} {of} each")]
    Weights {
        /// The number of rows.
        rows: usize,
        /// Things that have a row.
        items: &'static str,
        /// The number of columns.
        columns: usize,
        /// Things that have a column.
        of: &'static str,
    },
    /// Interpolation over too many axes.
    #[error("interpolation over {axes} axes")]
    Interpolation {
        /// The number of axes.
        axes: usize,
    },
    /// Keys in a cache that other nodes share.
    #[error("a shared cache of keys")]
    SharedCache,
    /// An image in a file format.
    #[error("compressed images have to be decoded before they reach the model")]
    CompressedImage,
    /// Opset 8 `Scan` with sequence lengths and outputs of unknown rank.
    #[error("sequence lengths with outputs whose rank is not known")]
    PaddedUnknownRank,
    /// Opset 8 `Scan` with sequence lengths and outputs of this element type.
    #[error("sequence lengths with outputs of type {0}")]
    PaddedType(DType),
    /// A recursive function with a graph attribute.
    #[error("a recursive function with a graph as an attribute")]
    RecursionOverGraph,
}

impl Refusal {
    /// May the rank of an input be what is missing?
    pub fn is_of_rank(&self) -> bool {
        matches!(
            self,
            Refusal::UnknownRank | Refusal::AxisOfUnknownRank | Refusal::ReductionOfUnknownRank
        )
    }
}
