//! Writes files so that they are there in full or not at all.

use std::fs::File;
use std::io;
use std::path::Path;

/// Writes a file's new contents beside it and then puts them in its place. On an error the old file
/// stays. A target that is not a plain file (a pipe, a device) is written directly.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    replace_if(path, |file| write(file).map(|()| true))
}

/// [`replace`], but the new contents are dropped when `write` says that they are not wanted.
pub fn replace_if(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<bool>,
) -> io::Result<()> {
    let special = path.metadata().is_ok_and(|m| !m.is_file());
    if special {
        return write(&mut File::options().write(true).open(path)?).map(|_| ());
    }
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    // The system's error about the folder is clearer than tempfile's.
    folder.metadata()?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".heddle-");
    #[cfg(unix)]
    {
        // A temporary file is private; the result should be as readable as any new file.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder).map_err(unwrap_path)?;
    if write(file.as_file_mut())? {
        file.persist(path).map_err(|e| e.error)?;
    }
    Ok(())
}

/// The system's error without the temporary file's name, which says nothing to people.
fn unwrap_path(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::from(error.kind()),
    }
}
