//! Expressions: ops, calls, operands and attributes.

use super::super::attrs::{self, Attr, Attrs};
use super::super::lexer::{Spanned, Token};
use super::body::{Body, Def};
use super::literal::{Literal, Wanted};
use super::{Parser, Result};
use crate::op::OperandType;
use crate::{DType, FuncId, Inst, Op, Region, Type, Value};

/// An operand as it is read: literals wait for the type that the op wants.
enum Operand<'a> {
    Value(Value),
    Literal(Literal<'a>),
}

impl<'a> Parser<'a, '_> {
    /// An expression, which becomes an instruction at the end of a region.
    pub(super) fn expr(&mut self, b: &mut Body, region: Region, defs: &[Def]) -> Result<Inst> {
        let place = self.token;
        let Token::Word(word) = place.token else {
            let error = self.expected("an operation, such as add(%x, %y)");
            return Err(match self.token.token {
                Token::Number(_) | Token::Str(_) | Token::Mark("[" | "-") => {
                    error.hint("a constant is written `const 1.0`")
                }
                _ => error,
            });
        };
        match word {
            "const" => {
                self.advance()?;
                let stated = defs.first().and_then(|d| d.ty.as_ref());
                let tensor = self.constant(stated)?;
                self.push(b, region, (Op::Const(tensor), vec![], vec![]), place, defs)
            }
            "if" => {
                self.advance()?;
                self.branch(b, region, place, defs)
            }
            "loop" => {
                self.advance()?;
                self.looping(b, region, place, defs)
            }
            "call" => {
                self.advance()?;
                self.call(b, region, place, defs)
            }
            name => self.op(name, b, region, place, defs),
        }
    }

    fn call(
        &mut self,
        b: &mut Body,
        region: Region,
        place: Spanned<'a>,
        defs: &[Def],
    ) -> Result<Inst> {
        let at = self.token;
        let name = self.func_name()?;
        let Some(&callee) = self.by_name.get(&name) else {
            return Err(self.error(at, format!("there is no function @{name}")));
        };
        let (operands, attrs) = self.arguments(b, region)?;
        if let Some((key, _)) = attrs.given.first() {
            return Err(self.error(place, format!("a call has no attribute `{key}`")));
        }
        let args = self.resolve(b, region, operands, |p, i| p.param_dtype(callee, i))?;
        self.push(b, region, (Op::Call(callee), args, vec![]), place, defs)
    }

    fn param_dtype(&self, callee: FuncId, i: usize) -> Option<DType> {
        let (_, ty) = self.module.functions[callee].sig.params.get(i)?;
        Some(ty.as_tensor()?.dtype)
    }

    fn op(
        &mut self,
        name: &'a str,
        b: &mut Body,
        region: Region,
        place: Spanned<'a>,
        defs: &[Def],
    ) -> Result<Inst> {
        self.advance()?;
        if self.token.token != Token::Mark("(") {
            return Err(self.unknown_op(name, place));
        }
        let (operands, mut attrs) = self.arguments(b, region)?;
        let first = operands.iter().find_map(|o| match o {
            Operand::Value(v) => Some(b.f.ty(*v).clone()),
            Operand::Literal(_) => None,
        });
        let op = match attrs::op(name, &mut attrs, first.as_ref()) {
            None => return Err(self.unknown_op(name, place)),
            Some(Err(message)) => return Err(self.error(place, format!("{name}: {message}"))),
            Some(Ok(op)) => op,
        };
        if let Some((key, _)) = attrs.given.first() {
            let known: Vec<_> = attrs.known.iter().map(|k| format!("`{k}`")).collect();
            let error = self.error(place, format!("{name} has no attribute `{key}`"));
            return Err(match known.is_empty() {
                true => error,
                false => error.hint(format!("it has {}", known.join(", "))),
            });
        }
        // A literal takes the element type of the operands that must agree with it.
        let shared = operands.iter().enumerate().find_map(|(i, o)| match o {
            Operand::Value(v) if wants(&op, i) == Wants::Shared => {
                Some(b.f.ty(*v).as_tensor()?.dtype)
            }
            Operand::Literal(l) if wants(&op, i) == Wants::Shared => l.stated_dtype(),
            _ => None,
        });
        let args = self.resolve(b, region, operands, |_, i| match wants(&op, i) {
            Wants::Dtype(d) => Some(d),
            Wants::Shared => shared,
            Wants::Any => None,
        })?;
        self.push(b, region, (op, args, vec![]), place, defs)
    }

    fn unknown_op(&self, name: &str, place: Spanned) -> Box<super::ParseError> {
        let error = self.error(place, format!("`{name}` is no operation"));
        let best = attrs::names().map(|n| (distance(name, n), n)).min();
        match best {
            Some((d, n)) if d <= 1 + name.len() / 4 => error.hint(format!("did you mean `{n}`?")),
            _ => error,
        }
    }

    /// Operands and attributes in parentheses.
    fn arguments(&mut self, b: &mut Body, region: Region) -> Result<(Vec<Operand<'a>>, Attrs)> {
        self.expect("(")?;
        let (mut operands, mut attrs) = (vec![], Attrs::default());
        while self.token.token != Token::Mark(")") {
            match self.token.token {
                Token::Word(key) if self.after() == Some(Token::Mark("=")) => {
                    let place = self.advance()?;
                    self.advance()?;
                    if attrs.given.iter().any(|(k, _)| k == key) {
                        return Err(self.error(place, format!("`{key}` is given twice")));
                    }
                    if attrs.given.len() == 16 {
                        return Err(self.error(place, "too many attributes"));
                    }
                    let attr = self.attribute()?;
                    attrs.given.push((key.to_string(), attr));
                }
                _ => operands.push(self.operand_or_literal(b, region)?),
            }
            if !self.eat(",")? {
                break;
            }
        }
        self.expect(")")?;
        Ok((operands, attrs))
    }

    fn attribute(&mut self) -> Result<Attr> {
        let negative = self.eat("-")?;
        let sign = if negative { "-" } else { "" };
        match self.token.token {
            Token::Number(text) => {
                self.advance()?;
                Ok(Attr::Number(format!("{sign}{text}")))
            }
            Token::Word("inf") if negative => {
                self.advance()?;
                Ok(Attr::Number("-inf".into()))
            }
            _ if negative => Err(self.expected("a number")),
            Token::Word(word) => match self.after() {
                Some(Token::Mark("[" | "<")) => Ok(Attr::Type(self.ty()?)),
                _ => {
                    self.advance()?;
                    Ok(Attr::Word(word.to_string()))
                }
            },
            Token::Str(_) => Ok(Attr::Str(self.size_name()?)),
            Token::Mark("[") => self.attribute_list(),
            _ => Err(self.expected("the value of an attribute")),
        }
    }

    fn attribute_list(&mut self) -> Result<Attr> {
        self.expect("[")?;
        let (mut ints, mut strings) = (vec![], vec![]);
        while self.token.token != Token::Mark("]") {
            match self.token.token {
                Token::Str(_) if ints.is_empty() => strings.push(self.size_name()?),
                _ if strings.is_empty() => ints.push(self.integer()?),
                _ => return Err(self.expected("a string")),
            }
            if !self.eat(",")? {
                break;
            }
        }
        self.expect("]")?;
        Ok(match strings.is_empty() {
            true => Attr::Ints(ints),
            false => Attr::Strs(strings),
        })
    }

    // ---- operands

    /// Operands after `return`, `yield`, `carry` or `stack`, to the word or brace that follows.
    pub(super) fn operands_to(&mut self, b: &mut Body, region: Region) -> Result<Vec<Value>> {
        let mut values = vec![];
        if matches!(self.token.token, Token::Mark("}") | Token::Word("stack")) {
            return Ok(values);
        }
        loop {
            values.push(self.operand_like(b, region, None)?);
            if !self.eat(",")? {
                return Ok(values);
            }
        }
    }

    /// An operand; a literal is of this element type.
    pub(super) fn operand_as(
        &mut self,
        b: &mut Body,
        region: Region,
        dtype: DType,
    ) -> Result<Value> {
        let operand = self.operand_or_literal(b, region)?;
        self.place_operand(b, region, operand, Some(dtype))
    }

    /// An operand; a literal has the element type of `ty`.
    pub(super) fn operand_like(
        &mut self,
        b: &mut Body,
        region: Region,
        ty: Option<&Type>,
    ) -> Result<Value> {
        let operand = self.operand_or_literal(b, region)?;
        let dtype = ty.and_then(Type::as_tensor).map(|t| t.dtype);
        self.place_operand(b, region, operand, dtype)
    }

    fn operand_or_literal(&mut self, b: &mut Body, region: Region) -> Result<Operand<'a>> {
        let place = self.token;
        match place.token {
            Token::Value(name) => {
                let value = self.lookup(b, name, place)?;
                self.advance()?;
                Ok(Operand::Value(value))
            }
            Token::Word("true" | "false" | "nan" | "inf")
            | Token::Number(_)
            | Token::Str(_)
            | Token::Mark("[" | "-" | "(") => Ok(Operand::Literal(self.literal()?)),
            Token::Word(_) => {
                self.enter()?;
                let inst = self.expr(b, region, &[])?;
                self.leave();
                match b.f.insts[inst].results[..] {
                    [value] => Ok(Operand::Value(value)),
                    ref other => {
                        let (op, n) = (b.f.insts[inst].op.name(), other.len());
                        let error = self.error(place, format!("`{op}` has {n} results, not one"));
                        Err(error.hint("name the results in a statement of their own"))
                    }
                }
            }
            _ => Err(self.expected("an operand")),
        }
    }

    fn resolve(
        &mut self,
        b: &mut Body,
        region: Region,
        operands: Vec<Operand<'a>>,
        dtype: impl Fn(&Self, usize) -> Option<DType>,
    ) -> Result<Vec<Value>> {
        let mut values = Vec::with_capacity(operands.len());
        for (i, operand) in operands.into_iter().enumerate() {
            let dtype = dtype(self, i);
            values.push(self.place_operand(b, region, operand, dtype)?);
        }
        Ok(values)
    }

    fn place_operand(
        &mut self,
        b: &mut Body,
        region: Region,
        operand: Operand<'a>,
        dtype: Option<DType>,
    ) -> Result<Value> {
        match operand {
            Operand::Value(value) => Ok(value),
            Operand::Literal(literal) => {
                let place = literal.place;
                let tensor = self.tensor(literal, Wanted { dtype, shape: None })?;
                let made = (Op::Const(tensor), vec![], vec![]);
                let inst = self.push(b, region, made, place, &[])?;
                Ok(b.f.insts[inst].results[0])
            }
        }
    }
}

/// The element type that an op gives a literal operand.
#[derive(PartialEq)]
enum Wants {
    Dtype(DType),
    /// The element type of its other operands of this kind.
    Shared,
    /// The type that the literal looks like.
    Any,
}

fn wants(op: &Op, i: usize) -> Wants {
    if let Op::SeqNew {
        elem: Type::Tensor(t),
    } = op
    {
        return Wants::Dtype(t.dtype);
    }
    match op.props().operands.get(i).map(|o| o.ty) {
        Some(OperandType::Is(dtype)) => Wants::Dtype(dtype),
        Some(OperandType::Index) => Wants::Dtype(DType::I64),
        Some(OperandType::Shared) => Wants::Shared,
        Some(OperandType::Any) | None => Wants::Any,
    }
}

/// The edit distance of two names; names are short.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().take(32).enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let change = corner + (x != y) as usize;
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}
