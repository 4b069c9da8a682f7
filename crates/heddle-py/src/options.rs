//! Keyword arguments as options.

use std::path::PathBuf;
use std::time::Duration;

use heddle::{CacheChoice, CompileOptions, Device, OpenOptions, Pin, RunOptions, Tune};
use pyo3::prelude::*;

use crate::errors::input_error;
use crate::program::PyCancel;

/// Options of compiling, as `heddle.compile` takes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Compiling {
    device: String,
    threads: Option<usize>,
    verify: bool,
    tune: bool,
    pin: bool,
    optimize: bool,
    max_frames: Option<usize>,
    compiler: Option<String>,
    /// A folder; an empty path: none.
    cache: Option<PathBuf>,
}

impl Compiling {
    /// The options.
    pub fn options(self, py: Python<'_>) -> PyResult<CompileOptions> {
        let device = Device::ALL.iter().find(|d| d.name() == self.device);
        let Some(&device) = device else {
            let names: Vec<&str> = Device::ALL.iter().map(|d| d.name()).collect();
            let text = format!("device={:?} is none of {}", self.device, names.join(", "));
            return Err(input_error(py, text, None));
        };
        if self.threads == Some(0) {
            return Err(input_error(
                py,
                "threads=0: a program needs one".into(),
                None,
            ));
        }
        Ok(CompileOptions {
            device,
            threads: self.threads,
            verify: self.verify,
            tune: if self.tune { Tune::On } else { Tune::Off },
            pin: if self.pin { Pin::Auto } else { Pin::Off },
            optimize: self.optimize,
            max_frames: self.max_frames,
            compiler: self.compiler,
            cache: cache(self.cache),
            ..Default::default()
        })
    }
}

/// Options of opening a program, as `heddle.open` takes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Opening {
    trusted: bool,
    compiler: Option<String>,
    /// A folder; an empty path: none.
    cache: Option<PathBuf>,
}

impl Opening {
    /// The options.
    pub fn options(self) -> OpenOptions {
        OpenOptions {
            trusted: self.trusted,
            device: None,
            compiler: self.compiler,
            cache: cache(self.cache),
        }
    }
}

fn cache(folder: Option<PathBuf>) -> CacheChoice {
    match folder {
        None => CacheChoice::Default,
        Some(path) if path.as_os_str().is_empty() => CacheChoice::Off,
        Some(path) => CacheChoice::At(path),
    }
}

/// Options of a run, as `Program.run` takes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Running<'py> {
    timeout: Option<f64>,
    max_depth: Option<usize>,
    max_iterations: Option<u64>,
    max_memory: Option<u64>,
    max_frames: Option<usize>,
    seed: u64,
    f64: bool,
    cancel: Option<Bound<'py, PyCancel>>,
}

impl Running<'_> {
    /// The options.
    pub fn options(self, py: Python<'_>) -> PyResult<RunOptions> {
        let seconds = |t: f64| {
            Duration::try_from_secs_f64(t)
                .map_err(|error| input_error(py, format!("timeout={t}: {error}"), None))
        };
        Ok(RunOptions {
            f64: self.f64,
            max_memory: self.max_memory,
            max_iterations: self.max_iterations,
            max_depth: self.max_depth,
            max_frames: self.max_frames,
            timeout: self.timeout.map(seconds).transpose()?,
            cancel: self.cancel.map(|cancel| cancel.get().0.clone()),
            seed: self.seed,
        })
    }
}

/// Adds a C compiler, with its arguments, that is tried when no other one works.
#[pyfunction]
pub fn add_compiler(command: &str) {
    heddle::add_compiler(command);
}
