//! The format of saved programs.
//!
//! ```text
//! file     = magic version section* checksum
//! magic    = "\x89HPROG\r\n"                  8 bytes, which no transfer as text leaves whole
//! version  = u32
//! section  = tag length padding bytes         tag: 4 letters; length: u64; padding: zeros, so that the bytes begin at a multiple of 64
//! checksum = 32 bytes                         BLAKE3 of all before
//! ```
//!
//! Numbers are little-endian. Lengths are checked against the file before anything is made of them.

use bytes::Bytes;
use heddle_runtime::cache::Key;

use crate::saved_error::{SavedError, VERSION};

const MAGIC: &[u8; 8] = b"\x89HPROG\r\n";

/// Bytes of sections begin at multiples of this, as constants do for programs that read them in place.
const ALIGNMENT: usize = 64;

/// The most sections: a library for each part of a program, and few more.
const MAX_SECTIONS: usize = 1 << 16;

/// Kinds of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The graph's text.
    Graph,
    /// The large constants that it names.
    Constants,
    /// Options of compiling.
    Options,
    /// Inputs that are tables and graphs.
    Tables,
    /// The entry that a model is run from.
    Entry,
    /// An emitted text.
    Source,
    /// A library, behind its key.
    Library,
}

const TAGS: [(Tag, &[u8; 4]); 7] = [
    (Tag::Graph, b"GRPH"),
    (Tag::Constants, b"CNST"),
    (Tag::Options, b"OPTS"),
    (Tag::Tables, b"TBLS"),
    (Tag::Entry, b"ENTR"),
    (Tag::Source, b"SRCE"),
    (Tag::Library, b"LIBR"),
];

/// The sections of a saved program.
#[derive(Debug, Default)]
pub struct Container {
    sections: Vec<(Tag, Bytes)>,
}

impl Container {
    /// Adds a section.
    pub fn add(&mut self, tag: Tag, bytes: Vec<u8>) {
        self.sections.push((tag, bytes.into()));
    }

    /// All sections of a kind.
    pub fn all(&self, tag: Tag) -> impl Iterator<Item = &Bytes> {
        self.sections
            .iter()
            .filter(move |(of, _)| *of == tag)
            .map(|(_, bytes)| bytes)
    }

    /// The section of a kind that there is one of.
    pub fn one(&self, tag: Tag) -> Result<Bytes, SavedError> {
        let mut all = self.all(tag);
        match (all.next(), all.next()) {
            (Some(bytes), None) => Ok(bytes.clone()),
            (None, _) => Err(SavedError::Broken(format!("it has no {tag:?}"))),
            (Some(_), Some(_)) => Err(SavedError::Broken(format!("it has two of {tag:?}"))),
        }
    }

    /// The file.
    pub fn written(&self) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend(VERSION.to_le_bytes());
        for (tag, bytes) in &self.sections {
            let name = TAGS.iter().find(|(of, _)| of == tag).map(|(_, name)| *name);
            file.extend(name.unwrap_or(b"NONE"));
            file.extend((bytes.len() as u64).to_le_bytes());
            file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
            file.extend_from_slice(bytes);
        }
        let sum = checksum(&file);
        file.extend(sum);
        file
    }

    /// Reads a file. Sections are views of it.
    pub fn read(file: Bytes) -> Result<Self, SavedError> {
        let begins = |bytes: &[u8]| bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]);
        if file.is_empty() || !begins(&file) {
            return Err(SavedError::Foreign);
        }
        let version = file.get(MAGIC.len()..MAGIC.len() + 4);
        let version = version
            .and_then(|v| v.try_into().ok())
            .map(u32::from_le_bytes);
        match version.ok_or(SavedError::Truncated)? {
            VERSION => {}
            other => return Err(SavedError::Version(other)),
        }
        let mut at = MAGIC.len() + 4;
        let end = file.len().checked_sub(Key::LEN).filter(|end| *end >= at);
        let end = end.ok_or(SavedError::Truncated)?;
        let mut sections = vec![];
        while at < end {
            let head = file.get(at..at + 12).filter(|_| at + 12 <= end);
            let head = head.ok_or(SavedError::Truncated)?;
            let (name, length) = head.split_at(4);
            let tag = TAGS.iter().find(|(_, of)| of[..] == *name);
            // The length comes from the file.
            let length = length.try_into().map_or(u64::MAX, u64::from_le_bytes);
            let start = (at + 12).next_multiple_of(ALIGNMENT);
            let stop = usize::try_from(length)
                .ok()
                .and_then(|n| start.checked_add(n));
            let stop = stop
                .filter(|stop| *stop <= end)
                .ok_or(SavedError::Truncated)?;
            let (tag, _) = tag.ok_or_else(|| unknown(name))?;
            if sections.len() == MAX_SECTIONS {
                return Err(SavedError::Broken("it has too many parts".into()));
            }
            sections.push((*tag, file.slice(start..stop)));
            at = stop;
        }
        match checksum(&file[..end])[..] == file[end..] {
            true => Ok(Self { sections }),
            false => Err(SavedError::Damaged),
        }
    }
}

fn unknown(name: &[u8]) -> SavedError {
    SavedError::Broken(format!(
        "a part is of unknown kind {:?}",
        name.escape_ascii().to_string()
    ))
}

fn checksum(bytes: &[u8]) -> [u8; Key::LEN] {
    *Key::new(&[bytes]).bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut container = Container::default();
        container.add(Tag::Graph, b"text".to_vec());
        container.add(Tag::Constants, vec![]);
        container.add(Tag::Library, vec![7; 100]);
        container.add(Tag::Library, vec![8; 3]);
        container.written()
    }

    #[test]
    fn what_is_written_is_read() {
        let container = Container::read(sample().into()).unwrap();
        assert_eq!(container.one(Tag::Graph).unwrap(), &b"text"[..]);
        assert_eq!(container.one(Tag::Constants).unwrap(), &b""[..]);
        let lengths: Vec<_> = container.all(Tag::Library).map(Bytes::len).collect();
        assert_eq!(lengths, [100, 3]);
        assert!(container.one(Tag::Library).is_err());
        assert!(container.one(Tag::Options).is_err());
    }

    #[test]
    fn no_prefix_and_no_changed_byte_is_read() {
        let file = sample();
        for end in 0..file.len() {
            let error = Container::read(file[..end].to_vec().into()).unwrap_err();
            assert_eq!(error == SavedError::Foreign, end == 0, "{end}: {error}");
        }
        for at in 0..file.len() {
            let mut file = file.clone();
            file[at] ^= 0x41;
            assert!(Container::read(file.into()).is_err(), "{at}");
        }
    }

    #[test]
    fn lengths_are_checked_first() {
        let mut file = sample();
        for length in [u64::MAX, u64::MAX - 63, 1 << 62, 1 << 32] {
            file[16..24].copy_from_slice(&length.to_le_bytes());
            let error = Container::read(file.clone().into()).unwrap_err();
            assert_eq!(error, SavedError::Truncated);
        }
    }
}
