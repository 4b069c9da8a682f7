//! The parser: expressions.

use heddle_ir::op::{BinaryOp, CompareOp, ScaleRounding, UnaryOp};
use heddle_ir::text::syntax::{Spanned, Token, Written, parse_element};
use heddle_ir::{DType, Entity};

use super::MAX_DEPTH;
use super::cursor::Result;
use super::parse::{Parser, label};
use crate::expr::{Expr, ExprId, Narrow};

impl Parser<'_, '_> {
    pub(super) fn expr(&mut self) -> Result<ExprId> {
        self.c.enter()?;
        let mut sum = self.product()?;
        loop {
            let op = match self.c.token.token {
                Token::Mark("+") => BinaryOp::Add,
                Token::Mark("-") => BinaryOp::Sub,
                _ => break,
            };
            self.c.advance()?;
            let operand = self.product()?;
            let dtype = self.program.type_of(sum);
            sum = self.add(Expr::Binary(op, dtype, sum, operand))?;
        }
        self.c.leave();
        Ok(sum)
    }

    fn product(&mut self) -> Result<ExprId> {
        let mut product = self.primary()?;
        while self.c.eat("*")? {
            let operand = self.primary()?;
            let dtype = self.program.type_of(product);
            product = self.add(Expr::Binary(BinaryOp::Mul, dtype, product, operand))?;
        }
        Ok(product)
    }

    fn primary(&mut self) -> Result<ExprId> {
        match self.c.token.token {
            Token::Mark("(") => {
                self.c.advance()?;
                let inner = self.expr()?;
                self.c.expect(")")?;
                Ok(inner)
            }
            Token::Value(_) => {
                let local = self.local()?;
                self.add(Expr::Local(local))
            }
            Token::Mark("-") | Token::Number(_) => self.literal(),
            Token::Word("inf" | "nan" | "true" | "false") => self.literal(),
            Token::Word(word) => {
                if let Some(number) = label(word, "e") {
                    self.c.advance()?;
                    let found = self.shared.get(&number).copied();
                    return found.ok_or_else(|| self.c.misplaced("this is not defined above"));
                }
                if label(word, "b").is_some() {
                    let buffer = self.buffer_name()?;
                    self.c.expect("[")?;
                    let offset = self.expr()?;
                    self.c.expect("]")?;
                    return self.add(Expr::Load(buffer, offset));
                }
                let place = self.c.advance()?;
                self.apply(word, place)
            }
            _ => Err(self.c.expected("an expression")),
        }
    }

    fn literal(&mut self) -> Result<ExprId> {
        let place = self.c.token;
        let negative = self.c.eat("-")?;
        let (Token::Number(text) | Token::Word(text)) = self.c.token.token else {
            return Err(self.c.expected("a number"));
        };
        self.c.advance()?;
        let dtype = match self.c.eat(":")? {
            true => self.c.dtype()?,
            false => match text {
                "true" | "false" => DType::Bool,
                "inf" | "nan" => DType::F32,
                _ if !text.starts_with("0x") && text.contains(['.', 'e', 'E']) => DType::F32,
                _ => DType::I64,
            },
        };
        if dtype == DType::Str || dtype.is_complex() {
            return Err(self.c.error(place, format!("no number is of type {dtype}")));
        }
        let bits = parse_element(dtype, Written { negative, text });
        let bits = bits.map_err(|m| self.c.error(place, m))?;
        self.add(Expr::Num(dtype, bits as u64))
    }

    /// Expressions in parentheses.
    pub(super) fn args(&mut self) -> Result<Vec<ExprId>> {
        self.c.expect("(")?;
        let mut args = vec![];
        while !self.c.is(")") {
            args.push(self.expr()?);
            if !self.c.eat(",")? {
                break;
            }
        }
        self.c.expect(")")?;
        Ok(args)
    }

    /// An op on operands; `word` stands at `place`, before the parentheses.
    fn apply(&mut self, word: &str, place: Spanned) -> Result<ExprId> {
        let mut parts = word.split('.');
        let name = parts.next().unwrap_or_default();
        let types = parts.map(|t| t.parse::<DType>().ok());
        let Some(types) = types.collect::<Option<Vec<_>>>() else {
            return Err(self.c.error(place, "element types follow the point"));
        };
        let misfit = |p: &Self, message: &str| Err(p.c.error(place, message));
        if name == "narrow" {
            let [to] = types[..] else {
                return misfit(self, "`narrow` states the type that it gives");
            };
            return self.narrow(to);
        }
        let args = self.args()?;
        let first = args.first().map(|a| self.program.type_of(*a));
        let is_conversion = matches!(name, "cast" | "bits");
        let (from, to) = match (&types[..], is_conversion) {
            ([], false) => (None, None),
            ([dtype], false) => (Some(*dtype), None),
            ([to], true) => (None, Some(*to)),
            ([from, to], true) => (Some(*from), Some(*to)),
            _ => return misfit(self, "too many or too few element types"),
        };
        let stated = from.or(first);
        let expr = match (name, &args[..], stated, to) {
            ("cast", &[a], Some(from), Some(to)) => Expr::Cast(from, to, a),
            ("bits", &[a], Some(from), Some(to)) => Expr::Bits(from, to, a),
            ("select", &[cond, a, b], ..) => {
                let dtype = from.unwrap_or(self.program.type_of(a));
                Expr::Select(dtype, cond, a, b)
            }
            ("at", &[index, size], ..) if types.is_empty() => Expr::Index(index, size),
            (name, &[a], Some(dtype), None) => match UnaryOp::from_name(name) {
                Some(op) => Expr::Unary(op, dtype, a),
                None => return misfit(self, "there is no such op of one operand"),
            },
            (name, &[a, b], Some(dtype), None) => {
                match (BinaryOp::from_name(name), CompareOp::from_name(name)) {
                    (Some(op), _) => Expr::Binary(op, dtype, a, b),
                    (_, Some(op)) => Expr::Compare(op, dtype, a, b),
                    _ => return misfit(self, "there is no such op of two operands"),
                }
            }
            _ => return misfit(self, "there is no such op of so many operands"),
        };
        self.add(expr)
    }

    /// After `narrow.TYPE`.
    fn narrow(&mut self, to: DType) -> Result<ExprId> {
        self.c.expect("(")?;
        let value = self.expr()?;
        self.c.expect(",")?;
        let word = self.c.word("`up`, `down` or `nearest`")?;
        let Some(round) = ScaleRounding::from_name(word) else {
            return Err(self.c.misplaced("expected `up`, `down` or `nearest`"));
        };
        let saturate = self.c.eat(",")?;
        if saturate {
            self.c.expect_word("saturate")?;
        }
        self.c.expect(")")?;
        let narrow = Narrow {
            to,
            saturate,
            round,
        };
        self.add(Expr::Narrow(narrow, value))
    }

    /// Adds an expression without simplifying it.
    pub(super) fn add(&mut self, expr: Expr) -> Result<ExprId> {
        let below = expr.operands().map(|o| self.depths[o.index()]).max();
        let depth = below.map_or(0, |d| d + 1);
        if depth > MAX_DEPTH {
            let message = format!("an expression of more than {MAX_DEPTH} levels");
            return Err(self.c.misplaced(&message));
        }
        let id = self.program.pool.add(expr);
        if id.index() == self.depths.len() {
            self.depths.push(depth);
        }
        Ok(id)
    }
}
