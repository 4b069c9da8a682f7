//! `heddle compile`.

use std::io::{BufWriter, Write};
use std::path::Path;

use heddle::{CompileOptions, Device, LoadOptions, Model, Stage, on_large_stack};
use heddle_ir::Module;
use heddle_ir::text::{self, Large, PrintOptions};

use super::compile_options;
use crate::args::{CompileArgs, Emit};
use crate::fail::{Exit, Failure};
use crate::{files, out};

/// Compiles a model and writes the output of a stage.
pub fn compile(args: CompileArgs) -> Result<(), Failure> {
    let model = load(&args)?;
    let options = CompileOptions {
        device: Device::Interp,
        machine: args.machine,
        ..compile_options(&args.compiling)
    };
    let target = args.target.into();
    match args.emit {
        Emit::Ir => {
            if args.compiling.verify {
                heddle::schedule(&model, &options, target)?;
            }
            let program = heddle::compile(&model, &options)?;
            write_ir(program.module(), args.output.as_deref())
        }
        Emit::Schedule => {
            let schedule = heddle::schedule(&model, &options, target)?;
            write_text(&schedule, args.output.as_deref())
        }
        Emit::Lowered | Emit::Uprogram => {
            let stage = match args.emit {
                Emit::Lowered => Stage::Lowered,
                _ => Stage::Scheduled,
            };
            let text = heddle::uprogram(&model, &options, target, stage)?;
            write_text(&text, args.output.as_deref())
        }
        Emit::Source => {
            let source = heddle::source(&model, &options, target)?;
            write_text(&source, args.output.as_deref())
        }
    }
}

/// Reads the model, with the inputs that are to be overridden.
fn load(args: &CompileArgs) -> Result<Model, Failure> {
    let path = &args.model.path;
    let options = LoadOptions {
        entry: args.model.entry.clone(),
        ..Default::default()
    };
    let model = Model::load(path, &options)?;
    if args.overrides.is_empty() {
        return Ok(model);
    }
    let optional = model.optional_inputs();
    let known = |name: &&String| optional.iter().any(|p| p.name == **name);
    if let Some(unknown) = args.overrides.iter().find(|name| !known(name)) {
        let text = format!("--override: no optional input is named `{unknown}`");
        let names: Vec<_> = optional.iter().map(|p| format!("`{}`", p.name)).collect();
        return Err(Failure::new(Exit::Usage, text).hint(match names.len() {
            0 => "the model has no optional inputs".into(),
            _ => format!("its optional inputs are {}", names.join(", ")),
        }));
    }
    let options = LoadOptions {
        overrides: args.overrides.iter().cloned().collect(),
        ..options
    };
    Ok(Model::load(path, &options)?)
}

/// Writes text to a file or to standard output.
pub fn write_text(text: &str, output: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = output else {
        return out::print_raw(text);
    };
    files::replace(path, |file| file.write_all(text.as_bytes()))
        .map_err(|e| Failure::new(Exit::Io, format!("cannot write {}: {e}", path.display())))
}

/// Writes a program in text form. With a file, large constants go to another one beside it;
/// without, all are in the text.
pub fn write_ir(module: &Module, output: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = output else {
        return out::print_raw(&on_large_stack(|| text::print(module))?);
    };
    let weights = path.with_extension("weights");
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |e| Failure::new(Exit::Io, format!("cannot write {path}: {e}"))
    };
    let name = weights
        .file_name()
        .and_then(|n| n.to_str())
        .ok_or_else(|| Failure::new(Exit::Usage, "the output's name must be valid Unicode"))?;
    let mut text = String::new();
    let mut used = false;
    let wrote = files::replace_if(&weights, |file| {
        let mut blob = Counted {
            inner: BufWriter::new(file),
            written: 0,
        };
        let mut options = PrintOptions {
            large: Large::Sidecar {
                file: name,
                blob: &mut blob,
            },
            ..Default::default()
        };
        text = text::print_with(module, &mut options)?;
        blob.inner.flush()?;
        used = blob.written > 0;
        Ok(used)
    });
    wrote.map_err(failed(&weights))?;
    files::replace(path, |file| file.write_all(text.as_bytes())).map_err(failed(path))
}

/// Counts what is written.
struct Counted<W> {
    inner: W,
    written: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
