//! Standard output and error: colours only on a terminal, and a closed pipe is no error.

use std::io::{self, ErrorKind, Write};

use anstyle::{AnsiColor, Style};
use heddle_ir::text::is_invisible;
use serde_json::{Value, json};

use crate::fail::{Exit, Failure};

/// For headings.
pub const BOLD: Style = Style::new().bold();
/// For details.
pub const DIM: Style = Style::new().dimmed();
/// For success.
pub const GREEN: Style = AnsiColor::Green.on_default();
/// For failure.
pub const RED: Style = AnsiColor::Red.on_default().bold();
/// For warnings.
pub const YELLOW: Style = AnsiColor::Yellow.on_default();

/// Text in a style.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints text to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    written(anstream::stdout().lock().write_all(text.as_bytes()))
}

/// Prints text to standard output as it is, whatever it contains.
pub fn print_raw(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints a JSON document to standard output.
pub fn print_json(value: &Value) -> Result<(), Failure> {
    print_raw(&format!("{value:#}\n"))
}

/// Reports a failure on standard error, and as JSON on standard output if that is wanted.
pub fn report(failure: &Failure, as_json: bool) {
    if failure.message.is_empty() {
        return;
    }
    if as_json {
        let document = json!({"error": {
            "kind": failure.exit.name(),
            "exit_code": failure.exit as i32,
            "message": failure.message,
            "hint": failure.hint,
        }});
        // If printing fails, so would a report of it.
        let _ = print_json(&document);
    }
    let mut text = format!(
        "{} {}\n",
        styled(RED, "error:"),
        printable(&failure.message)
    );
    if let Some(hint) = &failure.hint {
        text += &format!("{} {}\n", styled(YELLOW, "hint:"), printable(hint));
    }
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// Escapes characters that a terminal could act on: text from a model may hold any.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) && c != '\n' {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        // Whoever reads has seen enough.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(e) => {
            let message = format!("cannot write to standard output: {e}");
            Err(Failure::new(Exit::Io, message))
        }
        Ok(()) => Ok(()),
    }
}
