//! Properties of ops: one row per op, read by passes instead of lists of ops.
//!
//! Adding an op means a variant of [`Op`], a row here, a prototype, its inference rule, its attributes in the text
//! form, its kernel in the interpreter and its lowering. Passes ask for properties.

use super::{BinaryOp, Op, ReduceOp, ScatterReduce, StrOp, UnaryOp};
use crate::DType;

/// The static properties of an op.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Props {
    /// Name in the text form; elementwise ops go by the name of their kind.
    pub name: &'static str,
    /// The operands that the op takes.
    pub operands: Operands,
    /// The number of regions.
    pub regions: usize,
    /// Effects besides the results.
    pub effect: Effect,
    /// Conditions under which evaluation cannot fail.
    pub failure: Failure,
    /// The class of work that evaluation takes.
    pub cost: Cost,
    /// Upper bound of the results' axes.
    pub extent: Extent,
    /// The kind of gradient rule.
    pub gradient: Gradient,
    /// Every element of a result is an element of the first operand or, for a concatenation, of any.
    pub moves: bool,
}

/// The operands of an op: a fixed list, then any number of one more kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operands {
    /// Leading operands, all of which must be given.
    pub fixed: &'static [Operand],
    /// The kind of further operands, if the op is variadic.
    pub rest: Option<Operand>,
}

/// The rule for one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The type that is asked for.
    pub ty: OperandType,
    /// The operand's elements fix sizes of a result.
    pub sizes: bool,
}

/// The type that an op asks of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandType {
    /// A type of its own, which inference checks.
    Any,
    /// One element type, shared by all operands with this rule.
    Shared,
    /// This element type.
    Is(DType),
    /// Positions: `i32` or `i64`.
    Index,
}

/// Effects of an instruction besides its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None: equal operands give equal results.
    Pure,
    /// None, but the result depends on the run: equal operands give equal results within one run.
    Run,
    /// The effects of its regions. A loop may also never end.
    Regions,
    /// The effects of the function that it calls.
    Callee,
}

/// Conditions under which an instruction can be evaluated speculatively; [`cannot_fail`](crate::cannot_fail) checks
/// them for an instruction. Allocation failure does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Never fails on operands that inference takes.
    Never,
    /// Fails only if the operands do not broadcast.
    Broadcast,
    /// Fails only by sizes: safe if all of them are static and the operands that give sizes are constants.
    Sizes,
    /// Has a rule of its own in [`cannot_fail`](crate::cannot_fail).
    Rule,
    /// May fail, or make a result of another size, by what the operands hold.
    Data,
    /// Fails as its regions or its callee do.
    Nested,
}

/// Classes of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Nothing: a constant.
    Constant,
    /// Index arithmetic; no element is touched.
    View,
    /// A few arithmetic instructions for each element.
    Elementwise,
    /// A library function for each element.
    Transcendental,
    /// Computes elements from scalars: ranges.
    Generate,
    /// Copies runs of elements.
    Copy,
    /// Reads or writes single elements by computed indices.
    Indexed,
    /// Copies an array and overwrites a part of it; in place, only the part.
    Update,
    /// Reads several elements for each result.
    Reduction,
    /// Sorts, searches or compacts.
    Order,
    /// Sums of products: a matrix product or a convolution.
    Contraction,
    /// Sequences and optionals: handles, not elements.
    Container,
    /// Strings: a few instructions for each byte.
    Text,
    /// Regions and calls.
    Control,
}

/// Upper bound of the sizes of a result's axes, given the operands' shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The same axis of the first operand, if the result has its rank.
    FirstOperand,
    /// The largest of the operands' axes that it aligns with.
    Broadcast,
    /// A rule of its own, or none.
    Other,
}

/// The kind of gradient rule that reverse-mode differentiation uses for an op.
///
/// Gradients flow only between floats: operands and results of other element types (indices, sizes, conditions) are
/// constants to every rule. A cast between floats counts as the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradient {
    /// The derivative is zero wherever it exists, or there is no operand to differentiate by.
    Zero,
    /// Linear in all float operands together: the transpose, which needs no float operand's value. A range is linear as long
    /// as the number of its elements stays.
    Linear,
    /// Linear in each float operand while the others stay: the product rule, which needs the others' values.
    Multilinear,
    /// A function of one element of each operand: its partial derivatives, element by element.
    Elementwise,
    /// Results are elements of operands, chosen by their values: the gradient goes to the chosen elements.
    Selection,
    /// Products of many elements of one operand: the product of the others.
    Product,
    /// Builds, edits or reads sequences and optionals: the gradient is a container, too.
    Container,
    /// Control flow: the regions' or the callee's gradients.
    Nested,
}

const ANY: Operand = Operand::new(OperandType::Any);
const SHARED: Operand = Operand::new(OperandType::Shared);
const INDEX: Operand = Operand::new(OperandType::Index);
const SCALAR_INDEX: Operand = Operand::new(OperandType::Is(DType::I64));
const COND: Operand = Operand::new(OperandType::Is(DType::Bool));
const TEXT: Operand = Operand::new(OperandType::Is(DType::Str));
const SIZES: Operand = SCALAR_INDEX.sizes();
const SHARED_SIZES: Operand = SHARED.sizes();

impl Operand {
    const fn new(ty: OperandType) -> Self {
        Self { ty, sizes: false }
    }

    const fn sizes(self) -> Self {
        Self {
            sizes: true,
            ..self
        }
    }
}

impl Operands {
    /// The rule for the operand at this position.
    pub fn get(&self, i: usize) -> Option<Operand> {
        self.fixed.get(i).copied().or(self.rest)
    }

    /// The positions of operands that fix sizes of a result.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + use<> {
        let fixed = self.fixed.iter().enumerate();
        fixed.filter(|(_, o)| o.sizes).map(|(i, _)| i)
    }
}

/// A pure op that may fail by its data; the builders below change that.
const fn row(name: &'static str, fixed: &'static [Operand], cost: Cost, slot: Gradient) -> Props {
    Props {
        name,
        operands: Operands { fixed, rest: None },
        regions: 0,
        effect: Effect::Pure,
        failure: Failure::Data,
        cost,
        extent: Extent::Other,
        gradient: slot,
        moves: false,
    }
}

impl Props {
    const fn fails(self, failure: Failure) -> Self {
        Self { failure, ..self }
    }

    const fn moves(self) -> Self {
        Self {
            moves: true,
            ..self
        }
    }

    const fn bounded(self, extent: Extent) -> Self {
        Self { extent, ..self }
    }

    const fn rest(self, rest: Operand) -> Self {
        let fixed = self.operands.fixed;
        Self {
            operands: Operands {
                fixed,
                rest: Some(rest),
            },
            ..self
        }
    }

    const fn with(self, effect: Effect, regions: usize) -> Self {
        let failure = match effect {
            Effect::Regions | Effect::Callee => Failure::Nested,
            _ => self.failure,
        };
        Self {
            effect,
            regions,
            failure,
            ..self
        }
    }
}

impl Op {
    /// Is it a sum of products, whose weights a batch reads once?
    pub fn is_contraction(&self) -> bool {
        matches!(self, Op::Dot | Op::Conv { .. })
    }

    /// The op's properties.
    pub fn props(&self) -> &'static Props {
        match self {
            Op::Const(_) => &CONST,
            Op::RunKey => &RUN_KEY,
            Op::Fail { .. } => &FAIL,
            Op::Unary(kind) => unary(*kind),
            Op::Binary(kind) => binary(*kind),
            Op::Compare(_) => &COMPARE,
            Op::Select => &SELECT,
            Op::Cast { .. } => &CAST,
            Op::Bitcast { .. } => &BITCAST,
            Op::Shape => &SHAPE,
            Op::Reshape => &RESHAPE,
            Op::Transpose { .. } => &TRANSPOSE,
            Op::Unsqueeze { .. } => &UNSQUEEZE,
            Op::Squeeze { .. } => &SQUEEZE,
            Op::Broadcast => &BROADCAST,
            Op::Slice { .. } => &SLICE,
            Op::Concat { .. } => &CONCAT,
            Op::Pad { .. } => &PAD,
            Op::Gather { .. } => &GATHER,
            Op::GatherElements { .. } => &GATHER_ELEMENTS,
            Op::GatherNd { .. } => &GATHER_ND,
            Op::ScatterElements { reduce, .. } => scatter(*reduce, true),
            Op::ScatterNd { reduce } => scatter(*reduce, false),
            Op::UpdateSlice => &UPDATE_SLICE,
            Op::Range => &RANGE,
            Op::NonZero => &NONZERO,
            Op::Reduce { kind, .. } => reduction(*kind)[0],
            Op::Cumulative { kind, .. } => reduction(*kind)[1],
            Op::Window { kind, .. } => reduction(*kind)[2],
            Op::SegmentReduce { kind } => reduction(*kind)[3],
            Op::ArgReduce { .. } => &ARG_REDUCE,
            Op::TopK { .. } => &TOP_K,
            Op::Unique { .. } => &UNIQUE,
            Op::Dot => &DOT,
            Op::Conv { .. } => &CONV,
            Op::SeqNew { .. } => &SEQ_NEW,
            Op::SeqInsert => &SEQ_INSERT,
            Op::SeqErase => &SEQ_ERASE,
            Op::SeqAt => &SEQ_AT,
            Op::SeqLen => &SEQ_LEN,
            Op::SeqConcat { .. } => &SEQ_CONCAT,
            Op::SeqSplit { .. } => &SEQ_SPLIT,
            Op::OptSome => &OPT_SOME,
            Op::OptNone { .. } => &OPT_NONE,
            Op::OptHas => &OPT_HAS,
            Op::OptGet => &OPT_GET,
            Op::Str(kind) => text(kind),
            Op::Loop { trip, cond } => repeat(*trip, *cond),
            Op::If => &IF,
            Op::Call(_) => &CALL,
        }
    }
}

const CONST: Props = row("const", &[], Cost::Constant, Gradient::Zero).fails(Failure::Never);
const RUN_KEY: Props = row("run_key", &[], Cost::Constant, Gradient::Zero)
    .fails(Failure::Never)
    .with(Effect::Run, 0);
const FAIL: Props = row("fail", &[], Cost::Constant, Gradient::Zero).fails(Failure::Data);
const COMPARE: Props = pointwise("compare", &[SHARED; 2], Gradient::Zero);
const SELECT: Props = pointwise("select", &[COND, SHARED, SHARED], Gradient::Linear);
const CAST: Props = row("cast", &[ANY], Cost::Elementwise, Gradient::Linear)
    .fails(Failure::Rule)
    .bounded(Extent::FirstOperand);
const BITCAST: Props =
    row("bitcast", &[ANY], Cost::Elementwise, Gradient::Zero).fails(Failure::Never);

const SHAPE: Props = row("shape", &[ANY], Cost::View, Gradient::Zero).fails(Failure::Never);
const RESHAPE: Props = view("reshape", &[ANY, SIZES], Failure::Sizes);
const TRANSPOSE: Props = view("transpose", &[ANY], Failure::Never);
const UNSQUEEZE: Props = view("unsqueeze", &[ANY], Failure::Never);
const SQUEEZE: Props = view("squeeze", &[ANY], Failure::Rule);
const BROADCAST: Props = view("broadcast", &[ANY, SIZES], Failure::Sizes);
const SLICE: Props =
    view("slice", &[ANY, SIZES, SIZES, SIZES], Failure::Rule).bounded(Extent::FirstOperand);
const CONCAT: Props = row("concat", &[SHARED], Cost::Copy, Gradient::Linear)
    .rest(SHARED)
    .fails(Failure::Rule)
    .moves();
const PAD: Props = row(
    "pad",
    &[SHARED, SIZES, SHARED],
    Cost::Copy,
    Gradient::Linear,
)
.fails(Failure::Sizes);

const GATHER: Props = row("gather", &[ANY, INDEX], Cost::Copy, Gradient::Linear)
    .fails(Failure::Rule)
    .moves();
const GATHER_ELEMENTS: Props = row(
    "gather_elements",
    &[ANY, INDEX],
    Cost::Indexed,
    Gradient::Linear,
)
.moves();
const GATHER_ND: Props = row("gather_nd", &[ANY, INDEX], Cost::Indexed, Gradient::Linear).moves();
const UPDATE_SLICE: Props = row(
    "update_slice",
    &[SHARED, SHARED, SCALAR_INDEX],
    Cost::Update,
    Gradient::Linear,
)
.bounded(Extent::FirstOperand);
const RANGE: Props = row(
    "range",
    &[SHARED_SIZES; 3],
    Cost::Generate,
    Gradient::Linear,
);
const NONZERO: Props = row("nonzero", &[ANY], Cost::Order, Gradient::Zero);

const ARG_REDUCE: Props =
    row("arg_reduce", &[ANY], Cost::Reduction, Gradient::Zero).fails(Failure::Rule);
const TOP_K: Props =
    row("top_k", &[ANY, SIZES], Cost::Order, Gradient::Selection).bounded(Extent::FirstOperand);
const UNIQUE: Props =
    row("unique", &[ANY], Cost::Order, Gradient::Selection).bounded(Extent::FirstOperand);
const DOT: Props = row(
    "dot",
    &[SHARED; 2],
    Cost::Contraction,
    Gradient::Multilinear,
)
.fails(Failure::Rule);
const CONV: Props = row(
    "conv",
    &[SHARED, SHARED, SIZES],
    Cost::Contraction,
    Gradient::Multilinear,
)
.fails(Failure::Sizes);

const SEQ_NEW: Props = container("seq_new", &[]).rest(ANY).fails(Failure::Never);
const SEQ_INSERT: Props = container("seq_insert", &[ANY, ANY, SCALAR_INDEX]);
const SEQ_ERASE: Props = container("seq_erase", &[ANY, SCALAR_INDEX]);
const SEQ_AT: Props = container("seq_at", &[ANY, SCALAR_INDEX]);
const SEQ_LEN: Props = query("seq_len", &[ANY]);
const SEQ_CONCAT: Props = container("seq_concat", &[ANY]);
const SEQ_SPLIT: Props = container("seq_split", &[ANY, SIZES]);
const OPT_SOME: Props = container("opt_some", &[ANY]).fails(Failure::Never);
const OPT_NONE: Props = query("opt_none", &[]);
const OPT_HAS: Props = query("opt_has", &[ANY]);
const OPT_GET: Props = container("opt_get", &[ANY]);

const IF: Props = row("if", &[COND], Cost::Control, Gradient::Nested).with(Effect::Regions, 2);
const CALL: Props = row("call", &[], Cost::Control, Gradient::Nested)
    .rest(ANY)
    .with(Effect::Callee, 0);

/// A view, which moves all elements.
const fn view(name: &'static str, fixed: &'static [Operand], failure: Failure) -> Props {
    row(name, fixed, Cost::View, Gradient::Linear)
        .fails(failure)
        .moves()
}

/// An op that builds, edits or reads a sequence or an optional.
const fn container(name: &'static str, fixed: &'static [Operand]) -> Props {
    row(name, fixed, Cost::Container, Gradient::Container)
}

/// An op on containers that no gradient flows through.
const fn query(name: &'static str, fixed: &'static [Operand]) -> Props {
    row(name, fixed, Cost::Container, Gradient::Zero).fails(Failure::Never)
}

/// An elementwise op on broadcast operands.
const fn pointwise(name: &'static str, fixed: &'static [Operand], slot: Gradient) -> Props {
    row(name, fixed, Cost::Elementwise, slot)
        .fails(Failure::Broadcast)
        .bounded(Extent::Broadcast)
}

fn unary(kind: UnaryOp) -> &'static Props {
    use UnaryOp::*;
    const fn one(cost: Cost, slot: Gradient) -> Props {
        row("unary", &[ANY], cost, slot)
            .fails(Failure::Never)
            .bounded(Extent::FirstOperand)
    }
    match kind {
        Neg => const { &one(Cost::Elementwise, Gradient::Linear) },
        Abs | Sqrt => const { &one(Cost::Elementwise, Gradient::Elementwise) },
        Sign | Floor | Ceil | Round | Trunc | Not | IsNan | IsInf => {
            const { &one(Cost::Elementwise, Gradient::Zero) }
        }
        Exp | Log | Expm1 | Log1p | Sin | Cos | Tan | Asin | Acos | Atan | Sinh | Cosh | Tanh
        | Asinh | Acosh | Atanh | Erf | Sigmoid => {
            const { &one(Cost::Transcendental, Gradient::Elementwise) }
        }
    }
}

fn binary(kind: BinaryOp) -> &'static Props {
    use BinaryOp::*;
    const fn two(cost: Cost, slot: Gradient) -> Props {
        Props {
            cost,
            ..pointwise("binary", &[SHARED; 2], slot)
        }
    }
    match kind {
        Add | Sub => const { &two(Cost::Elementwise, Gradient::Linear) },
        Mul => const { &two(Cost::Elementwise, Gradient::Multilinear) },
        Div | Mod | Rem | Max | Min => const { &two(Cost::Elementwise, Gradient::Elementwise) },
        Pow | Atan2 => const { &two(Cost::Transcendental, Gradient::Elementwise) },
        And | Or | Xor | Shl | Shr | Philox => const { &two(Cost::Elementwise, Gradient::Zero) },
        Normal | Gumbel => const { &two(Cost::Transcendental, Gradient::Zero) },
    }
}

/// The rows of [`Op::Reduce`], [`Op::Cumulative`], [`Op::Window`] and [`Op::SegmentReduce`].
fn reduction(kind: ReduceOp) -> [&'static Props; 4] {
    const fn reduce(slot: Gradient) -> Props {
        row("reduce", &[ANY], Cost::Reduction, slot).fails(Failure::Never)
    }
    const fn cumulative(slot: Gradient) -> Props {
        row("cumulative", &[ANY], Cost::Reduction, slot)
            .fails(Failure::Never)
            .bounded(Extent::FirstOperand)
    }
    const fn window(slot: Gradient) -> Props {
        row("window", &[ANY, SIZES], Cost::Reduction, slot).fails(Failure::Sizes)
    }
    const fn segments(slot: Gradient) -> Props {
        row(
            "segment_reduce",
            &[ANY, SCALAR_INDEX],
            Cost::Reduction,
            slot,
        )
    }
    macro_rules! rows {
        ($slot:ident) => {
            [
                const { &reduce(Gradient::$slot) },
                const { &cumulative(Gradient::$slot) },
                const { &window(Gradient::$slot) },
                const { &segments(Gradient::$slot) },
            ]
        };
    }
    match kind {
        ReduceOp::Sum => rows!(Linear),
        ReduceOp::Prod => rows!(Product),
        ReduceOp::Max | ReduceOp::Min => rows!(Selection),
    }
}

/// The rows of [`Op::ScatterElements`] and [`Op::ScatterNd`].
fn scatter(reduce: ScatterReduce, elements: bool) -> &'static Props {
    const fn by_element(slot: Gradient) -> Props {
        row(
            "scatter_elements",
            &[SHARED, INDEX, SHARED],
            Cost::Update,
            slot,
        )
    }
    const fn by_tuple(slot: Gradient) -> Props {
        row("scatter_nd", &[SHARED, INDEX, SHARED], Cost::Update, slot)
    }
    macro_rules! rows {
        ($slot:ident) => {
            match elements {
                true => const { &by_element(Gradient::$slot) },
                false => const { &by_tuple(Gradient::$slot) },
            }
        };
    }
    match reduce {
        ScatterReduce::Set | ScatterReduce::Once | ScatterReduce::Add => rows!(Linear),
        ScatterReduce::Mul => rows!(Product),
        ScatterReduce::Max | ScatterReduce::Min => rows!(Selection),
    }
}

fn text(kind: &StrOp) -> &'static Props {
    const fn host(name: &'static str, fixed: &'static [Operand]) -> Props {
        row(name, fixed, Cost::Text, Gradient::Zero)
    }
    match kind {
        StrOp::Concat => const { &host("str_concat", &[TEXT; 2]) },
        StrOp::Split { .. } => const { &host("str_split", &[TEXT]) },
        StrOp::FullMatch { .. } => const { &host("str_full_match", &[TEXT]) },
        StrOp::Normalize { .. } => const { &host("str_normalize", &[TEXT]) },
    }
}

/// The trip count is the size of scan outputs.
fn repeat(trip: bool, cond: bool) -> &'static Props {
    const fn of(fixed: &'static [Operand]) -> Props {
        row("loop", fixed, Cost::Control, Gradient::Nested)
            .rest(ANY)
            .with(Effect::Regions, 1)
    }
    match (trip, cond) {
        (false, false) => const { &of(&[]) },
        (false, true) => const { &of(&[COND]) },
        (true, false) => const { &of(&[SIZES]) },
        (true, true) => const { &of(&[SIZES, COND]) },
    }
}
