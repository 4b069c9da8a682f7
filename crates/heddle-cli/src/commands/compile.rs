//! `heddle compile`.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use heddle::{
    CompileOptions, Dump, Graph, LoadOptions, Model, Printed, Program, RunOptions, Weights,
    on_large_stack,
};

use super::{batch, compile_options, note};
use crate::args::CompileArgs;
use crate::fail::{Exit, Failure};
use crate::npz::{self, Floats};
use crate::{files, out, show};

/// Compiles a model and writes the output of a stage.
pub fn compile(args: CompileArgs) -> Result<(), Failure> {
    if let Some(path) = &args.save {
        return save(&args, path);
    }
    let model = batch::of(load(&args)?, &args.batch_of)?;
    let profile = args.profile_blocks.as_deref();
    let profile = profile.map(|path| npz::read(path, &model.signature().inputs, Floats::Same));
    let options = CompileOptions {
        machine: args.machine.clone(),
        profile: profile.transpose()?,
        ..compile_options(&args.compiling)
    };
    let target = args.target.into();
    let Some(emit) = args.emit else {
        let text = "compile takes --emit STAGE or --save FILE.hprog";
        return Err(Failure::new(Exit::Usage, text));
    };
    let dump = heddle::emit(&model, &options, target, emit.into())?;
    if options.weights != Weights::F32 {
        // Errors are the model's: this computer measures them, whatever the text is for.
        let options = CompileOptions {
            machine: None,
            ..options
        };
        weights_errors(&heddle::compile(&model, &options)?, &args)?;
    }
    let printed = match &args.part {
        Some(name) => Some(dump.part(name).ok_or_else(|| no_part(name, &dump))?),
        None => dump.whole(),
    };
    if args.times {
        eprint!("{}", times(&dump.stages));
    }
    let output = args.output.as_deref();
    match printed {
        Some(Printed::Graph(graph)) => write_ir(graph, output),
        Some(Printed::Text(text)) => write_text(text, output),
        None => write_text(&on_large_stack(|| dump.to_string())?, output),
    }
}

/// Compiles a model to a file.
fn save(args: &CompileArgs, path: &Path) -> Result<(), Failure> {
    let model = load(args)?;
    for note in model.notes() {
        eprintln!("note: {note}");
    }
    let program = heddle::compile(&model, &compile_options(&args.compiling))?;
    note(program.report(), &args.model.path);
    weights_errors(&program, args)?;
    program.save(path)?;
    if args.times {
        eprint!("{}", times(&program.report().stages));
    }
    Ok(())
}

/// Prints the errors of weights in fewer bytes, on given or drawn inputs.
fn weights_errors(program: &Program, args: &CompileArgs) -> Result<(), Failure> {
    let weights = args.compiling.stored();
    if weights == Weights::F32 {
        return Ok(());
    }
    let inputs = match &args.input {
        Some(path) => Ok(npz::read(path, &program.signature().inputs, Floats::Same)?),
        None => program.draw(0, &args.size.iter().cloned().collect()),
    };
    let run = |inputs| program.weights_errors(inputs, &RunOptions::default());
    let errors = match inputs.and_then(run) {
        Ok(errors) => errors,
        // Nobody asked for these inputs.
        Err(error) if args.input.is_none() && args.weights_error.is_none() => {
            eprintln!("note: the errors of weights in {weights} are unknown: {error}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    for (output, error) in &errors {
        eprintln!(
            "weights in {weights}: output `{output}` differs by {error:.2e} of its largest number"
        );
    }
    if let Some(limit) = args.weights_error {
        program.check_weights_errors(&errors, limit)?;
    }
    Ok(())
}

fn times(stages: &[(&'static str, Duration)]) -> String {
    let row = |(name, time): &(&str, Duration)| vec![name.to_string(), show::duration(*time)];
    show::table(&stages.iter().map(row).collect::<Vec<_>>())
}

fn no_part(name: &str, dump: &Dump) -> Failure {
    let text = format!("--part: no compiled part is named `{name}`");
    let names: Vec<_> = dump.programs.iter().map(|p| format!("`{}`", p.0)).collect();
    Failure::new(Exit::Usage, text).hint(match dump.whole() {
        Some(_) => "the model is compiled as a whole: leave --part out".into(),
        None => format!("the parts are {}", names.join(", ")),
    })
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
pub fn write_ir(graph: &Graph, output: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = output else {
        return out::print_raw(&on_large_stack(|| graph.to_string())?);
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
        text = graph.print_with_weights(name, &mut blob)?;
        blob.inner.flush()?;
        used = blob.written > 0;
        Ok(used)
    });
    wrote.map_err(failed(&weights))?;
    files::replace(path, |file| file.write_all(text.as_bytes())).map_err(failed(path))
}

/// Counts the bytes written.
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
