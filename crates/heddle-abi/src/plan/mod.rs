//! Memory plans: every offset, length and shape of a launch as an expression over its sizes.
//!
//! ```text
//! launch sizes = the program's named sizes, number of workers, depth limit
//! expression   = number | launch size | operation on earlier expressions
//! plan         = expressions, the words of the launch table, arrays of inputs and outputs, scratch bytes, checks
//! ```
//!
//! Expressions are in evaluation order: each refers to earlier ones only. Integers of 64 bits wrap like the model's own, and
//! the evaluator notes that they did: a value derived from a wrapped one must not become an amount of memory.

mod evaluate;
mod scalar;

use std::fmt;

pub use evaluate::Launch;
pub use scalar::{Comparison, Domain, FloatKind, FloatOp, Function, IntKind, IntOp};

/// Alignment of every buffer in scratch memory, in bytes.
pub const ALIGNMENT: i64 = 64;

/// Launch sizes after the program's own: number of workers, depth limit.
pub const EXTRA_SIZES: usize = 2;

/// The number of an expression of a [`Plan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(u32);

impl Value {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A scalar of the launch. Integers are `i64`, those of unsigned 64-bit types by their bits; floats are `f64`, by their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A constant.
    Number(i64),
    /// A launch size.
    Size(usize),
    /// Integer arithmetic, wrapping to the type; division by zero gives 0.
    Integer(IntOp, IntKind, Value, Value),
    /// A number of elements: 0 if a factor is, else not an amount of memory if a factor is negative.
    Product(Value, Value),
    /// Float arithmetic in double precision.
    Float(FloatOp, Value, Value),
    /// A function of a float.
    Function(Function, Value),
    /// 1 or 0.
    Compare(Comparison, Domain, Value, Value),
    /// The second operand where the first is not zero, else the third.
    Select(Value, Value, Value),
    /// An integer wrapped to a type.
    Wrap(IntKind, Value),
    /// A float rounded to a type.
    Round(FloatKind, Value),
    /// A float truncated and clamped to a type; NaN gives 0.
    ToInteger(IntKind, Value),
    /// An integer of a type as `f64`, or rounded once to `f32`.
    ToFloat(IntKind, FloatKind, Value),
    /// The bits of a float of a type, zero-extended.
    ToBits(FloatKind, Value),
    /// The float of a type with these bits.
    FromBits(FloatKind, Value),
    /// An index into an axis of this size; a negative one counts from the end.
    Index(Value, Value),
    /// The next multiple of [`ALIGNMENT`].
    Align(Value),
}

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Its name in the model.
    pub name: String,
    /// Its bytes at most; 0 if the run determines them.
    pub bytes: Value,
    /// For an output in a segment, whose size the run determines: bytes of an element.
    pub grows: Option<i64>,
    /// The size of each axis, where the launch determines it.
    pub shape: Vec<Option<Value>>,
}

/// A value that must not have overflowed nor be negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The value.
    pub value: Value,
    /// The node or buffer for messages.
    pub node: String,
}

/// The memory plan of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    sizes: usize,
    exprs: Vec<Expr>,
    /// Values that may leave the 64-bit range must be checked before they are used as memory.
    checks: Vec<Check>,
    /// The launch table, word by word.
    pub table: Vec<Value>,
    /// The inputs, in order.
    pub inputs: Vec<Array>,
    /// The outputs, in order.
    pub outputs: Vec<Array>,
    /// The memory of a launch besides inputs, outputs and constants.
    pub scratch: Region,
    /// The number of segments: memory whose size the run determines.
    pub segments: usize,
}

/// Memory that buffers are laid out in, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Bytes so far; `None`: none.
    end: Option<Value>,
}

/// Why memory can't be planned for the sizes of a launch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{node}: {fault}, with the sizes {sizes:?}: use smaller inputs")]
pub struct PlanError {
    /// The node or buffer.
    pub node: String,
    /// The reason.
    pub fault: PlanFault,
    /// Named sizes, number of workers, depth limit.
    pub sizes: Vec<i64>,
}

/// Reasons of a [`PlanError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanFault {
    /// An amount of memory exceeds 64 bits.
    Overflow,
    /// An amount of memory is negative.
    Negative(i64),
    /// An index from which sizes are computed is out of range.
    Index {
        /// The index.
        index: i64,
        /// The size of the axis.
        size: i64,
    },
}

impl fmt::Display for PlanFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanFault::Overflow => f.write_str("its memory exceeds what can be addressed"),
            PlanFault::Negative(bytes) => write!(f, "its size is negative ({bytes})"),
            PlanFault::Index { index, size } => {
                write!(
                    f,
                    "index {index} is out of range for an axis of size {size}"
                )
            }
        }
    }
}

impl Plan {
    /// An empty plan over so many named sizes.
    pub fn new(sizes: usize) -> Plan {
        Plan {
            sizes,
            ..Plan::default()
        }
    }

    /// The number of named sizes.
    pub fn sizes(&self) -> usize {
        self.sizes
    }

    /// An expression.
    ///
    /// # Panics
    /// If a value or size is not this plan's.
    pub fn add(&mut self, expr: Expr) -> Value {
        let known = |v: Value| v.index() < self.exprs.len();
        let (operands, len) = expr.operands();
        assert!(operands[..len].iter().all(|v| known(*v)), "{expr:?}");
        if let Expr::Size(size) = expr {
            assert!(size < self.sizes + EXTRA_SIZES, "{expr:?}");
        }
        self.exprs.push(expr);
        Value(u32::try_from(self.exprs.len() - 1).expect("fewer than 2^32 expressions"))
    }

    /// An integer constant.
    pub fn int(&mut self, value: i64) -> Value {
        self.add(Expr::Number(value))
    }

    /// A named size.
    pub fn size(&mut self, size: usize) -> Value {
        self.add(Expr::Size(size))
    }

    /// The number of workers.
    pub fn workers(&mut self) -> Value {
        self.add(Expr::Size(self.sizes))
    }

    /// The limit on recursion depth.
    pub fn depth_limit(&mut self) -> Value {
        self.add(Expr::Size(self.sizes + 1))
    }

    /// Arithmetic on amounts of memory.
    pub fn integer(&mut self, op: IntOp, a: Value, b: Value) -> Value {
        self.add(Expr::Integer(op, IntKind::I64, a, b))
    }

    /// Requires that a value is an amount of memory: not negative, no overflow.
    pub fn check(&mut self, value: Value, node: &str) {
        self.checks.push(Check {
            value,
            node: node.to_owned(),
        });
    }

    /// The checked bytes of `count` elements of `width` bytes.
    pub fn bytes(&mut self, count: Value, width: i64, node: &str) -> Value {
        self.check(count, node);
        let width = self.int(width);
        let bytes = self.integer(IntOp::Mul, count, width);
        self.check(bytes, node);
        bytes
    }

    /// Bytes rounded up to the alignment of buffers, checked.
    pub fn aligned(&mut self, bytes: Value, node: &str) -> Value {
        let aligned = self.add(Expr::Align(bytes));
        self.check(aligned, node);
        aligned
    }

    /// Lays `bytes` out at the end of a region; returns their offset.
    pub fn reserve(&mut self, region: &mut Region, bytes: Value, node: &str) -> Value {
        let offset = self.end(region);
        let aligned = self.aligned(bytes, node);
        let end = self.integer(IntOp::Add, offset, aligned);
        self.check(end, node);
        region.end = Some(end);
        offset
    }

    /// The bytes of a region.
    pub fn end(&mut self, region: &mut Region) -> Value {
        match region.end {
            Some(end) => end,
            None => *region.end.insert(self.int(0)),
        }
    }

    /// Lays `bytes` out in the launch's scratch memory; returns their offset.
    pub fn reserve_scratch(&mut self, bytes: Value, node: &str) -> Value {
        let mut scratch = self.scratch;
        let offset = self.reserve(&mut scratch, bytes, node);
        self.scratch = scratch;
        offset
    }

    /// Appends a word to the launch table; returns its place.
    pub fn word(&mut self, value: Value) -> usize {
        self.table.push(value);
        self.table.len() - 1
    }
}

impl Expr {
    /// The values that it refers to, and their number.
    fn operands(self) -> ([Value; 3], usize) {
        let none = Value(0);
        match self {
            Expr::Number(_) | Expr::Size(_) => ([none; 3], 0),
            Expr::Function(_, a)
            | Expr::Wrap(_, a)
            | Expr::Round(_, a)
            | Expr::ToInteger(_, a)
            | Expr::ToFloat(_, _, a)
            | Expr::ToBits(_, a)
            | Expr::FromBits(_, a)
            | Expr::Align(a) => ([a, none, none], 1),
            Expr::Integer(_, _, a, b)
            | Expr::Product(a, b)
            | Expr::Float(_, a, b)
            | Expr::Compare(_, _, a, b)
            | Expr::Index(a, b) => ([a, b, none], 2),
            Expr::Select(a, b, c) => ([a, b, c], 3),
        }
    }
}
