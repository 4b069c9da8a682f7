//! Errors of the reader: a message, a place and a hint.

use std::fmt;

use crate::one_line::is_invisible;

/// Text that is no program, or one whose types do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The error.
    pub message: String,
    /// A hint at the remedy.
    pub hint: Option<String>,
    /// The part of the line around the column, to be shown.
    pub source: String,
    /// The marker: characters before it, and its width.
    pub marker: (usize, usize),
}

/// The most characters of a line that are shown.
const SHOWN: usize = 100;

impl ParseError {
    /// An error at a byte offset; `line` and `column` are its place, `width` the bytes that are
    /// meant.
    pub(super) fn new(
        text: &str,
        (offset, line, column): (usize, u32, u32),
        width: usize,
        message: String,
    ) -> Box<Self> {
        let start = text[..offset].rfind('\n').map_or(0, |n| n + 1);
        // Only a window of a long line is shown, so that an error in a line of megabytes stays
        // readable.
        let before: Vec<char> = text[start..offset].chars().rev().take(SHOWN / 2).collect();
        let rest = text[offset..].split('\n').next().unwrap_or("");
        let visible = |c: char| if is_invisible(c) { ' ' } else { c };
        let after = rest.chars().take(SHOWN);
        let source = before.iter().rev().copied().chain(after).map(visible);
        let end = (offset + width).min(text.len());
        let token = text.get(offset..end).unwrap_or("");
        let width = token
            .chars()
            .take_while(|c| *c != '\n')
            .count()
            .clamp(1, SHOWN);
        Box::new(Self {
            line,
            column,
            message,
            hint: None,
            source: source.collect::<String>().trim_end().to_string(),
            marker: (before.len(), width),
        })
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint = Some(hint.into());
        self
    }
}

impl std::error::Error for ParseError {}

impl fmt::Display for ParseError {
    /// The place and the message, then the line with a marker below, then the hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let (before, width) = self.marker;
        writeln!(f, "line {number}, column {}: {}", self.column, self.message)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {}", self.source)?;
        write!(f, "{margin} | {}{}", " ".repeat(before), "^".repeat(width))?;
        if let Some(hint) = &self.hint {
            write!(f, "\n{margin} = hint: {hint}")?;
        }
        Ok(())
    }
}
