//! Reads a model from a file: ONNX, an exported program of PyTorch, Heddle's text form, or a program of its language.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use heddle_ir::text::{Loader, parse_with};
use heddle_ir::{Folder, FuncId, Module, Op, Tensor, VerifyError};
use heddle_lang::Structure;
use heddle_onnx::{ImportError, ImportOptions, Imported};
use heddle_trace::TraceError;
use heddle_trace::pt2::{Pt2Error, Pt2Options};
use indexmap::IndexMap;

use crate::Error;
use crate::graph::Graph;
use crate::signature::{Port, Signature, ports};
use crate::stack::on_large_stack;

/// Options of reading a model.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Computations on constants that are done while reading, so that computed shapes become known.
    pub fold: Fold,
    /// Names of [optional inputs](Model::optional_inputs) that values are given for. They become inputs like any other, and
    /// their defaults are not used; other names are ignored.
    pub overrides: HashSet<String>,
    /// Ranks of inputs for which the file declares none. With them, operators that depend on the rank are read, and the program is
    /// compiled; other names are ignored.
    pub ranks: HashMap<String, usize>,
    /// Values in the place of initializers of an ONNX model, or of parameters, buffers and constants of a `.pt2` one, of their types and shapes. A program that differs in large ones only is built of
    /// the same text: with a [cache](crate::CompileOptions::cache), the C compiler is not called again.
    pub constants: HashMap<String, crate::Tensor>,
    /// The [entry](Model::entries) that is compiled and run; `None`: the first. Of a `.pt2` archive of several models only this one is
    /// read.
    pub entry: Option<String>,
}

/// Computations on constants that are done ahead of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fold {
    /// All small ones.
    #[default]
    All,
    /// Those that give the same in any float type: for runs that compute in `f64` throughout.
    Exact,
    /// None.
    Nothing,
}

impl Fold {
    fn folder(self) -> Option<Folder> {
        match self {
            Fold::All => Some(heddle_interp::fold),
            Fold::Exact => Some(fold_exactly),
            Fold::Nothing => None,
        }
    }
}

/// Folds operators that compute no floats, and those that only move them.
fn fold_exactly(op: &Op, args: &[&Tensor]) -> Option<Vec<Tensor>> {
    let results = heddle_interp::fold(op, args)?;
    let exact = op.only_moves() || results.iter().all(|t| !t.dtype().is_float());
    exact.then_some(results)
}

/// Format of a model's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `.onnx`.
    Onnx,
    /// `.heddle`: the text form.
    Text,
    /// `.hl`: the language of `heddle-lang`.
    Language,
    /// `.pt2`: an exported program of PyTorch, which `torch.export.save` wrote.
    Exported,
    /// `.hprog`: a saved program, of which the graph is read.
    Saved,
    /// A traced graph, which has no file.
    Traced,
}

/// A program as it was read, verified and not optimised, and the entry that is compiled and run. Threads may share
/// it.
#[derive(Clone, Debug)]
pub struct Model {
    /// With that entry alone.
    pub(crate) module: Module,
    /// All entries of the file.
    entries: IndexMap<String, FuncId>,
    /// Optional inputs of each entry.
    optional: HashMap<String, Vec<Port>>,
    notes: Vec<String>,
    /// Inputs that are tables and graphs.
    pub(crate) structures: Vec<Structure>,
    path: PathBuf,
    format: Format,
    load_time: Duration,
}

impl Model {
    /// Reads a `.onnx`, `.pt2`, `.heddle` or `.hl` file, or the graph of a `.hprog` one. Weights beside the file are mapped, not read, and must
    /// lie in its folder.
    ///
    /// Buffers that a `.pt2` program changes are [optional inputs](Model::optional_inputs) and outputs.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Self, Error> {
        let start = Instant::now();
        let format = format_of(path)?;
        let model = on_large_stack(|| match format {
            Format::Onnx => {
                let imported = heddle_onnx::load(path, &import_options(options))?;
                Self::imported(imported, path)
            }
            Format::Text => {
                let folder = match path.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => parent,
                    _ => Path::new("."),
                };
                let module = parse_text(path, &read(path)?, Some(folder))?;
                Ok(Self::new(module, path, format))
            }
            Format::Language => translate(path, &read(path)?),
            Format::Exported => exported(path, mapped(path)?, options),
            Format::Saved => Self::of_program(path, mapped(path)?),
            Format::Traced => traced(&read(path)?, vec![], options),
        })??;
        model.finish(options, start)
    }

    /// Reads a model that is in memory. `name` stands for it in errors, and weights beside it lie in `folder`; without one there are
    /// none.
    ///
    /// # Errors
    ///
    /// As for [`Model::load`]; [`Error::Io`] if a text is not UTF-8.
    pub fn from_bytes(
        name: &str,
        bytes: Vec<u8>,
        format: Format,
        folder: Option<&Path>,
        options: &LoadOptions,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let path = Path::new(name);
        let text = |bytes| {
            String::from_utf8(bytes).map_err(|e| Error::Io {
                path: path.into(),
                source: std::io::Error::new(std::io::ErrorKind::InvalidData, e.utf8_error()),
            })
        };
        let model = on_large_stack(|| match format {
            Format::Onnx => {
                let bytes = Bytes::from(bytes);
                let imported =
                    heddle_onnx::load_bytes(path, bytes, folder, &import_options(options))?;
                Self::imported(imported, path)
            }
            Format::Text => {
                let module = parse_text(path, &text(bytes)?, folder)?;
                Ok(Self::new(module, path, format))
            }
            Format::Language => translate(path, &text(bytes)?),
            Format::Exported => exported(path, bytes.into(), options),
            Format::Saved => Self::of_program(path, bytes.into()),
            Format::Traced => traced(&text(bytes)?, vec![], options),
        })??;
        model.finish(options, start)
    }

    /// Reads a traced graph, JSON of the form that `docs/trace.md` describes, with the constants that it names.
    ///
    /// # Errors
    ///
    /// [`Error::Traced`]; its text names each operator that is not supported, with its line of source.
    pub fn from_trace(json: &str, constants: Vec<(String, crate::Tensor)>) -> Result<Self, Error> {
        let start = Instant::now();
        let options = LoadOptions::default();
        let constants = constants.into_iter().map(|(name, t)| (name, t.0));
        let constants = constants.collect();
        let model = on_large_stack(|| traced(json, constants, &options))??;
        model.finish(&options, start)
    }

    fn finish(self, options: &LoadOptions, start: Instant) -> Result<Self, Error> {
        if let Some(name) = options.constants.keys().next()
            && !matches!(self.format, Format::Onnx | Format::Exported)
        {
            let message = "constants are replaced in .onnx and .pt2 models only".to_owned();
            let name = name.clone();
            return Err(ImportError::Replacement { name, message }.into());
        }
        let mut model = match &options.entry {
            Some(name) => self.with_entry(name)?,
            None => self,
        };
        model.load_time = start.elapsed();
        Ok(model)
    }

    fn imported(imported: Imported, path: &Path) -> Result<Self, Error> {
        let Imported {
            module,
            optional,
            notes,
        } = imported;
        // The importer promises a valid module: a refusal is an error of its own.
        heddle_ir::verify(&module).map_err(|errors| Error::invalid("the importer", &errors))?;
        let mut model = Self::new(module, path, Format::Onnx);
        let entry = model.entry().to_owned();
        model.optional.insert(entry, ports(&optional));
        Ok(Self { notes, ..model })
    }

    /// Reads a program in text form, which has no files beside it. `name` stands for it in errors.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let start = Instant::now();
        let path = Path::new(name);
        let module = on_large_stack(|| parse_text(path, text, None))??;
        let mut model = Self::new(module, path, Format::Text);
        model.load_time = start.elapsed();
        Ok(model)
    }

    /// The model of a program, with its first entry.
    fn new(mut module: Module, path: &Path, format: Format) -> Self {
        let entries = module.entries.clone();
        module.entries.truncate(1);
        Self {
            module,
            entries,
            optional: HashMap::new(),
            notes: vec![],
            structures: vec![],
            path: path.into(),
            format,
            load_time: Duration::ZERO,
        }
    }

    /// The model of a verified program that was saved.
    pub(crate) fn of_module(module: Module, path: &Path) -> Self {
        Self::new(module, path, Format::Saved)
    }

    /// Names of the functions that a run can begin with; the first is the default.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The name of the entry that is compiled and run.
    pub fn entry(&self) -> &str {
        let name = self.module.entries.keys().next();
        name.expect("a module has an entry")
    }

    /// The model with this one of its entries.
    ///
    /// # Errors
    ///
    /// [`Error::Entry`] lists the names that exist.
    pub fn with_entry(mut self, name: &str) -> Result<Self, Error> {
        self.module.entries.clone_from(&self.entries);
        self.module = self.module.with_entry(name)?;
        Ok(self)
    }

    /// The graph IR, with the entry that is compiled and run, for tools that inspect programs; not part of the stable
    /// interface.
    #[doc(hidden)]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The program, with all entries of the file.
    pub fn into_graph(self) -> Graph {
        let entries = self.entries;
        Graph(Module {
            entries,
            ..self.module
        })
    }

    /// The model with its graph edited, which has all entries of the file meanwhile.
    pub(crate) fn edited(
        mut self,
        edit: impl FnOnce(&mut Module) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let entry = self.entry().to_string();
        self.module.entries.clone_from(&self.entries);
        edit(&mut self.module)?;
        self.entries.clone_from(&self.module.entries);
        self.with_entry(&entry)
    }

    /// Names and types of the inputs and outputs.
    pub fn signature(&self) -> Signature {
        Signature::of(&self.module.entry().sig)
    }

    /// Inputs that have a default value. The program holds the values as constants; [`LoadOptions::overrides`]
    /// names those that are to be inputs.
    pub fn optional_inputs(&self) -> &[Port] {
        let found = self.optional.get(self.entry());
        found.map_or(&[], Vec::as_slice)
    }

    /// Sentences for the user about outputs that are not what the file declares: an array in place of
    /// maps.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Format of the file.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Time that reading took.
    pub fn load_time(&self) -> Duration {
        self.load_time
    }
}

/// The format by the file's extension.
fn format_of(path: &Path) -> Result<Format, Error> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("onnx") => Ok(Format::Onnx),
        Some("pt2") => Ok(Format::Exported),
        Some("heddle") => Ok(Format::Text),
        Some("hl") => Ok(Format::Language),
        Some("hprog") => Ok(Format::Saved),
        _ => Err(Error::UnknownFormat { path: path.into() }),
    }
}

fn import_options(options: &LoadOptions) -> ImportOptions {
    ImportOptions {
        folder: options.fold.folder(),
        overrides: options.overrides.clone(),
        ranks: options.ranks.clone(),
        constants: tensors(options),
    }
}

/// Reads a program of the language.
fn translate(path: &Path, text: &str) -> Result<Model, Error> {
    let program = heddle_lang::compile(text).map_err(|error| Error::Text {
        path: path.into(),
        error: Box::new(error),
    })?;
    // The language promises a valid module.
    heddle_ir::verify(&program.module).map_err(|errors| Error::invalid("the language", &errors))?;
    Ok(Model {
        structures: program.structures,
        ..Model::new(program.module, path, Format::Language)
    })
}

/// Targets of nodes that [`Model::from_trace`] reads, in order.
pub fn trace_targets() -> Vec<String> {
    heddle_trace::targets()
}

/// Reads a `.pt2` file.
fn exported(path: &Path, bytes: Bytes, options: &LoadOptions) -> Result<Model, Error> {
    let reading = Pt2Options {
        folder: options.fold.folder(),
        overrides: options.overrides.clone(),
        constants: tensors(options),
        entry: options.entry.clone(),
    };
    let program = heddle_trace::pt2::load(bytes, &reading).map_err(|error| match error {
        TraceError::Pt2(Pt2Error::UnknownEntry(error)) => Error::Entry(error),
        error => Error::Exported {
            path: path.into(),
            error: Box::new(error),
        },
    })?;
    // The reader promises a valid module.
    heddle_ir::verify(&program.module)
        .map_err(|errors| Error::invalid("the reader of .pt2 files", &errors))?;
    let optional = program.optional.iter();
    Ok(Model {
        optional: optional
            .map(|(entry, inputs)| (entry.clone(), ports(inputs)))
            .collect(),
        ..Model::new(program.module, path, Format::Exported)
    })
}

/// The constants that replace those of a model.
fn tensors(options: &LoadOptions) -> HashMap<String, Tensor> {
    let constants = options.constants.iter();
    constants
        .map(|(name, t)| (name.clone(), t.0.clone()))
        .collect()
}

/// Reads a traced graph.
fn traced(
    json: &str,
    constants: Vec<(String, Tensor)>,
    options: &LoadOptions,
) -> Result<Model, Error> {
    let module = heddle_trace::load(json, constants, options.fold.folder())?;
    // The reader promises a valid module.
    heddle_ir::verify(&module).map_err(|errors| Error::invalid("the trace reader", &errors))?;
    Ok(Model::new(module, Path::new("trace"), Format::Traced))
}

fn mapped(path: &Path) -> Result<Bytes, Error> {
    heddle_onnx::map_file(path).map_err(|source| Error::Io {
        path: path.into(),
        source,
    })
}

fn read(path: &Path) -> Result<String, Error> {
    heddle_onnx::open_file(path)
        .and_then(std::io::read_to_string)
        .map_err(|source| Error::Io {
            path: path.into(),
            source,
        })
}

/// Reads the text form. Weights beside it lie in `folder`.
fn parse_text(path: &Path, text: &str, folder: Option<&Path>) -> Result<Module, Error> {
    let weights = folder.map(heddle_onnx::DataFolder::new);
    let load = |file: &str, offset, length| match &weights {
        Some(weights) => weights.slice(file, offset, length),
        None => Err(format!("there is no folder to read {file:?} from")),
    };
    let load: Loader = &load;
    let module = parse_with(text, load).map_err(|error| Error::Text {
        path: path.into(),
        error: Box::new(error),
    })?;
    verified(path, module)
}

/// The module, if it is a valid program.
pub(crate) fn verified(path: &Path, module: Module) -> Result<Module, Error> {
    let refuse = |errors| Error::Verify {
        path: path.into(),
        errors,
    };
    heddle_ir::verify(&module).map_err(refuse)?;
    each_result_once(&module).map_err(|error| refuse(vec![error]))?;
    Ok(module)
}

/// Checks that an entry's results have different names, by which a run hands them out.
fn each_result_once(module: &Module) -> Result<(), VerifyError> {
    for &id in module.entries.values() {
        let sig = &module.functions[id].sig;
        let mut seen = HashSet::new();
        if let Some((name, _)) = sig.results.iter().find(|(name, _)| !seen.insert(name)) {
            return Err(VerifyError {
                function: sig.name.clone(),
                inst: None,
                op: None,
                loc: None,
                message: format!("two results are named `{name}`"),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_one_name_are_refused() {
        let text = "fn @main(%x: f32[2]) -> (%y: f32[2], %y: f32[2]) {
  %y = neg(%x)
  return %y, %y
}
";
        let error = Model::parse("m", text).unwrap_err().to_string();
        assert!(error.contains("two results are named `y`"), "{error}");
    }
}
