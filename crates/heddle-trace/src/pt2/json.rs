//! JSON entries of an archive, with bounds on bytes and depth.

use serde::de::DeserializeOwned;

use super::archive::Archive;
use crate::pt2_error::Pt2Error;
use crate::read::{MAX_BRACKETS, MAX_BYTES, nesting};

/// Reads an entry.
pub fn read<T: DeserializeOwned>(archive: &mut Archive, name: &str) -> Result<T, Pt2Error> {
    let bytes = archive.read(name)?;
    let entry = archive.full(name);
    let broken = |message: String| Pt2Error::Entry {
        entry: entry.clone(),
        message,
    };
    if bytes.len() > MAX_BYTES {
        return Err(Pt2Error::TooLarge {
            what: format!("entry `{entry}` has {} bytes", bytes.len()),
            limit: MAX_BYTES as u64,
        });
    }
    // Entries of one archive may lie in each other.
    archive.spend(bytes.len() as u64)?;
    let text = std::str::from_utf8(&bytes).map_err(|e| broken(e.to_string()))?;
    let depth = nesting(text);
    if depth > MAX_BRACKETS {
        return Err(Pt2Error::TooLarge {
            what: format!("entry `{entry}` has brackets nested {depth} deep"),
            limit: MAX_BRACKETS as u64,
        });
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    let read = T::deserialize(&mut reader).and_then(|read| reader.end().map(|()| read));
    read.map_err(|e| broken(e.to_string()))
}
