//! Remedies for errors: typed, so that a command can name its flags where the library names its options.

use std::fmt;

use heddle_ir::DType;

/// Remedy for an [`Error`](crate::Error). Its text names the library's options; a program with options of its own, as a
/// command has flags, matches on the variants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Give values for the missing inputs.
    GiveInputs,
    /// Use the names of the model's inputs, which are these.
    KnownInputs(Vec<String>),
    /// Give the array with elements of this type: nothing is cast silently.
    Cast(DType),
    /// Export the model with operators that are supported.
    OtherOperators,
    /// State the ranks of inputs that the model declares without.
    GiveRanks,
    /// Draw inputs of smaller sizes.
    SmallerSizes,
    /// Raise this limit of the run.
    Raise(Limit),
    /// Set a lower limit of memory, so that the run ends before the system has none left.
    LimitMemory,
    /// Compile with weights in `f32`, which every device has.
    WideWeights,
    /// Allow a larger error of weights in fewer bytes, or store them in more.
    AllowWeightsError,
    /// Run on the interpreter, which needs no C compiler.
    Interpret,
    /// Run on the processor, which needs no GPU.
    Processor,
    /// Report a bug; the interpreter runs the model without a schedule until it is fixed.
    ReportSchedule,
    /// Report a bug.
    Report,
    /// Advice that concerns no option.
    Advice(String),
}

/// A limit of a run, by the field of [`RunOptions`](crate::RunOptions) that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// `max_memory`.
    Memory,
    /// `max_iterations`.
    Iterations,
    /// `max_depth`.
    Depth,
    /// `max_frames`.
    Frames,
    /// `timeout`.
    Timeout,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::GiveInputs => f.write_str("give a value for each input without a default"),
            Remedy::KnownInputs(names) if names.is_empty() => {
                f.write_str("the model has no inputs")
            }
            Remedy::KnownInputs(names) => write!(
                f,
                "its inputs are {}; one with a default value takes another if `LoadOptions::overrides` names it",
                names.join(", ")
            ),
            Remedy::Cast(dtype) => write!(f, "cast the array to {dtype}"),
            Remedy::OtherOperators => {
                f.write_str("export the model with other operators or another opset")
            }
            Remedy::GiveRanks => f.write_str(
                "`LoadOptions::ranks` states the ranks of inputs that the model declares without",
            ),
            Remedy::SmallerSizes => f.write_str("give smaller sizes"),
            Remedy::Raise(limit) => write!(f, "raise `RunOptions::{limit}`"),
            Remedy::LimitMemory => {
                let limit = Limit::Memory;
                write!(f, "a lower `RunOptions::{limit}` ends the run earlier")
            }
            Remedy::WideWeights => f.write_str("`Weights::F32` is for every device"),
            Remedy::AllowWeightsError => {
                f.write_str("allow a larger error, or choose `Weights` of more bytes")
            }
            Remedy::Interpret => {
                f.write_str("`Device::Interp` runs models without a C compiler, slowly")
            }
            Remedy::Processor => f.write_str("`Device::Cpu` runs models without a GPU"),
            Remedy::ReportSchedule => f.write_str(
                "this is a bug in Heddle; please report it. `Device::Interp` runs the model without a schedule",
            ),
            Remedy::Report => f.write_str("this is a bug in Heddle; please report it"),
            Remedy::Advice(text) => f.write_str(text),
        }
    }
}

/// The field's name.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Memory => "max_memory",
            Limit::Iterations => "max_iterations",
            Limit::Depth => "max_depth",
            Limit::Frames => "max_frames",
            Limit::Timeout => "timeout",
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        CompileOptions, Device, Error, Inputs, Limit, Model, Remedy, RunOptions, Tensor, compile,
    };

    fn failure(text: &str, inputs: Inputs, options: &RunOptions) -> Error {
        let interpreter = CompileOptions {
            device: Device::Interp,
            ..Default::default()
        };
        let program = compile(&Model::parse("m", text).unwrap(), &interpreter).unwrap();
        program.run(inputs, options).unwrap_err()
    }

    #[test]
    fn hints_name_the_librarys_options() {
        let forever = "fn @main(%x: f32[]) -> (%y: f32[]) {
  %y = loop %i carry (%h = %x) {
    continue carry add(%h, %h)
  }
  return %y
}
";
        let missing = failure(forever, Inputs::new(), &RunOptions::default());
        assert_eq!(missing.remedy(), Some(Remedy::GiveInputs));
        let x = || Tensor::scalar(1f32).into();
        let inputs = |name: &str| Inputs::from_iter([(name.to_string(), x())]);
        let unknown = failure(forever, inputs("z"), &RunOptions::default());
        assert_eq!(
            unknown.remedy(),
            Some(Remedy::KnownInputs(vec!["x".into()]))
        );
        let limits = RunOptions {
            max_iterations: Some(10),
            ..Default::default()
        };
        let stopped = failure(forever, inputs("x"), &limits);
        assert_eq!(stopped.remedy(), Some(Remedy::Raise(Limit::Iterations)));
        let hint = stopped.hint().unwrap();
        assert_eq!(hint, "raise `RunOptions::max_iterations`");
    }
}
