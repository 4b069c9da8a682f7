//! Reads a model from a file: ONNX, or Heddle's text form.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heddle_ir::{Module, Signature};
use heddle_onnx::ImportOptions;

use crate::Error;
use crate::stack::on_large_stack;

/// How a model is read.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Evaluate small computations on constants while reading, so that computed shapes become known.
    pub fold: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { fold: true }
    }
}

/// What kind of file a model came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `.onnx`.
    Onnx,
    /// `.heddle`: the text form.
    Text,
}

/// A program as it was read, verified and not optimised.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) module: Module,
    path: PathBuf,
    format: Format,
    load_time: Duration,
}

impl Model {
    /// Reads a `.onnx` or `.heddle` file. Weights beside the file are mapped, not read, and must lie in its folder.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Self, Error> {
        let start = Instant::now();
        let format = format_of(path)?;
        let module = on_large_stack(|| match format {
            Format::Onnx => import(path, options),
            Format::Text => parse(path),
        })?;
        Ok(Self {
            module,
            path: path.into(),
            format,
            load_time: start.elapsed(),
        })
    }

    /// The program.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Names and types of the inputs and outputs.
    pub fn signature(&self) -> &Signature {
        &self.module.entry().sig
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of file.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How long reading took.
    pub fn load_time(&self) -> Duration {
        self.load_time
    }
}

/// The format that a file's name says.
fn format_of(path: &Path) -> Result<Format, Error> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("onnx") => Ok(Format::Onnx),
        Some("heddle") => Ok(Format::Text),
        _ => Err(Error::UnknownFormat { path: path.into() }),
    }
}

fn import(path: &Path, options: &LoadOptions) -> Result<Module, Error> {
    let folder = options
        .fold
        .then_some(heddle_interp::fold as heddle_ir::Folder);
    let module = heddle_onnx::load(path, &ImportOptions { folder })?;
    // The importer promises a valid module: what it refuses, it refuses by itself.
    heddle_ir::verify(&module).map_err(|errors| Error::invalid("the importer", &errors))?;
    Ok(module)
}

fn parse(path: &Path) -> Result<Module, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Io {
        path: path.into(),
        source,
    })?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let weights = heddle_onnx::DataFolder::new(folder);
    let load = |file: &str, offset, length| weights.slice(file, offset, length);
    let module = heddle_ir::text::parse_with(&text, &load).map_err(|error| Error::Text {
        path: path.into(),
        error: Box::new(error),
    })?;
    heddle_ir::verify(&module).map_err(|errors| Error::Verify {
        path: path.into(),
        errors,
    })?;
    Ok(module)
}
