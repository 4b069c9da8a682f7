//! Libraries that travel with a program: loaded by the text that they were built of, with no compiler at hand. Those of a GPU are cubins.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libloading::Library;

use crate::cache::Key;
use crate::cpu;
use crate::flags::Flags;
use crate::loading::open;

/// Libraries by the text, flags and processor that they are of.
#[derive(Debug, Default)]
pub struct Libraries {
    known: Mutex<BTreeMap<[u8; Key::LEN], KeptLibrary>>,
}

/// A library and the text that it was built of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptLibrary {
    /// The emitted text; empty where only the library is known.
    pub text: String,
    /// The library's file.
    pub library: Vec<u8>,
}

impl Libraries {
    /// Adds a library.
    ///
    /// # Safety
    /// A later build of the text that this key is of runs its code: it must be what [`Program::build`](crate::Program::build) made of
    /// that text.
    pub unsafe fn insert(&self, key: Key, library: Vec<u8>) {
        let text = String::new();
        let kept = KeptLibrary { text, library };
        self.lock().insert(*key.bytes(), kept);
    }

    /// All libraries, by key.
    pub fn all(&self) -> Vec<(Key, KeptLibrary)> {
        let known = self.lock();
        let all = known.iter();
        all.map(|(key, kept)| (Key::from_bytes(*key), kept.clone()))
            .collect()
    }

    /// Loads the library of this key, if it is known.
    pub(crate) fn load(&self, key: Key) -> Option<Library> {
        let known = self.lock();
        let kept = known.get(key.bytes())?;
        let folder = tempfile::tempdir().ok()?;
        let file = folder.path().join("library");
        std::fs::write(&file, &kept.library).ok()?;
        // A loaded library remains valid without its file.
        open(&file).ok()
    }

    /// Keeps a library that was built.
    pub(crate) fn keep(&self, key: Key, text: &str, file: &Path) {
        // One that can't be read is built again.
        if let Ok(library) = std::fs::read(file) {
            self.keep_content(key, text, library);
        }
    }

    /// The bytes of this key, which are no library of the processor, if they are known.
    pub(crate) fn content(&self, key: Key) -> Option<Vec<u8>> {
        self.lock()
            .get(key.bytes())
            .map(|kept| kept.library.clone())
    }

    /// Keeps bytes that were built.
    pub(crate) fn keep_content(&self, key: Key, text: &str, library: Vec<u8>) {
        let text = text.to_owned();
        self.lock()
            .insert(*key.bytes(), KeptLibrary { text, library });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<[u8; Key::LEN], KeptLibrary>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of a text on this processor. The compiler is no part of it: any of them makes the same program.
pub(crate) fn key(text: &str, flags: &Flags) -> Key {
    let list = flags.list(&[]).join("\n");
    let parts = [
        "library",
        text,
        &list,
        cpu::identity(),
        flags.header(),
        std::env::consts::OS,
    ];
    Key::new(&parts.map(str::as_bytes))
}
