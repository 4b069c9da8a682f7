//! Programs and models in files and as bytes.
//!
//! A saved program is its graph behind the graph passes as text, its large constants, the tables and graphs among its inputs, the options
//! that it was compiled with, and, in a file, the source and the libraries that were built of it (`container` is the format). It is opened by reading and verifying the graph
//! and compiling it again: nothing of a file is trusted. With [`OpenOptions::trusted`], where compiling comes to a text whose library is
//! in the file, for the same processor and runtime, that library is loaded in the place of the C compiler's work. So a library that
//! belongs to another text or processor is never used.

mod container;
mod settings;
mod tables;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use heddle_ir::Module;
use heddle_ir::text::{Large, PrintOptions, parse_with, print_with};
use heddle_runtime::cache::{CacheChoice, Key};
use heddle_runtime::{Grid, Libraries};

use crate::backend;
use crate::model::verified;
use crate::pipeline::{Origin, compile_for};
use crate::saved_error::SavedError;
use crate::stack::on_large_stack;
use crate::{CompileOptions, Device, Error, Model, Program};

use container::{Container, Tag};

/// Options of opening a saved program.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Does the file come from somebody whose programs you would run? Then the libraries in it are loaded.
    pub trusted: bool,
    /// The device that it is opened for; `None`: the one that it was compiled for.
    pub device: Option<Device>,
    /// The grid of [`Device::Sim`]; `None`: the one that it was compiled for.
    pub grid: Option<Grid>,
    /// The architecture for [`Device::Cuda`]; `None`: the one that it was compiled for, or the device's.
    pub arch: Option<String>,
    /// The C compiler, as in [`CompileOptions::compiler`].
    pub compiler: Option<String>,
    /// The place of what is kept, as in [`CompileOptions::cache`].
    pub cache: CacheChoice,
}

/// The name of the constants' file in the graph's text.
const CONSTANTS: &str = "constants";

impl Program {
    /// Writes the program to a file, which [`Program::open`] reads. It is there in full or not at all.
    ///
    /// Profiles and machines that were named in the options are not saved.
    ///
    /// # Errors
    ///
    /// [`Error::Write`] if the file can't be written; [`Error::Build`] and others of compiling: what is saved is compiled once as it will
    /// be when it is opened.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let mut container = self.contents(path)?;
        let libraries = Arc::new(Libraries::default());
        let saved = container.written();
        let (module, options) = read(path, &Container::read(saved.into()).map_err(broken(path))?)?;
        let origin = Origin::Optimized(Arc::new(module));
        let options = CompileOptions {
            compiler: self.options.compiler.clone(),
            cache: self.options.cache.clone(),
            ..options
        };
        let backend = backend::with_libraries(&options, libraries.clone())?;
        compile_for(&*backend, origin, self.report().load, &options)?;
        for (key, kept) in libraries.all() {
            container.add(Tag::Source, kept.text.into_bytes());
            container.add(Tag::Library, [&key.bytes()[..], &kept.library].concat());
        }
        replace(path, &container.written()).map_err(|source| Error::Write {
            path: path.into(),
            source,
        })
    }

    /// The program as bytes, without source and libraries; [`Program::from_bytes`] reads them.
    ///
    /// # Errors
    ///
    /// [`Error::Saved`] as for [`Program::save`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        Ok(self.contents(Path::new("the program"))?.written())
    }

    /// Opens a program that was saved.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file can't be read; [`Error::Saved`], [`Error::Text`] and [`Error::Verify`] if it is no saved program, or a
    /// broken one; those of [`compile`](crate::compile).
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        let bytes = heddle_onnx::map_file(path).map_err(|source| Error::Io {
            path: path.into(),
            source,
        })?;
        Self::opened(path, bytes, options)
    }

    /// Opens a program of bytes that were made by [`Program::to_bytes`], or are those of a file. `name` stands for it in errors.
    ///
    /// # Errors
    ///
    /// As for [`Program::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>, options: &OpenOptions) -> Result<Self, Error> {
        Self::opened(Path::new(name), bytes.into(), options)
    }

    fn opened(path: &Path, bytes: Bytes, options: &OpenOptions) -> Result<Self, Error> {
        let start = Instant::now();
        let container = Container::read(bytes).map_err(broken(path))?;
        let (module, compiling) = read(path, &container)?;
        let compiling = CompileOptions {
            device: options.device.unwrap_or(compiling.device),
            grid: options.grid.unwrap_or(compiling.grid),
            arch: options.arch.clone().or(compiling.arch),
            compiler: options.compiler.clone(),
            cache: options.cache.clone(),
            ..compiling
        };
        let libraries = Libraries::default();
        for library in container.all(Tag::Library).filter(|_| options.trusted) {
            let Some((key, library)) = library.split_first_chunk::<{ Key::LEN }>() else {
                let text = "a library has no key".to_owned();
                return Err(broken(path)(SavedError::Broken(text)));
            };
            // SAFETY: the caller trusts whoever wrote the file.
            unsafe { libraries.insert(Key::from_bytes(*key), library.to_vec()) };
        }
        let structures = tables::read(&container, &module.entry().sig).map_err(broken(path))?;
        let backend = backend::with_libraries(&compiling, Arc::new(libraries))?;
        let origin = Origin::Optimized(Arc::new(module));
        let program = compile_for(&*backend, origin, start.elapsed(), &compiling)?;
        Ok(Self {
            structures,
            ..program
        })
    }

    /// The parts that are saved in any case.
    fn contents(&self, path: &Path) -> Result<Container, Error> {
        let settings = settings::write(&self.options);
        let mut container = graph(&self.module)?;
        tables::write(&self.structures, &mut container).map_err(broken(path))?;
        container.add(Tag::Options, settings.into_bytes());
        Ok(container)
    }
}

impl Model {
    /// The model as bytes: its graph, with all entries and constants. [`Model::from_saved`] reads them.
    ///
    /// # Errors
    ///
    /// [`Error::Saved`] for a program of the language whose tables follow from expressions too deep for a file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let entry = self.entry().to_owned();
        let mut container = graph(&self.clone().into_graph().0)?;
        tables::write(&self.structures, &mut container).map_err(broken(self.path()))?;
        container.add(Tag::Entry, entry.into_bytes());
        Ok(container.written())
    }

    /// The model of a saved program, with the graph as it was compiled.
    pub(crate) fn of_program(path: &Path, bytes: Bytes) -> Result<Self, Error> {
        let container = Container::read(bytes).map_err(broken(path))?;
        let model = Model::of_module(read_graph(path, &container)?, path);
        with_tables(model, path, &container)
    }

    /// Reads a model of bytes that were made by [`Model::to_bytes`]. `name` stands for it in errors. Default values are constants of it.
    ///
    /// # Errors
    ///
    /// As for [`Program::open`].
    pub fn from_saved(name: &str, bytes: Vec<u8>) -> Result<Self, Error> {
        let path = Path::new(name);
        let container = Container::read(bytes.into()).map_err(broken(path))?;
        let module = read_graph(path, &container)?;
        let entry = container.one(Tag::Entry).map_err(broken(path))?;
        let entry = text(path, &entry)?;
        let model = Model::of_module(module, path).with_entry(&entry)?;
        with_tables(model, path, &container)
    }
}

/// The model with the tables and graphs that its inputs are.
fn with_tables(mut model: Model, path: &Path, container: &Container) -> Result<Model, Error> {
    let structures = tables::read(container, &model.module.entry().sig);
    model.structures = structures.map_err(broken(path))?;
    Ok(model)
}

/// A container of a program's text and constants.
fn graph(module: &Module) -> Result<Container, Error> {
    let (printed, constants) = on_large_stack(|| {
        let mut constants = vec![];
        let mut options = PrintOptions {
            large: Large::Sidecar {
                file: CONSTANTS,
                blob: &mut constants,
            },
            ..Default::default()
        };
        let printed = print_with(module, &mut options);
        (printed, constants)
    })?;
    // Memory takes what is written to it.
    let printed = printed.map_err(|e| Error::Internal(e.to_string()))?;
    let mut container = Container::default();
    container.add(Tag::Graph, printed.into_bytes());
    container.add(Tag::Constants, constants);
    Ok(container)
}

/// The graph and the options of a saved program.
fn read(path: &Path, container: &Container) -> Result<(Module, CompileOptions), Error> {
    let settings = container.one(Tag::Options).map_err(broken(path))?;
    let options = settings::read(&text(path, &settings)?).map_err(broken(path))?;
    Ok((read_graph(path, container)?, options))
}

/// The graph, verified.
fn read_graph(path: &Path, container: &Container) -> Result<Module, Error> {
    let graph = container.one(Tag::Graph).map_err(broken(path))?;
    let constants = container.one(Tag::Constants).map_err(broken(path))?;
    let load = |file: &str, offset: u64, length: u64| {
        let range = usize::try_from(offset)
            .ok()
            .zip(usize::try_from(length).ok());
        let range = range.and_then(|(start, length)| Some(start..start.checked_add(length)?));
        match range.filter(|range| file == CONSTANTS && range.end <= constants.len()) {
            Some(range) => Ok(constants.slice(range)),
            None => Err(format!(
                "there are no {length} bytes at {offset} of {file:?}"
            )),
        }
    };
    let graph = text(path, &graph)?;
    on_large_stack(|| {
        let module = parse_with(&graph, &load).map_err(|error| Error::Text {
            path: path.into(),
            error: Box::new(error),
        })?;
        verified(path, module)
    })?
}

fn text(path: &Path, bytes: &Bytes) -> Result<String, Error> {
    let text = std::str::from_utf8(bytes).map(str::to_owned);
    text.map_err(|_| broken(path)(SavedError::Broken("a text is not UTF-8".into())))
}

fn broken(path: &Path) -> impl Fn(SavedError) -> Error {
    |fault| Error::Saved {
        path: path.into(),
        fault,
    }
}

/// Writes a file's new contents beside it and then puts them in its place. On an error the old file stays.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // The system's error about the folder is clearer than that about a file in it.
    folder.metadata()?;
    let mut file = tempfile::Builder::new()
        .prefix(".heddle-")
        // A temporary file is private; the result should be as readable as any new file.
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
