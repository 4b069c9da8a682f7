//! The op set: small, closed, with precise semantics.
//!
//! Conventions that hold for all ops:
//! - Parameters that fix the *rank* of a result (axes, permutations) are attributes; parameters that fix
//!   *sizes* (shapes, starts, pads, counts) are operands of type `i64[k]` or `i64[]`, constant or computed.
//! - Axes in attributes are not negative; lists of axes are ascending unless said otherwise.
//! - "Broadcast" is NumPy's: shapes align at the right, an axis of size 1 (or missing) is repeated.
//! - All ops are pure and total on valid shapes, but for [`Op::Random`], which draws anew each time it is
//!   evaluated. Integer arithmetic wraps; an integer divided by zero gives zero. What cannot be
//!   computed at run time (an index out of range, shapes that do not fit) stops the run with an error.
//! - `f16` and `bf16` are computed in `f32` and rounded once per op (sums and products: once at the end).

use std::sync::Arc;

use crate::{DType, FuncId, Tensor, Type};

/// What an instruction does. Operands are listed as `(name: type, …) -> results`.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    // ---- constants and random numbers
    /// `() -> T`: a constant array.
    Const(Tensor),
    /// `(shape: i64[k]) -> T`: random elements of type `dtype`, floats (or `bool`/integers for Bernoulli,
    /// which takes `(p: float tensor)` and keeps its shape).
    Random {
        /// The distribution.
        dist: Distribution,
        /// The result's element type.
        dtype: DType,
        /// A seed of its own, else one that the run supplies.
        seed: Option<u64>,
    },

    // ---- elementwise
    /// `(x) -> same type` (predicates: `bool`).
    Unary(UnaryOp),
    /// `(a, b) -> broadcast`, both of one element type, which is the result's.
    Binary(BinaryOp),
    /// `(a, b) -> bool, broadcast`, both of one element type.
    Compare(CompareOp),
    /// `(cond: bool, a, b) -> broadcast of all three`.
    Select,
    /// `(x) -> to`. Float to integer truncates toward zero and saturates, NaN gives 0; integers wrap; to
    /// `bool` is `!= 0`. To 4- and 8-bit floats rounds to nearest even and, if `saturate`, clamps to the largest finite value;
    /// 4-bit floats always clamp, and `f8e8m0` rounds as `round` says, without sign; what is below its smallest value becomes that
    /// one if `saturate`, else NaN. From `str` parses, to `str` prints the shortest text that reads back as the same number: plain
    /// digits (`-0.5`, `100`) for exponents from -4 to 15, else as `1.5e+20`; `NaN`, `INF` and `-INF`.
    Cast {
        /// The result's element type.
        to: DType,
        /// Clamp what an 8-bit float cannot hold (else NaN or infinity).
        saturate: bool,
        /// How `f8e8m0` is rounded.
        round: ScaleRounding,
    },
    /// `(x) -> to`, the same bits; both types have the same width.
    Bitcast {
        /// The result's element type.
        to: DType,
    },

    // ---- shapes and views
    /// `(x) -> i64[rank]`.
    Shape,
    /// `(x, shape: i64[k]) -> T[k axes]`: the same elements in row-major order. One size may be -1: what is left.
    Reshape,
    /// `(x) -> T`: result axis `i` is axis `perm[i]` of `x`.
    Transpose {
        /// A permutation of all axes.
        perm: Vec<usize>,
    },
    /// `(x) -> T`: inserts axes of size 1 so that they are the result's axes `axes`.
    Unsqueeze {
        /// Axes of the result.
        axes: Vec<usize>,
    },
    /// `(x) -> T`: removes `axes`, which have size 1.
    Squeeze {
        /// Axes of the operand.
        axes: Vec<usize>,
    },
    /// `(x, shape: i64[k]) -> T`: `x` broadcast together with `shape` (ONNX Expand: an axis of `x` may be larger than 1 where `shape` has 1).
    Broadcast,
    /// `(x, starts: i64[k], ends: i64[k], steps: i64[k]) -> T` for the `k` axes in `axes`, with Python's
    /// semantics: negative starts and ends count from the end, both are clamped, steps may be negative, not zero.
    Slice {
        /// The axes that are cut.
        axes: Vec<usize>,
    },
    /// `(x0, …) -> T`, at least one operand, all of one rank and element type.
    Concat {
        /// The axis along which they are joined.
        axis: usize,
    },
    /// `(x, pads: i64[2*rank], value: T[]) -> T`: `pads` are the counts before each axis, then those after; negative counts crop.
    Pad {
        /// What the added elements are.
        mode: PadMode,
    },

    // ---- indexing (indices are i32 or i64; negative ones count from the end)
    /// `(x, indices) -> T`: `indices`' shape replaces `axis` of `x`.
    Gather {
        /// The axis that is indexed.
        axis: usize,
    },
    /// `(x, indices) -> T`, both of one rank: result `[.., i, ..] = x[.., indices[.., i, ..], ..]`, shaped like `indices`.
    GatherElements {
        /// The axis that is indexed.
        axis: usize,
    },
    /// `(x, indices[.., k]) -> T`: the last axis of `indices` holds index tuples; ONNX GatherND.
    GatherNd {
        /// Leading axes that both share.
        batch_dims: usize,
    },
    /// `(x, indices, updates) -> T`, the inverse of [`Op::GatherElements`]; later elements win, or are combined.
    ScatterElements {
        /// The axis that is indexed.
        axis: usize,
        /// How updates and old elements combine.
        reduce: ScatterReduce,
    },
    /// `(x, indices[.., k], updates) -> T`, the inverse of [`Op::GatherNd`] without batch axes.
    ScatterNd {
        /// How updates and old elements combine.
        reduce: ScatterReduce,
    },
    /// `(x, update, starts: i64[rank]) -> T`: `x` with `update`, of the same rank, written at `starts`, which must leave it inside.
    UpdateSlice,
    /// `(start: T[], limit: T[], step: T[]) -> T[?]`: `start + i*step` for `i` below `max(ceil((limit-start)/step), 0)`, a number
    /// that is computed exactly for integers and in double for floats. A step of 0 is an error.
    Range,
    /// `(x) -> i64[rank, ?]`: the indices of elements that are not zero, in row-major order.
    NonZero,

    // ---- reductions and order
    /// `(x) -> T`: over `axes` (may be empty: nothing is reduced).
    Reduce {
        /// How elements combine. Over nothing: 0, 1, the lowest, the highest value (float: infinities).
        kind: ReduceOp,
        /// The axes.
        axes: Vec<usize>,
        /// Keep them with size 1.
        keep: bool,
    },
    /// `(x) -> i64`: the index of the extreme element along `axis`, which must not be empty; NaN counts as the extreme.
    ArgReduce {
        /// Largest or smallest.
        kind: Extreme,
        /// The axis.
        axis: usize,
        /// Keep it with size 1.
        keep: bool,
        /// Of several, the last one instead of the first.
        last: bool,
    },
    /// `(x) -> T`: running sum or product along `axis`.
    Cumulative {
        /// Sum, product, maximum or minimum.
        kind: ReduceOp,
        /// The axis.
        axis: usize,
        /// Leave out the element itself.
        exclusive: bool,
        /// From the end.
        reverse: bool,
    },
    /// `(x, k: i64[]) -> (T, i64)`: the `k` extreme elements along `axis`, sorted, and their indices. Of equal
    /// ones the lower index comes first. NaN is larger than all numbers. `k` may not exceed the axis.
    TopK {
        /// The axis.
        axis: usize,
        /// Largest or smallest first.
        kind: Extreme,
    },
    /// `(x) -> (unique, first index: i64[u], inverse: i64[n], counts: i64[u])`; ONNX Unique.
    Unique {
        /// Compare slices along this axis; `None`: elements of the flattened array.
        axis: Option<usize>,
        /// Ascending order, else order of first appearance.
        sorted: bool,
    },

    // ---- contractions and windows
    /// `(a[.., m, k], b[.., k, n]) -> T[.., m, n]`, leading axes broadcast; both of one arithmetic type.
    Dot,
    /// `(x[n, c, s…], w[o, c/groups, k…], pads: i64[2*spatial]) -> T[n, o, t…]`: cross-correlation over zero-padded `x`
    /// (pads: before each spatial axis, then after; negative ones crop).
    Conv {
        /// Step of the window, per spatial axis.
        strides: Vec<usize>,
        /// Distance of the window's elements.
        dilations: Vec<usize>,
        /// Distance of the input's elements (zeros between them; before padding): 1 but in transposed convolution.
        input_dilations: Vec<usize>,
        /// Channel groups.
        groups: usize,
    },
    /// `(x[.., s…], pads: i64[2*k]) -> T[.., t…]`: reduces windows over the last `k` axes; padding is the kind's neutral element.
    Window {
        /// How elements combine.
        kind: ReduceOp,
        /// Size of the window, per axis.
        window: Vec<usize>,
        /// Step of the window.
        strides: Vec<usize>,
        /// Distance of the window's elements.
        dilations: Vec<usize>,
    },

    // ---- sequences and optionals
    /// `(x0, …) -> seq<T>`: an element for each operand; `elem` is their type (needed when there are none).
    SeqNew {
        /// The elements' type.
        elem: Type,
    },
    /// `(s, x, position: i64[]) -> seq`: before `position` (negative: from the end; the length: at the end).
    SeqInsert,
    /// `(s, position: i64[]) -> seq`.
    SeqErase,
    /// `(s, position: i64[]) -> T`.
    SeqAt,
    /// `(s) -> i64[]`.
    SeqLen,
    /// `(s) -> T`: the elements joined along `axis`, a new one if `stack`. There must be an element.
    SeqConcat {
        /// The result's axis.
        axis: usize,
        /// Along a new axis.
        stack: bool,
    },
    /// `(x, lengths: i64[k]) -> seq<T>`: cut along `axis` into pieces of these lengths, which sum to the axis.
    SeqSplit {
        /// The axis.
        axis: usize,
        /// Each length is 1 and the axis is dropped.
        squeeze: bool,
    },
    /// `(x) -> opt<T>`.
    OptSome,
    /// `() -> opt<elem>`: the empty one.
    OptNone {
        /// The type it would hold.
        elem: Type,
    },
    /// `(o) -> bool[]`.
    OptHas,
    /// `(o) -> T`; an error at run time when empty.
    OptGet,

    // ---- strings
    /// Operations on `str` tensors.
    Str(StrOp),

    // ---- control flow
    /// `(cond: bool[]) -> T…`: regions `then` and `else`, without parameters, yield the results.
    If,
    /// `([trip: i64[]], [cond: bool[]], carried…) -> (carried…, stacked…)`. The one region takes `(iteration: i64[], carried…)` and
    /// yields `([cond: bool[]], carried…, stacked…)`. It runs while `iteration < trip` (if given) and the condition (if given)
    /// is true: the operand before the first iteration, what the region yields thereafter. A stacked result has one element a
    /// iteration along a new leading axis; without iterations its other axes have the sizes that the result's type states, and
    /// 0 where it states none. Without trip count and condition it never ends.
    Loop {
        /// Whether there is a trip count.
        trip: bool,
        /// Whether there is a condition.
        cond: bool,
    },
    /// `(args…) -> results of the function`.
    Call(FuncId),
}

/// One operand, elementwise. Float ones take `f32 f64 f16 bf16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum UnaryOp {
    /// Arithmetic types.
    Neg,
    Abs,
    /// -1, 0 or 1; NaN stays NaN.
    Sign,
    /// Floats from here on.
    Floor,
    Ceil,
    /// To nearest, ties to even.
    Round,
    /// Toward zero.
    Trunc,
    Sqrt,
    Exp,
    Log,
    Expm1,
    Log1p,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    /// `1 / (1 + exp(-x))`, without overflow.
    Sigmoid,
    /// `bool`: logical; integers: bits.
    Not,
    /// Floats (and 8-bit floats) to `bool`.
    IsNan,
    IsInf,
}

/// Two operands of one element type, elementwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    /// Integers: toward zero; by zero: 0.
    Div,
    /// Remainder with the divisor's sign (Python's `%`); integers by zero: 0.
    Mod,
    /// Remainder with the dividend's sign (C's `fmod`, `%`); integers by zero: 0.
    Rem,
    /// Integers: by repeated multiplication, wrapping; a negative exponent gives the truncated quotient `1 / base^|e|`, 0 for base 0.
    Pow,
    /// NaN if either is; on `bool`, or.
    Max,
    /// NaN if either is; on `bool`, and.
    Min,
    /// `bool` or integers.
    And,
    Or,
    Xor,
    /// Integers; by the width or more, or by a negative number: 0.
    Shl,
    /// Integers, logical; by the width or more, or by a negative number: 0.
    Shr,
    /// Floats.
    Atan2,
}

/// Comparisons; any comparison with NaN but `Ne` is false. `bool` and `str` know only `Eq` and `Ne`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// How elements combine in a reduction. `bool` takes `Max` (any) and `Min` (all). NaN wins in `Max` and `Min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Prod,
    Max,
    Min,
}

/// Which end of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Extreme {
    Max,
    Min,
}

/// How a scattered update combines with what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ScatterReduce {
    /// Replaces it.
    Set,
    Add,
    Mul,
    Max,
    Min,
}

/// What padding consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum PadMode {
    /// The value operand.
    Constant,
    /// The nearest element.
    Edge,
    /// Mirrored at the outermost element, which is not repeated; as often as the padding needs. Of one element, that one.
    Reflect,
    /// The other end.
    Wrap,
}

/// Distributions of [`Op::Random`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Distribution {
    /// Uniform in `[low, high)`.
    Uniform {
        low: f64,
        high: f64,
    },
    Normal {
        mean: f64,
        scale: f64,
    },
    /// 1 with the probability that the operand says, else 0.
    Bernoulli,
}

/// How a scale is rounded to a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ScaleRounding {
    Up,
    Down,
    Nearest,
}

/// Operations on `str` tensors; they run on the host.
#[derive(Clone, Debug, PartialEq)]
pub enum StrOp {
    /// `(a, b) -> str, broadcast`: ONNX StringConcat.
    Concat,
    /// `(x) -> (str[.., ?], i64[..])`: pieces, padded with "", and their number; ONNX StringSplit.
    Split {
        /// `None`: runs of white space.
        delimiter: Option<Arc<str>>,
        /// At most this many cuts.
        max_splits: Option<u64>,
    },
    /// `(x) -> bool`: whether the whole string matches (RE2 syntax); ONNX RegexFullMatch.
    FullMatch {
        /// The regular expression.
        pattern: Arc<str>,
    },
    /// `(x: str[c] or str[1,c]) -> str`: ONNX StringNormalizer.
    Normalize {
        /// Change of case of what is kept.
        case: Option<Case>,
        /// Whether stop words are compared with their case.
        case_sensitive: bool,
        /// Strings that are dropped.
        stopwords: Arc<[Box<str>]>,
    },
}

/// Letter case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Case {
    Lower,
    Upper,
}

impl Op {
    /// Whether evaluating it twice on the same operands gives the same results.
    pub fn is_pure(&self) -> bool {
        !matches!(self, Op::Random { .. })
    }

    /// Whether the elements of its results are elements of its first operand or, side by side, of all.
    pub fn only_moves(&self) -> bool {
        matches!(
            self,
            Op::Reshape
                | Op::Transpose { .. }
                | Op::Unsqueeze { .. }
                | Op::Squeeze { .. }
                | Op::Broadcast
                | Op::Slice { .. }
                | Op::Concat { .. }
                | Op::Gather { .. }
                | Op::GatherElements { .. }
                | Op::GatherNd { .. }
        )
    }

    /// The name in the text form.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Const(_) => "const",
            Op::Random {
                dist: Distribution::Uniform { .. },
                ..
            } => "random_uniform",
            Op::Random {
                dist: Distribution::Normal { .. },
                ..
            } => "random_normal",
            Op::Random {
                dist: Distribution::Bernoulli,
                ..
            } => "random_bernoulli",
            Op::Unary(op) => op.name(),
            Op::Binary(op) => op.name(),
            Op::Compare(op) => op.name(),
            Op::Select => "select",
            Op::Cast { .. } => "cast",
            Op::Bitcast { .. } => "bitcast",
            Op::Shape => "shape",
            Op::Reshape => "reshape",
            Op::Transpose { .. } => "transpose",
            Op::Unsqueeze { .. } => "unsqueeze",
            Op::Squeeze { .. } => "squeeze",
            Op::Broadcast => "broadcast",
            Op::Slice { .. } => "slice",
            Op::Concat { .. } => "concat",
            Op::Pad { .. } => "pad",
            Op::Gather { .. } => "gather",
            Op::GatherElements { .. } => "gather_elements",
            Op::GatherNd { .. } => "gather_nd",
            Op::ScatterElements { .. } => "scatter_elements",
            Op::ScatterNd { .. } => "scatter_nd",
            Op::UpdateSlice => "update_slice",
            Op::Range => "range",
            Op::NonZero => "nonzero",
            Op::Reduce { .. } => "reduce",
            Op::ArgReduce { .. } => "arg_reduce",
            Op::Cumulative { .. } => "cumulative",
            Op::TopK { .. } => "top_k",
            Op::Unique { .. } => "unique",
            Op::Dot => "dot",
            Op::Conv { .. } => "conv",
            Op::Window { .. } => "window",
            Op::SeqNew { .. } => "seq_new",
            Op::SeqInsert => "seq_insert",
            Op::SeqErase => "seq_erase",
            Op::SeqAt => "seq_at",
            Op::SeqLen => "seq_len",
            Op::SeqConcat { .. } => "seq_concat",
            Op::SeqSplit { .. } => "seq_split",
            Op::OptSome => "opt_some",
            Op::OptNone { .. } => "opt_none",
            Op::OptHas => "opt_has",
            Op::OptGet => "opt_get",
            Op::Str(StrOp::Concat) => "str_concat",
            Op::Str(StrOp::Split { .. }) => "str_split",
            Op::Str(StrOp::FullMatch { .. }) => "str_full_match",
            Op::Str(StrOp::Normalize { .. }) => "str_normalize",
            Op::If => "if",
            Op::Loop { .. } => "loop",
            Op::Call(_) => "call",
        }
    }

    /// How many regions it has.
    pub fn region_count(&self) -> usize {
        match self {
            Op::If => 2,
            Op::Loop { .. } => 1,
            _ => 0,
        }
    }

    /// A plain cast: 8-bit floats saturate.
    pub fn cast(to: DType) -> Op {
        Op::Cast {
            to,
            saturate: true,
            round: ScaleRounding::Up,
        }
    }
}

macro_rules! names {
    ($($ty:ident { $($variant:ident = $name:literal),* $(,)? })*) => { $(
        impl $ty {
            /// All of them.
            pub const ALL: &'static [$ty] = &[$($ty::$variant),*];
            /// The name in the text form.
            pub const fn name(self) -> &'static str {
                match self { $($ty::$variant => $name),* }
            }
            /// The one with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|v| v.name() == name)
            }
        }
    )* };
}

names! {
    UnaryOp {
        Neg = "neg", Abs = "abs", Sign = "sign", Floor = "floor", Ceil = "ceil", Round = "round",
        Trunc = "trunc", Sqrt = "sqrt", Exp = "exp", Log = "log", Expm1 = "expm1",
        Log1p = "log1p", Sin = "sin", Cos = "cos", Tan = "tan", Asin = "asin", Acos = "acos",
        Atan = "atan", Sinh = "sinh", Cosh = "cosh", Tanh = "tanh", Asinh = "asinh",
        Acosh = "acosh", Atanh = "atanh", Erf = "erf", Sigmoid = "sigmoid", Not = "not",
        IsNan = "is_nan", IsInf = "is_inf",
    }
    BinaryOp {
        Add = "add", Sub = "sub", Mul = "mul", Div = "div", Mod = "mod", Rem = "rem", Pow = "pow",
        Max = "max", Min = "min", And = "and", Or = "or", Xor = "xor", Shl = "shl", Shr = "shr",
        Atan2 = "atan2",
    }
    CompareOp { Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge" }
    ReduceOp { Sum = "sum", Prod = "prod", Max = "max", Min = "min" }
    Extreme { Max = "max", Min = "min" }
    ScatterReduce { Set = "set", Add = "add", Mul = "mul", Max = "max", Min = "min" }
    PadMode { Constant = "constant", Edge = "edge", Reflect = "reflect", Wrap = "wrap" }
    ScaleRounding { Up = "up", Down = "down", Nearest = "nearest" }
    Case { Lower = "lower", Upper = "upper" }
}
