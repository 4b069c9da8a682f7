//! Patterns over elementwise ops, written as terms.
//!
//! ```text
//! term    ::= op "(" term {"," term} ")" | variable | constant | literal
//! variable ::= "a" … "z"           any value; the same letter, the same value
//! constant ::= "A" … "Z"           a constant array
//! literal ::= ["-"] DIGITS | "true" | "false"     a constant array all of whose elements are this
//! ```
//!
//! `-0` is the negative zero of floats. Operands of commutative ops match in either order.

use std::collections::HashMap;

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Dim, Op, Tensor, TensorType, Type, Value};

use super::rewriter::Rewriter;

/// A parsed term.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// Any value.
    Variable(char),
    /// Any constant.
    Constant(char),
    /// A number, or a truth value as 0 or 1.
    Literal(Literal),
    /// An elementwise op.
    Node(Op, Vec<Term>),
}

/// The value of all elements of a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Literal {
    /// A number of the pattern's element type; the sign of zero counts.
    Number(f64),
    /// A `bool`.
    Truth(bool),
}

impl Literal {
    fn tensor(self, dtype: DType, shape: Vec<usize>) -> Tensor {
        match self {
            Literal::Number(v) => Tensor::splat(dtype, shape, v),
            Literal::Truth(v) => Tensor::splat(DType::Bool, shape, v as u8 as f64),
        }
    }
}

/// Parses a term; the table's own test shows that all are well formed.
pub fn parse(text: &str) -> Option<Term> {
    let mut parser = Parser { rest: text };
    let term = parser.term()?;
    parser.rest.trim().is_empty().then_some(term)
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn term(&mut self) -> Option<Term> {
        let word = self.word();
        if self.take('(') {
            let mut args = vec![self.term()?];
            while self.take(',') {
                args.push(self.term()?);
            }
            return self.take(')').then(|| Some(Term::Node(op(word)?, args)))?;
        }
        Some(match word {
            "true" => Term::Literal(Literal::Truth(true)),
            "false" => Term::Literal(Literal::Truth(false)),
            _ => match word.chars().next()? {
                c if word.len() == 1 && c.is_ascii_lowercase() => Term::Variable(c),
                c if word.len() == 1 && c.is_ascii_uppercase() => Term::Constant(c),
                _ => Term::Literal(Literal::Number(word.parse().ok()?)),
            },
        })
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
            .unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word
    }

    fn take(&mut self, c: char) -> bool {
        match self.rest.trim_start().strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

fn op(name: &str) -> Option<Op> {
    if name == "select" {
        return Some(Op::Select);
    }
    UnaryOp::from_name(name)
        .map(Op::Unary)
        .or_else(|| BinaryOp::from_name(name).map(Op::Binary))
        .or_else(|| CompareOp::from_name(name).map(Op::Compare))
}

/// Do the operands commute? `max` and `min` of floats do not: for `0` and `-0` the order decides.
pub fn commutes(op: &Op, dtype: DType) -> bool {
    use BinaryOp::*;
    match op {
        Op::Binary(Max | Min) => !dtype.is_float(),
        Op::Binary(kind) => matches!(kind, Add | Mul | And | Or | Xor),
        Op::Compare(kind) => matches!(kind, CompareOp::Eq | CompareOp::Ne),
        _ => false,
    }
}

/// Bindings of a pattern's letters, and all values at its leaves.
#[derive(Clone, Default)]
pub struct Match {
    letters: HashMap<char, Value>,
    leaves: Vec<Value>,
}

/// Matches a term against a value. `dtype` is that of numbers in the pattern.
pub fn matches(cx: &Rewriter, term: &Term, value: Value, dtype: DType, m: &mut Match) -> bool {
    match term {
        Term::Variable(c) => bind(m, *c, value),
        Term::Constant(c) => cx.constant(value).is_some() && bind(m, *c, value),
        Term::Literal(literal) => {
            m.leaves.push(value);
            cx.constant(value)
                .is_some_and(|t| is_filled(t, *literal, dtype))
        }
        Term::Node(op, terms) => {
            let Some((found, args)) = cx.definition(value) else {
                return false;
            };
            *found == *op && matches_args(cx, op, terms, &args, dtype, m)
        }
    }
}

/// Matches the operands of an op.
pub fn matches_args(
    cx: &Rewriter,
    op: &Op,
    terms: &[Term],
    args: &[Value],
    dtype: DType,
    m: &mut Match,
) -> bool {
    let mut in_order = |args: &[Value]| {
        let mut attempt = m.clone();
        let ok = terms.len() == args.len()
            && terms
                .iter()
                .zip(args)
                .all(|(t, v)| matches(cx, t, *v, dtype, &mut attempt));
        if ok {
            *m = attempt;
        }
        ok
    };
    if in_order(args) {
        return true;
    }
    let of = cx.ty(args[0]).as_tensor().map(|t| t.dtype);
    commutes(op, of.unwrap_or(dtype)) && in_order(&[args[1], args[0]])
}

fn bind(m: &mut Match, letter: char, value: Value) -> bool {
    m.leaves.push(value);
    *m.letters.entry(letter).or_insert(value) == value
}

/// Do all elements of a constant equal this, bit for bit?
fn is_filled(tensor: &Tensor, literal: Literal, dtype: DType) -> bool {
    let expected = match literal {
        Literal::Truth(_) => DType::Bool,
        Literal::Number(_) => dtype,
    };
    if tensor.dtype() != expected
        || tensor.is_empty()
        || !(expected.is_arith() || expected == DType::Bool)
    {
        return false;
    }
    let one = literal.tensor(expected, vec![]);
    let mut elements = tensor.bytes().chunks_exact(one.bytes().len());
    elements.all(|e| e == &one.bytes()[..])
}

/// Builds a term in place of `result`, with numbers of type `dtype`. `None` if the shape is not
/// provably the same.
pub fn build(
    cx: &mut Rewriter,
    term: &Term,
    m: &Match,
    result: Value,
    dtype: DType,
) -> Option<Value> {
    let ty = cx.ty(result).clone();
    let mut used = vec![];
    collect(term, m, &mut used);
    if used.is_empty() {
        let Term::Literal(literal) = term else {
            return None;
        };
        return splat(cx, *literal, &ty, dtype);
    }
    let shape = |v: Value| cx.ty(v).as_tensor();
    let covered = |leaf: &Value| {
        used.contains(leaf) || used.iter().any(|u| is_neutral(shape(*leaf), shape(*u)))
    };
    if !m.leaves.iter().all(covered) {
        return None;
    }
    make(cx, term, m, dtype)
}

fn collect(term: &Term, m: &Match, used: &mut Vec<Value>) {
    match term {
        Term::Variable(c) | Term::Constant(c) => used.extend(m.letters.get(c)),
        Term::Literal(_) => {}
        Term::Node(_, terms) => terms.iter().for_each(|t| collect(t, m, used)),
    }
}

/// Does broadcasting `t` with the shape of `base` give the shape of `base`?
pub fn is_neutral(t: Option<&TensorType>, base: Option<&TensorType>) -> bool {
    let (Some(t), Some(base)) = (t, base) else {
        return false;
    };
    match (&t.shape, &base.shape) {
        (Some(t), _) if t.is_empty() => true,
        (Some(t), Some(base)) => {
            t.len() <= base.len()
                && t.iter()
                    .zip(&base[base.len() - t.len()..])
                    .all(|(d, b)| d.is(1) || d.equals(b))
        }
        _ => false,
    }
}

/// A constant of the result's type.
fn splat(cx: &mut Rewriter, literal: Literal, ty: &Type, dtype: DType) -> Option<Value> {
    const MAX_ELEMENTS: i64 = 4096;
    let shape = ty.as_tensor()?.static_shape()?;
    let count = heddle_ir::tensor::element_count(&shape)?;
    if count as u128 <= MAX_ELEMENTS as u128 {
        return cx.constant_value(literal.tensor(dtype, shape));
    }
    let one = cx.constant_value(literal.tensor(dtype, vec![]))?;
    let sizes: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
    let sizes = cx.integers(&sizes)?;
    cx.op(Op::Broadcast, &[one, sizes])
}

fn make(cx: &mut Rewriter, term: &Term, m: &Match, dtype: DType) -> Option<Value> {
    match term {
        Term::Variable(c) | Term::Constant(c) => m.letters.get(c).copied(),
        Term::Literal(literal) => cx.constant_value(literal.tensor(dtype, vec![])),
        Term::Node(op, terms) => {
            let args: Option<Vec<Value>> = terms.iter().map(|t| make(cx, t, m, dtype)).collect();
            cx.op(op.clone(), &args?)
        }
    }
}

/// Are shapes equal in every run?
pub fn same_dims(a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
}
