//! Errors of the library, with remedies.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heddle_interp::{Fault, RunError};
use heddle_ir::text::ParseError;
use heddle_ir::{Loc, Module, Op, UnknownEntry, VerifyError};
use heddle_lower::LowerError;
use heddle_onnx::ImportError;
use heddle_runtime::cuda::DeviceError;
use heddle_runtime::{BuildError, GridError};
use heddle_schedule::TraceError;
use heddle_trace::pt2::Pt2Error;
use heddle_uprogram::ScheduleError;
use heddle_uprogram::text::ReadError;

use crate::Interpreted;
use crate::batch_error::BatchError;
use crate::draw::DrawError;
use crate::inputs::InputError;
use crate::remedy::{Limit, Remedy};
use crate::saved_error::SavedError;

/// The most failures of one node that an error names.
const MAX_FAILURES: usize = 8;

/// Failure to load, compile or run a model.
///
/// The text says what is wrong and where; [`Error::kind`] classifies it, [`Error::remedy`] says what to do. Causes within
/// are types of inner crates, not part of the stable interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file is no saved program, or a broken one.
    #[error("{}: {fault}", .path.display())]
    Saved {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: SavedError,
    },
    /// The file's name has no known extension.
    #[error("{} is none of .onnx, .pt2, .heddle, .hl and .hprog", .path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// An ONNX model cannot be imported.
    #[error(transparent)]
    Import(
        #[doc(hidden)]
        #[from]
        ImportError,
    ),
    /// A traced graph cannot be read.
    #[error(transparent)]
    Traced(
        #[doc(hidden)]
        #[from]
        heddle_trace::TraceError,
    ),
    /// An exported program of PyTorch (`.pt2`) cannot be read.
    #[error("{}: {error}", .path.display())]
    Exported {
        /// The file.
        path: PathBuf,
        /// The fault.
        #[doc(hidden)]
        error: Box<heddle_trace::TraceError>,
    },
    /// A program in text form cannot be parsed.
    #[error("{}", located(.path, .error))]
    Text {
        /// The file.
        path: PathBuf,
        /// The fault, with the source line and a marker.
        #[doc(hidden)]
        error: Box<ParseError>,
    },
    /// A text is no uProgram.
    #[error("{}", read_error(.path, .error))]
    UProgram {
        /// The file.
        path: PathBuf,
        /// The fault.
        #[doc(hidden)]
        error: Box<ReadError>,
    },
    /// No pass has this name.
    #[error("there is no pass `{0}`")]
    UnknownPass(String),
    /// A program in text form is not valid.
    #[error("{} is not a valid program:{}", .path.display(), lines(.errors))]
    Verify {
        /// The file.
        path: PathBuf,
        /// All faults.
        #[doc(hidden)]
        errors: Vec<VerifyError>,
    },
    /// The model has no entry of the name asked for.
    #[error(transparent)]
    Entry(
        #[doc(hidden)]
        #[from]
        UnknownEntry,
    ),
    /// The inputs do not fit the model.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The model or its inputs are not for many instances.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Inputs could not be drawn.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// The run stopped.
    #[error(transparent)]
    Run(
        #[doc(hidden)]
        #[from]
        RunError,
    ),
    /// The verifier found a fault in a schedule.
    #[error("the schedule of {what} is not sound: {error}")]
    Schedule {
        /// The program's role.
        what: &'static str,
        /// The fault.
        #[doc(hidden)]
        error: ScheduleError,
    },
    /// The request needs a compiled program, and this one has no compiled form.
    #[error("it is not compiled: {0}")]
    NotCompiled(Interpreted),
    /// The program of one run's decisions cannot be made.
    #[error(transparent)]
    Trace(
        #[doc(hidden)]
        #[from]
        TraceError,
    ),
    /// The emitted program could not be built.
    #[error(transparent)]
    Build(
        #[doc(hidden)]
        #[from]
        BuildError,
    ),
    /// The compiled program stopped.
    #[error("{}", compiled_message(site.as_deref(), failure.as_deref(), error))]
    Compiled {
        /// The model's node, if one is to blame.
        site: Option<String>,
        /// The line of the user's source that made the node, as `file:line`.
        place: Option<String>,
        /// The model's own text of the failure.
        failure: Option<Arc<str>>,
        /// The runtime's error.
        #[doc(hidden)]
        error: Box<heddle_runtime::RunError>,
    },
    /// A recursion needs more frames than [`RunOptions::max_frames`](crate::RunOptions::max_frames).
    #[error(transparent)]
    Frames(Box<Error>),
    /// Memory of the caller does not fit.
    #[error("{0}")]
    Memory(String),
    /// The system gives no thread to work on.
    #[error("a thread cannot be started: {0}")]
    Thread(std::io::Error),
    /// The grid to simulate is none.
    #[error("the grid: {0}")]
    Grid(#[from] GridError),
    /// The device has no kernels for weights in this type.
    #[error(
        "weights in {0}: the device's programs read no packed constants; they have weights in f32 only"
    )]
    Weights(crate::Weights),
    /// An output differs from that of weights in `f32` by more than the limit.
    #[error(
        "output `{output}` with weights in {weights} differs by {error:.2e} of its largest number from that with weights in f32; the limit is {limit:.2e}"
    )]
    WeightsError {
        /// The output.
        output: String,
        /// The type of the weights.
        weights: crate::Weights,
        /// The largest difference by the largest number.
        error: f64,
        /// The limit.
        limit: f64,
    },
    /// More worker threads are asked for than [`MAX_THREADS`](crate::MAX_THREADS).
    #[error("{0} worker threads: a program can use up to {most}", most = crate::MAX_THREADS)]
    Threads(usize),
    /// Heddle itself is wrong.
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<LowerError> for Error {
    fn from(error: LowerError) -> Self {
        Error::NotCompiled(Interpreted::of(error.into()))
    }
}

/// Kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The model or its inputs are wrong.
    Invalid,
    /// The model is right, but uses something that Heddle does not support.
    Unsupported,
    /// A limit was reached.
    Limit,
    /// The run was [cancelled](crate::RunOptions::cancel).
    Cancelled,
    /// A file cannot be read.
    Io,
    /// The device, its driver or its compiler is missing, or does not do.
    Device,
    /// Heddle is wrong, or a device fails.
    Internal,
}

impl Error {
    /// Did compiled code find an index or size that does not fit, or need more memory than allowed?
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

    /// Did a run need more memory than it may use?
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

    /// Was a run's time over?
    pub(crate) fn is_of_time(&self) -> bool {
        match self {
            Error::Compiled { error, .. } => {
                matches!(**error, heddle_runtime::RunError::Timeout(_))
            }
            Error::Run(error) => error.is_timeout(),
            _ => false,
        }
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Io { .. } | Error::Write { .. } => ErrorKind::Io,
            Error::Saved {
                fault: SavedError::Unsupported(_),
                ..
            } => ErrorKind::Unsupported,
            Error::Saved { .. }
            | Error::UnknownFormat { .. }
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
            Error::Traced(e) => traced_kind(e),
            Error::Exported { error, .. } => traced_kind(error),
            Error::NotCompiled(_) | Error::Weights(_) => ErrorKind::Unsupported,
            Error::Thread(_) | Error::Frames(_) | Error::WeightsError { .. } => ErrorKind::Limit,
            Error::Trace(TraceError::TooLong(_) | TraceError::TooDeep) => ErrorKind::Limit,
            Error::Trace(TraceError::Mismatch) => ErrorKind::Internal,
            Error::Batch(BatchError::Refused(_)) => ErrorKind::Unsupported,
            Error::Batch(BatchError::Instance { error, .. }) => error.kind(),
            Error::Entry(_)
            | Error::Input(_)
            | Error::Batch(_)
            | Error::Memory(_)
            | Error::Grid(_)
            | Error::Threads(_) => ErrorKind::Invalid,
            Error::Draw(DrawError::TooLarge { .. }) => ErrorKind::Limit,
            Error::Draw(DrawError::UnknownSize(_)) => ErrorKind::Invalid,
            Error::Run(e) => match e {
                RunError::Input(heddle_interp::InputError::Fault { fault, .. })
                | RunError::At { fault, .. } => fault_kind(fault),
                RunError::Input(_) => ErrorKind::Invalid,
            },
            Error::Build(BuildError::Device(error)) => device_kind(error),
            Error::Build(_) => ErrorKind::Io,
            Error::Compiled { error, .. } => compiled_kind(error),
            Error::Schedule { .. } | Error::Internal(_) => ErrorKind::Internal,
        }
    }

    /// Do inputs not fit: their names, types, sizes, or elements that index others?
    pub fn is_of_inputs(&self) -> bool {
        match self {
            Error::Input(_) | Error::Memory(_) | Error::Draw(_) | Error::Threads(_) => true,
            Error::Batch(BatchError::Instance { error, .. }) => error.is_of_inputs(),
            Error::Batch(error) => !matches!(error, BatchError::Refused(_)),
            // More memory than the limit is no fault of theirs.
            Error::Run(RunError::Input(_)) => self.limit().is_none(),
            Error::Import(ImportError::Replacement { .. }) => true,
            Error::Exported { error, .. } => matches!(
                **error,
                heddle_trace::TraceError::Pt2(Pt2Error::Replacement { .. })
            ),
            _ => false,
        }
    }

    /// Did the run come to a failure that the model states, such as a check that does not hold?
    pub fn is_stated_failure(&self) -> bool {
        match self {
            Error::Compiled { failure, .. } => failure.is_some(),
            Error::Run(RunError::At { at, .. }) => at.op == FAIL,
            Error::Batch(BatchError::Instance { error, .. }) | Error::Frames(error) => {
                error.is_stated_failure()
            }
            _ => false,
        }
    }

    /// Units that can be on a device at once, where a program was built for more.
    pub(crate) fn resident_units(&self) -> Option<usize> {
        match self {
            Error::Build(BuildError::Device(DeviceError::Resident { fits, .. })) => Some(*fits),
            _ => None,
        }
    }

    /// Is there no C compiler that works?
    pub fn is_missing_compiler(&self) -> bool {
        matches!(self, Error::Build(BuildError::NoCompiler { .. }))
    }

    /// The limit of a run that was reached.
    pub fn limit(&self) -> Option<Limit> {
        match self.remedy()? {
            Remedy::Raise(limit) => Some(limit),
            _ => None,
        }
    }

    /// The model's node that a run stopped at.
    pub fn node(&self) -> Option<String> {
        match self {
            Error::Compiled { site, .. } => site.clone(),
            Error::Traced(error) => error.node().map(ToString::to_string),
            Error::Exported { error, .. } => error.node().map(ToString::to_string),
            Error::Run(RunError::At { at, .. }) => Some(match &at.loc {
                Some(loc) => loc.to_string(),
                None => at.to_string(),
            }),
            Error::Batch(BatchError::Instance { error, .. }) | Error::Frames(error) => error.node(),
            _ => None,
        }
    }

    /// The line of the user's source that made the node, as `file:line`, where the model states it.
    pub fn place(&self) -> Option<String> {
        match self {
            Error::Compiled { place, .. } => place.clone(),
            Error::Traced(error) => error.place().map(ToString::to_string),
            Error::Run(RunError::At { at, .. }) => {
                let place = at.loc.as_deref().and_then(Loc::place);
                place.map(ToString::to_string)
            }
            Error::Batch(BatchError::Instance { error, .. }) | Error::Frames(error) => {
                error.place()
            }
            _ => None,
        }
    }

    /// The error with the line of source of its node, and the text of a failure that the model states: all of them, in order, where one
    /// node states several.
    pub(crate) fn placed(self, module: &Module) -> Self {
        let Error::Compiled {
            site: Some(site),
            error,
            ..
        } = self
        else {
            return self;
        };
        let mut place = None;
        let mut failures: Vec<Arc<str>> = vec![];
        for id in module.functions.keys() {
            module.functions[id].for_each_inst(&mut |_, data| {
                let Some(loc) = data.loc.as_deref().filter(|loc| loc.to_string() == site) else {
                    return;
                };
                place = place.take().or(loc.place().map(ToString::to_string));
                if let Op::Fail { message } = &data.op
                    && failures.len() < MAX_FAILURES
                    && !failures.contains(message)
                {
                    failures.push(message.clone());
                }
            });
        }
        // Lowering compares 0 with 1 where the model fails.
        let is_failure = matches!(
            *error,
            heddle_runtime::RunError::Program {
                fault: heddle_runtime::Fault::Shape { left: 0, right: 1 },
                ..
            }
        );
        Error::Compiled {
            site: Some(site),
            place,
            failure: (is_failure && !failures.is_empty()).then(|| failures.join(", or ").into()),
            error,
        }
    }

    /// Remedy, if there is one.
    pub fn remedy(&self) -> Option<Remedy> {
        Some(match self {
            Error::Input(InputError::Missing(_)) => Remedy::GiveInputs,
            Error::Input(InputError::Unknown { inputs, .. }) => Remedy::KnownInputs(inputs.clone()),
            Error::Draw(DrawError::TooLarge { .. }) => Remedy::SmallerSizes,
            Error::Import(ImportError::Unsupported(ops)) => {
                match ops.iter().any(|op| op.reason.is_of_rank()) {
                    true => Remedy::GiveRanks,
                    false => Remedy::OtherOperators,
                }
            }
            Error::Import(error) => Remedy::Advice(error.hint()?),
            Error::Exported { error, .. } => match &**error {
                heddle_trace::TraceError::Pt2(error) => Remedy::Advice(error.hint()?.into()),
                _ => return None,
            },
            Error::Run(RunError::Input(heddle_interp::InputError::Type {
                wanted: Some(dtype),
                ..
            })) => Remedy::Cast(*dtype),
            Error::Run(
                RunError::At { fault, .. }
                | RunError::Input(heddle_interp::InputError::Fault { fault, .. }),
            ) => fault_remedy(fault)?,
            Error::Compiled { error, .. } => compiled_remedy(error)?,
            Error::Text { error, .. } => Remedy::Advice(error.hint.clone()?),
            Error::Frames(_) => Remedy::Raise(Limit::Frames),
            Error::Weights(_) => Remedy::WideWeights,
            Error::WeightsError { .. } => Remedy::AllowWeightsError,
            Error::Build(BuildError::NoCompiler { .. }) => Remedy::Interpret,
            Error::Build(BuildError::Device(error)) => device_remedy(error)?,
            Error::Batch(BatchError::Instance { error, .. }) => error.remedy()?,
            Error::Schedule { .. } => Remedy::ReportSchedule,
            Error::Internal(_) => Remedy::Report,
            _ => return None,
        })
    }

    /// The [remedy](Error::remedy) as text.
    pub fn hint(&self) -> Option<String> {
        self.remedy().map(|remedy| remedy.to_string())
    }

    /// The error that a stage left the program invalid.
    pub(crate) fn invalid(stage: &str, errors: &[VerifyError]) -> Self {
        Error::Internal(format!(
            "{stage} left the program invalid:{}",
            lines(errors)
        ))
    }
}

fn traced_kind(error: &heddle_trace::TraceError) -> ErrorKind {
    use heddle_trace::{OpError, TraceError};
    match error {
        TraceError::Unsupported(_)
        | TraceError::Node {
            error: OpError::Unsupported(_),
            ..
        }
        | TraceError::Pt2(Pt2Error::Unsupported(_) | Pt2Error::Version { .. }) => {
            ErrorKind::Unsupported
        }
        TraceError::TooLarge { .. } | TraceError::Pt2(Pt2Error::TooLarge { .. }) => {
            ErrorKind::Limit
        }
        _ => ErrorKind::Invalid,
    }
}

fn read_error(path: &Path, error: &ReadError) -> String {
    match error {
        ReadError::Text(error) => located(path, error),
        ReadError::Program(error) => format!("{} is no uProgram: {error}", path.display()),
    }
}

/// The op that stops a run, in the text form.
const FAIL: &str = "fail";

/// The place, the message and the source line with a marker, without the hint.
fn located(path: &Path, error: &ParseError) -> String {
    let plain = ParseError {
        hint: None,
        ..error.clone()
    };
    format!("{}: {plain}", path.display())
}

/// With the model's node in place of the program's number for it.
fn compiled_message(
    site: Option<&str>,
    failure: Option<&str>,
    error: &heddle_runtime::RunError,
) -> String {
    match (site, error) {
        (Some(site), heddle_runtime::RunError::Program { fault, .. }) => match failure {
            Some(failure) => format!("{site}: {failure}"),
            None => format!("{site}: {fault}"),
        },
        (
            Some(site),
            heddle_runtime::RunError::Simulated { .. }
            | heddle_runtime::RunError::Sanitized { .. }
            | heddle_runtime::RunError::Stuck { .. }
            | heddle_runtime::RunError::Device(_),
        ) => format!("{site}: {error}"),
        _ => error.to_string(),
    }
}

fn compiled_remedy(error: &heddle_runtime::RunError) -> Option<Remedy> {
    use heddle_runtime::{Fault, Finding, RunError};
    Some(Remedy::Raise(match error {
        RunError::Program { fault, .. } => match fault {
            Fault::Depth { .. } => Limit::Depth,
            Fault::Frames { .. } | Fault::Memory { .. } => Limit::Memory,
            Fault::Iterations { .. } => Limit::Iterations,
            _ => return None,
        },
        RunError::Simulated { finding, .. } => {
            return (*finding != Finding::Memory).then_some(Remedy::Report);
        }
        RunError::Stuck { .. } | RunError::Sanitized { .. } => return Some(Remedy::Report),
        RunError::Device(error) => return device_remedy(error),
        RunError::Timeout(_) => Limit::Timeout,
        RunError::MemoryLimit { .. } => Limit::Memory,
        _ => return None,
    }))
}

fn fault_remedy(fault: &Fault) -> Option<Remedy> {
    Some(Remedy::Raise(match fault {
        Fault::OutOfMemory { .. } => return Some(Remedy::LimitMemory),
        Fault::Memory { .. } => Limit::Memory,
        Fault::Iterations { .. } => Limit::Iterations,
        Fault::Depth { .. } => Limit::Depth,
        Fault::Timeout { .. } => Limit::Timeout,
        _ => return None,
    }))
}

fn compiled_kind(error: &heddle_runtime::RunError) -> ErrorKind {
    use heddle_runtime::{Fault, Finding, RunError};
    match error {
        RunError::Program {
            fault:
                Fault::Depth { .. }
                | Fault::Frames { .. }
                | Fault::Iterations { .. }
                | Fault::Memory { .. }
                | Fault::OutOfMemory { .. }
                | Fault::Segment { .. },
            ..
        }
        | RunError::MemoryLimit { .. }
        | RunError::Simulated {
            finding: Finding::Memory,
            ..
        }
        | RunError::Memory(_)
        | RunError::Plan { .. }
        | RunError::NoWorkers(_)
        | RunError::Timeout(_) => ErrorKind::Limit,
        RunError::Device(error) => device_kind(error),
        RunError::Cancelled => ErrorKind::Cancelled,
        RunError::Program {
            fault: Fault::Custom { .. } | Fault::Units { .. },
            ..
        }
        | RunError::Simulated { .. }
        | RunError::Sanitized { .. }
        | RunError::Separate(_)
        | RunError::Stuck { .. }
        | RunError::OutputDims { .. } => ErrorKind::Internal,
        _ => ErrorKind::Invalid,
    }
}

/// A device that is missing is another kind of error than one that fails, or has too little memory.
fn device_kind(error: &DeviceError) -> ErrorKind {
    match error {
        DeviceError::Memory { .. } => ErrorKind::Limit,
        DeviceError::Lost { .. } => ErrorKind::Internal,
        _ => ErrorKind::Device,
    }
}

fn device_remedy(error: &DeviceError) -> Option<Remedy> {
    match device_kind(error) {
        ErrorKind::Device => Some(Remedy::Processor),
        ErrorKind::Internal => Some(Remedy::Report),
        _ => None,
    }
}

fn fault_kind(fault: &Fault) -> ErrorKind {
    match fault {
        Fault::Unsupported(_) => ErrorKind::Unsupported,
        Fault::Native { .. } => ErrorKind::Internal,
        Fault::Cancelled => ErrorKind::Cancelled,
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

#[cfg(test)]
mod tests {
    use heddle_ir::{FuncBuilder, Place, Signature, Type};

    use super::*;

    #[test]
    fn failures_of_one_node_are_all_named_in_order() {
        let ty = Type::scalar(heddle_ir::DType::F32);
        let mut b = FuncBuilder::new(Signature {
            name: "main".into(),
            params: vec![("go".into(), Type::scalar(heddle_ir::DType::Bool))],
            ..Default::default()
        });
        let node = |line| Loc::Node {
            op: "Check".into(),
            name: "c".into(),
            place: Some(Place {
                file: "m.py".into(),
                line,
            }),
        };
        let loc = node(3);
        b.set_loc(Some(Arc::new(loc.clone())));
        let go = b.params()[0];
        // The second one lies deeper than the third.
        b.begin_region(&[]);
        let first = b.failure("first", &ty).unwrap();
        b.begin_region(&[]);
        let second = b.failure("second", &ty).unwrap();
        let inner = b.end_region(&[second]);
        b.begin_region(&[]);
        let other = b.end_region(&[first]);
        let results = b.if_(go, inner, other).unwrap();
        let holds = b.end_region(&results);
        b.begin_region(&[]);
        let third = b.failure("third", &ty).unwrap();
        let fails = b.end_region(&[third]);
        let results = b.if_(go, holds, fails).unwrap();
        b.set_loc(Some(Arc::new(node(4))));
        b.failure("elsewhere", &ty).unwrap();
        let function = b.finish(&[("y".into(), results[0])]);
        let mut module = Module::default();
        let id = module.declare((*function.sig).clone());
        module.functions[id] = function;

        let stopped = |right| {
            let fault = heddle_runtime::Fault::Shape { left: 0, right };
            let error = heddle_runtime::RunError::Program { fault, site: 0 };
            let error = Error::Compiled {
                site: Some(loc.to_string()),
                place: None,
                failure: None,
                error: Box::new(error),
            };
            error.placed(&module).to_string()
        };
        let text = stopped(1);
        assert!(text.ends_with(": first, or second, or third"), "{text}");
        // Another fault of the node is none of them.
        assert!(stopped(2).contains("should agree"));
    }
}
