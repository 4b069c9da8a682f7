//! Expressions over launch sizes, translated from the program's to the plan's.

use std::collections::{BTreeMap, HashMap};

use heddle_abi::Plan;
use heddle_abi::plan::{
    Comparison, Domain, Expr as Scalar, FloatKind, FloatOp, Function, IntKind, IntOp, Value,
};
use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};

use crate::expr::{Expr, ExprId};
use crate::program::{Local, UProgram};

/// Translates expressions; each once.
pub struct Scalars<'p> {
    program: &'p UProgram,
    /// Launch sizes by their variables.
    given: HashMap<Local, usize>,
    definitions: HashMap<Local, ExprId>,
    known: HashMap<ExprId, Value>,
    /// Derived sizes that something depends on.
    derived: BTreeMap<Local, Value>,
}

/// The name of an operation that plans don't have.
type Unsupported = &'static str;
type Result<T> = std::result::Result<T, Unsupported>;

/// A type of scalars that plans compute with.
#[derive(Clone, Copy)]
enum Kind {
    Int(IntKind),
    Float(FloatKind),
}

impl<'p> Scalars<'p> {
    pub fn new(program: &'p UProgram) -> Self {
        let given = program.sizes.iter().enumerate();
        Self {
            program,
            given: given.map(|(k, (_, local))| (*local, k)).collect(),
            definitions: program.derived.iter().copied().collect(),
            known: HashMap::new(),
            derived: BTreeMap::new(),
        }
    }

    /// Appends the derived sizes that were needed to the table, as the bits of their types.
    pub fn derived(&self, plan: &mut Plan) -> BTreeMap<Local, usize> {
        let words = self.derived.iter().map(|(&local, &value)| {
            let word = match kind(self.program.locals[local].dtype) {
                Ok(Kind::Float(kind)) => plan.add(Scalar::ToBits(kind, value)),
                _ => value,
            };
            (local, plan.word(word))
        });
        words.collect()
    }

    /// A number of elements: products whose factors are sizes.
    pub fn count(&mut self, plan: &mut Plan, len: ExprId) -> Result<Value> {
        match self.program.pool[len] {
            Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
                let (a, b) = (self.count(plan, a)?, self.count(plan, b)?);
                Ok(plan.add(Scalar::Product(a, b)))
            }
            _ => self.value(plan, len),
        }
    }

    /// A scalar.
    pub fn value(&mut self, plan: &mut Plan, id: ExprId) -> Result<Value> {
        if let Some(&known) = self.known.get(&id) {
            return Ok(known);
        }
        let value = self.translated(plan, id)?;
        self.known.insert(id, value);
        Ok(value)
    }

    fn translated(&mut self, plan: &mut Plan, id: ExprId) -> Result<Value> {
        let scalar = match self.program.pool[id] {
            Expr::Num(dtype, bits) => number(dtype, bits)?,
            Expr::Local(local) => return self.local(plan, local),
            Expr::Load(..) => return Err("an element of an array"),
            Expr::Unary(op, dtype, a) => {
                let a = self.value(plan, a)?;
                return match kind(dtype)? {
                    Kind::Int(kind) => unary_int(plan, op, kind, a),
                    Kind::Float(kind) => unary_float(plan, op, kind, a),
                };
            }
            Expr::Binary(op, dtype, a, b) => {
                let (a, b) = (self.value(plan, a)?, self.value(plan, b)?);
                match kind(dtype)? {
                    Kind::Int(kind) => Scalar::Integer(int_op(op)?, kind, a, b),
                    Kind::Float(kind) => {
                        let result = plan.add(Scalar::Float(float_op(op)?, a, b));
                        Scalar::Round(kind, result)
                    }
                }
            }
            Expr::Compare(op, dtype, a, b) => {
                let (a, b) = (self.value(plan, a)?, self.value(plan, b)?);
                let domain = match kind(dtype)? {
                    Kind::Int(kind) => Domain::Integers(kind),
                    Kind::Float(_) => Domain::Floats,
                };
                Scalar::Compare(comparison(op), domain, a, b)
            }
            Expr::Select(_, cond, a, b) => {
                let cond = self.value(plan, cond)?;
                let (a, b) = (self.value(plan, a)?, self.value(plan, b)?);
                Scalar::Select(cond, a, b)
            }
            Expr::Cast(from, to, a) => {
                let a = self.value(plan, a)?;
                cast(plan, from, to, a)?
            }
            Expr::Bits(from, to, a) => {
                let a = self.value(plan, a)?;
                bits(plan, kind(from)?, kind(to)?, a)
            }
            Expr::Narrow(..) => return Err("a float of under 16 bits"),
            Expr::Index(i, size) => Scalar::Index(self.value(plan, i)?, self.value(plan, size)?),
        };
        Ok(plan.add(scalar))
    }

    /// A launch size, or what the program derives from launch sizes.
    fn local(&mut self, plan: &mut Plan, local: Local) -> Result<Value> {
        if let Some(&definition) = self.definitions.get(&local) {
            let value = self.value(plan, definition)?;
            self.derived.insert(local, value);
            return Ok(value);
        }
        let Some(&place) = self.given.get(&local) else {
            return Err("a value of the run");
        };
        let word = plan.size(place);
        Ok(match kind(self.program.locals[local].dtype)? {
            Kind::Int(IntKind::I64) => word,
            Kind::Int(kind) => plan.add(Scalar::Wrap(kind, word)),
            Kind::Float(kind) => plan.add(Scalar::FromBits(kind, word)),
        })
    }
}

fn kind(dtype: DType) -> Result<Kind> {
    let int = |bits, signed| Kind::Int(IntKind { bits, signed });
    Ok(match dtype {
        DType::F16 => Kind::Float(FloatKind::F16),
        DType::Bf16 => Kind::Float(FloatKind::Bf16),
        DType::F32 => Kind::Float(FloatKind::F32),
        DType::F64 => Kind::Float(FloatKind::F64),
        DType::Bool => int(1, false),
        DType::I8 => int(8, true),
        DType::I16 => int(16, true),
        DType::I32 => int(32, true),
        DType::I64 => int(64, true),
        DType::U8 => int(8, false),
        DType::U16 => int(16, false),
        DType::U32 => int(32, false),
        DType::U64 => int(64, false),
        other => return Err(other.name()),
    })
}

fn number(dtype: DType, bits: u64) -> Result<Scalar> {
    Ok(Scalar::Number(match kind(dtype)? {
        Kind::Int(kind) => kind.wrap(bits as i64),
        Kind::Float(kind) => kind.from_bits(bits as i64).to_bits() as i64,
    }))
}

fn float(plan: &mut Plan, value: f64) -> Value {
    plan.int(value.to_bits() as i64)
}

fn unary_int(plan: &mut Plan, op: UnaryOp, kind: IntKind, a: Value) -> Result<Value> {
    let zero = plan.int(0);
    let integer = |op, a, b| Scalar::Integer(op, kind, a, b);
    let scalar = match op {
        UnaryOp::Neg => integer(IntOp::Sub, zero, a),
        UnaryOp::Abs => {
            let negative = plan.add(integer(IntOp::Sub, zero, a));
            let is_negative = Scalar::Compare(Comparison::Lt, Domain::Integers(kind), a, zero);
            let is_negative = plan.add(is_negative);
            Scalar::Select(is_negative, negative, a)
        }
        UnaryOp::Sign => {
            let domain = Domain::Integers(kind);
            let above = plan.add(Scalar::Compare(Comparison::Gt, domain, a, zero));
            let below = plan.add(Scalar::Compare(Comparison::Lt, domain, a, zero));
            integer(IntOp::Sub, above, below)
        }
        UnaryOp::Not => {
            let ones = plan.int(kind.wrap(-1));
            integer(IntOp::Xor, a, ones)
        }
        other => return Err(other.name()),
    };
    Ok(plan.add(scalar))
}

fn unary_float(plan: &mut Plan, op: UnaryOp, kind: FloatKind, a: Value) -> Result<Value> {
    let function = match op {
        UnaryOp::IsNan => {
            return Ok(plan.add(Scalar::Compare(Comparison::Ne, Domain::Floats, a, a)));
        }
        UnaryOp::IsInf => {
            let size = plan.add(Scalar::Function(Function::Abs, a));
            let infinity = float(plan, f64::INFINITY);
            let equal = Scalar::Compare(Comparison::Eq, Domain::Floats, size, infinity);
            return Ok(plan.add(equal));
        }
        UnaryOp::Neg => Function::Neg,
        UnaryOp::Abs => Function::Abs,
        UnaryOp::Sign => Function::Sign,
        UnaryOp::Floor => Function::Floor,
        UnaryOp::Ceil => Function::Ceil,
        UnaryOp::Round => Function::Round,
        UnaryOp::Trunc => Function::Trunc,
        UnaryOp::Sqrt => Function::Sqrt,
        UnaryOp::Exp => Function::Exp,
        UnaryOp::Log => Function::Log,
        UnaryOp::Expm1 => Function::Expm1,
        UnaryOp::Log1p => Function::Log1p,
        UnaryOp::Sin => Function::Sin,
        UnaryOp::Cos => Function::Cos,
        UnaryOp::Tan => Function::Tan,
        UnaryOp::Asin => Function::Asin,
        UnaryOp::Acos => Function::Acos,
        UnaryOp::Atan => Function::Atan,
        UnaryOp::Sinh => Function::Sinh,
        UnaryOp::Cosh => Function::Cosh,
        UnaryOp::Tanh => Function::Tanh,
        UnaryOp::Asinh => Function::Asinh,
        UnaryOp::Acosh => Function::Acosh,
        UnaryOp::Atanh => Function::Atanh,
        UnaryOp::Sigmoid => Function::Sigmoid,
        other => return Err(other.name()),
    };
    let result = plan.add(Scalar::Function(function, a));
    Ok(plan.add(Scalar::Round(kind, result)))
}

fn int_op(op: BinaryOp) -> Result<IntOp> {
    Ok(match op {
        BinaryOp::Add => IntOp::Add,
        BinaryOp::Sub => IntOp::Sub,
        BinaryOp::Mul => IntOp::Mul,
        BinaryOp::Div => IntOp::Div,
        BinaryOp::Mod => IntOp::Mod,
        BinaryOp::Rem => IntOp::Rem,
        BinaryOp::Pow => IntOp::Pow,
        BinaryOp::Max => IntOp::Max,
        BinaryOp::Min => IntOp::Min,
        BinaryOp::And => IntOp::And,
        BinaryOp::Or => IntOp::Or,
        BinaryOp::Xor => IntOp::Xor,
        BinaryOp::Shl => IntOp::Shl,
        BinaryOp::Shr => IntOp::Shr,
        other => return Err(other.name()),
    })
}

fn float_op(op: BinaryOp) -> Result<FloatOp> {
    Ok(match op {
        BinaryOp::Add => FloatOp::Add,
        BinaryOp::Sub => FloatOp::Sub,
        BinaryOp::Mul => FloatOp::Mul,
        BinaryOp::Div => FloatOp::Div,
        BinaryOp::Mod => FloatOp::Mod,
        BinaryOp::Rem => FloatOp::Rem,
        BinaryOp::Pow => FloatOp::Pow,
        BinaryOp::Max => FloatOp::Max,
        BinaryOp::Min => FloatOp::Min,
        BinaryOp::Atan2 => FloatOp::Atan2,
        other => return Err(other.name()),
    })
}

fn comparison(op: CompareOp) -> Comparison {
    match op {
        CompareOp::Eq => Comparison::Eq,
        CompareOp::Ne => Comparison::Ne,
        CompareOp::Lt => Comparison::Lt,
        CompareOp::Le => Comparison::Le,
        CompareOp::Gt => Comparison::Gt,
        CompareOp::Ge => Comparison::Ge,
    }
}

fn cast(plan: &mut Plan, from: DType, to: DType, a: Value) -> Result<Scalar> {
    Ok(match (kind(from)?, kind(to)?) {
        (Kind::Int(from), Kind::Int(_)) if to == DType::Bool => {
            let zero = plan.int(0);
            Scalar::Compare(Comparison::Ne, Domain::Integers(from), a, zero)
        }
        (Kind::Float(_), Kind::Int(_)) if to == DType::Bool => {
            let zero = float(plan, 0.0);
            Scalar::Compare(Comparison::Ne, Domain::Floats, a, zero)
        }
        (Kind::Int(_), Kind::Int(to)) => Scalar::Wrap(to, a),
        (Kind::Int(from), Kind::Float(to)) => Scalar::ToFloat(from, to, a),
        (Kind::Float(_), Kind::Int(to)) => Scalar::ToInteger(to, a),
        (Kind::Float(_), Kind::Float(to)) => Scalar::Round(to, a),
    })
}

fn bits(plan: &mut Plan, from: Kind, to: Kind, a: Value) -> Scalar {
    let a = match from {
        Kind::Int(_) => a,
        Kind::Float(kind) => plan.add(Scalar::ToBits(kind, a)),
    };
    match to {
        Kind::Int(kind) => Scalar::Wrap(kind, a),
        Kind::Float(kind) => Scalar::FromBits(kind, a),
    }
}
