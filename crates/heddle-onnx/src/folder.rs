//! The files beside a model: mapped, and never left.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;

use crate::mapped::map_file;

/// The files in a model's folder, or below it. Nothing outside is read, whatever a model asks for.
pub struct DataFolder {
    folder: PathBuf,
    /// Files that are mapped already, by resolved path.
    files: RefCell<HashMap<PathBuf, Bytes>>,
}

impl DataFolder {
    /// The files in this folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            files: RefCell::default(),
        }
    }

    /// Some bytes of a file, which is mapped and not read. An error is a message.
    pub fn slice(&self, location: &str, offset: u64, length: u64) -> Result<Bytes, String> {
        let size = |n: u64| usize::try_from(n).map_err(|_| format!("{n} bytes are too many"));
        slice(
            location,
            &self.file(location)?,
            size(offset)?,
            size(length)?,
        )
    }

    /// A file, which must be a plain one in the folder or below.
    pub(crate) fn file(&self, location: &str) -> Result<Bytes, String> {
        let fail = |why: &str| Err(format!("external file `{location}` {why}"));
        let relative = Path::new(location);
        let plain = |c: Component| matches!(c, Component::Normal(_) | Component::CurDir);
        if location.is_empty() || location.contains('\0') || !relative.components().all(plain) {
            return fail("is not a path below the model's folder");
        }
        let resolve = |path: &Path| match path.canonicalize() {
            Ok(path) => Ok(path),
            Err(e) => Err(format!("external file `{location}` cannot be opened: {e}")),
        };
        let path = resolve(&self.folder.join(relative))?;
        if !path.starts_with(resolve(&self.folder)?) {
            return fail("leads out of the model's folder");
        }
        if let Some(bytes) = self.files.borrow().get(&path) {
            return Ok(bytes.clone());
        }
        if !fs::metadata(&path).is_ok_and(|m| m.is_file()) {
            return fail("is not a plain file");
        }
        let bytes = match map_file(&path) {
            Ok(bytes) => bytes,
            Err(e) => return fail(&format!("cannot be read: {e}")),
        };
        self.files.borrow_mut().insert(path, bytes.clone());
        Ok(bytes)
    }
}

/// Some bytes of a mapped file.
pub(crate) fn slice(
    location: &str,
    file: &Bytes,
    offset: usize,
    size: usize,
) -> Result<Bytes, String> {
    match offset.checked_add(size) {
        Some(end) if end <= file.len() => Ok(file.slice(offset..end)),
        _ => Err(format!(
            "it needs {size} bytes from offset {offset} of `{location}`, which has {} bytes",
            file.len()
        )),
    }
}
