//! The op set: small, closed, with precise semantics.
//!
//! Conventions that hold for all ops:
//! - Parameters that fix the *rank* of a result (axes, permutations) are attributes; parameters that fix
//!   *sizes* (shapes, starts, pads, counts) are operands of type `i64[k]` or `i64[]`, constant or computed.
//! - Axes in attributes are not negative; lists of axes are ascending unless said otherwise.
//! - "Broadcast" is NumPy's: shapes align at the right, an axis of size 1 (or missing) is repeated.
//! - All ops are pure and total on valid shapes. Random numbers are a function of a key, an operand ([`BinaryOp::Philox`]);
//!   [`Op::RunKey`] is the one key that differs from run to run. Integer arithmetic wraps; an integer divided by zero gives zero. What cannot be
//!   computed at run time (an index out of range, shapes that do not fit) stops the run with an error.
//! - `f16` and `bf16` are computed in `f32` and rounded once per op (sums and products: once at the end).

mod kinds;
mod props;
mod prototype;

use std::sync::Arc;

use crate::{DType, FuncId, Tensor, Type};

pub use kinds::{
    BinaryOp, Case, CompareOp, Extreme, PadMode, ReduceOp, ScaleRounding, ScatterReduce, StrOp,
    UnaryOp,
};
pub use props::{Cost, Effect, Extent, Failure, Gradient, Operand, OperandType, Operands, Props};

/// The operation of an instruction. Operands are listed as `(name: type, …) -> results`.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    // ---- constants and the run's key
    /// `() -> T`: a constant array.
    Const(Tensor),
    /// `() -> u64[]`: the run's seed, the same wherever it is evaluated in one run.
    RunKey,
    /// `() -> i64[]`: stops the run with an error wherever it is evaluated and a result depends on it. It stands for what is known not
    /// to fit in a branch that may never be taken.
    Fail {
        /// The error.
        message: Arc<str>,
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
        /// The rounding of `f8e8m0`.
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
        /// The added elements.
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
        /// The combination of updates and old elements.
        reduce: ScatterReduce,
    },
    /// `(x, indices[.., k], updates) -> T`, the inverse of [`Op::GatherNd`] without batch axes.
    ScatterNd {
        /// The combination of updates and old elements.
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
        /// The combination of elements. Over nothing: 0, 1, the lowest, the highest value (float: infinities).
        kind: ReduceOp,
        /// The axes.
        axes: Vec<usize>,
        /// Keep them with size 1.
        keep: bool,
    },
    /// `(x[n, …], offsets: i64[rows + 1]) -> T[rows, …]`: row `r` combines the elements of `x` from `offsets[r]` to before
    /// `offsets[r + 1]`. Offsets begin with 0, never fall, and end with `n`; anything else is an error. A row of no
    /// elements is what [`Op::Reduce`] gives over nothing.
    SegmentReduce {
        /// The combination of elements.
        kind: ReduceOp,
    },
    /// `(x) -> i64`: the index of the extreme element along `axis`, which must not be empty; NaN counts as the extreme.
    ArgReduce {
        /// Largest or smallest.
        kind: Extreme,
        /// The axis.
        axis: usize,
        /// Keep it with size 1.
        keep: bool,
        /// The last one of several instead of the first.
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
        /// The combination of elements.
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
        /// There is a trip count.
        trip: bool,
        /// There is a condition.
        cond: bool,
    },
    /// `(args…) -> results of the function`.
    Call(FuncId),
}

impl Op {
    /// Can the op be evaluated before the run, given its operands? Control flow as far as its regions or its callee can.
    pub fn is_static(&self) -> bool {
        self.props().effect != Effect::Run
    }

    /// Is every element of a result an element of the first operand or, for a concatenation, of any?
    pub fn only_moves(&self) -> bool {
        self.props().moves
    }

    /// Does each element of the result depend on one element of each operand only?
    pub fn is_elementwise(&self) -> bool {
        matches!(self.props().cost, Cost::Elementwise | Cost::Transcendental)
    }

    /// The name in the text form.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Unary(kind) => kind.name(),
            Op::Binary(kind) => kind.name(),
            Op::Compare(kind) => kind.name(),
            op => op.props().name,
        }
    }

    /// The number of regions.
    pub fn region_count(&self) -> usize {
        self.props().regions
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
