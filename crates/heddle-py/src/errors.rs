//! Errors as Python exceptions.

use std::panic::{AssertUnwindSafe, catch_unwind};

use heddle::{Error, ErrorKind, Limit, Remedy};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::arrays::numpy_name;

/// The exception of an error. Its class follows from the kind; `heddle/_errors.py` defines them.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let fields = Fields {
        kind: kind(error),
        message: error.to_string(),
        hint: error.remedy().map(hint),
        node: error.node(),
        place: error.place(),
        limit: error.limit().map(keyword),
    };
    fields.raise(py)
}

/// A wrong argument, which no error of the library stands for.
pub fn input_error(py: Python<'_>, message: String, hint: Option<String>) -> PyErr {
    let fields = Fields {
        kind: "input",
        message,
        hint,
        node: None,
        place: None,
        limit: None,
    };
    fields.raise(py)
}

/// Does work without the interpreter's lock. A panic becomes an exception.
pub fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    match outcome {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(exception(py, &error)),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            let fields = Fields {
                kind: "internal",
                message: text.unwrap_or_else(|| "the library panicked".to_owned()),
                hint: Some(Remedy::Report.to_string()),
                node: None,
                place: None,
                limit: None,
            };
            Err(fields.raise(py))
        }
    }
}

/// Fields of an exception.
struct Fields {
    kind: &'static str,
    message: String,
    hint: Option<String>,
    node: Option<String>,
    place: Option<String>,
    limit: Option<&'static str>,
}

impl Fields {
    fn raise(self, py: Python<'_>) -> PyErr {
        let made = || {
            let fields = PyDict::new(py);
            fields.set_item("hint", self.hint)?;
            fields.set_item("node", self.node)?;
            fields.set_item("place", self.place)?;
            fields.set_item("limit", self.limit)?;
            maker(py)?.call((self.kind, self.message), Some(&fields))
        };
        match made() {
            Ok(exception) => PyErr::from_value(exception),
            Err(error) => error,
        }
    }
}

/// `heddle._errors.make`.
fn maker(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static MAKER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKER.get_or_try_init(py, || {
        let module = py.import("heddle._errors")?;
        Ok::<_, PyErr>(module.getattr("make")?.unbind())
    })?;
    Ok(make.bind(py))
}

fn kind(error: &Error) -> &'static str {
    match (error, error.kind()) {
        _ if error.is_of_inputs() => "input",
        _ if error.is_stated_failure() => "check",
        _ if error.is_missing_compiler() => "no_compiler",
        (Error::Build(_), ErrorKind::Io) => "build",
        (_, ErrorKind::Invalid) => "invalid",
        (_, ErrorKind::Unsupported) => "unsupported",
        (_, ErrorKind::Limit) => "limit",
        (_, ErrorKind::Cancelled) => "cancelled",
        (_, ErrorKind::Io) => "io",
        (_, ErrorKind::Device) => "device",
        (_, ErrorKind::Internal) => "internal",
    }
}

fn keyword(limit: Limit) -> &'static str {
    match limit {
        Limit::Memory => "max_memory",
        Limit::Iterations => "max_iterations",
        Limit::Depth => "max_depth",
        Limit::Frames => "max_frames",
        Limit::Timeout => "timeout",
        _ => "limit",
    }
}

/// A remedy in terms of this package's arguments.
fn hint(remedy: Remedy) -> String {
    match remedy {
        Remedy::Raise(limit) => format!("pass a larger {}=", keyword(limit)),
        Remedy::LimitMemory => "a lower max_memory= ends the run earlier".into(),
        Remedy::Interpret => {
            "install a C compiler, `pip install heddle-compiler[cc]`, or pass device=\"interp\", which needs none".into()
        }
        Remedy::Processor => "pass device=\"cpu\", which needs no GPU".into(),
        Remedy::WideWeights => "pass weights=\"f32\", which is for every device".into(),
        Remedy::GiveRanks => {
            "pass ranks={name: rank} for inputs that the model declares without".into()
        }
        Remedy::Cast(dtype) => {
            let name = numpy_name(dtype);
            format!("x.astype({name:?}), or x.to(torch.{name}), casts it")
        }
        Remedy::KnownInputs(names) if !names.is_empty() => {
            format!("its inputs are {}", names.join(", "))
        }
        remedy => remedy.to_string(),
    }
}
