//! Faults of saved programs.

/// The version of the format that is written and read.
pub(crate) const VERSION: u32 = 1;

/// A fault of a saved program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The file is something else.
    #[error("it is no saved program")]
    Foreign,
    /// A version of the format that this library does not know.
    #[error("it is a saved program of version {0}, and this library reads version {version}", version = VERSION)]
    Version(u32),
    /// The file ends before its contents do.
    #[error("the saved program is cut short")]
    Truncated,
    /// The contents do not have the checksum.
    #[error("the saved program is damaged: its checksum is another one")]
    Damaged,
    /// A part is missing, there twice, or makes no sense.
    #[error("the saved program is broken: {0}")]
    Broken(String),
    /// The program has something that the format has no form for.
    #[error("it can't be saved: {0}")]
    Unsupported(String),
}
