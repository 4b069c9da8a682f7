//! The archive: a zip file whose entries lie in one folder.
//!
//! Nothing is unpacked to disk. Entries that are stored as they are, which is how PyTorch writes them, are slices of the file; others are
//! inflated, with a bound on the bytes of all.

use std::io::{Cursor, Read};

use bytes::Bytes;
use zip::{CompressionMethod, ZipArchive};

use crate::pt2_error::Pt2Error;

/// Bytes that all inflated entries and all arrays that are copied may have, besides twice the file's.
const MAX_COPIED: u64 = 1 << 30;

pub struct Archive {
    file: Bytes,
    zip: ZipArchive<Cursor<Bytes>>,
    /// The folder of all entries, with a slash.
    root: String,
    /// Bytes that may still be copied.
    budget: u64,
}

impl Archive {
    pub fn open(file: Bytes) -> Result<Self, Pt2Error> {
        let zip = ZipArchive::new(Cursor::new(file.clone())).map_err(|e| Pt2Error::Archive {
            message: e.to_string(),
        })?;
        let names: Vec<String> = names(&zip)?;
        let root = names.iter().find_map(|n| n.strip_suffix("archive_format"));
        let Some(root) = root.map(str::to_owned) else {
            return Err(foreign(&names));
        };
        if let Some(name) = names.iter().find(|n| !is_plain(n)) {
            return Err(entry(name, "its name leads out of the archive"));
        }
        let budget = MAX_COPIED.saturating_add(2 * file.len() as u64);
        let mut archive = Self {
            file,
            zip,
            root,
            budget,
        };
        let format = archive.read("archive_format")?;
        if &format[..] != b"pt2" {
            let message = "its `archive_format` is not `pt2`".into();
            return Err(Pt2Error::Foreign { message });
        }
        if archive.has("byteorder") && &archive.read("byteorder")?[..] != b"little" {
            return Err(Pt2Error::Unsupported("a byte order but `little`".into()));
        }
        Ok(archive)
    }

    /// Is there an entry of this name in the folder?
    pub fn has(&self, name: &str) -> bool {
        self.zip.index_for_name(&self.full(name)).is_some()
    }

    /// Names in a folder of the archive that end with this.
    pub fn names_in(&self, folder: &str, end: &str) -> Vec<String> {
        let folder = self.full(folder);
        let names = names(&self.zip).unwrap_or_default();
        let inner = names.iter().filter_map(|n| n.strip_prefix(&folder));
        let inner = inner.filter_map(|n| n.strip_suffix(end));
        inner.map(str::to_owned).collect()
    }

    /// The contents of an entry.
    pub fn read(&mut self, name: &str) -> Result<Bytes, Pt2Error> {
        if !is_plain(name) {
            return Err(entry(name, "its name leads out of the archive"));
        }
        let full = self.full(name);
        let Some(index) = self.zip.index_for_name(&full) else {
            return Err(Pt2Error::Missing { entry: full });
        };
        let broken = |message: String| Pt2Error::Entry {
            entry: full.clone(),
            message,
        };
        let mut found = self
            .zip
            .by_index(index)
            .map_err(|e| broken(e.to_string()))?;
        let size = found.size();
        if found.compression() == CompressionMethod::Stored {
            let start = found.data_start().and_then(|n| usize::try_from(n).ok());
            let range = start
                .zip(usize::try_from(size).ok())
                .and_then(|(start, size)| Some(start..start.checked_add(size)?));
            let range = range.filter(|r| r.end <= self.file.len());
            let range = range.ok_or_else(|| broken("the file ends before it does".into()))?;
            return Ok(self.file.slice(range));
        }
        if size > self.budget {
            return Err(too_large(self.budget));
        }
        // The stated size is not trusted: reading ends one byte behind it.
        let mut bytes = vec![];
        let read = (&mut found).take(size + 1).read_to_end(&mut bytes);
        read.map_err(|e| broken(e.to_string()))?;
        if bytes.len() as u64 != size {
            return Err(broken(format!("it does not have the stated {size} bytes")));
        }
        drop(found);
        self.budget -= size;
        Ok(bytes.into())
    }

    /// Takes bytes of an array that is copied off the budget.
    pub fn spend(&mut self, bytes: u64) -> Result<(), Pt2Error> {
        match self.budget.checked_sub(bytes) {
            Some(rest) => {
                self.budget = rest;
                Ok(())
            }
            None => Err(too_large(self.budget)),
        }
    }

    /// An entry's name with that of the folder.
    pub fn full(&self, name: &str) -> String {
        format!("{}{name}", self.root)
    }
}

fn names(zip: &ZipArchive<Cursor<Bytes>>) -> Result<Vec<String>, Pt2Error> {
    let names = zip.file_names().map(|n| n.map(|n| n.into_owned()));
    names
        .collect::<Result<_, _>>()
        .map_err(|e| Pt2Error::Archive {
            message: e.to_string(),
        })
}

/// Is a name a path within the archive?
fn is_plain(name: &str) -> bool {
    let mut parts = name.split(['/', '\\']);
    !name.starts_with(['/', '\\']) && !name.contains('\0') && !parts.any(|part| part == "..")
}

fn entry(name: &str, message: &str) -> Pt2Error {
    let entry: String = name.chars().take(200).collect();
    Pt2Error::Entry {
        entry,
        message: message.into(),
    }
}

fn too_large(limit: u64) -> Pt2Error {
    Pt2Error::TooLarge {
        what: "its entries and arrays take too many bytes".into(),
        limit,
    }
}

/// The error for an archive of another kind.
fn foreign(names: &[String]) -> Pt2Error {
    let has = |end: &str| names.iter().find(|n| n.ends_with(end)).cloned();
    if let Some(entry) = has("serialized_state_dict.pt") {
        return Pt2Error::Pickle { entry };
    }
    if let Some(entry) = has("data.pkl") {
        return Pt2Error::Pickle { entry };
    }
    let message = "it has no entry `archive_format`".into();
    Pt2Error::Foreign { message }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    #[test]
    fn all_inflated_entries_have_one_budget() {
        let mut zip = ZipWriter::new(Cursor::new(vec![]));
        let zeros = vec![0; 1 << 20];
        for (name, bytes, method) in [
            ("archive_format", &b"pt2"[..], CompressionMethod::Stored),
            ("a", &zeros, CompressionMethod::Deflated),
            ("b", &zeros, CompressionMethod::Deflated),
            ("c", &zeros, CompressionMethod::Stored),
        ] {
            let options = SimpleFileOptions::default().compression_method(method);
            zip.start_file(format!("m/{name}"), options).unwrap();
            zip.write_all(bytes).unwrap();
        }
        let file = zip.finish().unwrap().into_inner();
        let mut archive = Archive::open(file.into()).unwrap();
        archive.budget = 3 << 19;
        assert_eq!(archive.read("a").unwrap().len(), 1 << 20);
        // Another one, and the same one again.
        for name in ["b", "a"] {
            let error = archive.read(name).unwrap_err();
            assert!(matches!(error, Pt2Error::TooLarge { .. }), "{error}");
        }
        assert!(archive.spend(1 << 20).is_err());
        // Those that are slices of the file take none.
        assert_eq!(archive.read("c").unwrap().len(), 1 << 20);
        assert_eq!(archive.budget, 1 << 19);
    }
}
