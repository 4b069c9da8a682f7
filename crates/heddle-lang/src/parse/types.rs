//! Types and patterns.

use heddle_ir::types::MAX_RANK;
use heddle_ir::{DType, Dim, MAX_NESTING};

use super::Parser;
use crate::ast::{Pattern, PatternKind, TypeExpr, TypeKind};
use crate::lexer::{Result, Token, deeper};

impl Parser<'_> {
    pub(super) fn ty(&mut self) -> Result<TypeExpr> {
        deeper(|| self.nested_type())
    }

    fn nested_type(&mut self) -> Result<TypeExpr> {
        self.enter()?;
        let span = self.span;
        let kind = match self.token {
            Token::Mark("(") => TypeKind::Tuple(self.list("(", ")", Self::ty)?),
            Token::Word("list") => {
                self.advance()?;
                self.expect("<")?;
                let elem = self.ty()?;
                self.expect(">")?;
                TypeKind::List(Box::new(elem))
            }
            Token::Word("graph") => {
                self.advance()?;
                TypeKind::Graph
            }
            Token::Word(word) => match word.parse::<DType>() {
                Ok(dtype) => {
                    self.advance()?;
                    TypeKind::Tensor(dtype, self.shape()?)
                }
                Err(()) => self.data_name()?,
            },
            _ => {
                let hint =
                    "types are f32[n,4], (f32[], i64[]), list<f32[4]>, and names of data types";
                return Err(self.expected("a type").hint(hint));
            }
        };
        self.leave();
        Ok(TypeExpr { span, kind })
    }

    fn data_name(&mut self) -> Result<TypeKind> {
        let name = self.name()?;
        let size = match self.eat("[")? {
            true => {
                let size = self.name()?.text;
                self.expect("]")?;
                Some(size)
            }
            false => None,
        };
        Ok(TypeKind::Data(name.text, size))
    }

    /// The sizes of axes; an element type alone is a scalar.
    fn shape(&mut self) -> Result<Vec<Dim>> {
        if self.token != Token::Mark("[") {
            return Ok(vec![]);
        }
        let span = self.span;
        let dims = self.list("[", "]", Self::dim)?;
        match dims.len() > MAX_RANK {
            true => Err(self.error(span, format!("more than {MAX_RANK} axes"))),
            false => Ok(dims),
        }
    }

    fn dim(&mut self) -> Result<Dim> {
        if self.eat("?")? {
            return Ok(Dim::UNKNOWN);
        }
        let span = self.span;
        let mut sum = self.term()?;
        loop {
            sum = if self.eat("+")? {
                sum.add(&self.term()?)
            } else if self.eat("-")? {
                sum.sub(&self.term()?)
            } else if sum.as_const().is_some_and(|n| n < 0) {
                return Err(self.error(span, "a size is not below 0"));
            } else if sum.as_expr().is_none() {
                return Err(self.error(span, "this size is too large an expression"));
            } else {
                return Ok(sum);
            };
        }
    }

    fn term(&mut self) -> Result<Dim> {
        let mut product = self.factor()?;
        while self.eat("*")? {
            product = product.mul(&self.factor()?);
        }
        Ok(product)
    }

    fn factor(&mut self) -> Result<Dim> {
        let span = self.span;
        match self.token {
            Token::Number(text) => {
                self.advance()?;
                let size = text.parse::<i64>();
                size.map(Dim::constant)
                    .map_err(|_| self.error(span, format!("{text} is no size")))
            }
            Token::Word(_) => Ok(Dim::sym(&self.name()?.text)),
            _ => Err(self.expected("a size")),
        }
    }

    pub(super) fn pattern(&mut self) -> Result<Pattern> {
        deeper(|| self.nested_pattern())
    }

    fn nested_pattern(&mut self) -> Result<Pattern> {
        self.enter()?;
        let span = self.span;
        let kind = match self.token {
            Token::Word("_") => {
                self.advance()?;
                PatternKind::Any
            }
            Token::Word(word @ ("true" | "false")) => {
                self.advance()?;
                PatternKind::Bool(word == "true")
            }
            Token::Mark("(") => PatternKind::Tuple(self.parts()?),
            Token::Mark("-") | Token::Number(_) => PatternKind::Number(self.whole_number()?),
            Token::Word(_) => {
                let name = self.name()?.text;
                match self.token {
                    Token::Mark("(") => PatternKind::Case(name, self.parts()?),
                    // Constructors begin with a capital, variables do not.
                    _ if name.starts_with(char::is_uppercase) => PatternKind::Case(name, vec![]),
                    _ => PatternKind::Bind(name),
                }
            }
            _ => return Err(self.expected("a pattern")),
        };
        self.leave();
        Ok(Pattern { span, kind })
    }

    /// The patterns of parts.
    fn parts(&mut self) -> Result<Vec<Pattern>> {
        let span = self.span;
        let all = self.list("(", ")", Self::pattern)?;
        match all.len() > MAX_NESTING {
            true => Err(self.error(span, format!("more than {MAX_NESTING} patterns"))),
            false => Ok(all),
        }
    }

    fn whole_number(&mut self) -> Result<i64> {
        let sign = if self.eat("-")? { "-" } else { "" };
        let Token::Number(text) = self.token else {
            return Err(self.expected("a number"));
        };
        let span = self.advance()?;
        let number = format!("{sign}{text}").parse();
        number.map_err(|_| self.error(span, format!("{text} is no integer of 64 bits")))
    }
}
