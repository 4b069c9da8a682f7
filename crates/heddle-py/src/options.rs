//! Keyword arguments as options.

use std::path::PathBuf;
use std::time::Duration;

use heddle::{
    CacheChoice, CompileOptions, Device, OpenOptions, Pin, Precision, RunOptions, Tune, Weights,
};
use pyo3::Borrowed;
use pyo3::prelude::*;

use crate::errors::input_error;
use crate::program::PyCancel;

/// Reads an option of a dictionary that has all of them. An error names it with its value, and says what it takes.
pub fn item<'py, T>(options: &Bound<'py, PyAny>, name: &str, takes: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let value = options.get_item(name)?;
    value.extract().map_err(|_| {
        let shown = value
            .repr()
            .map_or_else(|_| "…".into(), |text| text.to_string());
        let shown: String = shown.chars().take(60).collect();
        let text = format!("{name}={shown}: it takes {takes}");
        input_error(options.py(), text, None)
    })
}

const TRUTH: &str = "True or False";
const NATURAL: &str = "a whole number from 0";
const TEXT: &str = "a text";
const FOLDER: &str = "a folder, or False for none";

/// Options of compiling, as `heddle.compile` takes them.
pub struct Compiling {
    device: String,
    threads: Option<usize>,
    verify: bool,
    tune: bool,
    pin: bool,
    optimize: bool,
    max_frames: Option<usize>,
    weights: String,
    precision: String,
    compiler: Option<String>,
    /// A folder; an empty path: none.
    cache: Option<PathBuf>,
}

impl<'py> FromPyObject<'_, 'py> for Compiling {
    type Error = PyErr;

    fn extract(options: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            device: item(&options, "device", TEXT)?,
            threads: item(&options, "threads", "a whole number from 1, or None")?,
            verify: item(&options, "verify", TRUTH)?,
            tune: item(&options, "tune", TRUTH)?,
            pin: item(&options, "pin", TRUTH)?,
            optimize: item(&options, "optimize", TRUTH)?,
            max_frames: item(&options, "max_frames", NATURAL)?,
            weights: item(&options, "weights", TEXT)?,
            precision: item(&options, "precision", TEXT)?,
            compiler: item(&options, "compiler", TEXT)?,
            cache: item(&options, "cache", FOLDER)?,
        })
    }
}

impl Compiling {
    /// The options.
    pub fn options(self, py: Python<'_>) -> PyResult<CompileOptions> {
        let device = device(py, &self.device)?;
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
            weights: weights(py, &self.weights)?,
            precision: precision(py, &self.precision)?,
            compiler: self.compiler,
            cache: cache(self.cache),
            ..Default::default()
        })
    }
}

/// The type of weights of a name.
fn weights(py: Python<'_>, name: &str) -> PyResult<Weights> {
    let weights = Weights::ALL.iter().find(|w| w.name() == name);
    weights.copied().ok_or_else(|| {
        let names: Vec<&str> = Weights::ALL.iter().map(|w| w.name()).collect();
        let text = format!("weights={name:?} is none of {}", names.join(", "));
        input_error(py, text, None)
    })
}

/// The type of products of a name.
fn precision(py: Python<'_>, name: &str) -> PyResult<Precision> {
    let precision = Precision::ALL.iter().find(|p| p.name() == name);
    precision.copied().ok_or_else(|| {
        let names: Vec<&str> = Precision::ALL.iter().map(|p| p.name()).collect();
        let text = format!("precision={name:?} is none of {}", names.join(", "));
        input_error(py, text, None)
    })
}

/// The device of a name.
fn device(py: Python<'_>, name: &str) -> PyResult<Device> {
    let device = Device::ALL.iter().find(|d| d.name() == name);
    device.copied().ok_or_else(|| {
        let names: Vec<&str> = Device::ALL.iter().map(|d| d.name()).collect();
        let text = format!("device={name:?} is none of {}", names.join(", "));
        input_error(py, text, None)
    })
}

/// Options of opening a program, as `heddle.open` takes them.
pub struct Opening {
    trusted: bool,
    /// `None`: the one that it was compiled for.
    device: Option<String>,
    compiler: Option<String>,
    /// A folder; an empty path: none.
    cache: Option<PathBuf>,
}

impl<'py> FromPyObject<'_, 'py> for Opening {
    type Error = PyErr;

    fn extract(options: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            trusted: item(&options, "trusted", TRUTH)?,
            device: item(&options, "device", TEXT)?,
            compiler: item(&options, "compiler", TEXT)?,
            cache: item(&options, "cache", FOLDER)?,
        })
    }
}

impl Opening {
    /// The options.
    pub fn options(self, py: Python<'_>) -> PyResult<OpenOptions> {
        Ok(OpenOptions {
            trusted: self.trusted,
            device: self.device.map(|name| device(py, &name)).transpose()?,
            grid: None,
            arch: None,
            compiler: self.compiler,
            cache: cache(self.cache),
        })
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
pub struct Running<'py> {
    timeout: Option<f64>,
    watchdog: Option<f64>,
    max_depth: Option<usize>,
    max_iterations: Option<u64>,
    max_memory: Option<u64>,
    max_frames: Option<usize>,
    seed: u64,
    f64: bool,
    cancel: Option<Bound<'py, PyCancel>>,
}

impl<'py> FromPyObject<'_, 'py> for Running<'py> {
    type Error = PyErr;

    fn extract(options: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            timeout: item(&options, "timeout", SECONDS)?,
            watchdog: item(&options, "watchdog", SECONDS)?,
            max_depth: item(&options, "max_depth", NATURAL)?,
            max_iterations: item(&options, "max_iterations", NATURAL)?,
            max_memory: item(&options, "max_memory", "a number of bytes")?,
            max_frames: item(&options, "max_frames", NATURAL)?,
            seed: item(&options, "seed", NATURAL)?,
            f64: item(&options, "f64", TRUTH)?,
            cancel: item(&options, "cancel", "a heddle.Cancel")?,
        })
    }
}

const SECONDS: &str = "a number of seconds from 0";

/// So many seconds; `None` without end.
pub fn seconds(py: Python<'_>, name: &str, time: f64) -> PyResult<Option<Duration>> {
    if time == f64::INFINITY {
        return Ok(None);
    }
    match Duration::try_from_secs_f64(time) {
        Ok(time) => Ok(Some(time)),
        // Longer than the longest time.
        Err(_) if time > 0.0 => Ok(None),
        Err(_) => Err(input_error(
            py,
            format!("{name}={time}: it takes {SECONDS}"),
            None,
        )),
    }
}

impl Running<'_> {
    /// The options.
    pub fn options(self, py: Python<'_>) -> PyResult<RunOptions> {
        let timeout = self.timeout.map(|time| seconds(py, "timeout", time));
        let watchdog = self.watchdog.map(|time| seconds(py, "watchdog", time));
        let watchdog = watchdog.transpose()?;
        Ok(RunOptions {
            f64: self.f64,
            max_memory: self.max_memory,
            max_iterations: self.max_iterations,
            max_depth: self.max_depth,
            max_frames: self.max_frames,
            timeout: timeout.transpose()?.flatten(),
            // A longest time of infinity is one that is never over.
            watchdog: watchdog.map(|time| time.unwrap_or(Duration::MAX)),
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
