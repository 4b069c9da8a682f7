//! Text of models in messages.

use std::fmt::{self, Write};

/// Text of a model as a part of a line: characters that end lines, act on terminals or turn the text around them are escaped.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<'a>(pub &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(is_invisible) {
            f.write_str(&rest[..at])?;
            let mut chars = rest[at..].chars();
            for c in chars.next().into_iter().flat_map(char::escape_default) {
                f.write_char(c)?;
            }
            rest = chars.as_str();
        }
        f.write_str(rest)
    }
}

/// Control characters and those that change the direction of text around them.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::OneLine;

    #[test]
    fn lines_do_not_end_within() {
        let shown = OneLine("a\nhint: b\r\u{1b}[2K\u{202e}é\\").to_string();
        assert_eq!(shown, "a\\nhint: b\\r\\u{1b}[2K\\u{202e}é\\");
        assert_eq!(OneLine("").to_string(), "");
    }
}
