//! Tokens of a text, one at a time, and errors about them.

use heddle_ir::text::ParseError;
use heddle_ir::text::syntax::{Lexer, Name, Pos, Spanned, Token, Written, parse_element, unescape};
use heddle_ir::{DType, MAX_NESTING};

/// Errors are boxed: the parser recurses, and its frames hold many results.
pub(super) type Result<T> = std::result::Result<T, Box<ParseError>>;

/// A position in a text.
pub(super) struct Cursor<'a> {
    pub(super) lexer: Lexer<'a>,
    /// The current token.
    pub(super) token: Spanned<'a>,
    /// The previous token.
    last: Spanned<'a>,
    nesting: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self> {
        if text.len() >= u32::MAX as usize {
            let lexer = Lexer::new("");
            return Err(lexer.error(Pos::default(), 0, "the text is larger than 4 GiB"));
        }
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        Ok(Self {
            lexer,
            token,
            last: token,
            nesting: 0,
        })
    }

    /// Returns the current token and advances.
    pub(super) fn advance(&mut self) -> Result<Spanned<'a>> {
        self.last = self.token;
        self.token = self.lexer.next()?;
        Ok(self.last)
    }

    /// Continues at a token where another reader stopped.
    pub(super) fn go_on(&mut self, lexer: Lexer<'a>) -> Result<()> {
        self.lexer = lexer;
        self.advance().map(drop)
    }

    /// A lexer at the current token.
    pub(super) fn here(&self) -> Lexer<'a> {
        self.lexer.at(self.token.pos)
    }

    pub(super) fn is(&self, mark: &'static str) -> bool {
        self.token.token == Token::Mark(mark)
    }

    pub(super) fn eat(&mut self, mark: &'static str) -> Result<bool> {
        let found = self.is(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn expect(&mut self, mark: &'static str) -> Result<()> {
        match self.eat(mark)? {
            true => Ok(()),
            false => Err(self.expected(&format!("`{mark}`"))),
        }
    }

    pub(super) fn eat_word(&mut self, word: &str) -> Result<bool> {
        let found = self.token.token == Token::Word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<()> {
        match self.eat_word(word)? {
            true => Ok(()),
            false => Err(self.expected(&format!("`{word}`"))),
        }
    }

    /// Any word.
    pub(super) fn word(&mut self, what: &str) -> Result<&'a str> {
        match self.token.token {
            Token::Word(word) => self.advance().map(|_| word),
            _ => Err(self.expected(what)),
        }
    }

    /// A string in quotes.
    pub(super) fn string(&mut self) -> Result<String> {
        let place = self.token;
        match place.token {
            Token::Str(raw) => {
                self.advance()?;
                unescape(raw).map_err(|m| self.error(place, m))
            }
            _ => Err(self.expected("a name in quotes")),
        }
    }

    /// `@name`.
    pub(super) fn func(&mut self) -> Result<Name<'a>> {
        match self.token.token {
            Token::Func(name) => self.advance().map(|_| name),
            _ => Err(self.expected("a procedure, such as @main")),
        }
    }

    /// An `i64`.
    pub(super) fn int(&mut self) -> Result<i64> {
        let place = self.token;
        let negative = self.eat("-")?;
        let Token::Number(text) = self.token.token else {
            return Err(self.expected("an integer"));
        };
        self.advance()?;
        let value = text.parse::<i128>().ok();
        let value = value.map(|v| if negative { -v } else { v });
        let value = value.and_then(|v| i64::try_from(v).ok());
        value.ok_or_else(|| self.error(place, "this is no integer of 64 bits"))
    }

    /// An `f64` that is not negative.
    pub(super) fn float(&mut self) -> Result<f64> {
        let place = self.token;
        let (Token::Number(text) | Token::Word(text)) = place.token else {
            return Err(self.expected("a number"));
        };
        self.advance()?;
        let written = Written {
            negative: false,
            text,
        };
        let bits = parse_element(DType::F64, written).map_err(|m| self.error(place, m))?;
        Ok(f64::from_bits(bits as u64))
    }

    /// An integer of another type.
    pub(super) fn number<T: TryFrom<i64>>(&mut self) -> Result<T> {
        let place = self.token;
        let value = self.int()?;
        T::try_from(value).map_err(|_| self.error(place, format!("{value} is out of range here")))
    }

    pub(super) fn dtype(&mut self) -> Result<DType> {
        let dtype = match self.token.token {
            Token::Word(word) => word.parse::<DType>().ok(),
            _ => None,
        };
        let dtype = dtype.ok_or_else(|| self.expected("an element type, such as f32"))?;
        self.advance()?;
        Ok(dtype)
    }

    // ---- errors and limits

    pub(super) fn error(&self, place: Spanned, message: impl Into<String>) -> Box<ParseError> {
        self.lexer.error(place.pos, place.len, message)
    }

    /// An error about the previous token.
    pub(super) fn misplaced(&self, message: &str) -> Box<ParseError> {
        self.error(self.last, message)
    }

    pub(super) fn expected(&self, what: &str) -> Box<ParseError> {
        let found = match self.token.token {
            Token::Word(w) => format!("`{w}`"),
            Token::Value(n) => format!("variable %{}", n.text()),
            Token::Func(n) => format!("procedure @{}", n.text()),
            Token::Number(n) => format!("number {n}"),
            Token::Str(_) => "a string".into(),
            Token::Mark(m) => format!("`{m}`"),
            Token::End => "the end of the text".into(),
        };
        self.error(self.token, format!("expected {what}, found {found}"))
    }

    /// Enters a nesting level; [`leave`](Self::leave) leaves it. The limit bounds recursion.
    pub(super) fn enter(&mut self) -> Result<()> {
        self.nesting += 1;
        match self.nesting > MAX_NESTING {
            true => {
                let message = format!("nested deeper than {MAX_NESTING} levels");
                Err(self.error(self.token, message))
            }
            false => Ok(()),
        }
    }

    pub(super) fn leave(&mut self) {
        self.nesting -= 1;
    }
}
