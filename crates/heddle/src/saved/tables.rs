//! The tables and graphs among a program's inputs, which runs check, as JSON.

use heddle_ir::Signature;
use heddle_lang::Structure;
use serde::{Deserialize, Serialize};

use super::container::{Container, Tag};
use crate::saved_error::SavedError;
use crate::stack::on_large_stack;

/// The deepest nesting that is read: expressions by which the case of a row follows from its columns.
const MAX_DEPTH: usize = 1_000;

/// Adds them to a container, if there are any.
pub fn write(structures: &[Structure], container: &mut Container) -> Result<(), SavedError> {
    if structures.is_empty() {
        return Ok(());
    }
    let written = on_large_stack(|| {
        let mut text = vec![];
        let mut writer = serde_json::Serializer::new(&mut text);
        structures.serialize(&mut writer).map(|()| text)
    });
    let text = match written {
        Ok(Ok(text)) if depth(&text) <= MAX_DEPTH => text,
        _ => {
            let text = "the cases of its tables follow from expressions that are too deep";
            return Err(SavedError::Unsupported(text.into()));
        }
    };
    container.add(Tag::Tables, text);
    Ok(())
}

/// Reads them; none where there is no such section. They are sound for a program of this signature.
pub fn read(container: &Container, sig: &Signature) -> Result<Vec<Structure>, SavedError> {
    if container.all(Tag::Tables).next().is_none() {
        return Ok(vec![]);
    }
    let text = container.one(Tag::Tables)?;
    let broken = |text: String| SavedError::Broken(format!("tables of inputs: {text}"));
    if depth(&text) > MAX_DEPTH {
        return Err(broken("they are nested too deeply".into()));
    }
    let read = on_large_stack(|| {
        let mut reader = serde_json::Deserializer::from_slice(&text);
        reader.disable_recursion_limit();
        let structures = Vec::<Structure>::deserialize(&mut reader)?;
        reader.end().map(|()| structures)
    });
    let read = read.map_err(|e| broken(e.to_string()))?;
    let structures = read.map_err(|e| broken(e.to_string()))?;
    let is_input = |name: &str| sig.params.iter().any(|(of, _)| of == name);
    let sound = structures.iter().try_for_each(|s| s.verify(&is_input));
    sound.map_err(broken)?;
    Ok(structures)
}

/// The deepest nesting of a text, or more where names hold brackets.
fn depth(text: &[u8]) -> usize {
    let (mut now, mut most) = (0usize, 0);
    for byte in text {
        match byte {
            b'[' | b'{' => now += 1,
            b']' | b'}' => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}
