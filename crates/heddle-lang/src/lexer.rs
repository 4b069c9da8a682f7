//! Cuts text into tokens.

use heddle_ir::text::ParseError;
use heddle_ir::text::syntax::{Lexer as Places, Pos};

/// Errors are boxed: the parser recurses, and its frames hold many results.
pub type Result<T> = std::result::Result<T, Box<ParseError>>;

/// Runs `work`, which recurses, on more stack where little is left.
pub fn deeper<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(256 << 10, 2 << 20, work)
}

/// A part of the text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// Its begin.
    pub pos: Pos,
    /// Its length in bytes.
    pub len: usize,
}

impl Span {
    /// No part.
    pub const NOWHERE: Span = Span {
        pos: Pos {
            offset: 0,
            line: 0,
            column: 0,
        },
        len: 0,
    };

    /// The error at this part of `text`.
    pub fn error(self, text: &str, message: impl Into<String>) -> Box<ParseError> {
        Places::new(text).error(self.pos, self.len, message)
    }
}

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// A name or keyword.
    Word(&'a str),
    /// A number without sign.
    Number(&'a str),
    /// The text between quotes, without escapes.
    Str(&'a str),
    /// Punctuation.
    Mark(&'static str),
    /// The end of the text.
    End,
}

/// Punctuation, longer marks before their beginnings.
const MARKS: [&str; 34] = [
    "->", "=>", "==", "!=", "<=", ">=", "&&", "||", "..", "(", ")", "[", "]", "{", "}", "<", ">",
    ",", ":", ";", "=", "|", "?", "*", "+", "-", "/", "%", "@", "!", ".", "&", "^", "~",
];

/// Reads the tokens of a text. Copying it is how the parser looks ahead.
#[derive(Clone, Copy)]
pub struct Lexer<'a> {
    /// The whole text.
    pub text: &'a str,
    pos: Pos,
}

impl<'a> Lexer<'a> {
    /// A lexer at the beginning of a text; a byte order mark is passed over.
    pub fn new(text: &'a str) -> Self {
        let mut pos = Pos::default();
        if text.starts_with('\u{feff}') {
            pos.offset = '\u{feff}'.len_utf8();
        }
        Self { text, pos }
    }

    /// Reads a token.
    pub fn token(&mut self) -> Result<(Token<'a>, Span)> {
        self.skip_blanks();
        let pos = self.pos;
        let rest = &self.text[pos.offset..];
        let token = match rest.as_bytes().first() {
            None => Token::End,
            Some(b'"') => {
                let end = rest[1..].find(['"', '\n', '\\']);
                let Some(end) = end.filter(|&e| rest.as_bytes()[e + 1] == b'"') else {
                    let error = Span { pos, len: 1 }.error(self.text, "this string does not end");
                    return Err(error.hint("strings have no escapes and end in their line"));
                };
                Token::Str(&self.take(end + 2)[1..=end])
            }
            Some(b'0'..=b'9') => Token::Number(self.take(number_len(rest))),
            Some(b) if b.is_ascii_alphabetic() || *b == b'_' => {
                let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
                Token::Word(self.take(rest.find(word).unwrap_or(rest.len())))
            }
            Some(_) => match MARKS.iter().find(|m| rest.starts_with(**m)) {
                Some(mark) => {
                    self.take(mark.len());
                    Token::Mark(mark)
                }
                None => {
                    let c = rest.chars().next().unwrap_or(' ');
                    let len = c.len_utf8();
                    let message = format!("{c:?} has no meaning here");
                    return Err(Span { pos, len }.error(self.text, message));
                }
            },
        };
        let len = self.pos.offset - pos.offset;
        Ok((token, Span { pos, len }))
    }

    fn take(&mut self, len: usize) -> &'a str {
        let taken = &self.text[self.pos.offset..self.pos.offset + len];
        self.pos.offset += len;
        self.pos.column += taken.chars().count() as u32;
        taken
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.text[self.pos.offset..];
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
}

/// The length of the number that `text`, which starts with a digit, starts with.
fn number_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or(&[]);
        from + rest.iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = matches!(bytes.get(end + 1), Some(b'+' | b'-')) as usize;
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    end
}
