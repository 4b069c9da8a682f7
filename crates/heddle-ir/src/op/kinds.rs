//! The variants within ops: elementwise functions, reductions, modes.

use std::sync::Arc;

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
    /// `u64`: the first 64 of the random bits that Philox 4x32-10 makes of a key and a counter. A draw takes the bits of the
    /// counters 0, 1, …; a new key is a key with the number of a node, an iteration or a call as the counter.
    /// (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3.)
    Philox,
    /// `u64`: a standard normal number of the 128 random bits of a key and a counter, as an `i64` in units of 2^-53. It is
    /// `sqrt(-2 ln u) sin(2 pi v)` (Box and Muller) in the integer arithmetic that `heddle-interp/src/kernels/random.rs` states, so that
    /// all devices draw the same.
    Normal,
    /// `u64`: a standard Gumbel number, `-ln(-ln u)`, of the bits that `Philox` gives; in the form of `Normal`.
    Gumbel,
}

impl BinaryOp {
    /// True if it takes as long as an exponential, or longer.
    pub fn is_function(self) -> bool {
        use BinaryOp::*;
        matches!(self, Pow | Atan2 | Philox | Normal | Gumbel)
    }
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

/// The combination of elements in a reduction. `bool` takes `Max` (any) and `Min` (all). NaN wins in `Max` and `Min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Prod,
    Max,
    Min,
}

/// An end of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Extreme {
    Max,
    Min,
}

/// The combination of a scattered update with the old element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ScatterReduce {
    /// Replaces it; of several updates of one element the last one stays.
    Set,
    /// Replaces it. Each element has one update at most, as passes that write such instructions know. The interpreter checks it; compiled
    /// code does not, and of several updates any may stay.
    Once,
    Add,
    Mul,
    Max,
    Min,
}

/// The elements of padding.
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

/// The rounding of a scale to a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ScaleRounding {
    Up,
    Down,
    Nearest,
}

/// Operations on `str` tensors.
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
        /// Stop words are compared with their case.
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
        Atan2 = "atan2", Philox = "philox", Normal = "normal", Gumbel = "gumbel",
    }
    CompareOp { Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge" }
    ReduceOp { Sum = "sum", Prod = "prod", Max = "max", Min = "min" }
    Extreme { Max = "max", Min = "min" }
    ScatterReduce { Set = "set", Once = "once", Add = "add", Mul = "mul", Max = "max", Min = "min" }
    PadMode { Constant = "constant", Edge = "edge", Reflect = "reflect", Wrap = "wrap" }
    ScaleRounding { Up = "up", Down = "down", Nearest = "nearest" }
    Case { Lower = "lower", Upper = "upper" }
}
