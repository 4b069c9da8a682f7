//! Local algebra: the table of patterns over elementwise ops.
//!
//! Every rule is exact: the result is the same bit for bit, but for which NaN it is. That is why
//! floats take part in so few: `x + 0` is not `x` when `x` is `-0`, `x - x` is not 0 when it is
//! infinite, sums do not reassociate.

use std::sync::OnceLock;

use heddle_ir::{DType, Inst, Op, Value};

use super::pattern::{self, Match, Term};
use super::rewriter::Rewriter;

/// `(name, pattern, replacement, element types of the operands)`.
type Row = (&'static str, &'static str, &'static str, fn(DType) -> bool);

const TABLE: &[Row] = &[
    // ---- sums
    ("add zero", "add(x, 0)", "x", int),
    ("add negative zero", "add(x, -0)", "x", float),
    ("subtract zero", "sub(x, 0)", "x", arith),
    ("subtract from zero", "sub(0, x)", "neg(x)", int),
    ("subtract from negative zero", "sub(-0, x)", "neg(x)", float),
    ("subtract itself", "sub(x, x)", "0", int),
    ("add a negated value", "add(x, neg(y))", "sub(x, y)", arith),
    (
        "subtract a negated value",
        "sub(x, neg(y))",
        "add(x, y)",
        arith,
    ),
    ("negate twice", "neg(neg(x))", "x", arith),
    ("negate a difference", "neg(sub(x, y))", "sub(y, x)", int),
    (
        "add constants",
        "add(add(x, A), B)",
        "add(x, add(A, B))",
        int,
    ),
    (
        "add constants",
        "sub(add(x, A), B)",
        "add(x, sub(A, B))",
        int,
    ),
    (
        "add constants",
        "add(sub(x, A), B)",
        "add(x, sub(B, A))",
        int,
    ),
    (
        "add constants",
        "sub(sub(x, A), B)",
        "sub(x, add(A, B))",
        int,
    ),
    ("add and subtract", "sub(add(x, y), y)", "x", int),
    ("add and subtract", "sub(add(y, x), y)", "x", int),
    ("subtract and add", "add(sub(x, y), y)", "x", int),
    // ---- products
    ("multiply by one", "mul(x, 1)", "x", arith),
    ("multiply by zero", "mul(x, 0)", "0", int),
    ("multiply by minus one", "mul(x, -1)", "neg(x)", signed),
    (
        "multiply constants",
        "mul(mul(x, A), B)",
        "mul(x, mul(A, B))",
        int,
    ),
    ("divide by one", "div(x, 1)", "x", arith),
    ("divide by minus one", "div(x, -1)", "neg(x)", signed),
    ("divide zero", "div(0, x)", "0", int),
    ("remainder by one", "mod(x, 1)", "0", int),
    ("remainder by one", "rem(x, 1)", "0", int),
    ("power of zero", "pow(x, 0)", "1", int),
    ("power of one", "pow(x, 1)", "x", arith),
    ("power of two", "pow(x, 2)", "mul(x, x)", arith),
    // ---- extremes
    ("extreme of equals", "max(x, x)", "x", arith_or_bool),
    ("extreme of equals", "min(x, x)", "x", arith_or_bool),
    (
        "extreme again",
        "max(max(x, y), y)",
        "max(x, y)",
        arith_or_bool,
    ),
    (
        "extreme again",
        "min(min(x, y), y)",
        "min(x, y)",
        arith_or_bool,
    ),
    // ---- bits and logic
    ("and with itself", "and(x, x)", "x", int_or_bool),
    ("or with itself", "or(x, x)", "x", int_or_bool),
    ("xor with itself", "xor(x, x)", "0", int),
    ("xor with itself", "xor(x, x)", "false", boolean),
    ("and with zero", "and(x, 0)", "0", int),
    ("or with zero", "or(x, 0)", "x", int),
    ("xor with zero", "xor(x, 0)", "x", int),
    ("and with true", "and(x, true)", "x", boolean),
    ("and with false", "and(x, false)", "false", boolean),
    ("or with true", "or(x, true)", "true", boolean),
    ("or with false", "or(x, false)", "x", boolean),
    ("xor with true", "xor(x, true)", "not(x)", boolean),
    ("xor with false", "xor(x, false)", "x", boolean),
    ("and with its negation", "and(x, not(x))", "false", boolean),
    ("or with its negation", "or(x, not(x))", "true", boolean),
    ("shift by zero", "shl(x, 0)", "x", int),
    ("shift by zero", "shr(x, 0)", "x", int),
    ("not twice", "not(not(x))", "x", int_or_bool),
    // ---- signs and rounding
    ("absolute value again", "abs(abs(x))", "abs(x)", arith),
    (
        "absolute value of a negated one",
        "abs(neg(x))",
        "abs(x)",
        arith,
    ),
    ("absolute value of unsigned", "abs(x)", "x", unsigned),
    ("sign again", "sign(sign(x))", "sign(x)", arith),
    ("round the rounded", "floor(floor(x))", "floor(x)", float),
    ("round the rounded", "floor(ceil(x))", "ceil(x)", float),
    ("round the rounded", "floor(round(x))", "round(x)", float),
    ("round the rounded", "floor(trunc(x))", "trunc(x)", float),
    ("round the rounded", "ceil(floor(x))", "floor(x)", float),
    ("round the rounded", "ceil(ceil(x))", "ceil(x)", float),
    ("round the rounded", "ceil(round(x))", "round(x)", float),
    ("round the rounded", "ceil(trunc(x))", "trunc(x)", float),
    ("round the rounded", "round(floor(x))", "floor(x)", float),
    ("round the rounded", "round(ceil(x))", "ceil(x)", float),
    ("round the rounded", "round(round(x))", "round(x)", float),
    ("round the rounded", "round(trunc(x))", "trunc(x)", float),
    ("round the rounded", "trunc(floor(x))", "floor(x)", float),
    ("round the rounded", "trunc(ceil(x))", "ceil(x)", float),
    ("round the rounded", "trunc(round(x))", "round(x)", float),
    ("round the rounded", "trunc(trunc(x))", "trunc(x)", float),
    // ---- comparisons
    ("compare with itself", "eq(x, x)", "true", discrete),
    ("compare with itself", "ne(x, x)", "false", discrete),
    ("compare with itself", "le(x, x)", "true", int),
    ("compare with itself", "ge(x, x)", "true", int),
    ("compare with itself", "lt(x, x)", "false", arith),
    ("compare with itself", "gt(x, x)", "false", arith),
    ("unsigned is not negative", "ge(x, 0)", "true", unsigned),
    ("unsigned is not negative", "lt(x, 0)", "false", unsigned),
    ("compare with true", "eq(x, true)", "x", boolean),
    ("compare with false", "eq(x, false)", "not(x)", boolean),
    ("compare with true", "ne(x, true)", "not(x)", boolean),
    ("compare with false", "ne(x, false)", "x", boolean),
    ("negated comparison", "not(eq(x, y))", "ne(x, y)", boolean),
    ("negated comparison", "not(ne(x, y))", "eq(x, y)", boolean),
    // ---- choices
    ("choose by constant", "select(true, x, y)", "x", any),
    ("choose by constant", "select(false, x, y)", "y", any),
    ("choose between equals", "select(c, x, x)", "x", any),
    (
        "choose by a negated condition",
        "select(not(c), x, y)",
        "select(c, y, x)",
        any,
    ),
    (
        "choose again",
        "select(c, select(c, x, y), z)",
        "select(c, x, z)",
        any,
    ),
    (
        "choose again",
        "select(c, x, select(c, y, z))",
        "select(c, x, z)",
        any,
    ),
    (
        "choose between true and false",
        "select(c, true, false)",
        "c",
        boolean,
    ),
    (
        "choose between true and false",
        "select(c, false, true)",
        "not(c)",
        boolean,
    ),
    (
        "choose or false",
        "select(c, x, false)",
        "and(c, x)",
        boolean,
    ),
    ("true or choose", "select(c, true, x)", "or(c, x)", boolean),
];

/// Comparisons of integers that are each other's negation; with floats a NaN makes both false.
const OPPOSITES: &[(&str, &str)] = &[
    ("not(lt(x, y))", "ge(x, y)"),
    ("not(le(x, y))", "gt(x, y)"),
    ("not(gt(x, y))", "le(x, y)"),
    ("not(ge(x, y))", "lt(x, y)"),
];

fn any(_: DType) -> bool {
    true
}
fn arith(d: DType) -> bool {
    d.is_arith()
}
fn arith_or_bool(d: DType) -> bool {
    d.is_arith() || d == DType::Bool
}
fn int(d: DType) -> bool {
    d.is_int()
}
fn signed(d: DType) -> bool {
    d.is_signed_int() || d.is_float()
}
fn unsigned(d: DType) -> bool {
    d.is_int() && !d.is_signed_int()
}
fn float(d: DType) -> bool {
    d.is_float()
}
fn boolean(d: DType) -> bool {
    d == DType::Bool
}
fn int_or_bool(d: DType) -> bool {
    d.is_int() || d == DType::Bool
}
fn discrete(d: DType) -> bool {
    d.is_int() || d == DType::Bool || d == DType::Str
}

/// The names of the table's rules.
pub fn names() -> impl Iterator<Item = &'static str> {
    rules().iter().map(|r| r.name)
}

struct Rule {
    name: &'static str,
    op: Op,
    operands: Vec<Term>,
    replacement: Term,
    on: fn(DType) -> bool,
    /// Is the condition on the comparison that the pattern negates?
    inner: bool,
}

fn rules() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| {
        let rule = |name, pattern, replacement, on, inner| {
            let Some(Term::Node(op, operands)) = pattern::parse(pattern) else {
                panic!("the pattern {pattern} is malformed");
            };
            let replacement = pattern::parse(replacement);
            Rule {
                name,
                op,
                operands,
                replacement: replacement.expect("a well-formed replacement"),
                on,
                inner,
            }
        };
        let table = TABLE
            .iter()
            .map(|&(name, p, r, on)| rule(name, p, r, on, false));
        let opposites = OPPOSITES
            .iter()
            .map(|&(p, r)| rule("negated comparison", p, r, int, true));
        table.chain(opposites).collect()
    })
}

/// Applies the first rule that matches; returns its name and the new value.
pub fn rewrite(cx: &mut Rewriter, inst: Inst) -> Option<(&'static str, Vec<Value>)> {
    let data = &cx.patch.func().insts[inst];
    if !matches!(
        data.op,
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select
    ) {
        return None;
    }
    let (op, result) = (data.op.clone(), *data.results.first()?);
    let args = cx.patch.args(inst);
    let dtype = cx.ty(*args.last()?).as_tensor()?.dtype;
    for rule in rules().iter().filter(|r| r.op == op) {
        let of = match rule.inner {
            true => cx.definition(args[0]).and_then(|(_, a)| a.first().copied()),
            false => args.last().copied(),
        };
        let of = of.and_then(|v| cx.ty(v).as_tensor()).map(|t| t.dtype);
        if !of.is_some_and(rule.on) {
            continue;
        }
        let mut m = Match::default();
        if !pattern::matches_args(cx, &op, &rule.operands, &args, dtype, &mut m) {
            continue;
        }
        if let Some(new) = pattern::build(cx, &rule.replacement, &m, result, dtype) {
            return Some((rule.name, vec![new]));
        }
    }
    None
}
