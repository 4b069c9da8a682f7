//! All that can go wrong, with a hint where there is one.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use heddle_interp::{Fault, RunError};
use heddle_ir::text::ParseError;
use heddle_ir::{UnknownEntry, VerifyError};
use heddle_lower::LowerError;
use heddle_onnx::ImportError;
use heddle_runtime::BuildError;
use heddle_schedule::TraceError;
use heddle_uprogram::ScheduleError;
use heddle_uprogram::text::ReadError;

use crate::Interpreted;
use crate::draw::DrawError;
use crate::inputs::InputError;

/// Why a model could not be loaded, compiled or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file's name does not say what it is.
    #[error("{} is neither .onnx nor .heddle", .path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// An ONNX model cannot be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A program in text form cannot be parsed.
    #[error("{}", located(.path, .error))]
    Text {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the source line and a marker.
        error: Box<ParseError>,
    },
    /// A text is no uProgram.
    #[error("{}", read_error(.path, .error))]
    UProgram {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: Box<ReadError>,
    },
    /// There is no pass on uPrograms of this name.
    #[error("there is no pass `{0}` on uPrograms")]
    UnknownPass(String),
    /// A program in text form is not valid.
    #[error("{} is not a valid program:{}", .path.display(), lines(.errors))]
    Verify {
        /// The file.
        path: PathBuf,
        /// All that is wrong.
        errors: Vec<VerifyError>,
    },
    /// The model has no entry of the name asked for.
    #[error(transparent)]
    Entry(#[from] UnknownEntry),
    /// The inputs do not fit the model.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Inputs could not be drawn.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// The run stopped.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The verifier found a fault in a schedule.
    #[error("the schedule of {what} is not sound: {error}")]
    Schedule {
        /// Which program it is.
        what: &'static str,
        /// What is wrong.
        error: ScheduleError,
    },
    /// What only a compiled program has was asked of one without a compiled form.
    #[error("it is not compiled: {0}")]
    NotCompiled(Interpreted),
    /// The program of one run's decisions cannot be made.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The emitted program could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The compiled program stopped.
    #[error("{}", compiled_message(site.as_deref(), error))]
    Compiled {
        /// The model's node, if one is to blame.
        site: Option<String>,
        /// What happened.
        error: Box<heddle_runtime::RunError>,
    },
    /// Memory of the caller does not fit.
    #[error("{0}")]
    Memory(String),
    /// The system gives no thread to work on.
    #[error("a thread cannot be started: {0}")]
    Thread(std::io::Error),
    /// Heddle itself is wrong.
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<LowerError> for Error {
    fn from(error: LowerError) -> Self {
        let (node, reason) = (Some(error.node), error.reason);
        let node = node.filter(|node| !node.is_empty());
        Error::NotCompiled(Interpreted::whole(node, reason))
    }
}

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The model or its inputs are wrong.
    Invalid,
    /// The model is right, but uses what Heddle does not do.
    Unsupported,
    /// A limit was reached.
    Limit,
    /// A file cannot be read.
    Io,
    /// Heddle is wrong.
    Internal,
}

impl Error {
    /// Whether compiled code found an index or size that does not fit, or needs more memory than allowed.
    pub(crate) fn is_of_compiled_code(&self) -> bool {
        use heddle_runtime::{Fault, RunError as Stop};
        let Error::Compiled { error, .. } = self else {
            return false;
        };
        matches!(
            **error,
            Stop::Program {
                fault: Fault::Index { .. } | Fault::Shape { .. } | Fault::Bound { .. },
                ..
            } | Stop::Plan { .. }
                | Stop::MemoryLimit { .. }
        )
    }

    /// Whether a run needed more memory than it may use.
    pub(crate) fn is_of_memory(&self) -> bool {
        use heddle_runtime::RunError as Stop;
        match self {
            Error::Compiled { error, .. } => {
                matches!(**error, Stop::Plan { .. } | Stop::MemoryLimit { .. })
            }
            Error::Run(RunError::At { fault, .. }) => matches!(fault, Fault::Memory { .. }),
            _ => false,
        }
    }

    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Io { .. } => ErrorKind::Io,
            Error::UnknownFormat { .. }
            | Error::Text { .. }
            | Error::UProgram { .. }
            | Error::UnknownPass(_)
            | Error::Verify { .. } => ErrorKind::Invalid,
            Error::Import(e) => match e {
                ImportError::Io { .. } => ErrorKind::Io,
                ImportError::Unsupported(_) | ImportError::Opset { .. } => ErrorKind::Unsupported,
                ImportError::TooLarge { .. } => ErrorKind::Limit,
                _ => ErrorKind::Invalid,
            },
            Error::NotCompiled(_) => ErrorKind::Unsupported,
            Error::Thread(_) => ErrorKind::Limit,
            Error::Trace(TraceError::TooLong(_) | TraceError::TooDeep) => ErrorKind::Limit,
            Error::Trace(TraceError::Mismatch) => ErrorKind::Internal,
            Error::Entry(_) | Error::Input(_) | Error::Memory(_) => ErrorKind::Invalid,
            Error::Draw(DrawError::TooLarge { .. }) => ErrorKind::Limit,
            Error::Draw(DrawError::UnknownSize(_)) => ErrorKind::Invalid,
            Error::Run(e) => match e {
                RunError::Input(heddle_interp::InputError::Fault { fault, .. })
                | RunError::At { fault, .. } => fault_kind(fault),
                RunError::Input(_) => ErrorKind::Invalid,
            },
            Error::Build(_) => ErrorKind::Io,
            Error::Compiled { error, .. } => compiled_kind(error),
            Error::Schedule { .. } | Error::Internal(_) => ErrorKind::Internal,
        }
    }

    /// What to do about it, if that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Input(InputError::Missing(_)) => {
                Some("give them with --input, or have them drawn with --random SEED".into())
            }
            Error::Input(InputError::Unknown { inputs, .. }) => Some(match inputs.len() {
                0 => "the model has no inputs".into(),
                _ => format!(
                    "its inputs are {}; one that has a default value must be named when the model is loaded",
                    inputs.join(", ")
                ),
            }),
            Error::Draw(DrawError::TooLarge { .. }) => {
                Some("choose smaller sizes with --size NAME=N".into())
            }
            Error::Import(error) => error.hint(),
            Error::Run(error) => error.hint().map(str::to_string),
            Error::Compiled { error, .. } => compiled_hint(error).map(str::to_string),
            Error::Text { error, .. } => error.hint.clone(),
            Error::Schedule { .. } => Some(
                "this is a bug in Heddle; please report it. --device interp runs the model without a schedule".into(),
            ),
            Error::Internal(_) => Some("this is a bug in Heddle; please report it".into()),
            _ => None,
        }
    }

    /// The error that a stage left the program invalid.
    pub(crate) fn invalid(stage: &str, errors: &[VerifyError]) -> Self {
        Error::Internal(format!(
            "{stage} left the program invalid:{}",
            lines(errors)
        ))
    }
}

fn read_error(path: &Path, error: &ReadError) -> String {
    match error {
        ReadError::Text(error) => located(path, error),
        ReadError::Program(error) => format!("{} is no uProgram: {error}", path.display()),
    }
}

/// The place, the message and the source line with a marker; the hint is told apart.
fn located(path: &Path, error: &ParseError) -> String {
    let plain = ParseError {
        hint: None,
        ..error.clone()
    };
    format!("{}: {plain}", path.display())
}

/// With the model's node in place of the program's number for it.
fn compiled_message(site: Option<&str>, error: &heddle_runtime::RunError) -> String {
    match (site, error) {
        (Some(site), heddle_runtime::RunError::Program { fault, .. }) => format!("{site}: {fault}"),
        _ => error.to_string(),
    }
}

/// What to do about it, in terms of the command line's options.
fn compiled_hint(error: &heddle_runtime::RunError) -> Option<&'static str> {
    use heddle_runtime::{Fault, RunError};
    Some(match error {
        RunError::Program { fault, .. } => match fault {
            Fault::Depth { .. } => "raise the limit with --max-depth",
            Fault::Frames { .. } => "raise the limit of memory with --max-memory",
            Fault::Iterations { .. } => "raise the limit with --max-iterations",
            _ => return None,
        },
        RunError::Timeout(_) => "raise the limit with --timeout",
        RunError::MemoryLimit { .. } => "raise the limit with --max-memory",
        _ => return None,
    })
}

fn compiled_kind(error: &heddle_runtime::RunError) -> ErrorKind {
    use heddle_runtime::{Fault, RunError};
    match error {
        RunError::Program {
            fault: Fault::Depth { .. } | Fault::Frames { .. } | Fault::Iterations { .. },
            ..
        }
        | RunError::MemoryLimit { .. }
        | RunError::Memory(_)
        | RunError::Plan { .. }
        | RunError::Cancelled
        | RunError::Timeout(_) => ErrorKind::Limit,
        RunError::Program {
            fault: Fault::Custom { .. },
            ..
        }
        | RunError::OutputDims { .. } => ErrorKind::Internal,
        _ => ErrorKind::Invalid,
    }
}

fn fault_kind(fault: &Fault) -> ErrorKind {
    match fault {
        Fault::Unsupported(_) => ErrorKind::Unsupported,
        Fault::Native { .. } => ErrorKind::Internal,
        Fault::Memory { .. }
        | Fault::OutOfMemory { .. }
        | Fault::TooLarge { .. }
        | Fault::Iterations { .. }
        | Fault::Depth { .. }
        | Fault::Timeout { .. } => ErrorKind::Limit,
        Fault::Work | Fault::Type { .. } => ErrorKind::Internal,
        _ => ErrorKind::Invalid,
    }
}

/// The first few items, each on a line of its own.
fn lines(items: &[impl Display]) -> String {
    const SHOWN: usize = 10;
    let mut text: String = items
        .iter()
        .take(SHOWN)
        .map(|i| format!("\n  {i}"))
        .collect();
    if items.len() > SHOWN {
        text += &format!("\n  … and {} more", items.len() - SHOWN);
    }
    text
}
