//! The text form of scheduled programs, checked on programs as they are compiled.

use bytes::Bytes;
use heddle_emit::Emitted;
use heddle_ir::text::{Large, PrintOptions};
use heddle_uprogram::{UProgram, text};

use crate::Error;
use crate::backend::Backend;
use crate::stages::layout;

/// Constants of more elements lie beside the text: as text they would take most of the time.
const INLINE: usize = 4096;

/// Prints a scheduled program and reads it back. The result has to print as the same text, and to be written as the same source.
///
/// # Errors
/// [`Error::Internal`] names what differs.
pub(crate) fn round_trip(
    program: &UProgram,
    emitted: &Emitted,
    backend: &dyn Backend,
) -> Result<(), Error> {
    let (text, constants) = print(program)?;
    let constants = Bytes::from(constants);
    let load = |_: &str, from: u64, len: u64| {
        let end = (from as usize).checked_add(len as usize);
        let range = end.filter(|end| *end <= constants.len());
        let range = range.ok_or("the constants beside the text are shorter")?;
        Ok(constants.slice(from as usize..range))
    };
    let read = text::parse_with(&text, &load)
        .map_err(|e| Error::Internal(format!("a uProgram's text does not read back: {e}")))?;
    let again = print(&read)?;
    same("the text", &text, &again.0)?;
    if constants != again.1 {
        let what = "a uProgram that was read back has other constants";
        return Err(Error::Internal(what.into()));
    }
    let layout = layout(&read).map_err(|e| {
        Error::Internal(format!("a uProgram that was read back has no layout: {e}"))
    })?;
    let written = backend.emit(&read, &layout)?;
    same("the source", &emitted.source, &written.source)?;
    same(
        "the sites",
        &emitted.sites.join("\n"),
        &written.sites.join("\n"),
    )
}

/// The text, and its large constants.
fn print(program: &UProgram) -> Result<(String, Vec<u8>), Error> {
    let mut constants = vec![];
    let mut options = PrintOptions {
        large: Large::Sidecar {
            file: "constants",
            blob: &mut constants,
        },
        threshold: INLINE,
    };
    let text = text::print_with(program, &mut options)
        .map_err(|e| Error::Internal(format!("a uProgram is not printed: {e}")))?;
    Ok((text, constants))
}

/// Two texts are the same.
fn same(what: &str, before: &str, after: &str) -> Result<(), Error> {
    if before == after {
        return Ok(());
    }
    let (mut old, mut new) = (before.lines(), after.lines());
    let mut lines = (1..).map(|number| (number, old.next(), new.next()));
    let (number, old, new) = lines
        .find(|(_, old, new)| old != new || old.is_none())
        .unwrap_or_default();
    let [old, new] = [old, new].map(Option::unwrap_or_default);
    Err(Error::Internal(format!(
        "{what} of a uProgram that was read back differs in line {number}: `{old}` became `{new}`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CompileOptions, Model, compile};

    /// Constants beside the text, and calls in another order than that of their ids.
    #[test]
    fn programs_read_back() {
        let text = "\
fn @main(%x: f32[1,64], %n: i64[]) -> (%y: f32[1,128], %z: i64[]) {
  %w = const iota: f32[64,128]
  %z = call @even(%n)
  return dot(%x, %w), %z
}

fn @even(%n: i64[]) -> (%y: i64[]) {
  %y = if le(%n, 0) {
    yield 1
  } else {
    yield call @odd(sub(%n, 1))
  }
  return %y
}

fn @odd(%n: i64[]) -> (%y: i64[]) {
  %y = if le(%n, 0) {
    yield 0
  } else {
    yield call @even(sub(%n, 1))
  }
  return %y
}
";
        let weights = (0..64 * 128).map(|i| format!("{i}.5"));
        let weights = format!("[{}]", weights.collect::<Vec<_>>().join(", "));
        let model = Model::parse("m", &text.replace("iota", &weights)).unwrap();
        let checked = |check_text| {
            let options = CompileOptions {
                check_text,
                threads: Some(2),
                ..Default::default()
            };
            compile(&model, &options).unwrap().report().texts_checked
        };
        assert_eq!(checked(false), 0);
        assert_eq!(checked(true), 1);
    }

    #[test]
    fn differences_are_named() {
        let error = |before, after| same("the text", before, after).unwrap_err().to_string();
        assert!(same("the text", "a\nb\n", "a\nb\n").is_ok());
        assert!(error("a\nb\n", "a\nc\n").ends_with("in line 2: `b` became `c`"));
        assert!(error("a\n", "a\nc\n").ends_with("in line 2: `` became `c`"));
        assert!(error("a\n", "a").contains("line 2"));
    }
}
