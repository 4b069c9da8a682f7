//! Names in the text form: bare where they look like identifiers, else quoted.

use std::fmt::{self, Write};

use crate::one_line::is_invisible;

/// May a name stand without quotes? It has letters, digits, `_` and inner dots, and does not start with a digit.
pub fn is_bare(name: &str) -> bool {
    bare_len(name) == name.len() && !name.is_empty()
}

/// The length of the bare name that `text` starts with; 0 if it starts with none.
pub(super) fn bare_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_word = |i: usize| {
        bytes
            .get(i)
            .is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
    };
    if !is_word(0) || bytes[0].is_ascii_digit() {
        return 0;
    }
    let mut end = 1;
    // A dot belongs to the name only between word characters, so that `n..` is a name and a range.
    while is_word(end) || bytes.get(end) == Some(&b'.') && is_word(end + 1) {
        end += 1;
    }
    end
}

/// Writes a name, quoted if need be.
pub fn write_name(out: &mut impl Write, name: &str) -> fmt::Result {
    if is_bare(name) {
        out.write_str(name)
    } else {
        write_quoted(out, name)
    }
}

/// Writes a string in quotes. What a terminal might act on is escaped.
pub fn write_quoted(out: &mut impl Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(out, "\\{c}")?,
            '\n' => out.write_str("\\n")?,
            '\t' => out.write_str("\\t")?,
            '\r' => out.write_str("\\r")?,
            c if is_invisible(c) => write!(out, "\\u{{{:x}}}", u32::from(c))?,
            c => out.write_char(c)?,
        }
    }
    out.write_char('"')
}

/// The string that stands between two quotes; an error names the escape that is none.
pub fn unescape(raw: &str) -> Result<String, String> {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut chars = rest.chars();
        let plain = match chars.next() {
            Some('n') => Some('\n'),
            Some('t') => Some('\t'),
            Some('r') => Some('\r'),
            Some(c @ ('"' | '\\')) => Some(c),
            _ => None,
        };
        if let Some(c) = plain {
            text.push(c);
            rest = chars.as_str();
            continue;
        }
        let code = rest.strip_prefix("u{").and_then(|r| r.split_once('}'));
        let char = code.and_then(|(hex, after)| {
            let value = u32::from_str_radix(hex, 16).ok()?;
            Some((char::from_u32(value)?, after))
        });
        let Some((c, after)) = char else {
            let shown: String = rest.chars().take(1).collect();
            return Err(format!("`\\{shown}` is no escape"));
        };
        text.push(c);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}
