//! The list of cases that are expected not to pass.

use std::collections::HashSet;
use std::path::Path;

use crate::fail::{Exit, Failure};

/// Names of cases that are expected not to pass.
pub struct Known {
    names: HashSet<String>,
}

impl Known {
    /// Reads a list: a case's name and a reason on each line, `#` before comments.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = super::read_text(path)?;
        let mut names = HashSet::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let (name, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let wrong = |what: &str| {
                let place = format!("{}:{}", path.display(), number + 1);
                Failure::new(Exit::Invalid, format!("{place}: `{name}` {what}"))
            };
            if reason.trim().is_empty() {
                return Err(wrong("is listed without a reason"));
            }
            if !names.insert(name.to_string()) {
                return Err(wrong("is listed twice"));
            }
        }
        Ok(Self { names })
    }

    /// Is the case on the list?
    pub fn lists(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}
