//! The parser: recursive descent, one token ahead. The grammar stands at the top of the crate.

mod expr;
mod types;

use heddle_ir::MAX_NESTING;
use heddle_ir::text::ParseError;

use crate::ast::{
    Ast, Case, DataType, Expr, ExprKind, Function, Let, Name, Param, Table, TypeExpr, TypeKind,
    Vertex,
};
use crate::lexer::{Lexer, Result, Span, Token};

/// Reads a program.
pub fn parse(text: &str) -> Result<Ast> {
    if text.len() >= u32::MAX as usize {
        return Err(Span::default().error("", "the text is larger than 4 GiB"));
    }
    let mut lexer = Lexer::new(text);
    let (token, span) = lexer.token()?;
    let mut parser = Parser {
        lexer,
        token,
        span,
        nesting: 0,
    };
    parser.program()
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token that is looked at.
    token: Token<'a>,
    span: Span,
    nesting: usize,
}

impl<'a> Parser<'a> {
    fn program(&mut self) -> Result<Ast> {
        let mut ast = Ast::default();
        loop {
            match self.token {
                Token::End => return Ok(ast),
                Token::Word("type") => ast.types.push(self.data_type()?),
                Token::Word("table") => ast.tables.push(self.table()?),
                Token::Word("param") => {
                    self.advance()?;
                    ast.params.push(self.param()?);
                    self.expect(";")?;
                }
                Token::Word("fn") => ast.functions.push(self.function()?),
                Token::Word("vertex") => ast.vertices.push(self.vertex()?),
                _ => return Err(self.expected("`fn`, `type`, `table`, `param` or `vertex`")),
            }
        }
    }

    fn data_type(&mut self) -> Result<DataType> {
        self.advance()?;
        let name = self.name()?;
        self.expect("=")?;
        self.eat("|")?;
        let mut cases = vec![];
        loop {
            let name = self.name()?;
            let fields = match self.token {
                Token::Mark("(") => self.list("(", ")", Self::ty)?,
                _ => vec![],
            };
            cases.push(Case { name, fields });
            if !self.eat("|")? {
                break;
            }
        }
        self.eat(";")?;
        Ok(DataType { name, cases })
    }

    fn table(&mut self) -> Result<Table> {
        self.advance()?;
        let name = self.name()?;
        let columns = self.list("(", ")", Self::param)?;
        self.expect("->")?;
        let ty = self.name()?;
        let body = self.block()?;
        Ok(Table {
            name,
            columns,
            ty,
            body,
        })
    }

    fn param(&mut self) -> Result<Param> {
        let name = self.name()?;
        let ty = self.eat(":")?.then(|| self.ty()).transpose()?;
        Ok(Param { name, ty })
    }

    fn function(&mut self) -> Result<Function> {
        self.advance()?;
        let name = self.name()?;
        let params = self.list("(", ")", Self::param)?;
        let (result, result_names) = match self.eat("->")? {
            true => self.result()?,
            false => (None, vec![]),
        };
        let body = self.block()?;
        Ok(Function {
            name,
            params,
            result,
            result_names,
            body,
        })
    }

    /// A type, or names with types in parentheses.
    fn result(&mut self) -> Result<(Option<TypeExpr>, Vec<String>)> {
        let named = self.token == Token::Mark("(")
            && matches!(self.ahead(1), Some(Token::Word(_)))
            && self.ahead(2) == Some(Token::Mark(":"));
        if !named {
            return Ok((Some(self.ty()?), vec![]));
        }
        let span = self.span;
        let all = self.list("(", ")", |p| {
            let name = p.name()?;
            p.expect(":")?;
            Ok((name, p.ty()?))
        })?;
        let names: Vec<String> = all.iter().map(|(name, _)| name.text.clone()).collect();
        let mut types: Vec<TypeExpr> = all.into_iter().map(|(_, ty)| ty).collect();
        let ty = match types.len() {
            1 => types.remove(0),
            _ => TypeExpr {
                span,
                kind: TypeKind::Tuple(types),
            },
        };
        Ok((Some(ty), names))
    }

    fn vertex(&mut self) -> Result<Vertex> {
        self.advance()?;
        let name = self.name()?;
        let params = self.list("(", ")", Self::param)?;
        self.expect("->")?;
        let state = self.ty()?;
        self.expect("{")?;
        let (mut lets, mut scatter, mut push) = (vec![], None, None);
        while self.token != Token::Mark("}") {
            let slot = match self.token {
                Token::Word("let") => {
                    lets.push(self.binding()?);
                    continue;
                }
                Token::Word("scatter") => &mut scatter,
                Token::Word("push") => &mut push,
                _ => return Err(self.expected("`let`, `scatter` or `push`")),
            };
            let place = self.advance()?;
            self.expect("(")?;
            if slot.replace(self.expr()?).is_some() {
                return Err(self.error(place, "a vertex does this once"));
            }
            self.expect(")")?;
            self.eat(";")?;
        }
        self.expect("}")?;
        let lacks = |what| self.error(name.span, format!("vertex `{}` does not {what}", name.text));
        let scatter =
            scatter.ok_or_else(|| lacks("scatter a state").hint("write `scatter(state);`"))?;
        let push = push.ok_or_else(|| lacks("push a result").hint("write `push(result)`"))?;
        Ok(Vertex {
            name,
            params,
            state,
            lets,
            scatter,
            push,
        })
    }

    fn binding(&mut self) -> Result<Let> {
        self.advance()?;
        let pattern = self.pattern()?;
        let ty = self.eat(":")?.then(|| self.ty()).transpose()?;
        self.expect("=")?;
        let value = self.expr()?;
        self.expect(";")?;
        Ok(Let { pattern, ty, value })
    }

    /// Bindings and a value between braces.
    fn block(&mut self) -> Result<Expr> {
        let start = self.span;
        self.enter()?;
        self.expect("{")?;
        let mut lets = vec![];
        while self.token == Token::Word("let") {
            lets.push(self.binding()?);
        }
        let value = self.expr()?;
        self.expect("}")?;
        self.leave();
        match lets.is_empty() {
            true => Ok(value),
            false => self.make(start, ExprKind::Block(lets, Box::new(value))),
        }
    }

    /// Items with commas between, and perhaps one behind the last.
    fn list<T>(
        &mut self,
        open: &'static str,
        close: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.enter()?;
        self.expect(open)?;
        let mut all = vec![];
        while self.token != Token::Mark(close) {
            all.push(item(self)?);
            if !self.eat(",")? {
                break;
            }
        }
        self.expect(close)?;
        self.leave();
        Ok(all)
    }

    // ---- tokens

    fn advance(&mut self) -> Result<Span> {
        let old = self.span;
        (self.token, self.span) = self.lexer.token()?;
        Ok(old)
    }

    /// The `n`th token after the one that is looked at.
    fn ahead(&self, n: usize) -> Option<Token<'a>> {
        let mut lexer = self.lexer;
        for _ in 1..n {
            lexer.token().ok()?;
        }
        lexer.token().ok().map(|t| t.0)
    }

    fn eat(&mut self, mark: &'static str) -> Result<bool> {
        let found = self.token == Token::Mark(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, mark: &'static str) -> Result<()> {
        match self.eat(mark)? {
            true => Ok(()),
            false => Err(self.expected(&format!("`{mark}`"))),
        }
    }

    fn name(&mut self) -> Result<Name> {
        match self.token {
            Token::Word(word) if !KEYWORDS.contains(&word) => Ok(Name {
                text: word.into(),
                span: self.advance()?,
            }),
            _ => Err(self.expected("a name")),
        }
    }

    fn error(&self, span: Span, message: impl Into<String>) -> Box<ParseError> {
        span.error(self.lexer.text, message)
    }

    fn expected(&self, what: &str) -> Box<ParseError> {
        let found = match self.token {
            Token::Word(w) if KEYWORDS.contains(&w) => format!("the keyword `{w}`"),
            Token::Word(w) => format!("`{w}`"),
            Token::Number(n) => format!("number {n}"),
            Token::Str(_) => "a string".into(),
            Token::Mark(m) => format!("`{m}`"),
            Token::End => "the end of the text".into(),
        };
        self.error(self.span, format!("expected {what}, found {found}"))
    }

    /// Goes one level deeper; [`leave`](Self::leave) goes back.
    fn enter(&mut self) -> Result<()> {
        self.nesting += 1;
        match self.nesting > MAX_NESTING {
            true => Err(self.too_deep(self.span)),
            false => Ok(()),
        }
    }

    fn leave(&mut self) {
        self.nesting -= 1;
    }

    fn too_deep(&self, span: Span) -> Box<ParseError> {
        self.error(span, format!("nested deeper than {MAX_NESTING} levels"))
    }
}

/// Words that are no names.
const KEYWORDS: [&str; 10] = [
    "type", "param", "fn", "vertex", "let", "if", "else", "match", "true", "false",
];
