//! Cuts text into tokens, one at a time, so that no list of tokens is ever held.

use super::error::ParseError;
use super::names::{bare_len, unescape};

/// A token. Text is borrowed as it is written; strings are unescaped where they are used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// A word: keyword, op, element type, name of a size.
    Word(&'a str),
    /// `%name`.
    Value(Name<'a>),
    /// `@name`.
    Func(Name<'a>),
    /// A number without sign.
    Number(&'a str),
    /// The text between quotes, escapes included.
    Str(&'a str),
    /// Punctuation.
    Mark(&'static str),
    /// The end of the text.
    End,
}

/// A name after `%` or `@`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Name<'a> {
    /// Letters, digits, `_` and inner dots.
    Bare(&'a str),
    /// Digits.
    Number(&'a str),
    /// With escapes.
    Quoted(&'a str),
}

impl Name<'_> {
    /// The name itself. Escapes have been checked by the lexer.
    pub fn text(self) -> String {
        match self {
            Name::Bare(s) | Name::Number(s) => s.to_string(),
            Name::Quoted(s) => unescape(s).unwrap_or_default(),
        }
    }
}

/// A place in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pos {
    /// In bytes.
    pub offset: usize,
    /// From 0.
    pub line: u32,
    /// In characters, from 0.
    pub column: u32,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Spanned<'a> {
    /// The token.
    pub token: Token<'a>,
    /// Its begin.
    pub pos: Pos,
    /// Its bytes.
    pub len: usize,
}

/// A place in a text from which tokens are read. Copying it is how the parser looks ahead.
#[derive(Clone, Copy)]
pub struct Lexer<'a> {
    pub(super) text: &'a str,
    pos: Pos,
}

/// Punctuation, longer marks before their beginnings.
const MARKS: [&str; 19] = [
    "..=", "..", "->", "<=", "(", ")", "[", "]", "{", "}", "<", ">", ",", ":", "=", "?", "*", "+",
    "-",
];

impl<'a> Lexer<'a> {
    /// A lexer at the beginning of a text of less than 4 GiB; a byte order mark is passed over.
    pub fn new(text: &'a str) -> Self {
        let mut lexer = Self {
            text,
            pos: Pos::default(),
        };
        if text.starts_with('\u{feff}') {
            lexer.pos.offset = '\u{feff}'.len_utf8();
        }
        lexer
    }

    /// The lexer as it was at a place.
    #[must_use]
    pub fn at(mut self, pos: Pos) -> Self {
        self.pos = pos;
        self
    }

    /// An error at a place.
    pub fn error(&self, pos: Pos, len: usize, message: impl Into<String>) -> Box<ParseError> {
        let place = (pos.offset, pos.line + 1, pos.column + 1);
        ParseError::new(self.text, place, len, message.into())
    }

    /// Reads the next token.
    #[expect(
        clippy::should_implement_trait,
        reason = "it fails, and goes on behind the end"
    )]
    pub fn next(&mut self) -> Result<Spanned<'a>, Box<ParseError>> {
        self.skip_blanks();
        let pos = self.pos;
        let rest = self.rest();
        let token = match rest.as_bytes().first() {
            None => Token::End,
            Some(b'%') => Token::Value(self.name("%")?),
            Some(b'@') => Token::Func(self.name("@")?),
            Some(b'"') => Token::Str(self.string()?),
            Some(b'0'..=b'9') => Token::Number(self.take(number_len(rest))),
            _ => match (bare_len(rest), MARKS.iter().find(|m| rest.starts_with(**m))) {
                (0, Some(mark)) => {
                    self.take(mark.len());
                    Token::Mark(mark)
                }
                (0, None) => {
                    let c = rest.chars().next().unwrap_or(' ');
                    let message = format!("{c:?} has no meaning here");
                    return Err(self.error(pos, c.len_utf8(), message));
                }
                (len, _) => Token::Word(self.take(len)),
            },
        };
        let len = self.pos.offset - pos.offset;
        Ok(Spanned { token, pos, len })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.pos.offset..]
    }

    fn take(&mut self, len: usize) -> &'a str {
        let taken = &self.rest()[..len];
        self.pos.offset += len;
        self.pos.column += taken.chars().count() as u32;
        taken
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            match rest.as_bytes().first() {
                Some(b'\n') => {
                    self.pos.offset += 1;
                    self.pos.line += 1;
                    self.pos.column = 0;
                }
                Some(b' ' | b'\t' | b'\r') => drop(self.take(1)),
                Some(b'/') if rest.starts_with("//") => {
                    self.take(rest.find('\n').unwrap_or(rest.len()));
                }
                _ => return,
            }
        }
    }

    fn name(&mut self, sigil: &str) -> Result<Name<'a>, Box<ParseError>> {
        let pos = self.pos;
        self.take(1);
        let rest = self.rest();
        if rest.starts_with('"') {
            return self.string().map(Name::Quoted);
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        match (bare_len(rest), digits) {
            (0, 0) => {
                let message = format!("a name must follow `{sigil}`");
                let hint = format!("names of other characters are quoted: {sigil}\"a name\"");
                Err(self.error(pos, 1, message).hint(hint))
            }
            (0, n) => Ok(Name::Number(self.take(n))),
            (n, _) => Ok(Name::Bare(self.take(n))),
        }
    }

    /// The text between quotes, with valid escapes.
    fn string(&mut self) -> Result<&'a str, Box<ParseError>> {
        let pos = self.pos;
        self.take(1);
        let rest = self.rest();
        let mut escaped = false;
        let end = rest.bytes().position(|b| {
            let ends = b == b'\n' || b == b'"' && !escaped;
            escaped = b == b'\\' && !escaped;
            ends
        });
        let Some(end) = end.filter(|&e| rest.as_bytes()[e] == b'"') else {
            let error = self.error(pos, 1, "this string does not end");
            return Err(error.hint("a line break in a string is written \\n"));
        };
        let raw = self.take(end);
        if let Err(message) = unescape(raw) {
            let error = self.error(pos, end + 2, message);
            return Err(error.hint("escapes are \\\" \\\\ \\n \\t \\r and \\u{hex}"));
        }
        self.take(1);
        Ok(raw)
    }
}

/// The length of the number that `text`, which starts with a digit, starts with.
fn number_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let run = |from: usize, ok: fn(&u8) -> bool| {
        from + bytes[from.min(bytes.len())..]
            .iter()
            .take_while(|b| ok(b))
            .count()
    };
    if text.starts_with("0x") {
        return run(2, u8::is_ascii_hexdigit);
    }
    let mut end = run(0, u8::is_ascii_digit);
    if bytes.get(end) == Some(&b'.') {
        // `1..` is a number and a range.
        let fraction = run(end + 1, u8::is_ascii_digit);
        if fraction > end + 1 {
            end = fraction;
        }
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = matches!(bytes.get(end + 1), Some(b'+' | b'-')) as usize;
        let exponent = run(end + 1 + sign, u8::is_ascii_digit);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    end
}
