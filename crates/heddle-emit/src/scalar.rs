//! Writes scalar expressions.
//!
//! An expression is a DAG. Shared subexpressions become variables, and so do loads in the arms of a
//! choice.

use std::collections::{HashMap, HashSet};
use std::fmt;

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp, ScaleRounding, UnaryOp};
use heddle_uprogram::program::{Body, Buffer, BufferKind, Local, UProgram};
use heddle_uprogram::{Expr, ExprId};

use crate::dialect::Dialect;
use crate::ranges::Ranges;
use crate::text::Text;

/// The error site of a block of code.
#[derive(Clone, Copy, Debug)]
pub enum Site {
    /// That of a statement.
    Number(u32),
    /// The function's parameter: operators with other sites may share the function.
    Parameter,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(site) => write!(f, "{site}"),
            Self::Parameter => f.write_str("site"),
        }
    }
}

/// Writes the expressions of one block of code. A clone serves an inner block.
#[derive(Clone)]
pub struct Scalars<'p> {
    program: &'p UProgram,
    dialect: &'p Dialect,
    site: Site,
    /// The number of references to each expression, including roots.
    uses: HashMap<ExprId, usize>,
    /// Variables that hold expressions.
    known: HashMap<ExprId, String>,
    /// The next free name.
    pub next: usize,
    /// Nesting depth of choices around the current expression.
    choices: usize,
    /// Ranges of variables: conditions that they decide are not tested.
    pub ranges: Ranges,
}

impl<'p> Scalars<'p> {
    /// For code that evaluates these expressions.
    pub fn new(program: &'p UProgram, dialect: &'p Dialect, site: Site, roots: &[ExprId]) -> Self {
        let mut uses = HashMap::new();
        let mut seen = HashSet::new();
        for &root in roots {
            *uses.entry(root).or_insert(0) += 1;
            program.pool.walk(root, &mut |id, expr| {
                if seen.insert(id) {
                    expr.operands()
                        .for_each(|o| *uses.entry(o).or_insert(0) += 1);
                }
            });
        }
        Self {
            program,
            dialect,
            site,
            uses,
            known: HashMap::new(),
            next: 0,
            choices: 0,
            ranges: Ranges::default(),
        }
    }

    /// The expression as C; declares variables for shared subexpressions first.
    pub fn write(&mut self, text: &mut Text, id: ExprId) -> String {
        let expr = self.program.pool[id];
        match expr {
            Expr::Num(dtype, bits) => return number(dtype, bits),
            Expr::Local(local) => return name(local),
            Expr::Compare(..) | Expr::Binary(_, DType::Bool, ..) => {
                if let Some(holds) = self.ranges.truth(self.program, id) {
                    return u8::from(holds).to_string();
                }
            }
            Expr::Binary(op @ (BinaryOp::Div | BinaryOp::Mod), DType::I64, a, by) => {
                if let Some(quotient) = self.ranges.quotient(self.program, a, by) {
                    return match (op, quotient) {
                        (BinaryOp::Div, quotient) => number(DType::I64, quotient as u64),
                        (_, 0) => self.write(text, a),
                        (_, quotient) => {
                            let by = self.program.pool.as_int(by).unwrap_or_default();
                            format!("({} - {})", self.write(text, a), quotient * by)
                        }
                    };
                }
            }
            _ => {}
        }
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        let value = self.inline(text, expr);
        // In an arm of C's choice the load would be conditional, and GCC 12 miscompiles some
        // vectorised ones.
        let load = self.choices > 0 && matches!(expr, Expr::Load(..));
        if !load && self.uses.get(&id).copied().unwrap_or(0) < 2 {
            return value;
        }
        self.variable(text, id, &value)
    }

    /// Binds the expression to a text from here on.
    pub fn know(&mut self, id: ExprId, text: String) {
        self.known.insert(id, text);
    }

    /// Declares variables for the largest subexpressions that are invariant in the varying axes and
    /// take more than adding and multiplying indices. The operator's own result is not loaded in
    /// advance.
    pub fn hoist(&mut self, text: &mut Text, roots: &[ExprId], varying: &[Local], body: &Body) {
        let mut parts = Parts {
            program: self.program,
            ranges: &self.ranges.clone(),
            varying,
            written: body.store().buffer,
            kinds: HashMap::new(),
        };
        let mut open = roots.to_vec();
        let mut seen = HashSet::new();
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            match parts.kind(id) {
                Kind::Cheap => {}
                Kind::Varies => open.extend(parts.operands(id)),
                Kind::Costly if self.known.contains_key(&id) => {}
                Kind::Costly => {
                    let value = self.write(text, id);
                    if !self.known.contains_key(&id) {
                        self.variable(text, id, &value);
                    }
                }
            }
        }
    }

    /// A variable that holds the expression.
    pub fn bind(&mut self, text: &mut Text, id: ExprId) -> String {
        let value = self.write(text, id);
        match self.known.get(&id) {
            Some(known) => known.clone(),
            None => self.variable(text, id, &value),
        }
    }

    fn variable(&mut self, text: &mut Text, id: ExprId, value: &str) -> String {
        let expr = self.program.pool[id];
        let variable = self.fresh();
        text.line(format!(
            "const {} {variable} = {value};",
            self.type_of(expr)
        ));
        self.known.insert(id, variable.clone());
        variable
    }

    fn inline(&mut self, text: &mut Text, expr: Expr) -> String {
        match expr {
            Expr::Num(..) | Expr::Local(_) => unreachable!("leaves are written by `write`"),
            Expr::Load(buffer, offset) => {
                let offset = self.write(text, offset);
                let place = element(self.program, self.dialect, buffer, &offset);
                loaded(self.program.buffers[buffer].dtype, place)
            }
            Expr::Unary(op, dtype, a) => {
                let a = self.write(text, a);
                unary(self.dialect, op, dtype, &a)
            }
            Expr::Binary(BinaryOp::And | BinaryOp::Or, DType::Bool, a, b)
                if self.ranges.truth(self.program, a).is_some() =>
            {
                // The decided operand leaves the other one to decide.
                self.write(text, b)
            }
            Expr::Binary(BinaryOp::And | BinaryOp::Or, DType::Bool, a, b)
                if self.ranges.truth(self.program, b).is_some() =>
            {
                self.write(text, a)
            }
            Expr::Binary(op, dtype, a, b) => {
                let (a, b) = (self.write(text, a), self.write(text, b));
                binary(self.dialect, op, dtype, &a, &b)
            }
            Expr::Compare(op, _, a, b) => {
                let (a, b) = (self.write(text, a), self.write(text, b));
                format!("({a} {} {b})", comparison(op))
            }
            Expr::Select(_, cond, a, b) => {
                if let Some(holds) = self.ranges.truth(self.program, cond) {
                    return self.write(text, if holds { a } else { b });
                }
                let cond = self.write(text, cond);
                self.choices += 1;
                let (a, b) = (self.write(text, a), self.write(text, b));
                self.choices -= 1;
                format!("({cond} ? {a} : {b})")
            }
            Expr::Cast(from, to, a) => {
                let a = self.write(text, a);
                cast(self.dialect, from, to, &a)
            }
            Expr::Bits(from, to, a) => {
                let a = self.write(text, a);
                bits(self.dialect, from, to, &a)
            }
            Expr::Narrow(narrow, a) => {
                let a = self.write(text, a);
                let round = match narrow.round {
                    ScaleRounding::Down => 0,
                    ScaleRounding::Up => 1,
                    ScaleRounding::Nearest => 2,
                };
                let (name, saturate) = (narrow.to.name(), narrow.saturate as u8);
                format!("heddle_narrow_{name}({}, {saturate}, {round})", bare(&a))
            }
            Expr::Index(i, size) if self.ranges.is_inside(self.program, i, size) => {
                self.write(text, i)
            }
            Expr::Index(i, size) => {
                let (i, size) = (self.write(text, i), self.write(text, size));
                format!(
                    "heddle_at(env, {}, {}, {})",
                    self.site,
                    bare(&i),
                    bare(&size)
                )
            }
        }
    }

    fn type_of(&self, expr: Expr) -> &'static str {
        let dtype = match expr {
            Expr::Num(d, _) | Expr::Unary(UnaryOp::Neg, d, _) => d,
            Expr::Unary(UnaryOp::IsNan | UnaryOp::IsInf, ..) | Expr::Compare(..) => DType::Bool,
            Expr::Unary(_, d, _) | Expr::Binary(_, d, ..) | Expr::Select(d, ..) => d,
            Expr::Cast(_, d, _) | Expr::Bits(_, d, _) => d,
            Expr::Narrow(narrow, _) => narrow.to,
            Expr::Load(b, _) => self.program.buffers[b].dtype,
            Expr::Local(l) => self.program.locals[l].dtype,
            Expr::Index(..) => DType::I64,
        };
        (self.dialect.type_name)(dtype)
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("t{}", self.next)
    }
}

/// An element of a buffer. A row that lanes share is a part of the memory of all of them, from `b…` on.
pub fn element(program: &UProgram, dialect: &Dialect, buffer: Buffer, offset: &str) -> String {
    let (b, data) = (heddle_ir::Entity::index(buffer), &program.buffers[buffer]);
    match data.kind {
        BufferKind::Shared if dialect.lanes.is_some() => {
            format!(
                "heddle_row<{}>(b{b} + {offset})",
                (dialect.type_name)(data.dtype)
            )
        }
        _ => format!("b{b}[{}]", bare(offset)),
    }
}

/// The invariance of an expression in a loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Invariant and cheap.
    Cheap,
    /// Invariant.
    Costly,
    /// Varies.
    Varies,
}

/// Classifies expressions by their invariance.
struct Parts<'p> {
    program: &'p UProgram,
    ranges: &'p Ranges,
    varying: &'p [Local],
    written: Buffer,
    kinds: HashMap<ExprId, Kind>,
}

impl Parts<'_> {
    /// The operands of an expression: of a choice that is decided, the value that is chosen.
    fn operands(&self, id: ExprId) -> Vec<ExprId> {
        match self.program.pool[id] {
            Expr::Select(_, cond, a, b) => match self.ranges.truth(self.program, cond) {
                Some(holds) => vec![if holds { a } else { b }],
                None => vec![cond, a, b],
            },
            Expr::Compare(..) | Expr::Binary(_, DType::Bool, ..)
                if self.ranges.truth(self.program, id).is_some() =>
            {
                vec![]
            }
            Expr::Binary(op @ (BinaryOp::Div | BinaryOp::Mod), DType::I64, a, by)
                if self.ranges.quotient(self.program, a, by).is_some() =>
            {
                if op == BinaryOp::Div {
                    vec![]
                } else {
                    vec![a]
                }
            }
            expr => expr.operands().collect(),
        }
    }

    fn kind(&mut self, id: ExprId) -> Kind {
        if let Some(&kind) = self.kinds.get(&id) {
            return kind;
        }
        let expr = self.program.pool[id];
        let own = match expr {
            Expr::Num(..) => Kind::Cheap,
            Expr::Binary(_, DType::Bool, ..) if self.ranges.truth(self.program, id).is_some() => {
                Kind::Cheap
            }
            Expr::Binary(BinaryOp::Div | BinaryOp::Mod, DType::I64, a, by)
                if self.ranges.quotient(self.program, a, by).is_some() =>
            {
                Kind::Cheap
            }
            Expr::Select(_, cond, ..) if self.ranges.truth(self.program, cond).is_some() => {
                Kind::Cheap
            }
            Expr::Local(local) if self.varying.contains(&local) => Kind::Varies,
            Expr::Local(_) => Kind::Cheap,
            Expr::Load(buffer, _) if buffer == self.written => Kind::Varies,
            Expr::Compare(..) => Kind::Cheap,
            Expr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, DType::I64, ..) => {
                Kind::Cheap
            }
            _ => Kind::Costly,
        };
        let mut kind = own;
        for operand in self.operands(id) {
            kind = match (kind, self.kind(operand)) {
                (Kind::Varies, _) | (_, Kind::Varies) => Kind::Varies,
                (Kind::Costly, _) | (_, Kind::Costly) => Kind::Costly,
                _ => Kind::Cheap,
            };
        }
        self.kinds.insert(id, kind);
        kind
    }
}

/// The identifier of a variable.
pub fn name(local: Local) -> String {
    format!("v{}", heddle_ir::Entity::index(local))
}

/// Removes parentheses around the whole.
pub fn bare(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) else {
        return text;
    };
    let mut depth = 0i32;
    for c in inner.chars() {
        depth += (c == '(') as i32 - (c == ')') as i32;
        if depth < 0 {
            return text;
        }
    }
    inner
}

/// The combination of two elements as an expression.
pub fn combine(dialect: &Dialect, op: BinaryOp, dtype: DType, a: &str, b: &str) -> String {
    binary(dialect, op, dtype, a, b)
}

/// A number.
pub fn number(dtype: DType, bits: u64) -> String {
    match dtype {
        DType::F16 => {
            let value = half::f16::from_bits(bits as u16).to_f32();
            number(DType::F32, u64::from(value.to_bits()))
        }
        DType::Bf16 => number(DType::F32, bits << 16),
        DType::F32 => float(
            f32::from_bits(bits as u32) as f64,
            "f",
            &format!("{:?}", f32::from_bits(bits as u32)),
        ),
        DType::F64 => float(
            f64::from_bits(bits),
            "",
            &format!("{:?}", f64::from_bits(bits)),
        ),
        DType::I64 if bits as i64 == i64::MIN => "INT64_MIN".into(),
        DType::I64 => signed(bits as i64),
        DType::I32 => signed(bits as u32 as i32 as i64),
        DType::I16 => signed(bits as u16 as i16 as i64),
        DType::I8 => signed(bits as u8 as i8 as i64),
        DType::U64 => format!("UINT64_C({bits})"),
        _ => format!("{bits}"),
    }
}

fn signed(value: i64) -> String {
    match value {
        v if i32::try_from(v).is_err() => format!("INT64_C({v})"),
        v if v < 0 => format!("({v})"),
        v => format!("{v}"),
    }
}

fn float(value: f64, suffix: &str, shortest: &str) -> String {
    match value {
        v if v.is_nan() => "NAN".into(),
        v if v == f64::INFINITY => "INFINITY".into(),
        v if v == f64::NEG_INFINITY => "(-INFINITY)".into(),
        v if v.is_sign_negative() => format!("({shortest}{suffix})"),
        _ => format!("{shortest}{suffix}"),
    }
}

fn comparison(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    }
}

/// The type for arithmetic on a type.
pub fn computed(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::Bf16 => DType::F32,
        dtype => dtype,
    }
}

/// An element, converted for arithmetic.
pub fn loaded(dtype: DType, place: String) -> String {
    match dtype {
        DType::F16 | DType::Bf16 => format!("heddle_load_{}({place})", dtype.name()),
        _ => place,
    }
}

/// A value, converted for storage.
pub fn stored(dtype: DType, value: &str) -> String {
    match dtype {
        DType::F16 | DType::Bf16 => format!("heddle_store_{}({})", dtype.name(), bare(value)),
        _ => bare(value).into(),
    }
}

/// A value computed in a wider type, rounded.
fn rounded(dtype: DType, value: String) -> String {
    match dtype {
        DType::F16 | DType::Bf16 => format!("heddle_round_{}({})", dtype.name(), bare(&value)),
        _ => value,
    }
}

fn bits(dialect: &Dialect, from: DType, to: DType, a: &str) -> String {
    // C's conversion between integers keeps the bits.
    let unsigned = |d: DType| match d {
        DType::F32 => Some(("heddle_bits", "heddle_from_bits", "uint32_t")),
        DType::F64 => Some(("heddle_bits_f64", "heddle_from_bits_f64", "uint64_t")),
        DType::F16 => Some(("heddle_store_f16", "heddle_load_f16", "uint16_t")),
        DType::Bf16 => Some(("heddle_store_bf16", "heddle_load_bf16", "uint16_t")),
        _ => None,
    };
    let a = match unsigned(from) {
        Some((take, ..)) => format!("{take}({})", bare(a)),
        None => a.into(),
    };
    match unsigned(to) {
        Some((_, give, ty)) => format!("{give}(({ty}){a})"),
        None => format!("(({}){a})", (dialect.type_name)(to)),
    }
}

fn unary(dialect: &Dialect, op: UnaryOp, dtype: DType, a: &str) -> String {
    use UnaryOp::*;
    if dtype != computed(dtype) {
        let value = unary(dialect, op, computed(dtype), a);
        return match op {
            Neg | Abs | Sign | Floor | Ceil | Round | Trunc | IsNan | IsInf => value,
            _ => rounded(dtype, value),
        };
    }
    let f = if dtype == DType::F32 { "f" } else { "" };
    let t = dtype.name();
    match op {
        Neg if dtype.is_float() => format!("(-{a})"),
        Neg => format!("({})(0 - (uint64_t){a})", (dialect.type_name)(dtype)),
        Abs if dtype.is_float() => format!("fabs{f}({})", bare(a)),
        Abs => format!("heddle_abs_{t}({})", bare(a)),
        Sign => format!("heddle_sign_{t}({})", bare(a)),
        Sigmoid => format!("heddle_sigmoid_{t}({})", bare(a)),
        Round => format!("rint{f}({})", bare(a)),
        Not if dtype == DType::Bool => format!("(!{a})"),
        Not => format!("(~{a})"),
        IsNan => format!("(isnan({}) != 0)", bare(a)),
        IsInf => format!("(isinf({}) != 0)", bare(a)),
        // The prelude has vectorisable versions of these.
        Exp | Expm1 | Log | Tanh | Erf if dtype == DType::F32 => {
            format!("heddle_{}_{t}({})", op.name(), bare(a))
        }
        // The others have C's names.
        _ => format!("{}{f}({})", op.name(), bare(a)),
    }
}

fn binary(dialect: &Dialect, op: BinaryOp, dtype: DType, a: &str, b: &str) -> String {
    use BinaryOp::*;
    if dtype != computed(dtype) {
        let value = binary(dialect, op, computed(dtype), a, b);
        return match op {
            Max | Min => value,
            _ => rounded(dtype, value),
        };
    }
    let t = if dtype == DType::Bool {
        "u8"
    } else {
        dtype.name()
    };
    let f = if dtype == DType::F32 { "f" } else { "" };
    let call = |name: &str| format!("{name}({}, {})", bare(a), bare(b));
    match op {
        Add if dtype.is_float() || dtype == DType::I64 => format!("({a} + {b})"),
        Sub if dtype.is_float() || dtype == DType::I64 => format!("({a} - {b})"),
        Mul if dtype.is_float() || dtype == DType::I64 => format!("({a} * {b})"),
        Add | Sub | Mul => {
            let sign = match op {
                Add => '+',
                Sub => '-',
                _ => '*',
            };
            format!(
                "({})((uint64_t){a} {sign} (uint64_t){b})",
                (dialect.type_name)(dtype)
            )
        }
        Div if dtype.is_float() => format!("({a} / {b})"),
        Pow if dtype.is_float() => call(&format!("pow{f}")),
        Atan2 => call(&format!("atan2{f}")),
        And => format!("({a} & {b})"),
        Or => format!("({a} | {b})"),
        Xor => format!("({a} ^ {b})"),
        Div | Mod | Rem | Pow | Max | Min | Shl | Shr | Philox | Normal | Gumbel => {
            call(&format!("heddle_{}_{t}", op.name()))
        }
    }
}

fn cast(dialect: &Dialect, from: DType, to: DType, a: &str) -> String {
    if from.is_small_int() || from.is_small_float() {
        let wide = if from.is_small_int() {
            DType::I64
        } else {
            DType::F64
        };
        let value = format!("heddle_value_{}({})", from.name(), bare(a));
        return match wide == to {
            true => value,
            false => cast(dialect, wide, to, &value),
        };
    }
    match to {
        DType::I4 | DType::U4 | DType::I2 | DType::U2 if from.is_float() => {
            format!("heddle_clamp_{}({})", to.name(), bare(a))
        }
        DType::I4 | DType::U4 | DType::I2 | DType::U2 => {
            format!("heddle_wrap_{}((int64_t){a})", to.name())
        }
        DType::F16 | DType::Bf16 if from == computed(from) && from.is_float() => match from {
            DType::F64 => rounded(to, format!("heddle_odd({})", bare(a))),
            _ => rounded(to, a.into()),
        },
        DType::F16 | DType::Bf16 if !from.is_float() => {
            rounded(to, format!("heddle_odd((double){a})"))
        }
        DType::F16 | DType::Bf16 => rounded(to, a.into()),
        DType::F32 if computed(from) == DType::F32 => a.into(),
        DType::Bool => format!("({a} != 0)"),
        _ if from.is_float() && to.is_int() => format!("heddle_to_{}({})", to.name(), bare(a)),
        _ => format!("({}){a}", (dialect.type_name)(to)),
    }
}
