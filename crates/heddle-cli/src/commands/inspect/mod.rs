//! `heddle inspect`.

mod compiled;
mod describe;
mod graph;
mod outline;
mod program;
mod render;

use heddle::{Device, Error, Format, LoadOptions, Model, Program, on_large_stack};
use heddle_onnx::ImportError;
use serde_json::Value;

use self::compiled::Compiled;
use self::outline::Outline;
use crate::args::InspectArgs;
use crate::fail::Failure;
use crate::out;

/// Shows a model. One that cannot be imported is shown as the file has it, and the reason
/// is an error, unless unsupported operators are the only reason.
pub fn inspect(args: InspectArgs) -> Result<(), Failure> {
    let (outline, problem) = on_large_stack(|| outline(&args))??;
    if args.json {
        let mut document = outline.document();
        document["problem"] = problem.as_ref().map(|p| p.message.clone()).into();
        out::print_json(&document)?;
        return problem.map_or(Ok(()), |p| Err(Failure::silent(p.exit)));
    }
    out::print(&render::text(&outline))?;
    problem.map_or(Ok(()), Err)
}

/// A model in outline, as `heddle inspect --json` prints it, without facts about its file.
///
/// # Errors
///
/// [`Error`] where the system has no stack for it.
pub fn model_outline(model: &Model) -> Result<Value, Error> {
    on_large_stack(|| program::outline(model.module(), None).document())
}

/// A program in outline, likewise, with what the interpreter runs of it.
///
/// # Errors
///
/// [`Error`] where the system has no stack for it.
pub fn program_outline(program: &Program) -> Result<Value, Error> {
    let interpreted = program.report().interpreted.clone();
    // A program that was to be compiled, and has no compiled part, says why.
    let is_wanted = program.device() != Device::Interp || interpreted.is_some();
    let compiled = is_wanted.then(|| Compiled::without(interpreted));
    on_large_stack(|| program::outline(program.module(), compiled).document())
}

fn outline(args: &InspectArgs) -> Result<(Outline, Option<Failure>), Failure> {
    let read = || heddle_onnx::read_proto(&args.model.path).map_err(Error::from);
    let options = LoadOptions {
        entry: args.model.entry.clone(),
        ..Default::default()
    };
    match Model::load(&args.model.path, &options) {
        Ok(model) => {
            let compiled = match args.compiled {
                true => Some(Compiled::of(&model)?),
                false => None,
            };
            let mut outline = program::outline(model.module(), compiled);
            let optional = model.optional_inputs().iter();
            outline.optional = optional
                .map(|port| (port.name.clone(), port.ty.to_string()))
                .collect();
            if !model.notes().is_empty() {
                outline.facts.push(("note", model.notes().join("; ")));
            }
            if model.entries().len() > 1 {
                let names = model.entries().collect::<Vec<_>>().join(", ");
                let facts = [("entry", model.entry().into()), ("entries", names)];
                outline.facts.extend(facts);
            }
            if model.format() == Format::Onnx {
                graph::add_facts(&mut outline, &read()?);
            }
            Ok((outline, None))
        }
        Err(Error::Import(ImportError::Unsupported(list))) => {
            let mut outline = graph::outline(&read()?);
            outline.unsupported = list;
            Ok((outline, None))
        }
        Err(error @ Error::Import(ImportError::Io { .. } | ImportError::Malformed { .. })) => {
            Err(error.into())
        }
        Err(error @ Error::Import(_)) => Ok((graph::outline(&read()?), Some(error.into()))),
        Err(error) => Err(error.into()),
    }
}
