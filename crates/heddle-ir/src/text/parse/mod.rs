//! The parser: recursive descent, one token ahead, types inferred as instructions are read.

mod body;
mod expr;
mod literal;
mod types;

use std::collections::HashMap;

use indexmap::IndexMap;

use super::error::ParseError;
use super::lexer::{Lexer, Name, Pos, Spanned, Token};
use super::{Loader, MAX_SPLAT};
use crate::{DimBound, FuncId, MAX_NESTING, Module, Signature, Tensor, Type};

/// Errors are boxed: the parser recurses, and its frames hold many results.
pub(super) type Result<T> = std::result::Result<T, Box<ParseError>>;

pub(super) fn module(text: &str, load: Loader) -> Result<Module> {
    if text.len() >= u32::MAX as usize {
        let lexer = Lexer::new("");
        return Err(lexer.error(Pos::default(), 0, "the text is larger than 4 GiB"));
    }
    let mut parser = Parser::new(Lexer::new(text), load, MAX_SPLAT)?;
    parser.module()?;
    Ok(parser.module)
}

/// Reads the constants of a text that is no graph program.
pub struct ConstantReader<'l> {
    load: Loader<'l>,
    splat_left: usize,
}

impl<'l> ConstantReader<'l> {
    /// A reader that has constants outside of the text loaded by this.
    pub fn new(load: Loader<'l>) -> Self {
        Self {
            load,
            splat_left: MAX_SPLAT,
        }
    }

    /// Reads a constant that states its type; gives also the lexer behind it.
    pub fn read<'a>(&mut self, lexer: Lexer<'a>) -> Result<(Tensor, Lexer<'a>)> {
        let mut parser = Parser::new(lexer, self.load, self.splat_left)?;
        let tensor = parser.constant(None)?;
        self.splat_left = parser.splat_left;
        Ok((tensor, parser.lexer.at(parser.token.pos)))
    }
}

/// Limit of dims and atoms of dims in types, beyond those that the length of the text suggests.
const FREE_TYPES: usize = 1 << 20;

struct Parser<'a, 'l> {
    lexer: Lexer<'a>,
    /// The token that is looked at.
    token: Spanned<'a>,
    load: Loader<'l>,
    /// Bytes that splat constants may still take.
    splat_left: usize,
    /// The budget for types: inferred ones can be far longer than the text they come from.
    types_left: usize,
    /// Regions and operands around what is read.
    nesting: usize,
    module: Module,
    by_name: HashMap<String, FuncId>,
}

impl<'a, 'l> Parser<'a, 'l> {
    fn new(mut lexer: Lexer<'a>, load: Loader<'l>, splat_left: usize) -> Result<Self> {
        let token = lexer.next()?;
        Ok(Self {
            types_left: FREE_TYPES + lexer.text.len().saturating_mul(2),
            lexer,
            token,
            load,
            splat_left,
            nesting: 0,
            module: Module::default(),
            by_name: HashMap::new(),
        })
    }
}

impl<'a> Parser<'a, '_> {
    fn module(&mut self) -> Result<()> {
        let entries = self.entries()?;
        let start = (self.lexer, self.token);
        while self.token.token != Token::End {
            let place = self.token;
            let sig = self.signature()?;
            if self.by_name.contains_key(&sig.name) {
                return Err(self.error(place, format!("@{} is defined twice", sig.name)));
            }
            let name = sig.name.clone();
            let id = self.module.declare(sig);
            self.by_name.insert(name, id);
            self.skip_braces()?;
        }
        for (name, (place, function)) in entries {
            let Some(&entry) = self.by_name.get(&function) else {
                let error = self.error(place, format!("there is no function @{function}"));
                return Err(error.hint(
                    "a run begins at @main, or at the functions that `entry @name` in the first \
                     lines name",
                ));
            };
            self.module.entries.insert(name, entry);
        }
        (self.lexer, self.token) = start;
        for id in self.module.functions.keys() {
            // The signature is known; this passes over it, to the body.
            while self.token.token != Token::Mark("{") {
                self.advance()?;
            }
            self.body(id)?;
        }
        Ok(())
    }

    /// Entries by name, each with its function and the place where that is named.
    fn entries(&mut self) -> Result<IndexMap<String, (Spanned<'a>, String)>> {
        let mut entries = IndexMap::new();
        while self.eat_word("entry")? {
            let start = self.token;
            let name = match start.token {
                Token::Word(_) | Token::Str(_) => {
                    let name = self.size_name()?;
                    self.expect("=")?;
                    Some(name)
                }
                _ => None,
            };
            let place = self.token;
            let function = self.func_name()?;
            let name = name.unwrap_or_else(|| function.clone());
            if entries.contains_key(&name) {
                return Err(self.error(start, format!("two entries are named `{name}`")));
            }
            entries.insert(name, (place, function));
        }
        if entries.is_empty() {
            entries.insert("main".into(), (self.token, "main".into()));
        }
        Ok(entries)
    }

    fn signature(&mut self) -> Result<Signature> {
        if !self.eat_word("fn")? {
            return Err(self.expected("`fn`"));
        }
        let name = self.func_name()?;
        let params = self.typed_names(Some("parameters"))?;
        self.expect("->")?;
        let results = self.typed_names(None)?;
        let origin = match self.eat_word("of")? {
            true => Some(self.func_name()?.into()),
            false => None,
        };
        let mut bounds = IndexMap::new();
        if self.eat_word("where")? {
            loop {
                let place = self.token;
                let size = self.size_name()?;
                if !self.eat_word("in")? {
                    return Err(self.expected("`in`"));
                }
                let min = self.integer()?;
                let max = match self.token.token {
                    Token::Mark("..=") => {
                        self.advance()?;
                        Some(self.integer()?)
                    }
                    _ => {
                        self.expect("..")?;
                        None
                    }
                };
                if bounds
                    .insert(size.as_str().into(), DimBound { min, max })
                    .is_some()
                {
                    return Err(self.error(place, format!("{size} is bounded twice")));
                }
                if !self.eat(",")? {
                    break;
                }
            }
        }
        Ok(Signature {
            name,
            params,
            results,
            bounds,
            origin,
        })
    }

    /// Names with their types; where `unique` says what they name, they must differ.
    fn typed_names(&mut self, unique: Option<&str>) -> Result<Vec<(String, Type)>> {
        self.expect("(")?;
        let mut all = vec![];
        let mut seen = std::collections::HashSet::new();
        while self.token.token != Token::Mark(")") {
            let place = self.token;
            let name = match self.value_name()? {
                Name::Number(n) => {
                    let error = self.error(place, "a number stands for a value without a name");
                    return Err(error.hint(format!("quote it: %\"{n}\"")));
                }
                name => name.text(),
            };
            if let Some(kind) = unique
                && !seen.insert(name.clone())
            {
                return Err(self.error(place, format!("two {kind} are named `{name}`")));
            }
            self.expect(":")?;
            all.push((name, self.ty()?));
            if !self.eat(",")? {
                break;
            }
        }
        self.expect(")")?;
        Ok(all)
    }

    /// Passes over a body, to what follows its closing brace.
    fn skip_braces(&mut self) -> Result<()> {
        let open = self.token;
        self.expect("{")?;
        let mut depth = 1;
        while depth > 0 {
            match self.token.token {
                Token::Mark("{") => depth += 1,
                Token::Mark("}") => depth -= 1,
                Token::End => return Err(self.error(open, "this brace is not closed")),
                _ => {}
            }
            self.advance()?;
        }
        Ok(())
    }

    // ---- tokens

    fn advance(&mut self) -> Result<Spanned<'a>> {
        let old = self.token;
        self.token = self.lexer.next()?;
        Ok(old)
    }

    /// The token after the one that is looked at.
    fn after(&self) -> Option<Token<'a>> {
        let mut ahead = self.lexer;
        ahead.next().ok().map(|s| s.token)
    }

    fn eat(&mut self, mark: &'static str) -> Result<bool> {
        let found = self.token.token == Token::Mark(mark);
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

    fn eat_word(&mut self, word: &str) -> Result<bool> {
        let found = self.token.token == Token::Word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn value_name(&mut self) -> Result<Name<'a>> {
        match self.token.token {
            Token::Value(name) => {
                self.advance()?;
                Ok(name)
            }
            _ => Err(self.expected("a value, such as %x")),
        }
    }

    fn func_name(&mut self) -> Result<String> {
        match self.token.token {
            Token::Func(name) => {
                self.advance()?;
                Ok(name.text())
            }
            _ => Err(self.expected("a function, such as @main")),
        }
    }

    fn integer(&mut self) -> Result<u64> {
        let place = self.token;
        match place.token {
            Token::Number(text) => {
                self.advance()?;
                let message = || format!("{text} is no integer of 64 bits without sign");
                text.parse().map_err(|_| self.error(place, message()))
            }
            _ => Err(self.expected("an integer")),
        }
    }

    // ---- errors and limits

    fn error(&self, place: Spanned, message: impl Into<String>) -> Box<ParseError> {
        self.lexer.error(place.pos, place.len, message)
    }

    fn expected(&self, what: &str) -> Box<ParseError> {
        let found = match self.token.token {
            Token::Word(w) => format!("`{w}`"),
            Token::Value(n) => format!("value %{}", n.text()),
            Token::Func(n) => format!("function @{}", n.text()),
            Token::Number(n) => format!("number {n}"),
            Token::Str(_) => "a string".into(),
            Token::Mark(m) => format!("`{m}`"),
            Token::End => "the end of the text".into(),
        };
        self.error(self.token, format!("expected {what}, found {found}"))
    }

    /// Goes one level deeper; [`leave`](Self::leave) goes back. The limit keeps recursion off the
    /// end of the stack.
    fn enter(&mut self) -> Result<()> {
        self.nesting += 1;
        match self.nesting > MAX_NESTING {
            true => Err(self.error(
                self.token,
                format!("nested deeper than {MAX_NESTING} levels"),
            )),
            false => Ok(()),
        }
    }

    fn leave(&mut self) {
        self.nesting -= 1;
    }
}
