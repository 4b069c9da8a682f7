//! Faults of a `.pt2` file outside of its nodes.

use heddle_ir::{OneLine, UnknownEntry};

/// The versions of the schema that are read, for people.
pub const VERSIONS: &str = "8.0 and later minor versions";

/// A fault of a file, or of an entry of its archive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Pt2Error {
    /// The file is no archive, or a broken one.
    #[error("it is no zip archive, or a broken one: {}", OneLine(message))]
    Archive {
        /// The fault.
        message: String,
    },
    /// The archive is not one that `torch.export.save` wrote.
    #[error(
        "it is an archive, but not one of `torch.export.save`: {}",
        OneLine(message)
    )]
    Foreign {
        /// The entry that is missing or unexpected.
        message: String,
    },
    /// An entry is missing.
    #[error("the archive has no entry `{}`", OneLine(entry))]
    Missing {
        /// The entry.
        entry: String,
    },
    /// An entry can't be read.
    #[error("entry `{}`: {}", OneLine(entry), OneLine(message))]
    Entry {
        /// The entry.
        entry: String,
        /// The fault.
        message: String,
    },
    /// An entry that is needed is a pickle, which could run code of whoever wrote it.
    #[error("entry `{}` is a pickle, and pickles are never read", OneLine(entry))]
    Pickle {
        /// The entry.
        entry: String,
    },
    /// The version of the format is another.
    #[error(
        "the file has schema version {major}.{minor}; this library reads {}",
        VERSIONS
    )]
    Version {
        /// The number before the point.
        major: i64,
        /// The number behind it.
        minor: i64,
    },
    /// No model of an archive of several has the name that is asked for.
    #[error(transparent)]
    UnknownEntry(#[from] UnknownEntry),
    /// A limit of this reader is exceeded.
    #[error("{}, more than {limit}", OneLine(what))]
    TooLarge {
        /// The quantity, with its noun.
        what: String,
        /// The most that is read.
        limit: u64,
    },
    /// An array that is given in the place of one of the file does not fit.
    #[error(
        "the constant `{}` can't be replaced: {}",
        OneLine(name),
        OneLine(message)
    )]
    Replacement {
        /// The constant.
        name: String,
        /// The fault.
        message: String,
    },
    /// The file is right, but has something that is not supported.
    #[error("{} is not supported", OneLine(.0))]
    Unsupported(String),
}

impl Pt2Error {
    /// The remedy, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Pt2Error::Foreign { .. } => {
                Some("write it with `torch.export.save(torch.export.export(model, args), path)`")
            }
            Pt2Error::Pickle { .. } | Pt2Error::Version { .. } => {
                Some("save it anew with PyTorch 2.9 or later")
            }
            _ => None,
        }
    }
}
