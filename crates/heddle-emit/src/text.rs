//! Text with indentation.

/// Lines of source.
#[derive(Default)]
pub struct Text {
    out: String,
    depth: usize,
}

impl Text {
    /// Lines that are indented by one level.
    pub fn indented() -> Self {
        Self {
            depth: 1,
            ..Self::default()
        }
    }

    /// A line at the current depth. A line that ends in `{` opens a level, one that starts with `}`
    /// closes it.
    pub fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if line.starts_with('}') {
            self.depth = self.depth.saturating_sub(1);
        }
        self.out.extend(std::iter::repeat_n("  ", self.depth));
        self.out.push_str(line);
        self.out.push('\n');
        if line.ends_with('{') {
            self.depth += 1;
        }
    }

    /// A word on a line of its own, if it is not empty.
    pub fn word(&mut self, word: &str) {
        if !word.is_empty() {
            self.line(word);
        }
    }

    /// Finished lines, indented to the current depth.
    pub fn append(&mut self, lines: &str) {
        self.out.push_str(lines);
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// All of it.
    pub fn finish(self) -> String {
        self.out
    }
}

/// A model's name for a comment, with only characters that cannot end it or reach the compiler.
pub fn plain(name: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || " _.-`".contains(c);
    name.chars()
        .take(80)
        .map(|c| if safe(c) { c } else { '_' })
        .collect()
}
