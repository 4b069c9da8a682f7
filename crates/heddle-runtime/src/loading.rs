//! Loads libraries that were built.

use std::path::Path;

use libloading::Library;

use crate::abi::ABI;
use crate::error::BuildError;

/// Loads a library.
pub(crate) fn open(path: &Path) -> Result<Library, BuildError> {
    // SAFETY: the file is what our compiler made of an emitted program, by its checksum.
    unsafe { Library::new(path) }.map_err(|e| BuildError::Load {
        path: path.to_owned(),
        message: loader_message(&e),
    })
}

/// The loader's own message is the source of libloading's error.
pub(crate) fn loader_message(e: &dyn std::error::Error) -> String {
    e.source()
        .map_or_else(|| e.to_string(), ToString::to_string)
}

/// Loads a compiler's test program and calls it.
pub(crate) fn probe_library(path: &Path) -> Result<(), String> {
    let library = open(path).map_err(|e| e.to_string())?;
    type Probe = unsafe extern "C" fn() -> i32;
    // SAFETY: the test program defines this function so.
    let answer = unsafe {
        let name = c"heddle_probe".to_bytes_with_nul();
        library.get::<Probe>(name).map_err(|e| loader_message(&e))?()
    };
    if i64::from(answer) == ABI {
        Ok(())
    } else {
        Err("wrong answer".to_owned())
    }
}
