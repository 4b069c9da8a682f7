//! Failures of commands: exit statuses, messages, hints in terms of flags.

use heddle::{ErrorKind, Limit, Remedy};

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
    /// The model uses something that Heddle does not support.
    Unsupported = 4,
    /// A limit was reached.
    Limit = 5,
    /// A file could not be read or written.
    Io = 6,
    /// The device, its driver or its compiler is missing, or does not do.
    Device = 7,
    /// An error inside Heddle.
    Internal = 70,
}

impl Exit {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Exit::Mismatch => "mismatch",
            Exit::Usage => "usage",
            Exit::Invalid => "invalid",
            Exit::Unsupported => "unsupported",
            Exit::Limit => "limit",
            Exit::Io => "io",
            Exit::Device => "device",
            Exit::Internal => "internal",
        }
    }
}

/// An error as it is shown to people.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub exit: Exit,
    /// The message; may have several lines. Empty when the command has printed it already.
    pub message: String,
    /// The remedy.
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
            ErrorKind::Limit | ErrorKind::Cancelled => Exit::Limit,
            ErrorKind::Io => Exit::Io,
            ErrorKind::Device => Exit::Device,
            ErrorKind::Internal => Exit::Internal,
        };
        Self {
            exit,
            message: error.to_string(),
            hint: error.remedy().map(hint),
        }
    }
}

/// A remedy in terms of the command's flags.
fn hint(remedy: Remedy) -> String {
    match remedy {
        Remedy::GiveInputs => {
            "give them with --input, or have them drawn with --random SEED".into()
        }
        Remedy::KnownInputs(names) if !names.is_empty() => {
            format!("its inputs are {}", names.join(", "))
        }
        Remedy::OtherOperators => {
            "`heddle inspect` shows the whole model, with what is not supported".into()
        }
        Remedy::GiveRanks => {
            "inputs that the model declares without a rank have that of their values in --input"
                .into()
        }
        Remedy::SmallerSizes => "choose smaller sizes with --size NAME=N".into(),
        Remedy::Raise(limit) => match flag(limit) {
            Some(flag) => format!("raise the limit with {flag}"),
            None => remedy.to_string(),
        },
        Remedy::LimitMemory => "a lower --max-memory ends the run earlier".into(),
        Remedy::WideWeights => "--weights f32 is for every device".into(),
        Remedy::AllowWeightsError => {
            "allow more with --weights-error, or choose --weights of more bytes".into()
        }
        Remedy::Interpret => "--device interp runs models without a C compiler, slowly".into(),
        Remedy::Processor => "--device cpu runs models without a GPU".into(),
        Remedy::ReportSchedule => format!(
            "{}. --device interp runs the model without a schedule",
            Remedy::Report
        ),
        // The others name no option.
        other => other.to_string(),
    }
}

/// The flag that sets a limit.
fn flag(limit: Limit) -> Option<&'static str> {
    Some(match limit {
        Limit::Memory => "--max-memory",
        Limit::Iterations => "--max-iterations",
        Limit::Depth => "--max-depth",
        Limit::Frames => "--max-frames",
        Limit::Timeout => "--timeout",
        _ => return None,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of the library that mean nothing on a command line.
    const LIBRARY: [&str; 3] = ["::", "RunOptions", "LoadOptions"];

    #[test]
    fn hints_name_flags_and_no_fields() {
        let raise = |limit| (Remedy::Raise(limit), "the limit with --");
        let remedies = [
            (Remedy::GiveInputs, "--input"),
            (Remedy::KnownInputs(vec!["x".into(), "k".into()]), "x, k"),
            (Remedy::KnownInputs(vec![]), "no inputs"),
            (Remedy::OtherOperators, "heddle inspect"),
            (Remedy::SmallerSizes, "--size"),
            raise(Limit::Memory),
            raise(Limit::Iterations),
            raise(Limit::Depth),
            raise(Limit::Frames),
            raise(Limit::Timeout),
            (Remedy::LimitMemory, "--max-memory"),
            (Remedy::WideWeights, "--weights f32"),
            (Remedy::AllowWeightsError, "--weights-error"),
            (Remedy::Interpret, "--device interp"),
            (Remedy::ReportSchedule, "--device interp"),
            (Remedy::Report, "report"),
            (Remedy::Advice("convert it".into()), "convert it"),
        ];
        for (remedy, words) in remedies {
            let library = remedy.to_string();
            assert!(!library.contains("--"), "{library}");
            let text = hint(remedy);
            assert!(text.contains(words), "{text}");
            assert!(LIBRARY.iter().all(|word| !text.contains(word)), "{text}");
        }
    }
}
