//! Types and dims.

use super::super::lexer::Token;
use super::super::names::unescape;
use super::{Parser, Result};
use crate::types::MAX_RANK;
use crate::{DType, Dim, MAX_NESTING, TensorType, Type};

/// Limit of nested `floordiv`, `max` and `min` in text; the dims that they build nest less.
const MAX_DIM_NESTING: usize = 32;

impl Parser<'_, '_> {
    /// A type.
    pub(super) fn ty(&mut self) -> Result<Type> {
        let ty = self.nested_type(0)?;
        self.charge(&ty)?;
        Ok(ty)
    }

    /// Counts what a type takes.
    pub(super) fn charge(&mut self, ty: &Type) -> Result<()> {
        match self.types_left.checked_sub(ty.weight()) {
            Some(left) => self.types_left = left,
            None => return Err(self.error(self.token, "the program's types are too large")),
        }
        Ok(())
    }

    fn nested_type(&mut self, depth: usize) -> Result<Type> {
        let place = self.token;
        if depth > MAX_NESTING {
            return Err(self.error(place, format!("nested deeper than {MAX_NESTING} levels")));
        }
        let Token::Word(word) = place.token else {
            return Err(self.expected("a type, such as f32[n,4]"));
        };
        let wrap = match word {
            "seq" => Some(Type::Seq as fn(Box<Type>) -> Type),
            "opt" => Some(Type::Opt as fn(Box<Type>) -> Type),
            _ => None,
        };
        if let Some(wrap) = wrap {
            self.advance()?;
            self.expect("<")?;
            let inner = self.nested_type(depth + 1)?;
            self.expect(">")?;
            return Ok(wrap(Box::new(inner)));
        }
        let dtype = self.dtype()?;
        let shape = self.shape()?;
        Ok(Type::Tensor(TensorType { dtype, shape }))
    }

    pub(super) fn dtype(&mut self) -> Result<DType> {
        let dtype = match self.token.token {
            Token::Word(word) => word.parse::<DType>().ok(),
            _ => None,
        };
        let Some(dtype) = dtype else {
            let names: Vec<_> = DType::ALL.iter().map(|d| d.name()).collect();
            let hint = format!("element types are {}", names.join(" "));
            return Err(self.expected("an element type").hint(hint));
        };
        self.advance()?;
        Ok(dtype)
    }

    fn shape(&mut self) -> Result<Option<Vec<Dim>>> {
        self.expect("[")?;
        if self.eat("..")? {
            self.expect("]")?;
            return Ok(None);
        }
        let mut dims = vec![];
        while self.token.token != Token::Mark("]") {
            if dims.len() == MAX_RANK {
                return Err(self.error(self.token, format!("more than {MAX_RANK} axes")));
            }
            dims.push(self.dim(0)?);
            if !self.eat(",")? {
                break;
            }
        }
        self.expect("]")?;
        Ok(Some(dims))
    }

    fn dim(&mut self, depth: usize) -> Result<Dim> {
        if self.eat("?")? {
            let bounded = self.eat("<=")?;
            return Ok(Dim::Unknown(bounded.then(|| self.integer()).transpose()?));
        }
        let mut sum = Dim::from(0);
        let mut negative = self.eat("-")?;
        loop {
            let place = self.token;
            let term = self.term(negative, depth)?;
            sum = sum.add(&term);
            if sum.as_expr().is_none() {
                return Err(self.error(place, "this size is too large an expression"));
            }
            negative = match self.token.token {
                Token::Mark("+") => false,
                Token::Mark("-") => true,
                _ => return Ok(sum),
            };
            self.advance()?;
        }
    }

    fn term(&mut self, negative: bool, depth: usize) -> Result<Dim> {
        let mut product = Dim::constant(if negative { -1 } else { 1 });
        loop {
            let place = self.token;
            let factor = match place.token {
                Token::Number(_) => {
                    let value = i128::from(self.integer()?);
                    // The sign goes with the first number: -2^63 has no positive counterpart.
                    let first = product.as_const().unwrap_or(1);
                    let scaled = i64::try_from(value * i128::from(first));
                    let plain = i64::try_from(value);
                    match (product.as_const(), scaled, plain) {
                        (Some(_), Ok(v), _) => {
                            product = Dim::from(1);
                            Dim::constant(v)
                        }
                        (None, _, Ok(v)) => Dim::constant(v),
                        _ => return Err(self.error(place, "this size does not fit 64 bits")),
                    }
                }
                Token::Word(word @ ("floordiv" | "max" | "min"))
                    if self.after() == Some(Token::Mark("(")) =>
                {
                    if depth == MAX_DIM_NESTING {
                        return Err(self.error(place, "this size is too large an expression"));
                    }
                    self.advance()?;
                    self.expect("(")?;
                    let a = self.dim(depth + 1)?;
                    self.expect(",")?;
                    let b = self.dim(depth + 1)?;
                    self.expect(")")?;
                    match word {
                        "floordiv" => a.floor_div(&b),
                        "max" => a.max(&b),
                        _ => a.min(&b),
                    }
                }
                _ => Dim::sym(&self.size_name()?),
            };
            product = product.mul(&factor);
            if product.as_expr().is_none() {
                return Err(self.error(place, "this size cannot be expressed"));
            }
            if !self.eat("*")? {
                return Ok(product);
            }
        }
    }

    /// The name of a size.
    pub(super) fn size_name(&mut self) -> Result<String> {
        let place = self.token;
        let name = match place.token {
            Token::Word(word) => word.to_string(),
            Token::Str(raw) => unescape(raw).map_err(|m| self.error(place, m))?,
            _ => return Err(self.expected("a size")),
        };
        self.advance()?;
        Ok(name)
    }
}
