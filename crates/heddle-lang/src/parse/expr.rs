//! Expressions.

use heddle_ir::text::syntax::Attr;
use heddle_ir::{MAX_NESTING, Type};

use super::{KEYWORDS, Parser};
use crate::ast::{Arm, Expr, ExprKind, Infix, Lambda, TypeKind};
use crate::lexer::{Result, Span, Token, deeper};

/// Operands and attributes.
type Arguments = (Vec<Expr>, Vec<(String, Attr)>);

/// Binary operators, those that bind least first.
const LEVELS: [&[(&str, Infix)]; 5] = [
    &[("||", Infix::Or)],
    &[("&&", Infix::And)],
    &[
        ("==", Infix::Op("eq")),
        ("!=", Infix::Op("ne")),
        ("<=", Infix::Op("le")),
        (">=", Infix::Op("ge")),
        ("<", Infix::Op("lt")),
        (">", Infix::Op("gt")),
    ],
    &[("+", Infix::Op("add")), ("-", Infix::Op("sub"))],
    &[
        ("*", Infix::Op("mul")),
        ("/", Infix::Op("div")),
        ("%", Infix::Op("mod")),
        ("@", Infix::Product),
    ],
];

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Result<Expr> {
        self.enter()?;
        let expr = deeper(|| self.binary(0))?;
        self.leave();
        Ok(expr)
    }

    /// An expression of this kind; its place ends before the token that is looked at.
    pub(super) fn make(&self, start: Span, kind: ExprKind) -> Result<Expr> {
        let mut expr = Expr {
            span: start,
            kind,
            depth: 0,
        };
        let mut depth = 0;
        expr.for_each_child(&mut |child| depth = depth.max(child.depth));
        expr.depth = depth + 1;
        match expr.depth > MAX_NESTING {
            true => Err(self.too_deep(start)),
            false => Ok(expr),
        }
    }

    fn binary(&mut self, level: usize) -> Result<Expr> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        loop {
            let found = operators.iter().find(|o| self.token == Token::Mark(o.0));
            let Some(&(_, infix)) = found else {
                return Ok(left);
            };
            let span = self.advance()?;
            let right = self.binary(level + 1)?;
            left = self.make(
                span,
                ExprKind::Binary(infix, Box::new(left), Box::new(right)),
            )?;
        }
    }

    fn unary(&mut self) -> Result<Expr> {
        let start = self.span;
        let name = match self.token {
            Token::Mark("-") => "neg",
            Token::Mark("!") => "not",
            _ => return self.postfix(),
        };
        self.enter()?;
        self.advance()?;
        if let (Token::Number(text), "neg") = (self.token, name) {
            let text = format!("-{text}");
            self.advance()?;
            self.leave();
            return self.make(start, ExprKind::Number(text));
        }
        let operand = deeper(|| self.unary())?;
        self.leave();
        self.make(start, ExprKind::Unary(name, Box::new(operand)))
    }

    fn postfix(&mut self) -> Result<Expr> {
        let start = self.span;
        let mut expr = self.primary()?;
        loop {
            let kind = match self.token {
                Token::Mark("(") => {
                    let (args, attrs) = self.arguments()?;
                    ExprKind::Call(Box::new(expr), args, attrs)
                }
                Token::Mark("[") => self.index(expr)?,
                Token::Mark(".") => {
                    self.advance()?;
                    let Token::Number(text) = self.token else {
                        return Err(self.expected("the number of a tuple's element"));
                    };
                    let index = text.parse().map_err(|_| self.expected("a whole number"))?;
                    self.advance()?;
                    ExprKind::Field(Box::new(expr), index)
                }
                _ => return Ok(expr),
            };
            expr = self.make(start, kind)?;
        }
    }

    /// `[i]`, `[a..b]`.
    fn index(&mut self, of: Expr) -> Result<ExprKind> {
        self.advance()?;
        let of = Box::new(of);
        let bound = |p: &mut Self| match p.token {
            Token::Mark(".." | "]") => Ok(None),
            _ => p.expr().map(|e| Some(Box::new(e))),
        };
        let from = bound(self)?;
        let kind = match (self.eat("..")?, from) {
            (true, from) => ExprKind::Slice(of, from, bound(self)?),
            (false, Some(at)) => ExprKind::Index(of, at),
            (false, None) => return Err(self.expected("an index")),
        };
        self.expect("]")?;
        Ok(kind)
    }

    /// Arguments and attributes in parentheses.
    fn arguments(&mut self) -> Result<Arguments> {
        let mut attrs: Vec<(String, Attr)> = vec![];
        let args = self.list("(", ")", |p| match p.token {
            Token::Word(key) if p.ahead(1) == Some(Token::Mark("=")) => {
                let span = p.advance()?;
                p.advance()?;
                if attrs.iter().any(|(k, _)| k == key) || attrs.len() == 16 {
                    return Err(p.error(span, format!("`{key}` is one attribute too many")));
                }
                attrs.push((key.into(), p.attribute()?));
                Ok(None)
            }
            _ => p.expr().map(Some),
        })?;
        Ok((args.into_iter().flatten().collect(), attrs))
    }

    fn attribute(&mut self) -> Result<Attr> {
        let sign = if self.eat("-")? { "-" } else { "" };
        let attr = match self.token {
            Token::Number(text) => Attr::Number(format!("{sign}{text}")),
            Token::Str(text) => Attr::Str(text.into()),
            Token::Mark("[") => return self.attribute_list(),
            Token::Word(word) => match self.ahead(1) {
                Some(Token::Mark("[")) => {
                    let ty = self.ty()?;
                    let TypeKind::Tensor(dtype, dims) = ty.kind else {
                        return Err(self.error(ty.span, "expected the type of an array"));
                    };
                    return Ok(Attr::Type(Type::tensor(dtype, dims)));
                }
                _ => Attr::Word(word.into()),
            },
            _ => return Err(self.expected("the value of an attribute")),
        };
        self.advance()?;
        Ok(attr)
    }

    fn attribute_list(&mut self) -> Result<Attr> {
        let (mut ints, mut strings) = (vec![], vec![]);
        self.list("[", "]", |p| {
            match p.token {
                Token::Str(text) => strings.push(text.to_string()),
                Token::Number(text) => {
                    ints.push(text.parse().map_err(|_| p.expected("a whole number"))?);
                }
                _ => return Err(p.expected("a whole number or a string")),
            }
            p.advance()
        })?;
        Ok(match strings.is_empty() {
            true => Attr::Ints(ints),
            false => Attr::Strs(strings),
        })
    }

    fn primary(&mut self) -> Result<Expr> {
        let start = self.span;
        let kind = match self.token {
            Token::Number(text) => {
                self.advance()?;
                ExprKind::Number(text.into())
            }
            Token::Mark("(") => {
                let mut all = self.list("(", ")", Self::expr)?;
                match all.len() {
                    1 => return Ok(all.remove(0)),
                    _ => ExprKind::Tuple(all),
                }
            }
            Token::Mark("[") => ExprKind::Array(self.list("[", "]", Self::expr)?),
            Token::Mark("{") => return self.block(),
            Token::Word("if") => return self.branch(),
            Token::Word("match") => self.matching()?,
            Token::Word("fn") => {
                self.advance()?;
                let params = self.list("(", ")", Self::param)?;
                let body = self.expr()?;
                ExprKind::Lambda(Box::new(Lambda { params, body }))
            }
            Token::Word(word @ ("true" | "false")) => {
                self.advance()?;
                ExprKind::Bool(word == "true")
            }
            Token::Word(word) if !KEYWORDS.contains(&word) => {
                self.advance()?;
                match (self.token, self.ahead(1)) {
                    (Token::Mark("."), Some(Token::Word(rest))) => {
                        self.advance()?;
                        self.advance()?;
                        ExprKind::Name(format!("{word}.{rest}"))
                    }
                    _ => ExprKind::Name(word.into()),
                }
            }
            _ => return Err(self.expected("an expression")),
        };
        self.make(start, kind)
    }

    fn branch(&mut self) -> Result<Expr> {
        let start = self.advance()?;
        self.enter()?;
        let cond = self.expr()?;
        let then = self.block()?;
        if self.token != Token::Word("else") {
            return Err(self
                .expected("`else`")
                .hint("an `if` is a value in both cases"));
        }
        self.advance()?;
        let otherwise = match self.token {
            Token::Word("if") => deeper(|| self.branch())?,
            _ => self.block()?,
        };
        self.leave();
        self.make(
            start,
            ExprKind::If(Box::new(cond), Box::new(then), Box::new(otherwise)),
        )
    }

    fn matching(&mut self) -> Result<ExprKind> {
        self.advance()?;
        let of = self.expr()?;
        self.expect("{")?;
        let mut arms = vec![];
        while self.token != Token::Mark("}") {
            let pattern = self.pattern()?;
            self.expect("=>")?;
            let braces = self.token == Token::Mark("{");
            let value = self.expr()?;
            arms.push(Arm { pattern, value });
            if !self.eat(",")? && !braces {
                break;
            }
        }
        self.expect("}")?;
        Ok(ExprKind::Match(Box::new(of), arms))
    }
}
