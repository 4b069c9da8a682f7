//! How a command ends when it does not end well.

use heddle::ErrorKind;

use crate::npz::NpzError;

/// The process's exit status. Documented in `heddle --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Outputs differ, or a test case failed.
    Mismatch = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The model or its inputs are wrong.
    Invalid = 3,
    /// The model uses what Heddle does not support.
    Unsupported = 4,
    /// A limit was reached.
    Limit = 5,
    /// A file could not be read or written.
    Io = 6,
    /// An error inside Heddle.
    Internal = 70,
}

impl Exit {
    /// What the JSON form calls it.
    pub fn name(self) -> &'static str {
        match self {
            Exit::Mismatch => "mismatch",
            Exit::Usage => "usage",
            Exit::Invalid => "invalid",
            Exit::Unsupported => "unsupported",
            Exit::Limit => "limit",
            Exit::Io => "io",
            Exit::Internal => "internal",
        }
    }
}

/// An error as it is shown to people.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub exit: Exit,
    /// What is wrong; may have several lines. Empty when the command has said it already.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A failure whose report has been printed.
    pub fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }
}

impl From<heddle::Error> for Failure {
    fn from(error: heddle::Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::Invalid => Exit::Invalid,
            ErrorKind::Unsupported => Exit::Unsupported,
            ErrorKind::Limit => Exit::Limit,
            ErrorKind::Io => Exit::Io,
            ErrorKind::Internal => Exit::Internal,
        };
        Self {
            exit,
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl From<NpzError> for Failure {
    fn from(error: NpzError) -> Self {
        Self {
            exit: if error.is_io() {
                Exit::Io
            } else {
                Exit::Invalid
            },
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}
